"""A function that was found, and whose graphs are compared with eager calls: nobody else does that for it."""

from __future__ import annotations

import statistics
import time
import types
from typing import Any, Final

from recgraph import tf_private
from recgraph.racing import AdaptiveBenchmark
from recgraph.speculate.observe.frames import watched
from recgraph.speculate.observe.syntax import arguments_of
from recgraph.speculate.run.discovered import DiscoveredFunction

# Calls as a graph that are measured before it is judged.
GRAPH_CALLS = 3
# A graph that takes this part of the time of an observed eager call needs no comparison: being observed makes calls
# slower, hardly ever four times as slow.
CLEARLY = 0.25
# Rounds of turns that say enough, unless calls are of several kinds.
ROUNDS = 2
_GRAPH: Final = "graph"
_EAGER: Final = "eager"


class ProfitableFunction(DiscoveredFunction):
    """The calls of functions that have some code; their graphs are let go of where eager calls take less time.

    A call in which a tape listens says nothing: what the gradient takes comes later.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._contest: AdaptiveBenchmark | None = None
        self._is_judged = False
        self._graph_seconds: list[float] = []
        self._observed_seconds: list[float] = []

    def __call__(self, function: types.FunctionType, values: tuple[Any, ...]) -> Any:
        """See `DiscoveredFunction`."""
        if self._is_judged or not tf_private.is_plainly_eager() or tf_private.a_tape_is_listening():
            return super().__call__(function, values)
        if self._contest is not None and self._contest.way == _EAGER:
            return self._plainly(self._contest, function, values)
        graphs, conversions = self._ran["graph"], self._conversions
        started = time.perf_counter()
        result = super().__call__(function, values)
        seconds = time.perf_counter() - started
        self._is_judged = bool(self.given_up) and not self.has_graphs
        if (self._ran["graph"], self._conversions) == (graphs + 1, conversions):
            self._took(seconds)
        elif not self._ran["graph"]:
            self._observed_seconds.append(seconds)
        return result

    def _took(self, seconds: float) -> None:
        """A call ran as a graph that was there."""
        if self._contest is not None:
            self._contest.add(seconds)
            self._look(self._contest)
            return
        self._graph_seconds.append(seconds)
        if len(self._graph_seconds) < GRAPH_CALLS:
            return
        if statistics.median(self._graph_seconds) < CLEARLY * min(self._observed_seconds, default=0.0):
            self._is_judged = True
        else:
            self._contest = AdaptiveBenchmark((_GRAPH, _EAGER), measured={_GRAPH: self._graph_seconds})

    def _plainly(self, contest: AdaptiveBenchmark, function: types.FunctionType, values: tuple[Any, ...]) -> Any:
        """Calls the function as it is written, with all that it calls."""
        arguments, named = arguments_of(function, values)
        self._ran["eager"] += 1
        started = time.perf_counter()
        with watched(None):
            result = function(*arguments, **named)
        contest.add(time.perf_counter() - started)
        self._look(contest)
        return result

    def _look(self, contest: AdaptiveBenchmark) -> None:
        """Decides, where the contest is over."""
        if contest.round >= ROUNDS and not contest.is_mixed:
            contest.end()
        if not contest.winner:
            return
        self._is_judged = True
        if contest.winner == _EAGER:
            eager, graph = (f"{1e3 * contest.cost(way):.3g} ms" for way in (_EAGER, _GRAPH))
            self._cache.keep_only(lambda graph: False)
            self._give_up(f"its calls take {eager} eagerly, and {graph} as a graph")
