"""What searches have found, so that graphs that are alike are searched once."""

from __future__ import annotations

import dataclasses

from recgraph.optimize import terms
from recgraph.optimize.costs import Costs
from recgraph.optimize.problem import Leaf, Problem
from recgraph.optimize.search import Search, SearchResult

_Key = tuple[tuple[object, ...], tuple[tuple[str, Leaf], ...], tuple[frozenset[int], ...]]
# A search that ran out of time is made again once there is so many times the time that it had.
_MORE = 2.0


class Searched:
    """Results of searches, by graph.

    That of a search that ran out of time, as it does on a busy machine, stands until there is much more time for one:
    else the first of all graphs that are alike, which may have got what others left over, would decide for the process.
    Results by other costs, as of a machine that was not measured yet, are forgotten.

    Args:
        most: of more graphs than these nothing is remembered.
    """

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._costs: Costs | None = None
        self._known: dict[_Key, tuple[SearchResult, float]] = {}

    def of(self, given: Problem, costs: Costs, seconds: float, search: Search) -> SearchResult | None:
        """What a search finds, or has found before, which takes no time; None where it has not, and no time is left."""
        if costs != self._costs:
            self._costs, self._known = costs, {}
        known, key = self._known, _key(given)
        result, had = known.get(key, (None, 0.0))
        if result is not None and (result.is_complete or seconds < _MORE * had):
            return dataclasses.replace(result, looked_at=0, seconds=0.0)
        if seconds <= 0:
            return None
        result = search(given, costs, seconds)
        if len(known) >= self._most:
            known.clear()
        known[key] = result, seconds
        return result


def _key(given: Problem) -> _Key:
    return terms.listing(*given.roots), tuple(given.leaves.items()), given.differentiated
