"""A function that is speculated on: profiled, converted, checked at every call, and run eagerly where that fails."""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from recgraph import tf_private
from recgraph.speculate.binding import binder
from recgraph.speculate.cached import Broken, CachedGraph
from recgraph.speculate.conversion import convert
from recgraph.speculate.instrument import Observer
from recgraph.speculate.profile import Profile
from recgraph.speculate.reasons import Inconvertible

# Calls that run eagerly first, to see what varies.
PROFILED_CALLS = 3
# Graphs of one function; when there is no room for another, what fits none of them runs eagerly.
MAX_GRAPHS = 16
# How often one assumption may break before no graph is made any more that makes it.
MAX_BREAKS = 24
# How often calls may fall back before the function is left alone, unless ten times as many ran as graphs.
MAX_FALLBACKS = 64
# How often an operation of a graph may fail that does not fail eagerly.
MAX_FAILURES = 3
# How often a call may be converted that turns out to raise, or to make a variable, which the next ones may not.
MAX_ATTEMPTS = 5
_PASSING = frozenset({"raises", "new variable"})

# Keras's layers are changed while they are converted: one conversion at a time. Who finds it taken runs eagerly.
_CONVERTING = threading.Lock()


class Speculated:
    """A function with the graphs that its calls became.

    Args:
        function: a Python function.
        profiled_calls: how many calls run eagerly first.
        strict: whether what cannot be converted is an error.

    Attributes:
        calls: how many calls ran eagerly, as a graph, and eagerly because an assumption broke.
        given_up: why no more graphs are made; "" as long as they are.
        breaks: how often each assumption broke.
    """

    def __init__(
        self, function: Callable[..., Any], profiled_calls: int = PROFILED_CALLS, strict: bool = False
    ) -> None:
        self.__qualname__: str
        functools.update_wrapper(self, function)
        self.function, self.profiled_calls, self.strict = function, profiled_calls, strict
        self._inner = getattr(function, "__func__", function)
        self._owner = (function.__self__,) if inspect.ismethod(function) else ()
        self.profile = Profile()
        self.given_up: str = ""
        self.calls = {"eager": 0, "graph": 0, "fallback": 0}
        self.breaks: collections.Counter[str] = collections.Counter()
        self._attempts = 0
        self._observer = Observer(self.profile)
        self._bind = binder(self._inner)
        self._graphs: list[CachedGraph] = []
        self._is_due = True  # a conversion: the last call that fitted no graph was observed

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function: the graph that fits, or eagerly."""
        if not tf_private.is_plainly_eager():
            return self.function(*arguments, **named)
        try:
            parameters = self._bind(*self._owner, *arguments, **named)
        except TypeError:
            return self.function(*arguments, **named)
        broken = []
        for graph in self._graphs:
            result = graph.call(parameters)
            if type(result) is not Broken:
                graph.runs += 1
                self.calls["graph"] += 1
                return result
            if graph.is_obsolete:  # what it was made for has died
                continue
            broken.append((graph, result))
            if result.is_failure:
                break
        return self._without_graph(parameters, arguments, named, broken)

    def _without_graph(
        self,
        parameters: tuple[Any, ...],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        broken: list[tuple[CachedGraph, Broken]],
    ) -> Any:
        """No graph fits: another one, or the function itself."""
        if self.given_up:
            self.calls["eager"] += 1
            return self.function(*arguments, **named)
        kind = "fallback" if broken else "eager"
        self._learn(broken)
        if broken and broken[-1][1].is_failure:
            return self._failed(broken[-1][0], parameters, arguments, named)
        if self.profile.calls >= self.profiled_calls and self._is_due and _CONVERTING.acquire(blocking=False):
            try:
                graph = self._converted(parameters)
            finally:
                _CONVERTING.release()
            if graph is not None:
                result = self._first_run(graph, parameters)
                if type(result) is not Broken:
                    return result
                kind = "fallback"
        self._is_due = True
        return self._observed(parameters, arguments, named, kind)

    def _failed(
        self, graph: CachedGraph, parameters: tuple[Any, ...], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Something failed in a graph: the eager call should raise. Where it does not, the graph is wrong."""
        result = self._observed(parameters, arguments, named, "fallback")
        graph.failures += 1
        if graph.failures >= MAX_FAILURES:
            self._graphs = [other for other in self._graphs if other is not graph]
            self._give_up("a graph fails where the eager call does not")
        return result

    def _first_run(self, graph: CachedGraph, parameters: tuple[Any, ...]) -> Any:
        """Runs a new graph, and keeps it unless it is of no use already."""
        result = graph.call(parameters)
        if type(result) is Broken:
            self._learn([(graph, result)])
            if not graph.is_obsolete:
                self._graphs = [*self._graphs, graph]
            return result
        self._is_due = False
        self._attempts = 0
        self._graphs = [*self._graphs, graph]
        graph.runs += 1
        self.calls["graph"] += 1
        return result

    def _learn(self, broken: list[tuple[CachedGraph, Broken]]) -> None:
        """Takes note of what broke: the profile becomes more general, and what keeps breaking is given up."""
        for graph, why in broken:
            graph.learn(why, self.profile)
        self.breaks.update({str(why) for _, why in broken})
        self._graphs = [graph for graph in self._graphs if not graph.is_obsolete and not self._is_hopeless(graph)]
        if self.calls["fallback"] >= max(MAX_FALLBACKS, self.calls["graph"] / 10):
            self._give_up(f"its assumptions broke in {self.calls['fallback']} calls")

    def _is_hopeless(self, graph: CachedGraph) -> bool:
        return any(self.breaks[text] >= MAX_BREAKS for text in map(str, graph.assumptions) if text in self.breaks)

    def _converted(self, parameters: tuple[Any, ...]) -> CachedGraph | None:
        """A graph for a call; None if it has to run eagerly."""
        if len(self._graphs) >= MAX_GRAPHS:
            return None
        try:
            graph = CachedGraph(convert(self._inner, parameters, self.profile))
        except Inconvertible as reason:
            self._attempts += 1
            if reason.feature not in _PASSING or self._attempts >= MAX_ATTEMPTS:
                self._give_up(str(reason))
                if self.strict:
                    raise
            return None
        except Exception as error:  # a defect of ours must not become the user's
            self._give_up(f"the conversion failed: {type(error).__name__}: {error}")
            if self.strict:
                raise
            return None
        if self._is_hopeless(graph):
            worst = max(self.breaks, key=self.breaks.__getitem__)
            self._give_up(f"an assumption keeps breaking: {worst}")
            return None
        return graph

    def _observed(
        self, parameters: tuple[Any, ...], arguments: tuple[Any, ...], named: dict[str, Any], kind: str
    ) -> Any:
        self.calls[kind] += 1
        with self.profile.call():
            for name, value in zip(inspect.signature(self._inner).parameters, parameters, strict=True):
                self.profile.see(("argument", name), value)
            return self._observer.observed(self.function)(*arguments, **named)

    def _give_up(self, reason: str) -> None:
        self.given_up = self.given_up or reason

    def explain(self) -> str:
        """What was assumed, what the calls became, what ran eagerly and why."""
        lines = [f"{self.function.__qualname__}: " + ", ".join(f"{n} {kind}" for kind, n in self.calls.items())]
        if self.given_up:
            lines.append(f"runs eagerly: {self.given_up}")
        if len(self._graphs) >= MAX_GRAPHS:
            lines.append(f"has its {MAX_GRAPHS} graphs (MAX_GRAPHS): what fits none of them runs eagerly")
        for i, graph in enumerate(self._graphs):
            first, *rest = graph.explain()
            lines += [f"graph {i}: {first}", *rest]
        lines += [f"broke {count} times: {what}" for what, count in self.breaks.most_common()]
        return "\n".join(lines)

    # A copy is the same function, as with Python's functions; pickled, it is found by its name or made again.

    def __copy__(self) -> Speculated:
        return self

    def __deepcopy__(self, memo: Any) -> Speculated:
        if not self._owner:
            return self
        return Speculated(copy.deepcopy(self.function, memo), self.profiled_calls, self.strict)

    def __reduce__(self) -> Any:
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is self:
            return self.__qualname__
        return Speculated, (self.function, self.profiled_calls, self.strict)
