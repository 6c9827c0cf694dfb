"""Functions that nobody has decorated: their calls come from the interpreter, and they themselves stay as they are.

One may be a function that is run unmodified. Others are what a function calls that cannot be converted whole: the
largest parts of it that can be are the user's functions that it calls. They are found when they are called. One that
cannot be converted either is left alone, and what it calls is found in turn. The update of a Keras optimizer counts as
one of them, and so do calls of its models, losses and metrics: see `keras_calls.py`.
"""

from __future__ import annotations

import collections
import dataclasses
import runpy
import sys
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import keras
import tensorflow as tf

from recgraph import defects, logs, native, tf_private
from recgraph.explaining import joined
from recgraph.speculate.machine.evaluator import ALL, Optimizations
from recgraph.speculate.observe.frames import FOLDER, PARTS, is_ours, may_be_called, may_be_taken, users_frames
from recgraph.speculate.observe.instrument import is_observed, why_not_observed
from recgraph.speculate.observe.syntax import arguments_of
from recgraph.speculate.run.function import Misses, PreparedCall, SpeculatedCalls
from recgraph.speculate.run.graphs import CachedGraph
from recgraph.speculate.run.keras_calls import loss_call, metric_update, model_call, optimizer_update


class Found(SpeculatedCalls):
    """The calls of all functions that have some code: a function made anew in each step is the same to us.

    Args:
        name: of the function.
        code: its code.
        least: the number of operations from which on a graph pays.
        strict: whether what cannot be converted is an error.
        optimizations: what graphs are made with.

    Attributes:
        where: the user's line.
        last: the function that was called last, weakly.
        at: how many functions had been found then.
    """

    has_one_code: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        code: types.CodeType,
        least: int = 1,
        strict: bool = False,
        optimizations: Optimizations = ALL,
    ) -> None:
        super().__init__(name, strict=strict, optimizations=optimizations)
        self.last: Callable[[], Any] = lambda: None
        self.at = 0
        self.where, self.least = f"{code.co_filename}:{code.co_firstlineno}", least

    def __call__(self, function: types.FunctionType, values: tuple[Any, ...]) -> Any:
        """What a call gives in place of its frame; `PLAIN` to let the interpreter go on with it."""
        if not tf_private.is_plainly_eager():
            return native.frames().PLAIN
        parameters = (*values, function.__closure__) if function.__closure__ else values
        result = self._as_graph(parameters)
        if type(result) is not Misses:
            return result
        return self._without_graph(PreparedCall(function, parameters, *arguments_of(function, values)), result)

    def _eagerly(self, call: PreparedCall) -> Any:
        return native.frames().PLAIN

    def _observed(self, call: PreparedCall, kind: str) -> Any:
        if self._observer.observed(call.function) is call.function:  # to call it would bring it here again
            self._refused(why_not_observed(call.function))
            return self._eagerly(call)
        return super()._observed(call, kind)

    def _converted(self, call: PreparedCall) -> CachedGraph | None:
        graph = super()._converted(call)
        if graph is not None and graph.operations < self.least:
            few = f"it computes too little to be a graph: {graph.operations} operations, and {self.least} pay"
            self._give_up(few if graph.operations else "it computes nothing with TensorFlow")
            return None
        return graph


_LOG = logs.logger("speculate")
# How many of the last places of tapes are remembered, to find loops.
_PLACES = 64
# A call that enters a tape in a loop more often is no step but an epoch: its rounds are the steps.
ROUNDS = 16
_local = threading.local()


# So many functions are found after one that is gone, before what became of that is let go of.
KEPT = 8


class FoundFunctions:
    """What was found, by code and globals: functions that are made anew in each step share one.

    Of functions that are gone, such as those of a cell that was executed again, only the last few are kept. Their code
    may live on: TensorFlow and notebooks keep some.

    Args:
        make: what is found, of a function.
    """

    def __init__(self, make: Callable[[types.FunctionType], Found]) -> None:
        self._make = make
        self._codes: dict[types.CodeType, None] = {}
        self._left: weakref.WeakSet[types.CodeType] = weakref.WeakSet()
        self._found: dict[tuple[types.CodeType, int], Found] = {}
        self._count = 0
        self._lock = threading.Lock()

    def all(self) -> list[Found]:
        """Everything."""
        with self._lock:
            return list(self._found.values())

    def codes(self) -> list[types.CodeType]:
        """The code of everything whose next calls are ours."""
        with self._lock:
            return list(self._codes)

    def add(self, code: types.CodeType) -> bool:
        """Takes the next calls of some code; whether that is new."""
        with self._lock:
            is_new = code not in self._codes
            self._codes[code] = None
            return is_new

    def leave(self, code: types.CodeType) -> None:
        """Takes no more calls of some code."""
        with self._lock:
            self._left.add(code)
            self._codes.pop(code, None)

    def has_left(self, code: types.CodeType) -> bool:
        """Whether no more calls of some code are taken."""
        return code in self._left

    def of(self, function: types.FunctionType) -> Found:
        """The calls of a function."""
        key = function.__code__, id(function.__globals__)
        with self._lock:
            found, gone = self._found.get(key), []
            if found is None:
                self._count += 1
                stale = [k for k, one in self._found.items() if one.last() is None and self._count - one.at > KEPT]
                for code, _ in stale:
                    self._codes.pop(code, None)
                gone = [self._found.pop(k) for k in stale]  # not freed before the end: that may run Python
                found = self._found[key] = self._make(function)
            found.last, found.at = weakref.ref(function), self._count
        del gone
        return found

    def given_up(self, code: types.CodeType) -> bool:
        """Whether some code was found and cannot be converted."""
        with self._lock:
            return any(found.given_up for (other, _), found in self._found.items() if other is code)


class Speculation:
    """What `rg.speculation()` gives: finds functions that compute gradients, and runs them as graphs.

    Attributes:
        functions: what was found, by name.
    """

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self.found = FoundFunctions(lambda f: Found(f.__code__.co_qualname, f.__code__, strict=strict))

    def __enter__(self) -> Speculation:
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
    def functions(self) -> Mapping[str, Found]:
        """What was found, by qualified name; where several have one name, with their lines."""
        every = self.found.all()
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


_UPDATE: Final = keras.Optimizer.apply.__code__
_CALL: Final = getattr(keras.layers.Layer.__call__, "__wrapped__", keras.layers.Layer.__call__).__code__
# The methods whose calls are taken, by their code, with what is speculated on in their place.
_ENTRIES: Final[dict[types.CodeType, Any]] = {
    _UPDATE: optimizer_update,
    _CALL: model_call,
    keras.losses.Loss.__call__.__code__: loss_call,
    keras.metrics.MeanMetricWrapper.update_state.__code__: metric_update,
}
# Models that are made of layers.
_MODELS: Final = frozenset({"Sequential", "Functional"})


def _is_librarys(code: types.CodeType, owner: Any) -> bool:
    """Whether the object of a method in `_ENTRIES` is Keras's, so that nothing of the program's is in the call."""
    kind = type(owner)
    if code is _UPDATE:  # a class of the program's may do so before and after; a method of its own has this one in it
        return getattr(kind.apply, "__code__", None) is _UPDATE and "apply" not in vars(owner)
    is_keras = kind.__module__.partition(".")[0] == "keras"
    return is_keras and (code is not _CALL or kind.__name__ in _MODELS)


class _Entries:
    """Takes calls of Keras's models, losses, metrics and optimizers, each as one of its function in `keras_calls.py`.

    Args:
        of: gives what became of a function.
    """

    def __init__(self, of: Callable[[types.FunctionType], Found]) -> None:
        self._of, self._local = of, threading.local()

    def __call__(self, function: types.FunctionType, values: tuple[Any, ...]) -> Any:
        """One of them is called. The stand-in calls it again, which is then let through, with all that it calls."""
        code = function.__code__
        is_inside = getattr(self._local, "is_inside", False)
        if is_inside or not _is_librarys(code, values[0]) or _is_profiled(sys._getframe(1)):
            return native.frames().PLAIN
        self._local.is_inside = True
        try:
            stand_in = cast(types.FunctionType, _ENTRIES[code])
            return self._of(stand_in)(stand_in, values)
        finally:
            self._local.is_inside = False


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
        entries = _Entries(owner.found.of)
        for code in _ENTRIES:
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
        if code.co_name in PARTS or not tf_private.is_plainly_eager():
            return
        if not may_be_taken(function):
            self.watch.handle(code, None)
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


# Graphs with fewer operations than this cost more than they save: guards and a call take as long as some operations.
MIN_OPERATIONS = 4
# Runs in which nothing changed, after which no more callees are expected.
QUIET_RUNS = 2


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
        self._found = FoundFunctions(self._made)
        self._local = threading.local()
        self._last_change = 0
        self._entries = _Entries(self._found.of)

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
        return self._found.all()

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
        if code in _ENTRIES:
            watch.handle(code, self._entries)
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

    def _made(self, function: types.FunctionType) -> Found:
        self._last_change = self.runs
        code = function.__code__
        return Found(code.co_qualname, code, MIN_OPERATIONS, optimizations=self.optimizations)

    def _called(self, function: types.FunctionType, values: tuple[Any, ...]) -> Any:
        found = self._found.of(function)
        result = found(function, values)
        if found.given_up and not found.has_graphs:
            self._watch().handle(function.__code__, None)
            self._last_change = self.runs  # what it calls is found from now on
        return result


def _is_profiled(frame: types.FrameType) -> bool:
    """Whether what a frame does is a part of a function that is profiled, and will perhaps be converted whole."""
    caller = next(users_frames(frame), None)
    return caller is not None and is_observed(caller.f_code)
