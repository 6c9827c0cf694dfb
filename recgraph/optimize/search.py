"""Looks for the graph that costs least, among those that substitutions make of one."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from recgraph.optimize import gradients, pieces, problem, terms
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
        is_complete: whether it came to its own end within its time.
    """

    roots: Roots
    before: float
    after: float
    steps: tuple[str, ...] = ()
    looked_at: int = 0
    seconds: float = 0.0
    is_complete: bool = True

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

    What a substitution would gain is estimated; the graph is made, and its cost added up, when its turn comes. A large
    graph would take as many rounds as it has places. So each round also tries everything that is estimated to gain at
    once, and each substitution at all places at once.

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
        seen, numbers, looked_at = set[Roots](), itertools.count(), 0
        queue: list[tuple[float, int, int, Draft]] = [(before, 0, next(numbers), Draft(given.roots, {}, ()))]
        last = tried = 0
        while queue and tried < self.budget and tried - last <= self.stall:
            if time.thread_time() - start > seconds:
                break
            _, strangers, _, draft = heapq.heappop(queue)
            roots = draft.finished(given)
            if roots is None or roots in seen:
                continue
            seen.add(roots)
            looked_at += 1
            cost = costs.of(given, roots)
            # What is put together may be made before what it waits for.
            if cost >= self.alpha * best_cost and roots is not given.roots or not given.is_in_order(roots):
                continue
            if not gradients.are_kept(given, roots):
                continue
            if cost < best_cost * (1 - 1e-9):
                best, best_cost, best_steps, last = roots, cost, draft.steps, tried
            tried += 1
            state = CostedGraph(given, costs, roots)
            moves = []
            for move in indexed.moves(given, state):
                moves.append(move)
                if len(moves) % 100 == 0 and time.thread_time() - start > seconds:
                    break
            for chosen in [*([one] for one in moves), *together(moves)]:
                estimate = cost + sum(one.gain for one in chosen)
                if estimate < self.alpha * best_cost:
                    mapping = {place: made for one in chosen for place, made in one.mapping.items()}
                    steps = *draft.steps, *(str(one.rule) for one in chosen)
                    unlike = strangers + sum(one.are_strangers for one in chosen)
                    heapq.heappush(queue, (estimate, unlike, -next(numbers), Draft(roots, mapping, steps, chosen)))
        taken = time.thread_time() - start
        return SearchResult(best, before, best_cost, best_steps, looked_at, taken, taken <= seconds)


@dataclass(frozen=True, eq=False)
class Replacement:
    """A substitution at a place.

    Attributes:
        rule: the substitution, or what is done.
        mapping: what stands in the place of what.
        gone: terms that nothing uses any more.
        gain: seconds, estimated; negative if it is cheaper.
        are_strangers: whether it puts together what has other uses.
        order: where the places are used first: of moves that gain the same, those whose results meet are made alike.
    """

    rule: Equation | str
    mapping: dict[Term, Term]
    gone: frozenset[Term]
    gain: float
    are_strangers: bool
    order: tuple[int, ...]


def together(moves: list[Replacement], share: float = 0.5) -> Iterator[list[Replacement]]:
    """Moves that may be made at once: those that gain most, and those of each substitution.

    What gains little would take the places of what gains much in the next round: less than a share of the most.
    """
    most = min((move.gain for move in moves), default=0.0)
    yield _disjoint([move for move in moves if move.gain < share * most])
    by_rule: dict[Equation | str, list[Replacement]] = {}
    for move in moves:
        by_rule.setdefault(move.rule, []).append(move)
    yield from map(_disjoint, by_rule.values())


def _disjoint(moves: list[Replacement]) -> list[Replacement]:
    """The best of some moves that do not replace the same terms; none where that is a single one."""
    taken: set[Term] = set()
    chosen = []
    for move in sorted(moves, key=lambda one: (round(one.gain, 9), one.are_strangers, one.order)):
        if taken.isdisjoint(move.mapping) and taken.isdisjoint(move.gone):
            taken |= move.gone | set(move.mapping)
            chosen.append(move)
    return chosen if len(chosen) > 1 else []


@dataclass(frozen=True, eq=False)
class Draft:
    """A graph that is not made yet.

    Attributes:
        roots: of the graph that it is made of.
        mapping: what stands in the place of what.
        steps: the substitutions on the way to it.
        moves: that the mapping is of.
    """

    roots: Roots
    mapping: dict[Term, Term]
    steps: tuple[str, ...]
    moves: Sequence[Replacement] = ()

    def finished(self, given: Problem) -> Roots | None:
        """The graph. Of several moves those are left out with which a term would wait for itself."""
        moves = list(self.moves)
        mapping = self.mapping
        while mapping or not self.moves:
            try:
                return problem.replaced(given, self.roots, mapping)
            except problem.Cycle as cycle:
                involved = [move for move in moves if not cycle.places.isdisjoint(move.mapping)]
                moves.remove(max(involved, key=lambda move: (len(move.mapping) > 1, move.gain)))
                mapping = {place: made for move in moves for place, made in move.mapping.items()}
        return None


class CostedGraph:
    """A graph with what is known of its terms.

    Attributes:
        roots: its results.
        places: its operators.
        uses: which functions are applied to a term.
        steps: what is run, in order.
    """

    def __init__(self, given: Problem, costs: Costs, roots: Roots) -> None:
        self.roots, self.places, self.uses = roots, problem.Places(given, roots), _Uses(roots)
        self._given, self._costs = given, costs
        self.steps = list(pieces.steps(given, roots))
        self._uses: dict[Term, int] = {}
        self._uses.update(dict.fromkeys(self.steps, 0))
        self._parts: dict[tuple[Term, int], int] = {}
        self._numbers: dict[Term, int] = {term: 1 << number for number, term in enumerate(self.steps)}
        self._needs: dict[Term, int] = {}
        self._first_uses: dict[Term, int] = {}
        self._reached = gradients.reached(given, roots)
        for root in roots:
            if root in self._uses:
                self._uses[root] += 1
        for term in self.steps:
            self._needs[term] = self._numbers[term]
            for one in pieces.inputs(given, term):
                self._needs[term] |= self._needs.get(one, 0)
                if one in self._uses:
                    self._uses[one] += 1
            if pieces.is_part(term):
                self._count_part(self._parts, term, 1)

    def first_use(self, term: Term) -> int:
        """The number of the first operator that a term, or a part of it, is used by."""
        if not self._first_uses:
            for number, user in enumerate(self.steps):
                for one in () if pieces.is_part(user) else pieces.inputs(self._given, user):
                    self._first_uses.setdefault(one, number)
                    while isinstance(one, Apply) and pieces.is_part(one):
                        (one,) = one.arguments
                        self._first_uses.setdefault(one, number)
        return self._first_uses.get(term, len(self.steps))

    def _count_part(self, parts: dict[tuple[Term, int], int], term: Apply, by: int) -> None:
        one = pieces.cut(self._given, term)
        parts[one.whole, one.axis] = parts.get((one.whole, one.axis), 0) + by

    def would_wait(self, mapping: Mapping[Term, Term]) -> bool:
        """Whether what stands in the place of terms is computed from some of these."""
        places = sum(self._numbers.get(place, 0) for place in mapping)
        seen, stack = set[Term](), list(mapping.values())
        while stack:
            term = stack.pop()
            if self._needs.get(term, 0) & places:
                return True
            if isinstance(term, Apply) and term not in seen and term not in self._needs:
                seen.add(term)
                stack += term.arguments
        return False

    def wait_for_each_other(self, places: Iterable[Term]) -> bool:
        """Whether one of some terms is computed from another one."""
        return any(
            one is not other and self._needs.get(other, 0) & self._numbers.get(one, 0)
            for one, other in itertools.permutations(places, 2)
        )

    def are_differentiated_alike(self, places: Iterable[Term]) -> bool:
        """Whether all of some terms get a gradient, or none does."""
        return len({self._reached.get(place, 0) for place in places}) <= 1

    def gain(self, mapping: Mapping[Term, Term]) -> tuple[float, frozenset[Term]]:
        """The seconds that more are needed with some terms in place of others, and what nothing uses any more.

        It is estimated: what uses the replaced terms is taken to cost what it did.
        """
        given, costs, uses = self._given, self._costs, dict[Term, int]()
        parts: dict[tuple[Term, int], int] = {}
        seconds, new, stack = 0.0, set[Term](), list(mapping.values())
        while stack:
            term = stack.pop()
            if term in self._uses or term in new or not isinstance(term, Apply) or given.is_fixed(term):
                continue
            new.add(term)
            seconds += costs.of_one(given, term)
            if pieces.is_part(term):
                self._count_part(parts, term, 1)
            for one in pieces.inputs(given, term):
                uses[one] = uses.get(one, 0) + 1
                stack.append(one)
        for made in mapping.values():
            uses[made] = uses.get(made, 0) + 1
        gone, stack = set[Term](), [place for place in mapping if not uses.get(place)]
        while stack:
            term = stack.pop()
            if term in gone or term not in self._uses:
                continue
            assert isinstance(term, Apply)
            gone.add(term)
            seconds -= costs.of_one(given, term)
            if pieces.is_part(term):
                self._count_part(parts, term, -1)
            for one in pieces.inputs(given, term):
                uses[one] = uses.get(one, 0) - 1
                if self._uses.get(one, 0) + uses[one] <= 0:
                    stack.append(one)
        for whole, more in parts.items():
            known = self._parts.get(whole, 0)
            seconds -= costs.guess.cut * (max(known + more - 1, 0) - max(known - 1, 0))
        return seconds, frozenset(gone)


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

    def moves(self, given: Problem, state: CostedGraph) -> Iterator[Replacement]:
        """Each substitution at each place in a graph."""
        for term in terms.subterms(*state.roots):
            if not isinstance(term, Apply) or given.is_fixed(term):
                continue
            for head in {(term.operator, _constant(term)), (term.operator, None)}:
                for rule in self._by_head.get(head, ()):
                    for places, mapping in _applied(given, state, rule, term):
                        gain, gone = state.gain(mapping)
                        order = tuple(map(state.first_use, mapping))
                        yield Replacement(rule, mapping, gone, gain, len(set(map(state.uses, places))) > 1, order)


def _applied(
    given: Problem, state: CostedGraph, rule: Equation, term: Apply
) -> Iterator[tuple[tuple[Term, ...], dict[Term, Term]]]:
    """What a substitution puts in the place of terms, the first of which is given."""
    for places, (tensors, sizes) in state.places.matches(rule, term):
        if len(places) > 1 and (state.wait_for_each_other(places) or not state.are_differentiated_alike(places)):
            continue
        try:
            made = [problem.instantiate(given, one, tensors, sizes) for one in rule.target]
        except IllFormed:
            continue
        mapping: dict[Term, Term] = {place: one for place, one in zip(places, made, strict=True) if place is not one}
        if mapping:
            yield places, mapping


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
