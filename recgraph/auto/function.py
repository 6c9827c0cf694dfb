"""A function that runs as one graph if it converts as a whole, and otherwise in the way that measures best."""

from __future__ import annotations

import collections
import statistics
import time
from collections.abc import Callable
from typing import Any

from recgraph import sharing, tf_private
from recgraph.auto.choosing import WITHIN, Choosing
from recgraph.auto.ways import (
    CALLEES,
    COEXEC,
    COEXEC_CALLEES,
    EAGER,
    GRAPH,
    WHAT,
    AsGraph,
    Coexecuting,
    Eagerly,
    Way,
    WithCallees,
)
from recgraph.coexec.profile import StepProfile
from recgraph.explaining import Explanation, counted, joined
from recgraph.racing import BLOCKS, AdaptiveBenchmark
from recgraph.speculate import Optimizations, Speculated
from recgraph.speculate.machine.evaluator import ALL
from recgraph.speculate.run.discovered import parts_of, with_parts
from recgraph.speculate.run.function import PROFILED_CALLS, Misses, PreparedCall, SpeculatedCalls

# Calls as a graph that are measured before the graph is judged; those for which one is made do not count.
GRAPH_CALLS = 3
# So many calls after the first conversion, eager execution is compared with graphs that do not come to be measured.
UNFITTING = 10
# A graph that takes this part of the time of an observed eager call is not compared with eager ones any more; being
# observed makes calls slower, hardly ever four times as slow.
CLEARLY = 0.25


class Automatic(Speculated):
    """A function that is converted as a whole, or runs in the fastest of several other ways.

    Args:
        function: a Python function.
        profiled_calls: how many calls run eagerly and are observed first.
        strict: whether to raise an error if the function cannot be converted.
        optimizations: the optimizations that conversion may use.

    Attributes:
        whole: chooses between the graph and eager execution; None while there is nothing to choose.
        apart: chooses between the other ways; None until the function turns out not to be convertible as a whole.
        rounds: calls a function whose loops go through datasets: their rounds are the steps, so none is to choose.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        profiled_calls: int = PROFILED_CALLS,
        strict: bool = False,
        optimizations: Optimizations = ALL,
    ) -> None:
        super().__init__(function, profiled_calls, strict, optimizations)
        self.whole: Choosing | None = None
        self.apart: Choosing | None = None
        self.rounds: WithCallees | None = None
        self._parts = parts_of(self)
        self._steps: Choosing | None = None  # `whole`, or `apart` where no graph is left that a call may fit
        self._is_judged = False
        self._calls_since = 0  # the first conversion
        self._graph_seconds: list[float] = []
        self._eager_seconds: list[float] = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function, with its arguments and result unchanged."""
        if sharing.is_shared():  # the ways of all workers have to be one
            return super().__call__(*arguments, **named)
        if self._steps is not None and tf_private.is_plainly_eager():
            return self._steps.run(*arguments, **named)
        if self._is_judged:
            return super().__call__(*arguments, **named)
        return self._judging(arguments, named)

    @property
    def way(self) -> str | None:
        """How calls run, a key of `ways.WHAT`; None until this is decided."""
        way = CALLEES if self.rounds is not None else GRAPH if self._is_judged else None
        for choosing in (self.whole, self.apart):
            if choosing is not None and way != EAGER:
                decision = choosing.decision
                way = None if decision is None else decision.way
        return way

    def _judging(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Calls the function, and compares what its first calls took."""
        as_graph = AsGraph(super().__call__, lambda: (self._ran["graph"], self._conversions))
        started = time.perf_counter()
        result = as_graph.run(*arguments, **named)
        seconds = time.perf_counter() - started
        if as_graph.is_usual:
            self._graph_seconds.append(seconds)
        elif not self._ran["graph"]:
            self._eager_seconds.append(seconds)
        self._calls_since += bool(self._conversions)
        if len(self._graph_seconds) == GRAPH_CALLS:
            self._is_judged = True
            if statistics.median(self._graph_seconds) > CLEARLY * min(self._eager_seconds, default=0.0):
                self._compare(as_graph, GRAPH)
        elif self._calls_since >= UNFITTING and self.has_graphs and not self.given_up:
            self._is_judged = True
            self._compare(as_graph, EAGER)
        return result

    def _compare(self, as_graph: Way, preferred: str) -> None:
        """The graphs and eager execution take turns from now on."""
        measured = {GRAPH: self._graph_seconds} if preferred == GRAPH else {}
        ways: list[Way] = [Eagerly(self.function), as_graph]
        taken = min(sum(self._ran.values()), WITHIN - len(ways) * BLOCKS[0])
        self._steps = self.whole = Choosing(self.name, ways, preferred=preferred, measured=measured, taken=taken)

    @property
    def calls(self) -> dict[str, int]:
        """How many calls ran eagerly, as a graph, eagerly because an assumption broke, and in other ways."""
        ways = [choosing.counts.copy() for choosing in (self.whole, self.apart) if choosing is not None]
        beside = sum(ways, start=collections.Counter[str]())
        eager = self._ran["eager"] + beside.pop(EAGER, 0)
        beside.pop(GRAPH, None)  # among the calls, where they did not fall back
        return {**self._ran, "eager": eager, **beside}

    @property
    def undecided(self) -> str:
        """Returns a text where it is not decided yet how calls run, and for how long that may be so; "" if it is."""
        choosing = self.apart or self.whole
        if self.way is not None:
            return ""
        if choosing is not None:
            more = choosing.more
        else:
            observed = max(self.profiled_calls - self.profile.returned_calls, 0)
            compared = AdaptiveBenchmark((EAGER, GRAPH), measured={GRAPH: [1.0] * GRAPH_CALLS}).more
            more = observed + (not self.has_graphs) + GRAPH_CALLS - len(self._graph_seconds) + compared
        return f"undecided, at most {counted(more, 'more step')} from here"

    def _heads(self) -> list[str]:
        heads = [f"cannot be converted as a whole: {self.given_up}"] if self.given_up else []
        for choosing in (self.whole, self.apart):
            if choosing is not None:
                heads += map(str, choosing.decisions)
                heads += [f"cannot run {WHAT[way]}: {why}" for way, why in choosing.rejected.copy().items()]
        return [*heads, *([self.undecided] if self.undecided else [])]

    def parts(self) -> list[Explanation]:
        """The explanations of the function as a whole, and of those parts of it that became graphs."""
        made = [super().explain()]
        if self.rounds is not None:
            return made + self.rounds.explanations()
        if self.apart is not None:
            return made + [part for way in self.apart.every for part in way.explanations()]
        return made + [part.explain() for part in with_parts(self._parts.all())]

    def converted_parts(self) -> list[SpeculatedCalls]:
        """The parts of the function, and functions that it calls, which may have become graphs of their own."""
        ways = [self.rounds, *(self.apart.every if self.apart is not None else [])]
        callees = [way.callees for way in ways if isinstance(way, WithCallees) and way.callees is not None]
        found: list[SpeculatedCalls] = [*with_parts(self._parts.all())]
        return list(dict.fromkeys([*found, *(each for one in callees for each in one.functions)]))

    def explain(self, html: bool = False) -> Any:
        """Explains how calls run and why, with the measured times, followed by the explanations of the parts.

        Args:
            html: whether to return a part of an HTML page, with the program's lines, instead of text.

        Returns:
            A `str`. The text also has a method `html()`, and renders itself in a notebook.
        """
        parts = self.parts()
        made = joined(parts, "") if len(parts) > 1 else parts[0]
        return made.html() if html else made

    def timing(self) -> StepProfile:
        """For co-executed steps: how long Python and its graph were busy, and what they waited for."""
        every = self.apart.every if self.apart is not None else []
        profiles = [way.coexecuted.timing() for way in every if isinstance(way, Coexecuting)]
        return next((made for made in reversed(profiles) if made.steps), StepProfile(self.name, []))

    def _without_graph(self, call: PreparedCall, misses: Misses) -> Any:
        if not self.given_up or sharing.is_shared():
            return super()._without_graph(call, misses)
        if self._observer.rounds:
            if self.rounds is None:
                self.rounds = WithCallees(call.function, self.optimizations, self.left, self._parts)
            self._ran["eager"] += 1
            return self.rounds.run(*call.arguments, **call.named)
        if self.apart is None:
            self.apart = self._choosing(call.function)
            self._steps = None if self.has_graphs else self.apart
        return self.apart.run(*call.arguments, **call.named)

    def _choosing(self, function: Callable[..., Any]) -> Choosing:
        callees = WithCallees(function, self.optimizations, self.left, self._parts)

        def then(way: Way) -> list[Way]:
            if way.name == CALLEES and not way.given_up:
                return [Coexecuting(COEXEC_CALLEES, callees.run, self.name)]
            is_last = way.name == COEXEC
            return [Coexecuting(COEXEC, function, self.name)] if way.given_up and not is_last else []

        taken = min(sum(self._ran.values()), WITHIN // 2)
        usual = min(self._eager_seconds, default=0.0)
        return Choosing(self.name, [Eagerly(function)], [callees], then, taken=taken, usual=usual)
