"""Running a recursive function as plain Python, until it gives a value without calling itself.

That shows the structure of what it returns, where tracing cannot: see `decorator.py`. It may go wrong in any way that
Python code can, an endless loop included, so it is given a time.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import tensorflow as tf

from recgraph.core import signature

SECONDS = 5.0


class Reached(BaseException):
    """Carries the first value that a function returns without calling itself; no `except Exception` stops it."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _GivenUpError(BaseException):
    """A limit was reached; no `except Exception` stops it."""


class NotReachedError(Exception):
    """The function did not get to a base case; says why."""


def specs_of(function: Callable[..., Any], args: tuple[Any, ...], seconds: float = SECONDS) -> Any:
    """The specs of the first value that `function` gives without calling itself, or raises `Reached` with.

    Raises:
        NotReachedError: it raised something, called itself too deeply, or took longer than `seconds`.
    """
    try:
        with tf.init_scope(), _time_limit(seconds):
            value = function(*args)
    except Reached as base:
        value = base.value
    except _GivenUpError as limit:
        raise NotReachedError(f"no base case within {limit}") from None
    except Exception as error:
        raise NotReachedError(f"{type(error).__name__}: {_first_line(error)}") from error
    try:
        return tf.nest.map_structure(lambda leaf: signature.spec_of(tf.convert_to_tensor(leaf)), value)
    except (TypeError, ValueError) as error:
        raise NotReachedError(f"the base case does not return tensors: {_first_line(error)}") from error


def check_depth() -> None:
    """Gives up well before Python's limit of recursion, at which TensorFlow's own code crashes the process."""
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    if depth > 0.6 * sys.getrecursionlimit():
        raise _GivenUpError("Python's recursion limit")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Ends what is called inside of it after a time, at the next line of Python that is not a library's.

    A library's C code may call Python and not expect it to raise.
    """
    end = time.monotonic() + seconds

    def check(frame: FrameType, event: str, argument: Any) -> Any:
        if "site-packages" in frame.f_code.co_filename:
            return None
        if time.monotonic() > end:
            raise _GivenUpError(f"{seconds:g} seconds")
        return check

    before = sys.gettrace()
    sys.settrace(check)
    try:
        yield
    finally:
        sys.settrace(before)
