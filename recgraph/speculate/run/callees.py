"""What becomes of the functions that a function calls which cannot be converted whole: the largest parts that can be.

They are found when they are called. One that cannot be converted either is left alone, and what it calls is found in
turn. Calls of Keras's models, losses, metrics and optimizers count as such: see `keras_calls.py`.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from recgraph import defects, native, tf_private
from recgraph.speculate.machine.evaluator import ALL, Optimizations
from recgraph.speculate.observe.frames import FOLDER, may_be_taken
from recgraph.speculate.run.discovered import (
    ENTRIES,
    MIN_OPERATIONS,
    DiscoveredFunction,
    Entries,
    FunctionRegistry,
    is_profiled,
    with_parts,
)
from recgraph.speculate.run.outlining import PartCalls, outline

# Runs in which nothing changed, after which no more callees are expected.
QUIET_RUNS = 2
# Runs without a call, after which a function is waited for no more: another one may have become a graph around it.
FORGOTTEN_RUNS = 3
# Where only parts of the function itself became graphs, calls are looked at in one run of so many: looking makes
# Python slower by a tenth.
LOOKING = 16


class Callees:
    """What the user's functions became that a function calls. To be entered with `with` around each run of it.

    Args:
        function: the function, which is left as it is.
        optimizations: what graphs are made with.
        left: the sites of the statements for which it cannot be converted; empty if they are not known.
        parts: takes the calls of its parts; None if it is not to be taken apart.

    Attributes:
        runs: how often it was entered.

    Raises:
        NativeLibraryError: the extension module was not built.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        optimizations: Optimizations = ALL,
        left: frozenset[int] = frozenset(),
        parts: PartCalls | None = None,
    ) -> None:
        self.optimizations, self._parts = optimizations, parts
        apart = None if parts is None else outline(function, left, parts)
        self._function = function if apart is None else functools.partial(apart.run, function)
        self._code = getattr(function, "__func__", function).__code__
        self.runs = 0
        self._frames = native.frames()
        self._found = FunctionRegistry(self._made)
        self._local = threading.local()
        self._last_change = 0
        self._entries = Entries(self._found.of)
        self._state = 0, 0
        self._last_calls: dict[
            DiscoveredFunction, tuple[int, int]
        ] = {}  # how many there were, and the run in which the last came
        self._is_looking = True

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function, or its parts in its place."""
        if not self._is_looking and self.runs % LOOKING:
            self.runs += 1
            return self._function(*arguments, **named)
        with self:
            return self._function(*arguments, **named)

    def __enter__(self) -> Callees:
        self.runs += 1
        self._frames.leave_out(FOLDER)
        self._before().append(self._frames.activate(self._watch()))
        return self

    def __exit__(self, *_: object) -> None:
        self._frames.activate(self._before().pop())
        functions = self.functions
        self._last_calls = {found: self._last_call(found) for found in functions}
        state = len(functions), sum(bool(found.given_up) for found in functions)
        if state != self._state:
            self._state, self._last_change = state, self.runs
        self._is_looking = not self.is_settled or any(found.calls["graph"] for found in self._found.all())

    @property
    def functions(self) -> list[DiscoveredFunction]:
        """What was found, and its parts."""
        return list(with_parts([*(self._parts.all() if self._parts is not None else []), *self._found.all()]))

    @property
    def converted(self) -> list[DiscoveredFunction]:
        """Those that run as graphs."""
        return [found for found in self.functions if found.calls["graph"]]

    @property
    def is_settled(self) -> bool:
        """Whether every function that is still called is a graph or left alone, and no more come."""
        return self.runs >= self._last_change + QUIET_RUNS and all(map(self._is_settled, self.functions))

    def _is_settled(self, found: DiscoveredFunction) -> bool:
        is_done = (found.given_up and not found.left) or found.fits
        return bool(is_done) or self.runs > self._last_call(found)[1] + FORGOTTEN_RUNS

    def _last_call(self, found: DiscoveredFunction) -> tuple[int, int]:
        count, run = self._last_calls.get(found, (-1, 0))
        calls = sum(found.calls.values())
        return (count, run) if calls == count else (calls, self.runs)

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
        if code in ENTRIES:
            watch.handle(code, self._entries)
            return
        try:
            if not may_be_taken(function):
                watch.handle(code, None)
            elif tf_private.is_plainly_eager() and not is_profiled(sys._getframe(1)):
                watch.handle(code, self._called)
        except Exception as error:
            watch.handle(code, None)
            defects.contain("looking at a call", error)

    def _made(self, function: types.FunctionType) -> DiscoveredFunction:
        self._last_change = self.runs
        code = function.__code__
        return DiscoveredFunction(code.co_qualname, code, MIN_OPERATIONS, optimizations=self.optimizations)

    def _called(self, function: types.FunctionType, values: tuple[Any, ...]) -> Any:
        found = self._found.of(function)
        result = found(function, values)
        found.outline(function)
        if found.is_left:
            self._watch().handle(function.__code__, None)
            self._last_change = self.runs  # what it calls is found from now on
        return result
