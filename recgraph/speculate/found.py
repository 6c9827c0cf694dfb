"""A function that nobody has decorated: its calls come from the interpreter, and the function itself stays as it is."""

from __future__ import annotations

import types
from typing import Any

from recgraph import native, tf_private
from recgraph.speculate.binding import arguments_of
from recgraph.speculate.cached import CachedGraph
from recgraph.speculate.function import Call, Calls, Misses
from recgraph.speculate.optimizations import ALL, Optimizations


class Found(Calls):
    """The calls of all functions that have some code: a function made anew in each step is the same to us.

    Args:
        name: of the function.
        code: its code.
        least: the number of operations from which on a graph pays.
        strict: whether what cannot be converted is an error.
        optimizations: what graphs are made with.

    Attributes:
        code: its code.
    """

    def __init__(
        self,
        name: str,
        code: types.CodeType,
        least: int = 1,
        strict: bool = False,
        optimizations: Optimizations = ALL,
    ) -> None:
        super().__init__(name, strict=strict, optimizations=optimizations)
        self.code, self.least = code, least

    def __call__(self, function: types.FunctionType, values: tuple[Any, ...]) -> Any:
        """What a call gives in place of its frame; `PLAIN` to let the interpreter go on with it."""
        if not tf_private.is_plainly_eager():
            return native.frames().PLAIN
        parameters = (*values, function.__closure__) if function.__closure__ else values
        result = self._as_graph(parameters)
        if type(result) is not Misses:
            return result
        return self._without_graph(Call(function, parameters, *arguments_of(function, values)), result)

    def _eagerly(self, call: Call) -> Any:
        return native.frames().PLAIN

    def _observed(self, call: Call, kind: str) -> Any:
        if self._observer.observed(call.function) is call.function:  # to call it would bring it here again
            self._give_up("its source is not to be found")
            return native.frames().PLAIN
        return super()._observed(call, kind)

    def _converted(self, call: Call) -> CachedGraph | None:
        graph = super()._converted(call)
        if graph is not None and graph.operations < self.least:
            few = f"it computes too little to be a graph: {graph.operations} operations, and {self.least} pay"
            self._give_up(few if graph.operations else "it computes nothing with TensorFlow")
            return None
        return graph
