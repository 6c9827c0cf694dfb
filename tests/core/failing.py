"""What the tests of failures share: nothing is left behind, and the text of errors."""

from __future__ import annotations

import gc
import inspect
import os
import time
from collections.abc import Callable, Iterator

import pytest

from recgraph import testing
from recgraph.errors import RecgraphError


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Whatever fails, no invocation and no activation stays."""
    yield
    wait_until(lambda: testing.counters().live_invocations == 0 and testing.counters().live_frames == 0)
    after = testing.counters()
    assert (after.live_invocations, after.live_frames, after.live_bytes) == (0, 0, 0)


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """A step that was cancelled may still be folding up when Python hears of it."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)


def line() -> int:
    """The caller's line number."""
    return inspect.currentframe().f_back.f_lineno


def check_text(error: RecgraphError, where: int | None, *pieces: str) -> None:
    """The message has the pieces and, if asked for, points at that line of the caller's file."""
    for piece in pieces:
        assert piece in str(error)
    if where is not None:
        file = os.path.basename(inspect.currentframe().f_back.f_code.co_filename)
        assert error.where.endswith(f"{file}:{where}"), str(error)
