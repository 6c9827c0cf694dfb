"""Searches a large graph part by part: what has no input and no term in common is searched apart, and what is alike
once, as the layers of a network are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from recgraph.optimize import terms
from recgraph.optimize.costs import Costs
from recgraph.optimize.problem import UNKNOWN, Leaf, Problem
from recgraph.optimize.search import Search, SearchResult
from recgraph.optimize.searched import Searched
from recgraph.optimize.terms import Apply, TensorVariable, Term


@dataclass(frozen=True)
class InParts:
    """A search of graphs that consist of many parts.

    Attributes:
        search: of one part.
        largest: parts with more operators are left as they are: the search would take too long.
    """

    search: Search
    largest: int = 1000
    _searched: Searched = field(default_factory=Searched, repr=False)

    def __call__(self, given: Problem, costs: Costs, seconds: float) -> SearchResult:
        """See `Search`. Each part gets what time is left."""
        start, roots, steps, looked_at = time.thread_time(), given.roots, tuple[str, ...](), 0
        is_complete = True
        for part in _parts(given):
            alone, names = _alone(given, part)
            if sum(isinstance(term, Apply) for term in terms.subterms(*alone.roots)) > self.largest:
                continue
            left = seconds - (time.thread_time() - start)
            found = self._searched.of(alone, costs, left, self.search)
            is_complete = is_complete and found is not None and found.is_complete
            if found is None:
                continue
            looked_at += found.looked_at
            made = list(roots)
            for number, root in zip(part, terms.renamed_all(found.roots, names), strict=True):
                made[number] = given.shared(root)
            # Parts wait for each other: what each may put together, both may not.
            if found.is_better and given.is_in_order(tuple(made)):
                roots, steps = tuple(made), (*steps, *found.steps)
        before, after = costs.of(given, given.roots), costs.of(given, roots)
        return SearchResult(roots, before, after, steps, looked_at, time.thread_time() - start, is_complete)


def _parts(given: Problem) -> Iterator[list[int]]:
    """The numbers of the results of each part."""
    leader: dict[Term, Term] = {}

    def lead(term: Term) -> Term:
        while leader.setdefault(term, term) is not term:
            leader[term] = leader[leader[term]]
            term = leader[term]
        return term

    for term in terms.subterms(*given.roots):
        if isinstance(term, Apply):
            for argument in term.arguments:
                leader[lead(argument)] = lead(term)
    found: dict[Term, list[int]] = {}
    for number, root in enumerate(given.roots):
        found.setdefault(lead(root), []).append(number)
    yield from found.values()


def _alone(given: Problem, part: list[int]) -> tuple[Problem, dict[Term, Term]]:
    """A part as a problem of its own, with inputs named in order, so that parts that are alike are equal; and what its
    inputs are called in the whole."""
    numbers = {number: i for i, number in enumerate(part)}
    roots = [given.roots[number] for number in part]
    own: dict[Term, Term] = {}
    leaves: dict[str, Leaf] = {}
    sizes: dict[int, int] = {}
    for term in terms.subterms(*roots):
        if isinstance(term, TensorVariable):
            name = f"t{len(own)}"
            own[term] = TensorVariable(name)
            leaf = given.leaves[term.name]
            # Far apart, so that sums of sizes that are not known differ, too.
            dims = tuple(sizes.setdefault(d, UNKNOWN * 1000 ** len(sizes)) if d >= UNKNOWN else d for d in leaf.dims)
            leaves[name] = Leaf(dims, leaf.is_fixed, frozenset(numbers[n] for n in leaf.needs if n in numbers))
    differentiated = [frozenset(numbers[n] for n in results if n in numbers) for results in given.differentiated]
    alone = Problem(terms.renamed_all(roots, own), leaves, tuple(dict.fromkeys(differentiated)))
    return alone, {new: old for old, new in own.items()}
