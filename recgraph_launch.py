"""Starts workers as processes of this machine, watches them, and starts all of them again when one has failed.

It is outside the package, like the command: whoever only watches needs no TensorFlow. Each worker gets its place in the
cluster by `TF_CONFIG`, as TensorFlow's own strategies expect it, and ends with its launcher, however that ends.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final

# What a worker says with its exit status; the numbers are those of sysexits.h that come nearest.
PORT_TAKEN: Final = 69  # its port is in use: it starts again on another one, and that does not count as a restart
LOST: Final = 75  # another worker failed, and this one only noticed

SUPERVISED: Final = "RECGRAPH_SUPERVISED"  # set for workers: they are not to start workers of their own
SECRET: Final = "RECGRAPH_SECRET"  # what the workers of a cluster know, and nobody else: recgraph.distribute.ports
RESTART: Final = "RECGRAPH_RESTART"  # how often all workers have been started again

GRACE_SECONDS: Final = 3.0  # between asking a worker to end and ending it
SETTLING_SECONDS: Final = 3.0  # for the failure itself to be seen, where others have noticed it first
STOPPED_SECONDS: Final = 10.0  # a worker that is stopped for so long is ended: the others would wait for it
POLL_SECONDS: Final = 0.05
PORT_TRIES: Final = 5


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to start.

    Attributes:
        command: of each worker.
        hosts: `host:port` of all workers, of which one runs here; None for workers on this machine alone, on ports that
            the kernel gives; empty where the environment has the cluster already.
        first: index of the first worker that runs here.
        count: how many run here.
        max_restarts: how often all of them may be started again.
        final: exit statuses after which that would be of no use.
    """

    command: tuple[str, ...]
    hosts: tuple[str, ...] | None
    first: int
    count: int
    max_restarts: int = 0
    final: frozenset[int] = frozenset()


def on_this_machine(count: int, command: Sequence[str], max_restarts: int, final: frozenset[int] = frozenset()) -> Plan:
    """A plan for so many workers here."""
    return Plan(tuple(command), None, 0, count, max_restarts, final)


def supervise(plan: Plan, say: Callable[[str], None]) -> int:
    """Runs workers until all have ended well, or one has failed and may not be started again.

    Args:
        plan: what to start.
        say: prints a line for the user.

    Returns:
        The exit status: 0; that of the worker that failed; 128 and the number of the signal that ended it, or that
        ended this process.
    """
    restarts = ports = 0
    with _until_signalled() as stopped:
        while True:
            with _Crew(plan, restarts) as crew:
                failed = crew.wait(stopped)
            if failed is None:
                return 128 + stopped[0] if stopped else 0
            status = failed.status
            if status == PORT_TAKEN and plan.hosts is None and ports < PORT_TRIES:
                ports += 1
                continue
            if status in plan.final:
                return status
            if restarts >= plan.max_restarts:
                if plan.max_restarts:
                    say(f"{failed}; it has been restarted {restarts} times, and that is all --max-restarts allows")
                else:
                    say(f"{failed}; all workers have ended. --max-restarts N would start them again")
                return status if status > 0 else 128 - status
            restarts += 1
            say(f"{failed}; all workers start again (restart {restarts} of {plan.max_restarts})")
            time.sleep(min(0.25 * 2**restarts, 10.0))  # what was short, a port or memory, gets time to come back


class Worker:
    """A process that was started."""

    def __init__(self, index: int, process: subprocess.Popen[bytes]):
        """Args: its index in the cluster, and the process, which leads a group of its own."""
        self.index = index
        self.process = process
        self._stopped_at: float | None = None
        self._was_stopped = False

    @property
    def status(self) -> int:
        """Its exit status, or minus the signal that ended it; only once it has ended."""
        code = self.process.returncode
        return LOST if code == -signal.SIGALRM else code  # recgraph.distribute.watchdog, for want of the others

    def __str__(self) -> str:
        if self._was_stopped:
            return f"worker {self.index} was stopped, and did not go on for {STOPPED_SECONDS:g} seconds"
        if self.status < 0:
            return f"worker {self.index} was ended by {signal.Signals(-self.status).name}"
        reason = {LOST: ", because it lost another worker", PORT_TAKEN: ", because its port is taken"}
        return f"worker {self.index} ended with status {self.status}{reason.get(self.status, '')}"

    def end_if_stopped(self) -> None:
        """Ends it if SIGSTOP, or a debugger, has held it for too long."""
        try:
            state = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # it has just ended
            return
        if state not in "Tt":
            self._stopped_at = None
        elif self._stopped_at is None:
            self._stopped_at = time.monotonic()
        elif time.monotonic() - self._stopped_at > STOPPED_SECONDS:
            self._was_stopped = True
            self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Sends a signal to it and to all processes that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class _Crew:
    """The workers of one start. At the end of the `with` block none of them is left, nor what they have started."""

    def __init__(self, plan: Plan, restarts: int):
        self._plan, self._restarts = plan, restarts
        self._workers: list[Worker] = []
        self._pumps = ExitStack()
        self._secret: str | None = None  # of workers on this machine alone

    def __enter__(self) -> _Crew:
        hosts = self._plan.hosts
        if hosts is None:
            hosts, self._secret = tuple(free_addresses(self._plan.count)), secrets.token_hex(32)
        try:
            for index in range(self._plan.first, self._plan.first + self._plan.count):
                self._workers.append(self._start(index, hosts))
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, index: int, hosts: Sequence[str]) -> Worker:
        environment = os.environ | {SUPERVISED: "1", RESTART: str(self._restarts)}
        if self._secret is not None:
            environment[SECRET] = self._secret
        if hosts:
            task = {"type": "worker", "index": index}
            environment["TF_CONFIG"] = json.dumps({"cluster": {"worker": list(hosts)}, "task": task})
        is_first = index == self._plan.first
        process = subprocess.Popen(
            [sys.executable, __file__, str(os.getpid()), *self._plan.command],
            env=environment,
            stdin=None if is_first else subprocess.DEVNULL,
            stdout=None if is_first else subprocess.PIPE,
            stderr=None if is_first else subprocess.PIPE,
            start_new_session=True,
        )
        for source, sink in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if source is not None:
                pump = threading.Thread(target=_pump, args=(source, sink, f"[{index}] "), daemon=True)
                pump.start()
                self._pumps.callback(pump.join, 1.0)
        return Worker(index, process)

    def wait(self, stopped: list[int]) -> Worker | None:
        """The worker whose failure ended the work; None where all have ended well, or a signal arrived."""
        noticed: float | None = None
        while not stopped:
            for worker in self._workers:
                if worker.process.poll() is None:
                    worker.end_if_stopped()
            ended = [worker for worker in self._workers if worker.process.returncode is not None]
            failed = [worker for worker in ended if worker.status != 0]
            if not failed and len(ended) == len(self._workers):
                return None
            if failed:
                noticed = noticed or time.monotonic()
                causes = [worker for worker in failed if worker.status != LOST]
                if causes or len(ended) == len(self._workers) or time.monotonic() - noticed > SETTLING_SECONDS:
                    # A signal says most: others that saw the connection break may have ended on their own before.
                    return min(causes or failed, key=lambda worker: (worker.status > 0, worker.index))
            time.sleep(POLL_SECONDS)
        return None

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.signal(signal.SIGTERM)
        until = time.monotonic() + GRACE_SECONDS
        for worker in self._workers:
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(max(0.0, until - time.monotonic()))
            worker.signal(signal.SIGKILL)  # also what the worker itself has started, and a worker that is stopped
            worker.process.wait()
        self._pumps.close()


def free_addresses(count: int) -> list[str]:
    """Addresses of this machine that nothing uses, each with another port."""
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def _pump(source: IO[bytes], sink: Any, prefix: str) -> None:
    """Copies lines, each with the worker that wrote it."""
    with source:
        for line in source:
            sink.write(prefix + line.decode(errors="replace").rstrip("\n") + "\n")
            sink.flush()


@contextmanager
def _until_signalled() -> Iterator[list[int]]:
    """A list to which the first SIGINT, SIGTERM or SIGHUP is added, in place of what it would do."""
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _become(launcher: int, command: Sequence[str]) -> None:
    """Turns this process into a worker that the kernel ends when its launcher is gone, even by kill -9."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG; it stays across exec
    if os.getppid() != launcher:  # it was gone before
        raise SystemExit(LOST)
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        raise SystemExit(f"{command[0]} cannot be started: {error.strerror}") from None


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
