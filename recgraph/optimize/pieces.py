"""Terms as they are run: joints of joints are one joint, all parts of a tensor are cut at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recgraph.optimize.problem import PARTS, Problem
from recgraph.optimize.terms import Apply, Term


@dataclass(frozen=True)
class Cut:
    """A part of a tensor.

    Attributes:
        whole: the tensor that is cut.
        axis: along which.
        begin: the first row of the part.
        end: the row after the last one.
    """

    whole: Term
    axis: int
    begin: int
    end: int


def is_part(term: Term) -> bool:
    """Whether a term is one of the two results of a split."""
    return isinstance(term, Apply) and term.operator in PARTS


def cut(problem: Problem, term: Apply) -> Cut:
    """What part of what a part is: parts of parts along one axis are parts of the whole."""
    axis, size = (int(str(one)) for one in term.parameters)
    (inner,) = term.arguments
    begin, end = (0, size) if term.operator == "first" else (size, problem.dims(inner)[axis])
    if isinstance(inner, Apply) and is_part(inner) and inner.parameters[0] == axis:
        outer = cut(problem, inner)
        return Cut(outer.whole, axis, outer.begin + begin, outer.begin + end)
    return Cut(inner, axis, begin, end)


def joined(term: Apply) -> list[Term]:
    """What is joined to make a joint, in order."""
    found: list[Term] = []
    for one in term.arguments:
        is_joint = isinstance(one, Apply) and one.operator == "concat" and one.parameters == term.parameters
        found += joined(one) if isinstance(one, Apply) and is_joint else [one]
    return found


def inputs(problem: Problem, term: Apply) -> tuple[Term, ...]:
    """What a term is computed from when it is run."""
    if term not in problem.inputs:
        found = term.arguments
        if is_part(term):
            found = (cut(problem, term).whole,)
        elif term.operator == "concat":
            found = tuple(joined(term))
        problem.inputs[term] = found
    return problem.inputs[term]


def steps(problem: Problem, roots: tuple[Term, ...]) -> Iterator[Apply]:
    """What is run to compute results, the parts before the whole, each once, without what is the same in each run."""
    seen: set[Term] = set()
    stack: list[tuple[Term, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        term, is_ready = stack.pop()
        if not isinstance(term, Apply) or problem.is_fixed(term):
            continue
        if is_ready:
            yield term
        elif term not in seen:
            seen.add(term)
            stack.append((term, True))
            stack += [(one, False) for one in reversed(inputs(problem, term))]
