"""Ends a worker whose cluster does not come up in time. Run as a process of its own, with nothing but Python's library.

TensorFlow waits for the other workers in C++, without a bound, and holds the lock of Python: no thread gets to run.
Meanwhile this asks the others whether they know the secret of this worker's cluster (`cc/interpreter/ports.cc`), for
TensorFlow tries again and again, without a word, to reach a worker that refuses it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence

PROBE_SECONDS = 2.0
# What keeps another worker out.
OTHER = "was refused, because its secret is not that of this worker"
NONE = "was refused, because it has no secret and this worker has one"
OURS = "has a secret, and refuses this worker, which has none"

_DIFFER = ": the secrets of the workers differ"
_SAME = "give all workers the same RECGRAPH_SECRET, or RECGRAPH_SECRET_FILE, and start them again"
_START = "start the missing workers, or give them more time with --start-timeout"

_HELLO = b"recgraph"
_NONCE, _PROOF, _INDEX = 32, 64, 4
# What a client of HTTP/2 begins with; a server answers with its settings.
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_FRAME, _KIND, _SETTINGS = 9, 3, 4


def proof(secret: bytes, side: str, index: int, client: bytes, server: bytes) -> bytes:
    """Returns what shows that a side knows the secret, as `cc/interpreter/ports.cc` computes it."""
    key = hashlib.sha256(secret).hexdigest().encode()
    return hmac.new(key, f"{side}{index}:".encode() + client + server, "sha256").hexdigest().encode()


class Others:
    """The other workers, as far as they have answered.

    Attributes:
      kept_out: for each that has answered, what keeps it out; "" if nothing does.
    """

    def __init__(self, hosts: Sequence[str], index: int, secret: bytes):
        """Args: `host:port` of all workers, which of them this one is, and what it knows; no secret is b""."""
        self.kept_out: dict[int, str] = {}
        self._hosts, self._secret = hosts, secret
        self._indices = [other for other in range(len(hosts)) if other != index]

    def watch(self) -> None:
        """Starts to ask each of them until nothing keeps it out, and says at once what does."""
        for index in self._indices:
            threading.Thread(target=self._watch, args=(index,), daemon=True).start()

    def _watch(self, index: int) -> None:
        while self.kept_out.get(index) != "":
            time.sleep(PROBE_SECONDS)  # first, too: most clusters are there before
            before = self.kept_out.get(index)
            self._ask(index, set())
            if (why := self.kept_out.get(index)) and why != before:
                say(f"recgraph: {self._name(index)} {why}\n")

    def _ask(self, index: int, silent: set[int]) -> None:
        found = why_kept_out(self._hosts[index], self._secret)
        if found is None:
            silent.add(index)
        else:
            self.kept_out[index] = found

    def _name(self, index: int) -> str:
        return f"worker {index} ({self._hosts[index]})"

    def message(self, seconds: float) -> str:
        """Returns what is said of a cluster that is not complete. What keeps a worker out counts after its end, too."""
        silent = self._silent()
        kept_out = {index: why for index, why in sorted(self.kept_out.items()) if why}
        found = [f"{self._name(index)} {why}" for index, why in kept_out.items()]
        if missing := [self._name(index) for index in sorted(silent - set(kept_out))]:
            found.append(f"no answer from {', '.join(missing)}")
        return (
            f"Error: the cluster is not complete after {seconds:g} seconds{_DIFFER if kept_out else ''} [worker-lost]\n"
            f"  found:     {'; '.join(found) or 'every port answers, but not every worker is ready'}\n"
            f"  next step: {_SAME if kept_out else _START}\n"
        )

    def _silent(self) -> set[int]:
        """Asks all of them once more, and returns those that do not answer."""
        silent: set[int] = set()
        threads = [threading.Thread(target=self._ask, args=(i, silent), daemon=True) for i in self._indices]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 2 * PROBE_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return silent


def why_kept_out(host: str, secret: bytes) -> str | None:
    """Returns what keeps the worker at `host:port` out of a cluster with this secret.

    Returns:
      "" if nothing does; None if no worker answers there.
    """
    name, _, port = host.rpartition(":")
    try:
        with socket.create_connection((name.strip("[]"), int(port)), PROBE_SECONDS) as opened:
            return _shown(opened, secret) if secret else _served(opened)
    except OSError:
        return None


def _shown(opened: socket.socket, secret: bytes) -> str | None:
    client = os.urandom(_NONCE)
    reply = _received(opened, _HELLO + client, _INDEX + _NONCE + _PROOF)
    if not reply:
        return None
    if len(reply) < _INDEX + _NONCE + _PROOF or reply[_KIND] == _SETTINGS:
        return NONE
    index, server = int.from_bytes(reply[:_INDEX], "little"), reply[_INDEX : _INDEX + _NONCE]
    if not hmac.compare_digest(reply[_INDEX + _NONCE :], proof(secret, "server", index, client, server)):
        return OTHER
    opened.sendall(proof(secret, "probe", index, client, server))  # else this would count as a stranger
    return ""


def _served(opened: socket.socket) -> str:
    reply = _received(opened, _HTTP2, _FRAME)
    return "" if len(reply) == _FRAME and reply[_KIND] == _SETTINGS else OURS


def _received(opened: socket.socket, sent: bytes, size: int) -> bytes:
    """Returns so many bytes of an answer, or fewer where the other side ends the connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        opened.sendall(sent)
        while len(found) < size and (more := opened.recv(size - len(found))):
            found += more
    return found


def say(text: str) -> None:
    """Writes to standard error, but does not wait long for whoever should read it, nor fail if there is nobody."""

    def write() -> None:
        with contextlib.suppress(OSError):
            os.write(2, text.encode())

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)


def main(worker: int, seconds: float, index: int, hosts: Sequence[str]) -> None:
    """Waits for standard input to end, which is when the cluster is up, or the worker gone; its line is the secret."""
    until = time.monotonic() + seconds
    others = Others(hosts, index, bytes.fromhex(sys.stdin.readline()))
    others.watch()
    if select.select([sys.stdin], [], [], max(0.0, until - time.monotonic()))[0]:
        return
    say(others.message(seconds))
    # By its default this ends a process, and unlike SIGTERM TensorFlow does not catch it. A launcher knows it.
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker, signal.SIGALRM)
    time.sleep(PROBE_SECONDS)
    if os.getppid() == worker:
        os.kill(worker, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
