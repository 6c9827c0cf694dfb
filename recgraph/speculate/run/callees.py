"""The functions that a function calls, each speculated on, while the function itself runs as it is written.

For functions that cannot be converted whole: the largest parts of them that can be are the user's functions that they
call. They are found when they are called, by the hook at the interpreter's frames, as in `unmodified.py`. One that
cannot be converted either is left alone, and what it calls is found in turn. The update of a Keras optimizer counts as
one of them: see `updates.py`.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from typing import Any, Final, cast

import tensorflow as tf

from recgraph import defects, logs, native, tf_private
from recgraph.speculate.machine.evaluator import ALL, Optimizations
from recgraph.speculate.observe.frames import FOLDER, PARTS, may_be_taken, users_frames
from recgraph.speculate.observe.instrument import is_observed
from recgraph.speculate.run.unmodified import Found
from recgraph.speculate.run.updates import optimizer_update

# Graphs with fewer operations than this cost more than they save: guards and a call take as long as some operations.
MIN_OPERATIONS = 4
# Runs in which nothing changed, after which no more callees are expected.
QUIET_RUNS = 2
_UPDATE: Final = tf.keras.optimizers.Optimizer.apply.__code__
_STAND_IN: Final = cast(types.FunctionType, optimizer_update)
_LOG = logs.logger("speculate")


class Callees:
    """What the user's functions became that a function calls. To be entered with `with` around each run of it.

    Args:
        function: the function, which is left as it is.
        optimizations: what graphs are made with.

    Attributes:
        runs: how often it was entered.

    Raises:
        NativeLibraryError: the extension module was not built.
    """

    def __init__(self, function: Callable[..., Any], optimizations: Optimizations = ALL) -> None:
        self.optimizations = optimizations
        self._code = getattr(function, "__func__", function).__code__
        self.runs = 0
        self._frames = native.frames()
        self._found: dict[tuple[types.CodeType, int], Found] = {}
        self._lock = threading.Lock()
        self._local = threading.local()
        self._last_change = 0

    def __enter__(self) -> Callees:
        self.runs += 1
        self._frames.leave_out(FOLDER)
        self._before().append(self._frames.activate(self._watch()))
        return self

    def __exit__(self, *_: object) -> None:
        self._frames.activate(self._before().pop())

    @property
    def functions(self) -> list[Found]:
        """What was found."""
        with self._lock:
            return list(self._found.values())

    @property
    def converted(self) -> list[Found]:
        """Those that run as graphs."""
        return [found for found in self.functions if found.calls["graph"]]

    @property
    def is_settled(self) -> bool:
        """Whether every function that was found is a graph or left alone, and no more come."""
        is_quiet = self.runs >= self._last_change + QUIET_RUNS
        return is_quiet and all(found.given_up or found.calls["graph"] for found in self.functions)

    def _before(self) -> list[Any]:
        """What was watched in this thread before each `with` that it is in."""
        if not hasattr(self._local, "before"):
            self._local.before = []
        before: list[Any] = self._local.before
        return before

    def _watch(self) -> Any:
        """This thread's."""
        if not hasattr(self._local, "watch"):
            self._local.watch = self._frames.Watch()
            self._local.watch.handle(self._code, None)
            self._local.watch.meet(self._met)
        return self._local.watch

    def _met(self, function: types.FunctionType) -> None:
        """A function is called whose code has not been seen in this thread."""
        code, watch = function.__code__, self._watch()
        if code is _UPDATE:
            watch.handle(code, self._updated)
            return
        if code.co_name in PARTS or not tf_private.is_plainly_eager():
            return
        try:
            if not may_be_taken(function):
                watch.handle(code, None)
                return
            if not _is_profiled(sys._getframe(1)):
                watch.handle(code, self._called)
        except Exception as error:
            watch.handle(code, None)
            defects.contain("looking at a call", error)

    def _of(self, function: types.FunctionType) -> Found:
        key = (function.__code__, id(function.__globals__))
        with self._lock:
            if key not in self._found:
                name = function.__code__.co_qualname
                self._found[key] = Found(name, function.__code__, MIN_OPERATIONS, optimizations=self.optimizations)
                self._last_change = self.runs
            return self._found[key]

    def _called(self, function: types.FunctionType, values: tuple[Any, ...]) -> Any:
        found = self._of(function)
        result = found(function, values)
        if found.given_up and not found.has_graphs:
            self._watch().handle(function.__code__, None)
            self._last_change = self.runs  # what it calls is found from now on
        return result

    def _updated(self, _: types.FunctionType, values: tuple[Any, ...]) -> Any:
        """An optimizer is to update variables. The stand-in calls the method again, which is then let through.

        Where the optimizer has a method of its own, this one is a part of it.
        """
        optimizer = values[0]
        is_own = getattr(type(optimizer).apply, "__code__", None) is not _UPDATE or "apply" in vars(optimizer)
        if is_own or getattr(self._local, "is_updating", False) or _is_profiled(sys._getframe(1)):
            return self._frames.PLAIN
        self._local.is_updating = True
        try:
            return self._of(_STAND_IN)(_STAND_IN, values)
        finally:
            self._local.is_updating = False


def _is_profiled(frame: types.FrameType) -> bool:
    """Whether what a frame does is a part of a function that is profiled, and will perhaps be converted whole."""
    caller = next(users_frames(frame), None)
    return caller is not None and is_observed(caller.f_code)
