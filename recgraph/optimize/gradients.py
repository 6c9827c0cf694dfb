"""Whether a rewritten graph has infinities and NaN in its gradients only where the given one has.

A gradient that a part of a tensor lacks is not zero: nothing is computed with it. Where the part is cut out of a larger
tensor, zeros take its place, and they are multiplied with whatever the part was made of: an infinity there makes NaN of
them. So what is put together has to be differentiated together. Each operator of a rewritten graph that a gradient
arrives at has to get one for all of its result, unless the given graph has the same operator with the same zeros.
Operators that only move numbers hand zeros on, and multiply them with nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recgraph.optimize import terms
from recgraph.optimize.problem import PARTS, Problem
from recgraph.optimize.terms import Apply, Size, Term

Roots = tuple[Term, ...]
_MOVES = frozenset({*PARTS, "concat", "transpose", "reshape"})


def are_kept(given: Problem, roots: Roots) -> bool:
    """Whether no operator of a graph gets zeros for a gradient where the given graph computes with none."""
    if roots is given.roots:
        return True
    for results in given.differentiated:
        if results not in given.filled:
            given.filled[results] = _filled_up(given.roots, results)
        if not _filled_up(roots, results) <= given.filled[results]:
            return False
    return True


def reached(given: Problem, roots: Roots) -> dict[Term, int]:
    """For each term of a graph a number with a bit for each set of results of which it gets a gradient."""
    found: dict[Term, int] = {}
    for bit, results in enumerate(given.differentiated):
        for number in results:
            found[roots[number]] = found.get(roots[number], 0) | 1 << bit
    for term in reversed(list(terms.subterms(*roots))) if found else ():
        for one in term.arguments if term in found and isinstance(term, Apply) else ():
            found[one] = found.get(one, 0) | found[term]
    return found


@dataclass
class _Arrived:
    """The gradient that arrives at a term.

    Attributes:
        is_whole: whether it is one of the whole tensor.
        ends: how far from its first row it reaches along an axis, by parts.
        begins: from which row on it reaches to the last one.
    """

    is_whole: bool = False
    ends: dict[Size, int] = field(default_factory=dict)
    begins: dict[Size, int] = field(default_factory=dict)

    def covers(self) -> bool:
        """Whether the parts that have one leave no gap."""
        return self.is_whole or any(
            axis in self.ends and begin <= self.ends[axis] for axis, begin in self.begins.items()
        )

    def add_part(self, part: Apply) -> None:
        """Notes that a part gets one of all of it."""
        axis, size = part.parameters[0], int(str(part.parameters[1]))
        if part.operator == "first":
            self.ends[axis] = max(size, self.ends.get(axis, 0))
        else:
            self.begins[axis] = min(size, self.begins.get(axis, size))


def _filled_up(roots: Roots, results: frozenset[int]) -> set[Term]:
    """The operators that get zeros for a part of their gradient, where some results get one."""
    arrived: dict[Term, _Arrived] = {roots[number]: _Arrived(is_whole=True) for number in results}
    found = set[Term]()
    for term in reversed(list(terms.subterms(*roots))):
        if term not in arrived or not isinstance(term, Apply):
            continue
        is_whole = arrived[term].covers()
        if not is_whole and term.operator not in _MOVES:
            found.add(term)
        for one in term.arguments:
            own = arrived.setdefault(one, _Arrived())
            if is_whole and term.operator in PARTS:
                own.add_part(term)
            own.is_whole |= is_whole and term.operator not in PARTS
    return found
