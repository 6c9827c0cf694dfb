"""What the cores of a machine are to each other: how fast Python runs on one while another is busy.

Two cores may be two threads of one. Then what runs at the same time runs slower, and less can be hidden by it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

ROUNDS = 7
SECONDS = 0.3
# Keeps the second core busy, with products of matrices or with Python, until it is told to end.
NEIGHBOURS = {
    "matrices": "import numpy as np\na = np.ones((400, 400), np.float32)\nprint(flush=True)\nwhile True: a @ a",
    "Python": "print(flush=True)\nwhile True: pass",
}


def _speed() -> float:
    """Turns of a loop in Python in a second."""
    turns, start = 0, time.perf_counter()
    while time.perf_counter() < start + SECONDS:
        for _ in range(10_000):
            pass
        turns += 1
    return turns / (time.perf_counter() - start)


def _speed_beside(neighbour: str, core: int) -> float:
    """The same while another core is busy."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    pin = f"import os\nos.sched_setaffinity(0, {{{core}}})\n"
    command = [sys.executable, "-c", pin + NEIGHBOURS[neighbour]]
    with subprocess.Popen(command, env={**os.environ, **one_thread}, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            return _speed()
        finally:
            process.kill()


def beside() -> dict[str, float]:
    """The speed of Python on one core while another is busy, over its speed alone; medians by what the other does.

    Empty where this process may use one core only.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return {}
    found: dict[str, list[float]] = {name: [] for name in NEIGHBOURS}
    os.sched_setaffinity(0, cores[:1])
    try:
        for _ in range(ROUNDS):
            for name, ratios in found.items():
                alone = _speed()
                ratios.append(_speed_beside(name, cores[1]) / alone)
    finally:
        os.sched_setaffinity(0, cores)
    return {name: statistics.median(ratios) for name, ratios in found.items()}


def hidden_at_best(share: float) -> float:
    """The part of the shorter of two pieces of work that is hidden if each has this part of its speed meanwhile."""
    return max(2.0 - 1.0 / share, 0.0)


def text(found: dict[str, float]) -> str:
    """What that means, in a sentence; "" where it is not known."""
    if not found:
        return ""
    speeds = " and ".join(f"{share:.2f} of its speed beside {name}" for name, share in found.items())
    parts = [f"{hidden_at_best(share):.0%}" for share in found.values()]
    return (
        f"On this machine a core runs Python at {speeds} on another, alone at 1. Work that keeps one core busy each "
        f"could hide {' or '.join(parts)} of the shorter."
    )
