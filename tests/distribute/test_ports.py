"""Strangers at the ports of a training: a real client of TensorFlow, and connections that try to get past the proof."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from recgraph.distribute import ClusterError, ports, watchdog
from recgraph.distribute.cluster_spec import WorkerAddress
from recgraph_launch import free_addresses

HERE = Path(__file__).parent
SECRET = "a secret of this test, which nobody guesses"
SECONDS = 120  # of a machine that has much else to do
SERVER = """
import sys, threading, tensorflow as tf
tf.distribute.Server({"worker": [sys.argv[1]]}, "worker", 0)
print("ready", flush=True)
threading.Event().wait()
"""
STARTED_BY_HAND = """
import pathlib, sys, time
import recgraph as rg
folder, index, *hosts = sys.argv[1:]
pathlib.Path(folder, index).touch()
while len(list(pathlib.Path(folder).iterdir())) < len(hosts):
    time.sleep(0.05)
rg.distribute(hosts, int(index), start_timeout=6)
"""
# A worker as its watchdog sees it: it waits, and cannot be interrupted by Python.
WAITING = """
import os, subprocess, sys, time
command = [sys.executable, "-I", sys.argv[1], str(os.getpid()), "0.3", "0", "127.0.0.1:1", "127.0.0.1:2"]
with subprocess.Popen(command, stdin=subprocess.PIPE) as watchdog:
    watchdog.stdin.write(b"\\n")
    watchdog.stdin.flush()
    time.sleep(60)
"""


@dataclass
class Training:
    """Two workers in training."""

    folder: Path
    address: str

    @property
    def port(self) -> int:
        """Of the first of them."""
        return int(self.address.rpartition(":")[2])


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Returns once it is so."""
    until = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.1)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    """Started by hand, so that the tests know the secret; at the end they have trained as if nothing had been."""
    folder, hosts = tmp_path_factory.mktemp("training"), free_addresses(2)
    program = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    with ExitStack() as started:
        workers = []
        for index in range(2):
            task = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}})
            worker = subprocess.Popen(
                [sys.executable, "-c", program, str(HERE / "guarded_worker.py"), str(folder)],
                env=os.environ | {"TF_CONFIG": task, "RECGRAPH_SECRET": SECRET, "TF_CPP_MIN_LOG_LEVEL": "3"},
                stderr=subprocess.PIPE,
                text=True,
            )
            started.callback(worker.kill)
            workers.append(worker)
        wait_for((folder / "address-0").exists, workers[0])
        yield (guarded := Training(folder, hosts[0]))
        for _ in range(4):  # whichever tests this process was given
            try_proof(guarded, wrong_secret)
        (folder / "stop").touch()
        said = [worker.communicate(timeout=SECONDS)[1] for worker in workers]
        assert [worker.returncode for worker in workers] == [0, 0], said
        steps, refused = map(int, (folder / "ended-0").read_text().split())
        assert steps > 1
        assert refused > 3
        told = "recgraph: worker 0 has refused a connection that does not know the cluster's secret"
        assert said[0].count(told) == 3
        assert f"{told}; others are not told of" in said[0]


def own_addresses() -> list[str]:
    """Of this machine's interfaces; connecting for datagrams sends nothing."""
    found = ["127.0.0.2"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            found.append(probe.getsockname()[0])
        except OSError:  # a machine without a network
            pass
    return found


def attack(folder: Path, targets: list[str]) -> list[str]:
    """What a stranger could have written."""
    stranger = subprocess.Popen(
        [sys.executable, str(HERE / "stranger.py"), str(folder), *targets],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with stranger:
        try:
            assert stranger.stdout is not None
            for line in stranger.stdout:
                if line == "eager\n":
                    break
            stranger.wait(10)
        except subprocess.TimeoutExpired:
            pass
        finally:
            stranger.kill()
    return sorted(path.name for path in folder.iterdir())


def test_a_stranger_runs_nothing_in_a_worker(training: Training, tmp_path: Path) -> None:
    """By no address of the machine, and no API of TensorFlow, while the workers train."""
    targets = [f"{address}:{training.port}" for address in own_addresses()]
    assert attack(tmp_path, [*targets, training.address]) == []


@pytest.mark.slow
def test_a_stranger_writes_files_by_a_server_of_tensorflows_own(tmp_path: Path) -> None:
    """Else the test above would say nothing."""
    (address,) = free_addresses(1)
    with subprocess.Popen([sys.executable, "-c", SERVER, address], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert "ready" in server.stdout.readline()
            assert attack(tmp_path, [address]) == ["eager", "session-0"]
        finally:
            server.kill()


def test_workers_of_one_machine_listen_on_its_loopback(training: Training) -> None:
    for address in own_addresses():
        with pytest.raises(ConnectionRefusedError):
            connection(training, address)


def connection(training: Training, host: str = "127.0.0.1") -> socket.socket:
    """A connection to the first worker."""
    return socket.create_connection((host, training.port), 10)


def received(opened: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer where the connection ends."""
    found = b""
    try:
        while len(found) < size and (more := opened.recv(size - len(found))):
            found += more
    except ConnectionResetError:
        pass
    return found


def proof(secret: str, side: str, index: int, client: bytes, server: bytes) -> bytes:
    """What shows that a side knows the secret, by Python's own HMAC."""
    key = hashlib.sha256(secret.encode()).hexdigest().encode()
    return hmac.new(key, f"{side}{index}:".encode() + client + server, "sha256").hexdigest().encode()


def greeted(opened: socket.socket, client: bytes = bytes(32)) -> tuple[bytes, bytes]:
    """The worker's random number and its proof."""
    opened.sendall(b"recgraph" + client)
    reply = received(opened, 100)
    assert reply[:4] == bytes(4)  # its index
    return reply[4:36], reply[36:]


def test_who_knows_the_secret_gets_through(training: Training) -> None:
    with connection(training) as opened:
        server, shown = greeted(opened)
        assert shown == proof(SECRET, "server", 0, bytes(32), server)
        opened.sendall(proof(SECRET, "client", 0, bytes(32), server) + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert received(opened, 9)[3] == 4  # gRPC answers with its settings


def wrong_secret(server: bytes, shown: bytes) -> bytes:
    return proof("another secret", "client", 0, bytes(32), server)


def echo(server: bytes, shown: bytes) -> bytes:
    return shown


def for_another_worker(server: bytes, shown: bytes) -> bytes:
    return proof(SECRET, "client", 1, bytes(32), server)


def of_another_connection(server: bytes, shown: bytes) -> bytes:
    return proof(SECRET, "client", 0, bytes(32), bytes(32))


@pytest.mark.parametrize("answer", [wrong_secret, echo, for_another_worker, of_another_connection])
def test_a_wrong_proof_is_refused(training: Training, answer: Callable[[bytes, bytes], bytes]) -> None:
    try_proof(training, answer)


def try_proof(training: Training, answer: Callable[[bytes, bytes], bytes]) -> None:
    """Gives a worker a proof that it refuses."""
    with connection(training) as opened:
        opened.sendall(b"recgraph"[:3])
        time.sleep(0.05)
        opened.sendall(b"recgraph"[3:] + bytes(32))
        reply = received(opened, 100)
        opened.sendall(answer(reply[4:36], reply[36:]))
        assert received(opened, 1) == b""


def started_by_hand(folder: Path, hosts: list[str], index: int, given: dict[str, str]) -> subprocess.Popen[str]:
    """A worker that knows no other secret of the environment than the one given."""
    known = {name: value for name, value in os.environ.items() if name not in (ports.SECRET, ports.SECRET_FILE)}
    command = [sys.executable, "-c", STARTED_BY_HAND, str(folder), str(index), *hosts]
    environment = known | {"TF_CPP_MIN_LOG_LEVEL": "3"} | given
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def test_workers_whose_secrets_differ_end_with_an_error_that_says_so(tmp_path: Path) -> None:
    """The first two know different ones; the third has none, and its user's cannot be made."""
    hosts, ready, cache = free_addresses(3), tmp_path / "ready", tmp_path / "cache"
    ready.mkdir()
    cache.mkdir()
    (cache / "recgraph").touch()
    given = [{ports.SECRET: SECRET}, {ports.SECRET: f"not {SECRET}"}, {"XDG_CACHE_HOME": str(cache)}]
    with ExitStack() as started:
        workers = [started_by_hand(ready, hosts, index, each) for index, each in enumerate(given)]
        for worker in workers:
            started.callback(worker.kill)
        said = [worker.communicate(timeout=SECONDS)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [-signal.SIGALRM] * 3, said
    name = [f"worker {index} ({host})" for index, host in enumerate(hosts)]
    found = [
        [f"{name[1]} {watchdog.OTHER}", f"{name[2]} {watchdog.NONE}"],
        [f"{name[0]} {watchdog.OTHER}", f"{name[2]} {watchdog.NONE}"],
        [f"{name[0]} {watchdog.OURS}", f"{name[1]} {watchdog.OURS}"],
    ]
    for text, why in zip(said, found, strict=True):
        assert text.endswith(
            "Error: the cluster is not complete after 6 seconds: the secrets of the workers differ [worker-lost]\n"
            f"  found:     {'; '.join(why)}\n"
            "  next step: give all workers the same RECGRAPH_SECRET, or RECGRAPH_SECRET_FILE, and start them again\n"
        )
        for each in why:  # before, too, while it waits
            assert f"recgraph: {each}\n" in text


def test_a_worker_that_knows_the_secret_is_asked_without_being_refused(training: Training) -> None:
    """Nor does it take the question for a connection of TensorFlow's. Who has none, or another, is told apart."""
    for _ in range(20):
        assert watchdog.why_kept_out(training.address, SECRET.encode()) == ""
    assert watchdog.why_kept_out(training.address, b"another secret") == watchdog.OTHER
    assert watchdog.why_kept_out(training.address, b"") == watchdog.OURS


@pytest.mark.parametrize("reader", ["gone", "asleep", "never there"])
def test_the_wait_for_others_ends_whoever_reads_of_it(reader: str) -> None:
    """The bound holds where the message cannot be written."""
    reading, writing = os.pipe()
    close = (lambda: os.close(2)) if reader == "never there" else None
    if reader == "asleep":
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, bytes(4096))
        os.set_blocking(writing, True)
    command = [sys.executable, "-c", WAITING, watchdog.__file__]
    with subprocess.Popen(command, stderr=writing, preexec_fn=close) as worker:
        os.close(writing)
        if reader == "gone":
            os.close(reading)
        try:
            assert worker.wait(30) == -signal.SIGALRM
        finally:
            worker.kill()
    if reader != "gone":
        os.close(reading)


def test_connections_that_say_nothing_keep_nobody_out(training: Training) -> None:
    """Neither do those that end at once."""
    with ExitStack() as opened:
        for _ in range(200):
            opened.enter_context(connection(training))
        test_who_knows_the_secret_gets_through(training)
    with connection(training) as last:
        last.settimeout(15)
        assert received(last, 1) == b""  # closed before long


def test_the_secret_of_a_user_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of one machine that nobody gave a secret share the one of their user; others cannot read it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in (ports.SECRET, ports.SECRET_FILE):
        monkeypatch.delenv(name, raising=False)
    found = ports._secret(is_local=True)
    assert len(found) == 64
    assert ports._secret(is_local=True) == found
    path = tmp_path / "recgraph" / "secret"
    assert [each.name for each in path.parent.iterdir()] == ["secret"]
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(ClusterError, match="others can read the secret of this user's workers"):
        ports._secret(is_local=True)
    assert ports._secret(is_local=False) == b""


def test_the_secret_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ports.SECRET, raising=False)
    monkeypatch.setenv(ports.SECRET_FILE, str(tmp_path / "secret"))
    with pytest.raises(ClusterError, match="the file of RECGRAPH_SECRET_FILE cannot be read"):
        ports._secret(is_local=False)
    (tmp_path / "secret").write_text("short\n")
    with pytest.raises(ClusterError, match="the secret of the workers is too short") as short:
        ports._secret(is_local=False)
    assert "found:     5 characters" in str(short.value)
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    assert ports._secret(is_local=False) == SECRET.encode()


def test_what_is_open_is_said() -> None:
    """Without a secret, or with other machines."""
    place, own = WorkerAddress(("10.0.0.1:2222", "10.0.0.2:2222"), 0), ports._packed("10.0.0.1")
    without = ports._open(place, own, b"", is_local=False)
    assert without.startswith("whoever reaches port 2222 of 10.0.0.1 can run any operation of TensorFlow as this user")
    assert "give all workers of a training the same RECGRAPH_SECRET" in without
    assert "not encrypted" in ports._open(place, own, SECRET.encode(), is_local=False)
    assert "all addresses of this machine" in ports._open(place, b"", b"", is_local=True)
    assert ports._open(place, ports._packed("127.0.0.1"), SECRET.encode(), is_local=True) == ""


def test_where_a_worker_listens() -> None:
    """At a loopback address only if all others are there, too; elsewhere if the address is not this machine's."""
    local = ports._packed("127.0.0.1")
    assert ports._own_address(WorkerAddress(("127.0.0.1:1", "localhost:2"), 0), is_local=True) == local
    assert ports._own_address(WorkerAddress(("127.0.1.1:1", "192.0.2.1:2"), 0), is_local=False) == b""
    assert ports._own_address(WorkerAddress(("127.0.0.1:1", "203.0.113.7:2"), 1), is_local=False) == b""
    assert ports._name(local) == "127.0.0.1"
