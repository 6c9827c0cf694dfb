"""What became of functions that nobody has decorated: the interpreter gives their calls, and they stay as they are."""

from __future__ import annotations

import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final, cast

import keras

from recgraph import native, tf_private
from recgraph.speculate.machine.evaluator import ALL, Optimizations
from recgraph.speculate.observe.frames import users_frames, watched
from recgraph.speculate.observe.instrument import Observer, is_observed, why_not_observed
from recgraph.speculate.observe.profile import Profile
from recgraph.speculate.observe.syntax import arguments_of
from recgraph.speculate.run.function import Misses, PreparedCall, SpeculatedCalls
from recgraph.speculate.run.graphs import CachedGraph
from recgraph.speculate.run.keras_calls import loss_call, metric_update, model_call, optimizer_update
from recgraph.speculate.run.outlining import OutlinedFunction, PartCalls, outline
from recgraph.speculate.script.assumptions import SameDecision

# Graphs with fewer operations than this cost more than they save: guards and a call take as long as some operations.
MIN_OPERATIONS = 4
# So many graphs that all decide otherwise than a call, and hardly one of which was used again, say that no other will
# be. What the function calls may have graphs that fit.
MAX_UNFITTING = 3


class DiscoveredFunction(SpeculatedCalls):
    """The calls of all functions that have some code: a function made anew in each step is the same to us.

    Args:
        name: of the function.
        code: its code.
        least: the number of operations from which on a graph pays.
        strict: whether what cannot be converted is an error.
        optimizations: what graphs are made with.
        profile: what was seen of it already, as a part of another; None if it was not looked at.

    Attributes:
        parts: what became of its parts, where it is taken apart.
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
        profile: Profile | None = None,
    ) -> None:
        super().__init__(name, strict=strict, optimizations=optimizations)
        if profile is not None:
            self.profile, self._observer = profile, Observer(profile)
        self.parts = parts_of(self)
        self._apart: OutlinedFunction | None = None
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

    @property
    def is_left(self) -> bool:
        """Whether the interpreter may have its calls."""
        return bool(self.given_up) and not (self.has_graphs or self._apart or self.left)

    @property
    def fits(self) -> bool:
        """Whether a graph was used again after the call that it was made for."""
        return self._ran["graph"] > self._conversions

    def _decides_anew(self, misses: Misses) -> bool:
        """Whether Python's own decisions in the calls are others nearly each time."""
        decisions = [broken for _, broken in misses if isinstance(broken.assumption, SameDecision)]
        return len(decisions) >= MAX_UNFITTING and self._ran["graph"] < 2 * self._conversions

    def outline(self, function: Callable[..., Any]) -> None:
        """Takes the function apart, if it is known now where."""
        if self.given_up and self.left:
            self._apart, self.left = outline(function, self.left, self.parts), frozenset()

    def _eagerly(self, call: PreparedCall) -> Any:
        self.outline(call.function)
        if self._apart is None:
            return native.frames().PLAIN
        return self._apart.run(call.function, *call.arguments, **call.named)

    def _observed(self, call: PreparedCall, kind: str) -> Any:
        if self._observer.observed(call.function) is call.function:  # to call it would bring it here again
            self._refused(why_not_observed(call.function))
            return self._eagerly(call)
        return super()._observed(call, kind)

    def _converted(self, call: PreparedCall, misses: Misses) -> CachedGraph | None:
        if self._decides_anew(misses):
            self._cache.keep_only(lambda graph: False)
            self._give_up(f"it decides otherwise in nearly every call: {misses[0][1]}")
            return None
        with watched(None):  # what is called to make a graph is none of the program's calls
            graph = super()._converted(call, misses)
        if graph is not None and graph.operations < self.least:
            few = f"it computes too little to be a graph: {graph.operations} operations, and {self.least} pay"
            self._give_up(few if graph.operations else "it computes nothing with TensorFlow")
            return None
        return graph

    def _first_run(self, graph: CachedGraph, call: PreparedCall) -> Any:
        with watched(None):  # where a tape listens, its gradient is made now
            return super()._first_run(graph, call)


# A part is named after its function and the line at which it begins.
_FROM: Final = ", from line "


def parts_of(calls: SpeculatedCalls) -> PartCalls:
    """What becomes of the parts of a function. What was seen of one that runs once in a call holds for it."""

    def make(code: types.CodeType, may_repeat: bool) -> DiscoveredFunction:
        profile = None if may_repeat else calls.profile
        name = f"{calls.name.partition(_FROM)[0]}{_FROM}{code.co_firstlineno}"
        return DiscoveredFunction(name, code, MIN_OPERATIONS, optimizations=calls.optimizations, profile=profile)

    made = calls._observer.parts = PartCalls(make)
    return made


def with_parts(found: Iterable[DiscoveredFunction]) -> Iterator[DiscoveredFunction]:
    """Functions and their parts, and the parts of these."""
    for one in found:
        yield one
        yield from with_parts(one.parts.all())


# So many functions are found after one that is gone, before what became of that is let go of.
KEPT = 8


class FunctionRegistry:
    """What was found, by code and globals: functions that are made anew in each step share one.

    Of functions that are gone, such as those of a cell that was executed again, only the last few are kept. Their code
    may live on: TensorFlow and notebooks keep some.

    Args:
        make: what is found, of a function.
    """

    def __init__(self, make: Callable[[types.FunctionType], DiscoveredFunction]) -> None:
        self._make = make
        self._codes: dict[types.CodeType, None] = {}
        self._left: weakref.WeakSet[types.CodeType] = weakref.WeakSet()
        self._found: dict[tuple[types.CodeType, int], DiscoveredFunction] = {}
        self._count = 0
        self._lock = threading.Lock()

    def all(self) -> list[DiscoveredFunction]:
        """Everything."""
        with self._lock:
            return list(self._found.values())

    def names(self) -> dict[types.CodeType, str]:
        """What was found is called, by its code."""
        with self._lock:
            return {code: found.name for (code, _), found in self._found.items()}

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

    def of(self, function: types.FunctionType) -> DiscoveredFunction:
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


def is_profiled(frame: types.FrameType) -> bool:
    """Whether what a frame does is a part of a function that is profiled, and will perhaps be converted whole."""
    caller = next(users_frames(frame), None)
    return caller is not None and is_observed(caller.f_code)


_UPDATE: Final = keras.Optimizer.apply.__code__
_CALL: Final = getattr(keras.layers.Layer.__call__, "__wrapped__", keras.layers.Layer.__call__).__code__
# The methods whose calls are taken, by their code, with what is speculated on in their place.
ENTRIES: Final[dict[types.CodeType, Any]] = {
    _UPDATE: optimizer_update,
    _CALL: model_call,
    keras.losses.Loss.__call__.__code__: loss_call,
    keras.metrics.MeanMetricWrapper.update_state.__code__: metric_update,
}
# Models that are made of layers.
_MODELS: Final = frozenset({"Sequential", "Functional"})


def _is_librarys(code: types.CodeType, owner: Any) -> bool:
    """Whether the object of a method in `ENTRIES` is Keras's, so that nothing of the program's is in the call."""
    kind = type(owner)
    if code is _UPDATE:  # a class of the program's may do so before and after; a method of its own has this one in it
        return getattr(kind.apply, "__code__", None) is _UPDATE and "apply" not in vars(owner)
    is_keras = kind.__module__.partition(".")[0] == "keras"
    return is_keras and (code is not _CALL or kind.__name__ in _MODELS)


class Entries:
    """Takes calls of Keras's models, losses, metrics and optimizers, each as one of its function in `keras_calls.py`.

    Args:
        of: gives what became of a function.
    """

    def __init__(self, of: Callable[[types.FunctionType], DiscoveredFunction]) -> None:
        self._of, self._local = of, threading.local()

    def __call__(self, function: types.FunctionType, values: tuple[Any, ...]) -> Any:
        """One of them is called. The stand-in calls it again, which is then let through, with all that it calls."""
        code = function.__code__
        is_inside = getattr(self._local, "is_inside", False)
        if is_inside or not _is_librarys(code, values[0]) or is_profiled(sys._getframe(1)):
            return native.frames().PLAIN
        self._local.is_inside = True
        try:
            stand_in = cast(types.FunctionType, ENTRIES[code])
            return self._of(stand_in)(stand_in, values)
        finally:
            self._local.is_inside = False
