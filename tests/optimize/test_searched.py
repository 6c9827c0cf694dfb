"""What a search had no time for is looked for again when there is time: no first one decides for the whole process."""

from __future__ import annotations

import dataclasses

import pytest

from recgraph.optimize import choosing
from recgraph.optimize.costs import Costs, Guess
from recgraph.optimize.parts import InParts
from recgraph.optimize.problem import Leaf, Problem
from recgraph.optimize.search import Backtracking, Search, SearchResult
from recgraph.optimize.searched import Searched
from recgraph.optimize.terms import read_term


def gates(count: int = 4) -> Problem:
    """Products of one input by several matrices."""
    leaves = {"x": Leaf((4, 8, 1, 1))} | {f"w{i}": Leaf((8, 8, 1, 1), True) for i in range(count)}
    return Problem(tuple(read_term(f"tanh(x @ w{i})") for i in range(count)), leaves)


class Counted:
    """A search that needs a second, finds nothing in less, and counts how often it is asked."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, given: Problem, costs: Costs, seconds: float) -> SearchResult:
        """See `Search`."""
        self.times.append(seconds)
        is_complete = seconds >= 1.0
        return SearchResult(given.roots, 2.0, 1.0 if is_complete else 2.0, (), 3, min(seconds, 1.0), is_complete)


def test_a_search_that_ran_out_of_time_is_made_again_with_more() -> None:
    found, search, costs = Searched(), Counted(), Costs()
    for seconds, after in ((0.1, 2.0), (0.15, 2.0), (1.0, 1.0), (60.0, 1.0), (0.1, 1.0)):
        result = found.of(gates(), costs, seconds, search)
        assert result is not None
        assert result.after == after
    assert search.times == [0.1, 1.0]


def test_what_is_known_takes_no_time() -> None:
    found, search, costs = Searched(), Counted(), Costs()
    assert found.of(gates(), costs, 0.0, search) is None
    found.of(gates(), costs, 2.0, search)
    known = found.of(gates(), costs, 0.0, search)
    assert known == SearchResult(gates().roots, 2.0, 1.0)


def test_other_costs_are_another_search() -> None:
    """As when the machine has been measured meanwhile."""
    found, search = Searched(), Counted()
    measured = Costs({"matmul() 1x1 1x1 float32": 1.0})
    for costs in (Costs(), Costs(), measured, dataclasses.replace(measured), Costs(guess=Guess(start=1.0))):
        found.of(gates(), costs, 2.0, search)
    assert len(search.times) == 3


def test_no_more_is_remembered_than_asked_for() -> None:
    found, search = Searched(most=2), Counted()
    for count in (2, 3, 4, 4, 2):
        found.of(gates(count), Costs(), 2.0, search)
    assert len(search.times) == 4


@pytest.mark.parametrize("make", [Backtracking, lambda rules: InParts(Backtracking(rules))])
def test_searches_say_whether_they_came_to_their_end(make: type[Backtracking]) -> None:
    search: Search = make(choosing.rules())
    hurried, patient = (search(gates(), Costs(), seconds) for seconds in (1e-9, 60.0))
    assert hurried is not None
    assert not hurried.is_complete
    assert not hurried.is_better
    assert patient is not None
    assert patient.is_complete
    assert patient.is_better
