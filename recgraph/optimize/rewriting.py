"""Whether a substitution follows from others: whether they, one after another, make its target of its source."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from recgraph.optimize import terms
from recgraph.optimize.operators import CONSTANTS
from recgraph.optimize.terms import Apply, Equation, Size, TensorVariable, Term

Side = tuple[Term, ...]
FIXED = frozenset({*CONSTANTS, "half"})


class Rules:
    """Substitutions, to be used in the directions in which they are closed."""

    def __init__(self) -> None:
        self._by_head: dict[object, list[Equation]] = {}

    def add(self, equation: Equation) -> None:
        """Adds a substitution, and its inverse."""
        for one in (equation, Equation(equation.target, equation.source, equation.conditions)):
            if isinstance(one.source[0], Apply) and terms.is_closed(one):
                self._by_head.setdefault(_head(one.source[0]), []).append(one)

    def imply(self, source: Side, target: Side, limit: int = 80) -> bool:
        """Whether the target can be reached from the source, with terms that are not much larger."""
        largest = max(_size(source), _size(target)) + 2
        seen, queue = {source}, [source]
        for side in queue:
            for made in self._steps(side):
                if made == target:
                    return True
                if made not in seen and _size(made) <= largest:
                    seen.add(made)
                    queue.append(made)
            if len(seen) > limit:
                return False
        return False

    def _steps(self, side: Side) -> Iterator[Side]:
        """Everything that one substitution makes of some terms."""
        inner = [term for term in terms.subterms(*side) if isinstance(term, Apply)]
        for term in inner:
            heads = _head(term), (term.operator, None)
            for rule in (one for head in heads for one in self._by_head.get(head, ())):
                if len(rule.source) > len(side):
                    continue
                for places in itertools.product([term], *[inner] * (len(rule.source) - 1)):
                    made = _apply(rule, places)
                    if made is not None:
                        yield tuple(terms.renamed(one, made) for one in side)


def _head(term: Apply) -> tuple[str, object]:
    """What terms that a pattern matches have in common: the operator, and its first parameter if it is a constant."""
    first = term.parameters[0] if term.parameters else ""
    return term.operator, None if isinstance(first, str) and first and first not in FIXED else first


def _size(side: Side) -> int:
    return sum(isinstance(term, Apply) for term in terms.subterms(*side))


def _apply(rule: Equation, places: tuple[Term, ...]) -> dict[Term, Term] | None:
    """What a substitution puts in the place of some terms, if they match its source."""
    tensors: dict[Term, Term] = {}
    sizes: dict[Size, Size] = {}
    if not all(_match(pattern, term, tensors, sizes) for pattern, term in zip(rule.source, places, strict=True)):
        return None
    for condition in rule.conditions:
        if condition.comparison == "!=" and sizes.get(condition.left) == sizes.get(condition.right):
            return None
    return {place: terms.renamed(one, tensors, sizes) for place, one in zip(places, rule.target, strict=True)}


def _match(pattern: Term, term: Term, tensors: dict[Term, Term], sizes: dict[Size, Size]) -> bool:
    if isinstance(pattern, TensorVariable):
        return tensors.setdefault(pattern, term) == term
    if not isinstance(term, Apply) or pattern.operator != term.operator:
        return False
    for own, other in zip(pattern.parameters, term.parameters, strict=True):
        is_name = isinstance(own, str) and own not in FIXED
        if (sizes.setdefault(own, other) if is_name else own) != other:
            return False
    return all(_match(a, b, tensors, sizes) for a, b in zip(pattern.arguments, term.arguments, strict=True))


def common(source: Side, target: Side) -> list[Term]:
    """The largest terms that both sides have in common, without inputs."""
    shared = set(terms.subterms(*source)) & set(terms.subterms(*target))
    inner = {part for term in shared if isinstance(term, Apply) for part in term.arguments}
    inner |= _only_inside(shared)
    return [term for term in terms.subterms(*source) if term in shared - inner and isinstance(term, Apply)]


def _only_inside(shared: Iterable[Term]) -> set[Term]:
    applied = [term for term in shared if isinstance(term, Apply)]
    return {part for term in applied for part in terms.subterms(*term.arguments)}


def named(sides: tuple[Side, Side], names: Mapping[str, str]) -> tuple[Side, Side]:
    """Both sides with other names of inputs."""
    mapping: dict[Term, Term] = {TensorVariable(old): TensorVariable(new) for old, new in names.items()}
    source, target = (tuple(terms.renamed(term, mapping) for term in side) for side in sides)
    return source, target
