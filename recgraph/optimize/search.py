"""Looks for the graph that costs least, among those that substitutions make of one."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from recgraph.optimize import pieces, problem, terms
from recgraph.optimize.costs import Costs
from recgraph.optimize.evaluate import IllFormed
from recgraph.optimize.problem import Problem
from recgraph.optimize.terms import Apply, Equation, Term

Roots = tuple[Term, ...]


@dataclass(frozen=True)
class SearchResult:
    """What a search has found.

    Attributes:
        roots: the results as terms.
        before: seconds that the given graph costs, by the costs that the search was given.
        after: seconds that this one costs.
        steps: the substitutions on the way, in order.
        looked_at: how many graphs were made.
        seconds: of processor time that the search took.
    """

    roots: Roots
    before: float
    after: float
    steps: tuple[str, ...] = ()
    looked_at: int = 0
    seconds: float = 0.0

    @property
    def is_better(self) -> bool:
        """Whether it costs less than the given graph."""
        return self.after < self.before * (1 - 1e-9)


class Search(Protocol):
    """A way to search."""

    def __call__(self, given: Problem, costs: Costs, seconds: float) -> SearchResult:
        """The cheapest graph that was found in a time."""


@dataclass(frozen=True)
class Backtracking:
    """Takes the cheapest graph that was found so far and tries each substitution at each place (TASO, algorithm 2).

    Of graphs of equal cost it prefers those in which terms were put together that the same function is applied to: one
    function of both is then the next step.

    Attributes:
        rules: the substitutions.
        alpha: graphs that cost more than so many times the cheapest one are dropped.
        budget: from how many graphs it goes on at most.
        stall: from how many it goes on after the cheapest one was found.
    """

    rules: tuple[Equation, ...]
    alpha: float = 1.05
    budget: int = 400
    stall: int = 25

    def __call__(self, given: Problem, costs: Costs, seconds: float) -> SearchResult:
        """See `Search`."""
        start, indexed = time.thread_time(), _index(self.rules)
        before = costs.of(given, given.roots)
        best, best_cost, best_steps = given.roots, before, tuple[str, ...]()
        seen, numbers = {given.roots}, itertools.count()
        queue: list[tuple[float, int, int, Roots, tuple[str, ...]]] = [(before, 0, next(numbers), given.roots, ())]
        last = 0
        for number in range(self.budget):
            if not queue or number - last > self.stall or time.thread_time() - start > seconds:
                break
            cost, strangers, _, roots, steps = heapq.heappop(queue)
            if cost > self.alpha * best_cost:
                break
            for rule, made, are_strangers in indexed.neighbours(given, roots):
                if made in seen:
                    continue
                seen.add(made)
                cost = costs.of(given, made)
                # What is put together may be made before what it waits for.
                if len(rule.source) > 1 and not given.is_in_order(made):
                    continue
                if cost < best_cost * (1 - 1e-9):
                    best, best_cost, best_steps, last = made, cost, (*steps, str(rule)), number
                elif cost >= self.alpha * best_cost:
                    continue
                heapq.heappush(queue, (cost, strangers + are_strangers, -next(numbers), made, (*steps, str(rule))))
        return SearchResult(best, before, best_cost, best_steps, len(seen), time.thread_time() - start)


@cache
def _index(rules: tuple[Equation, ...]) -> Index:
    return Index(rules)


@dataclass
class Index:
    """Substitutions by the operators at their roots."""

    rules: tuple[Equation, ...]
    _by_head: dict[tuple[str, object], list[Equation]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rule in self.rules:
            first = rule.source[0]
            assert isinstance(first, Apply)
            self._by_head.setdefault((first.operator, _constant(first)), []).append(rule)

    def neighbours(self, given: Problem, roots: Roots) -> Iterator[tuple[Equation, Roots, bool]]:
        """Each graph that one substitution makes of a graph, and whether it puts together what has other uses."""
        inner = [term for term in terms.subterms(*roots) if isinstance(term, Apply) and not given.is_fixed(term)]
        by_head: dict[str, list[Apply]] = {}
        for term in inner:
            by_head.setdefault(term.operator, []).append(term)
        uses = _Uses(roots)
        for term in inner:
            for head in {(term.operator, _constant(term)), (term.operator, None)}:
                for rule in self._by_head.get(head, ()):
                    for made, places in self._applied(given, roots, rule, term, by_head):
                        yield rule, made, len(set(map(uses, places))) > 1

    def _applied(
        self, given: Problem, roots: Roots, rule: Equation, term: Apply, by_head: dict[str, list[Apply]]
    ) -> Iterator[tuple[Roots, tuple[Term, ...]]]:
        others = [by_head.get(one.operator, []) for one in rule.source[1:] if isinstance(one, Apply)]
        for rest in itertools.product(*others):
            places = (term, *rest)
            if len(set(places)) < len(places):
                continue
            for tensors, sizes in problem.matches(given, rule, places):
                try:
                    made = [problem.instantiate(given, one, tensors, sizes) for one in rule.target]
                except IllFormed:
                    continue
                mapping: dict[Term, Term] = {
                    place: one for place, one in zip(places, made, strict=True) if place is not one
                }
                yield problem.replaced(given, roots, mapping), places


class _Uses:
    """Which functions are applied to terms, or to what other operators make of them."""

    def __init__(self, roots: Roots) -> None:
        self._users: dict[Term, list[Apply]] = {}
        self._known: dict[Term, frozenset[object]] = {}
        for term in terms.subterms(*roots):
            if isinstance(term, Apply):
                for argument in set(term.arguments):
                    self._users.setdefault(argument, []).append(term)

    def __call__(self, term: Term) -> frozenset[object]:
        if term not in self._known:
            users = self._users.get(term, ())
            found = [frozenset(one.parameters) if one.operator == "map" else self(one) for one in users]
            self._known[term] = frozenset[object]().union(*found)
        return self._known[term]


def _constant(term: Apply) -> object:
    """The first parameter, where it is a constant."""
    first = term.parameters[0] if term.parameters else None
    return None if isinstance(first, str) and first.islower() else first


def describe(given: Problem, found: SearchResult) -> str:
    """How many operators of each kind there were before, and after."""
    counts = []
    for roots in (given.roots, found.roots):
        kinds: dict[str, int] = {}
        for term in pieces.steps(given, roots):
            if not pieces.is_part(term):
                kinds[term.operator] = kinds.get(term.operator, 0) + 1
        counts.append(kinds)
    names = sorted(set(counts[0]) | set(counts[1]))
    return ", ".join(f"{name} {counts[0].get(name, 0)} -> {counts[1].get(name, 0)}" for name in names)
