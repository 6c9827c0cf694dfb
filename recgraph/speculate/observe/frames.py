"""Which frames and functions of a thread are the user's, and which of them calls of ours may take the place of."""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from recgraph import native
from recgraph.speculate.observe import known
from recgraph.speculate.observe.instrument import is_observed
from recgraph.speculate.observe.reasons import Inconvertible
from recgraph.speculate.observe.syntax import part_of, syntax_of

# Frames that are a part of the function around them.
PARTS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
FOLDER = f"{Path(__file__).parents[1]}/"
# The rooms whose files call the functions that were decorated.
_CALLERS = tuple(f"{Path(__file__).parents[2] / room}/" for room in ("speculate", "coexec", "auto"))
_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@contextlib.contextmanager
def watched(watch: Any) -> Iterator[None]:
    """While the calls of this thread go to a `Watch`, or to none."""
    before = native.frames().activate(watch)
    try:
        yield
    finally:
        native.frames().activate(before)


def users_frames(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    """The frames of the user's functions, from this one outwards."""
    while frame is not None:
        code = frame.f_code
        package = known.top_of(str(frame.f_globals.get("__name__", "")))
        if code.co_name not in PARTS and known.is_users_code(code, package):
            yield frame
        frame = frame.f_back


def is_ours(frame: types.FrameType) -> bool:
    """Whether a frame is that of a function that is being watched, or was decorated."""
    caller = frame.f_back
    is_decorated = caller is not None and caller.f_code.co_filename.startswith(_CALLERS)
    return is_observed(frame.f_code) or is_decorated


def may_be_called(code: types.CodeType) -> bool:
    """Whether code is a function's that runs to its end when it is called, and is not watched already."""
    is_function = code.co_flags & inspect.CO_NEWLOCALS and not code.co_flags & _SUSPENDED
    return bool(is_function) and not is_observed(code) and code.co_name not in PARTS and part_of(code) is None


# In the names of the files of what AutoGraph writes: it calls through TensorFlow, where effects are not seen.
_AUTOGRAPH: Final = "__autograph_generated_file"


def may_be_taken(function: types.FunctionType) -> bool:
    """Whether calls of a function may become ours: it is the user's, its source is known, no operator or accessor."""
    code, name = function.__code__, function.__code__.co_name
    is_special = name.startswith("__") and name.endswith("__") and name != "__call__"
    if is_special or _is_profiler(function) or _AUTOGRAPH in code.co_filename:
        return False
    return known.is_users(function) and may_be_called(code) and _has_source(function)


def _is_profiler(function: types.FunctionType) -> bool:
    """Whether the interpreter calls a function at each call: taking its place would call it again, and so on."""
    profiler = sys.getprofile()
    return getattr(profiler, "__func__", profiler) is function


def _has_source(function: types.FunctionType) -> bool:
    try:
        syntax_of(function)
    except Inconvertible:
        return False
    return True
