"""Ends a worker whose cluster does not come up in time. Run as a process of its own, with nothing but Python's library.

TensorFlow waits for the other workers in C++, without a bound, and holds the lock of Python: no thread gets to run.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence

PROBE_SECONDS = 2.0


def listens(host: str) -> bool:
    """Does something accept connections at `host:port`?"""
    name, _, port = host.rpartition(":")
    try:
        with socket.create_connection((name.strip("[]"), int(port)), PROBE_SECONDS):
            return True
    except OSError:
        return False


def message(hosts: Sequence[str], seconds: float) -> str:
    """What is said of a cluster that is not complete."""
    silent = [f"worker {index} ({host})" for index, host in enumerate(hosts) if not listens(host)]
    found = f"no answer from {', '.join(silent)}" if silent else "every port answers, but not every worker is ready"
    return (
        f"Error: the cluster is not complete after {seconds:g} seconds [worker-lost]\n"
        f"  found:     {found}\n"
        "  next step: start the missing workers, or give them more time with --start-timeout\n"
    )


def main(worker: int, seconds: float, hosts: Sequence[str]) -> None:
    """Waits for standard input to end, which is when the cluster is up, or the worker gone."""
    if select.select([sys.stdin], [], [], seconds)[0]:
        return
    sys.stderr.write(message(hosts, seconds))
    sys.stderr.flush()
    # By its default this ends a process, and unlike SIGTERM TensorFlow does not catch it. A launcher knows it.
    os.kill(worker, signal.SIGALRM)
    time.sleep(PROBE_SECONDS)
    if os.getppid() == worker:
        os.kill(worker, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
