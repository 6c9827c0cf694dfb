"""Programs that nobody has decorated: functions that compute gradients are found while they run, and become graphs."""

from __future__ import annotations

import collections
import dataclasses
import runpy
import sys
import threading
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from recgraph import defects, logs, native, sharing, tf_private
from recgraph.explaining import joined
from recgraph.speculate.observe.frames import FOLDER, is_ours, may_be_called, may_be_taken, users_frames
from recgraph.speculate.run.discovered import ENTRIES, DiscoveredFunction, Entries, FunctionRegistry, with_parts
from recgraph.speculate.run.profitability import ProfitableFunction

_LOG = logs.logger("speculate")
# How many of the last places of tapes are remembered, to find loops.
_PLACES = 64
# A call that enters a tape in a loop more often is no step but an epoch: its rounds are the steps.
ROUNDS = 16
_local = threading.local()


class Speculation:
    """What `rg.speculation()` gives: finds functions that compute gradients, and runs them as graphs.

    Attributes:
        functions: what was found, by name.
    """

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self.found = FunctionRegistry(lambda f: ProfitableFunction(f.__code__.co_qualname, f.__code__, strict=strict))

    def __enter__(self) -> Speculation:
        sharing.refuse("rg.speculation", "write the step as a function, under @rg.function")
        block = _Block(self)
        _stack().append(block)
        native.frames().leave_out(FOLDER)
        native.frames().activate(block.watch)
        return self

    def __exit__(self, *_: object) -> None:
        stack = _stack()
        at = max(i for i, block in enumerate(stack) if block.owner is self)
        stack.pop(at).end()
        native.frames().activate(stack[-1].watch if stack else None)

    @property
    def functions(self) -> Mapping[str, DiscoveredFunction]:
        """What was found, and its parts, by qualified name; where several have one name, with their lines."""
        every = list(with_parts(self.found.all()))
        names = [found.name for found in every]
        return {f.name if names.count(f.name) == 1 else f"{f.name} ({f.where})": f for f in every}

    def explain(self, html: bool = False) -> Any:
        """Explains what was found, what was assumed about each function, how it runs, and why.

        Args:
            html: whether to return a part of an HTML page instead of text.

        Returns:
            A `str`. The text also has a method `html()`, and renders itself in a notebook.
        """
        parts = [one.explain() for one in self.functions.values()]
        made = joined(parts, "no function was found that enters a tf.GradientTape")
        return made.html() if html else made


@dataclasses.dataclass
class _Body:
    """A tape that is recording in a frame which will not be called again."""

    tape: Any
    frame: types.FrameType


# Calls in a row, each of which had one call of a function with a graph in it.
SURE = 3


class _Callers:
    """Finds functions that call what was converted once in each of their calls: they may be converted whole.

    Args:
        watch: of the thread.
        found: takes the code of such a function.
    """

    def __init__(self, watch: Any, found: Callable[[types.CodeType], None]) -> None:
        self._watch, self._found = watch, found
        self._seen: dict[types.CodeType, types.CodeType] = {}  # by the function that is called, the one that calls it
        self._began: set[types.CodeType] = set()  # callers that have been called since
        self._times: collections.Counter[types.CodeType] = collections.Counter()
        self._done: set[types.CodeType] = set()

    def called(self, code: types.CodeType, frame: types.FrameType) -> None:
        """A function that has graphs is called by a frame."""
        caller = frame.f_code
        if code in self._done:
            return
        if self._seen.get(code) is not caller:
            if code in self._seen or not self._may_be_converted(frame):
                self._done.add(code)  # called from several places, or from where there is nothing to convert
                return
            self._seen[code] = caller
            self._watch.handle(caller, _never_raising(lambda function, values: self._began.add(caller)))
            return
        if caller not in self._began:  # again in the same call: a loop
            self._done.add(code)
            self._watch.handle(caller, None)
            return
        self._began.discard(caller)
        self._times[code] += 1
        if self._times[code] == SURE:
            self._done.add(code)
            self._found(caller)

    def _may_be_converted(self, frame: types.FrameType) -> bool:
        is_users = next(users_frames(frame), None) is frame
        return is_users and may_be_called(frame.f_code) and not is_ours(frame)


class _Block:
    """One `with` block in one thread."""

    def __init__(self, owner: Speculation) -> None:
        self.owner = owner
        self.watch = native.frames().Watch()
        self._bodies: list[_Body] = []
        # How often tapes were entered at the last places, each a frame and where it is in it.
        self._places: dict[tuple[int, int], int] = {}
        self._callers = _Callers(self.watch, self._take)
        entries = Entries(owner.found.of)
        for code in ENTRIES:
            self.watch.handle(code, entries)
        self.watch.handle(tf.GradientTape.__enter__.__code__, _never_raising(self._begins))
        self.watch.handle(tf.GradientTape.__exit__.__code__, _never_raising(self._ends))
        for code in owner.found.codes():
            self.watch.handle(code, self._called)

    def end(self) -> None:
        """Lets go of everything."""
        self._bodies.clear()
        self.watch.meet(None)

    def _called(self, function: types.FunctionType, values: tuple[Any, ...]) -> Any:
        found = self.owner.found.of(function)
        if found.calls["graph"]:
            self._callers.called(function.__code__, sys._getframe(1))
        return found(function, values)

    def _take(self, code: types.CodeType) -> None:
        """The next calls of some code are ours."""
        if self.owner.found.add(code):
            _LOG.info("%s calls what differentiates", code.co_qualname)
        self.watch.handle(code, self._called)

    def _begins(self, _: types.FunctionType, values: tuple[Any, ...]) -> None:
        """A tape is entered."""
        frame = next(users_frames(sys._getframe(2)), None)
        if frame is None or not tf_private.is_plainly_eager() or is_ours(frame):
            return
        code, place = frame.f_code, (id(frame), frame.f_lasti)
        rounds = self._places[place] = self._places.get(place, 0) + 1
        if len(self._places) > _PLACES:
            del self._places[next(iter(self._places))]
        if rounds > ROUNDS:
            self.owner.found.leave(code)
            self.watch.handle(code, None)
        elif may_be_called(code) and not self.owner.found.has_left(code):
            if self.owner.found.add(code):
                _LOG.info("%s differentiates", code.co_qualname)
            self.watch.handle(code, self._called)
        if rounds > 1 or not may_be_called(code) or self.owner.found.given_up(code):
            self._bodies.append(_Body(values[0], frame))
            self.watch.meet(self._met)

    def _ends(self, _: types.FunctionType, values: tuple[Any, ...]) -> None:
        self._bodies = [body for body in self._bodies if body.tape is not values[0]]
        if not self._bodies:
            self.watch.meet(None)

    def _met(self, function: types.FunctionType) -> None:
        """A function is called for the first time in the body of a tape: ours if the body calls it itself."""
        code = function.__code__
        if not may_be_taken(function):
            self.watch.handle(code, None)
            return
        if not tf_private.is_plainly_eager():
            return
        frames = {id(body.frame) for body in self._bodies}
        if id(next(users_frames(sys._getframe(1)), None)) in frames:
            if self.owner.found.add(code):
                _LOG.info("%s is differentiated", code.co_qualname)
            self.watch.handle(code, self._called)


def _stack() -> list[_Block]:
    if not hasattr(_local, "stack"):
        _local.stack = []
    stack: list[_Block] = _local.stack
    return stack


def _never_raising(notice: Callable[..., None]) -> Callable[..., Any]:
    """A handler that only takes notice of a call."""
    plain = native.frames().PLAIN

    def handler(function: types.FunctionType, values: tuple[Any, ...]) -> Any:
        try:
            notice(function, values)
        except Exception as error:
            defects.contain("looking at a call", error)
        return plain

    return handler


def speculation(strict: bool = False) -> Speculation:
    """Runs functions without a decorator as graphs, where that gives the same results.

    In the block, the function that is differentiated is treated as `rg.function(mode="speculate")` treats a decorated
    one: the function that enters a `tf.GradientTape`, or whose optimizer does, from its next call on; then the function
    that calls it, if it does so once in each of its calls. Where the tape stands in a loop or at the top of a module,
    the functions that its body calls are treated so, and the updates of Keras's optimizers. Nothing of the program is
    changed, and only this thread's calls are looked at. While a debugger or a coverage tool traces, the program runs
    as it is written.

    Args:
        strict: whether a function that was found and has to run eagerly is an error, which says why.

    Returns:
        A context manager with `functions`, what was found by name, and `explain()`. It may be entered again, in any
        thread, and remembers its graphs.

    Raises:
        NativeLibraryError: the extension module was not built.

    Examples:
        >>> import tensorflow as tf, recgraph as rg
        >>> w = tf.Variable(3.0)
        >>> def step(x):
        ...     with tf.GradientTape() as tape:
        ...         loss = (w * x - 1.0) ** 2
        ...     w.assign_sub(0.1 * tape.gradient(loss, w))
        ...     return loss
        >>> with rg.speculation() as found:
        ...     losses = [float(step(tf.constant(1.0))) for _ in range(6)]
        >>> found.functions["step"].calls
        {'eager': 3, 'graph': 2, 'fallback': 0}
    """
    return Speculation(strict)


def run_script(file: Path, arguments: list[str], found: Speculation | None = None) -> Speculation:
    """Runs a program from a file, as `python file arguments` does, in a block.

    Args:
        file, arguments: of the program.
        found: the block, for who wants to look at it also where the program raises; a new one by default.

    Returns:
        The block, for `explain()`.
    """
    block, before = found or speculation(), (sys.argv, sys.path[:])
    sys.argv, sys.path[:0] = [str(file), *arguments], [str(file.resolve().parent)]
    try:
        with block:
            runpy.run_path(str(file), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before
    return block
