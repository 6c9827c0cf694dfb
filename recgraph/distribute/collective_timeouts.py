"""Breaks off collectives that take too long.

TensorFlow gives each operation with a timeout a thread of its own, which sleeps for that long, even if the operation is
over at once: a hundred steps a second, and a minute, are thousands of threads. Here one thread looks after all.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from recgraph.tf_private import abort_collectives

_LOOKS_A_SECOND = 4


class _Watched:
    """A block that may take so many seconds, counted anew whenever `progress` gives something else."""

    def __init__(self, seconds: float, progress: Callable[[], Any] | None):
        self.seconds, self._progress = seconds, progress
        self._began, self._seen = time.monotonic(), None if progress is None else progress()

    def is_over(self) -> bool:
        if self._progress is not None and (seen := self._progress()) != self._seen:
            self._began, self._seen = time.monotonic(), seen
        return time.monotonic() - self._began > self.seconds


_waits: set[_Watched] = set()
_some = threading.Condition()
_thread: list[threading.Thread] = []


@contextlib.contextmanager
def bounded(seconds: float, progress: Callable[[], Any] | None = None) -> Iterator[None]:
    """A context after whose time all collectives of this process are broken off.

    Args:
      seconds: how long it may take.
      progress: gives something else as long as work goes on; then the time begins anew.
    """
    wait = _Watched(seconds, progress)
    with _some:
        _waits.add(wait)
        if not _thread:
            _thread.append(threading.Thread(target=_look, daemon=True))
            _thread[0].start()
        _some.notify()
    try:
        yield
    finally:
        with _some:
            _waits.discard(wait)


def _look() -> None:
    while True:
        with _some:
            while not _waits:
                _some.wait()
            waits = list(_waits)
        for wait in waits:
            if wait.is_over():
                with _some:
                    is_there = wait in _waits
                    _waits.discard(wait)
                if is_there:
                    abort_collectives(f"Collective operations not over after {wait.seconds:g} seconds")
        time.sleep(1 / _LOOKS_A_SECOND)
