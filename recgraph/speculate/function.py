"""A function that is speculated on: profiled, converted, checked at every call, and run eagerly where that fails."""

from __future__ import annotations

import functools
import inspect
import re
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recgraph.speculate.conversion import MARK, Converted, convert
from recgraph.speculate.instrument import Observer
from recgraph.speculate.profile import Profile
from recgraph.speculate.reasons import Inconvertible
from recgraph.speculate.script import Assumption

# Calls that run eagerly first, to see what varies.
PROFILED_CALLS = 3
# Graphs of one function; when there is no room for another, what fits none of them runs eagerly.
MAX_GRAPHS = 16
# How often calls may fall back before the function is left alone.
MAX_FALLBACKS = 64
# How many calls that raise an exception may be tried before it is taken to be one that is raised and caught every time.
MAX_RAISING = 6

_BROKEN = object()


class Speculated:
    """A function with the graphs that its calls became.

    Args:
        function: a Python function.
        profiled_calls: how many calls run eagerly first.
        strict: whether what cannot be converted is an error.
    """

    def __init__(
        self, function: Callable[..., Any], profiled_calls: int = PROFILED_CALLS, strict: bool = False
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.profiled_calls, self.strict = function, profiled_calls, strict
        self._inner = getattr(function, "__func__", function)
        self._owner = (function.__self__,) if inspect.ismethod(function) else ()
        self.profile = Profile()
        self.reasons: list[str] = []
        self.given_up: str = ""
        self.calls = {"eager": 0, "graph": 0, "fallback": 0}
        self._observer = Observer(self.profile)
        self._bind = _binder(self._inner)
        self._graphs: list[_Graph] = []
        self._is_due = False  # a conversion: the last call that fitted no graph was observed
        self._raised = 0  # how many calls that were to be converted would have raised something
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function: the graph that fits, or eagerly."""
        if not tf.executing_eagerly():
            return self.function(*arguments, **named)
        try:
            parameters = self._bind(*self._owner, *arguments, **named)
        except TypeError:
            return self.function(*arguments, **named)
        for graph in self._graphs:
            result = graph.call(parameters)
            if result is not _BROKEN:
                self.calls["graph"] += 1
                return result
        return self._without_graph(parameters, arguments, named)

    def _without_graph(self, parameters: tuple[Any, ...], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """No graph fits: another one, or the function itself."""
        if self.given_up:
            self.calls["eager"] += 1
            return self.function(*arguments, **named)
        if self.profile.calls < self.profiled_calls:
            return self._observed(parameters, arguments, named, "eager")
        if self._graphs and not self._is_due:
            for graph in self._graphs:
                graph.learn(self.profile)
            return self._fell_back(parameters, arguments, named)
        self._is_due = False
        return self._converted(parameters, arguments, named)

    def _fell_back(self, parameters: tuple[Any, ...], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self.calls["fallback"] >= MAX_FALLBACKS:
            self._give_up(f"its assumptions broke {MAX_FALLBACKS} times")
        self._is_due = True
        self._graphs = [graph for graph in self._graphs if not graph.is_obsolete]
        return self._observed(parameters, arguments, named, "fallback")

    def _converted(self, parameters: tuple[Any, ...], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        try:
            with self._lock:
                graph = _Graph(convert(self._inner, parameters, self.profile))
        except Exception as reason:  # whatever goes wrong here, the call itself can still be made
            self._raised += 1
            raises = isinstance(reason, Inconvertible) and reason.feature == "raises" and self._raised < MAX_RAISING
            if raises and not self.strict:
                return self._fell_back(parameters, arguments, named)
            self._give_up(str(reason) if isinstance(reason, Inconvertible) else f"internal error: {reason!r}")
            if self.strict:
                raise
            return self._observed(parameters, arguments, named, "eager")
        result = graph.call(parameters)
        if result is _BROKEN:
            graph.learn(self.profile)
            self._graphs = [g for g in [*self._graphs, graph] if not g.is_obsolete]
            return self._fell_back(parameters, arguments, named)
        self._graphs.append(graph)
        self.calls["graph"] += 1
        return result

    def _observed(
        self, parameters: tuple[Any, ...], arguments: tuple[Any, ...], named: dict[str, Any], kind: str
    ) -> Any:
        self.calls[kind] += 1
        for name, value in zip(inspect.signature(self._inner).parameters, parameters, strict=True):
            self.profile.see(("argument", name), value)
        return self._observer.run(self.function, arguments, named)

    def _give_up(self, reason: str) -> None:
        self.given_up = reason
        self.reasons.append(reason)

    def explain(self) -> str:
        """What was assumed, what the calls became, what ran eagerly and why."""
        lines = [f"{self.function.__qualname__}: " + ", ".join(f"{n} {kind}" for kind, n in self.calls.items())]
        if self.given_up:
            lines.append(f"runs eagerly: {self.given_up}")
        for i, graph in enumerate(self._graphs):
            lines.append(f"graph {i}: {len(graph.converted.graph.get_operations())} operations")
            lines += [f"  assumes {assumption}" for assumption in dict.fromkeys(map(str, graph.converted.assumptions))]
        return "\n".join(lines)


class _Graph:
    """A converted call that can be called again."""

    def __init__(self, converted: Converted) -> None:
        self.converted = converted
        self.broken: Assumption | None = None
        self.is_obsolete = False
        self.call = converted.run({"broken": self._break, "failed": self._fail})

    def _break(self, number: int) -> Any:
        self.broken = self.converted.assumptions[number]
        return _BROKEN

    def _fail(self, error: tf.errors.OpError) -> Any:
        found = re.search(rf"{MARK}\] \[(\d+)\]", error.message)
        self.broken = self.converted.assumptions[int(found[1])] if found else None
        return _BROKEN

    def learn(self, profile: Profile) -> None:
        """Makes the profile more general where this graph's assumption broke."""
        if self.broken is not None and self.broken.site is not None:
            profile.relax(*self.broken.site)
            self.is_obsolete = self.broken.kind in ("branch", "value", "tensor", "trips")


def _binder(function: Any) -> Callable[..., tuple[Any, ...]]:
    """A function with the same parameters that gives their values in order."""
    parameters = inspect.signature(function).parameters.values()
    scope: dict[str, Any] = {}
    parts, names, stars = [], [], False
    for i, parameter in enumerate(parameters):
        text = parameter.name
        names.append(text)
        if parameter.kind is parameter.VAR_POSITIONAL:
            text, stars = f"*{text}", True
        elif parameter.kind is parameter.VAR_KEYWORD:
            text = f"**{text}"
        elif parameter.kind is parameter.KEYWORD_ONLY and not stars:
            parts.append("*")
            stars = True
        if parameter.default is not parameter.empty:
            scope[f"d{i}"] = parameter.default
            text += f"=d{i}"
        parts.append(text)
        following = list(parameters)[i + 1 : i + 2]
        if parameter.kind is parameter.POSITIONAL_ONLY and (not following or following[0].kind is not parameter.kind):
            parts.append("/")
    exec(f"def bind({', '.join(parts)}): return ({''.join(name + ', ' for name in names)})", scope)
    bind: Callable[..., tuple[Any, ...]] = scope["bind"]
    return bind
