"""What a search works on: the results of a graph as terms, whose inputs have shapes and may be the same in each run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from recgraph.optimize import evaluate, terms
from recgraph.optimize.evaluate import IllFormed, Shape
from recgraph.optimize.operators import CONSTANTS
from recgraph.optimize.terms import Apply, Equation, Extent, Size, SizeSum, TensorVariable, Term

# Sizes that are not known are numbers from here on, each another one: none of them is equal to another size.
UNKNOWN = 1_000_000_007
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_COMMUTE = ("ADD", "MUL", "MAX")
# The operators that make the two results of a split.
PARTS = ("first", "rest")


@dataclass(frozen=True)
class Leaf:
    """An input of a problem.

    Attributes:
        dims: its four sizes.
        is_fixed: whether it is the same in each run, so that what is made of such inputs alone costs nothing.
        needs: numbers of the results that have to be there before it is.
    """

    dims: Shape
    is_fixed: bool = False
    needs: frozenset[int] = frozenset()


class Problem:
    """Results to compute, and what they are computed from.

    Args:
        roots: the results.
        leaves: the inputs, by name.
        differentiated: the numbers of the results that get a gradient when the graph is differentiated; several sets
            where that is not known for each result. Empty where no gradient is asked for.

    Attributes:
        roots, leaves, differentiated: as given.
        costs: seconds for operators, as far as they were asked for.
        inputs: what operators are computed from when they are run, as far as that was asked for; see `pieces`.
        filled: what gets zeros for a gradient in the given graph, as far as that was asked for; see `gradients`.
    """

    def __init__(
        self, roots: tuple[Term, ...], leaves: Mapping[str, Leaf], differentiated: tuple[frozenset[int], ...] = ()
    ) -> None:
        self.differentiated = differentiated
        self.leaves: dict[str, Leaf] = {}
        self._dims: dict[Term, Shape] = {}
        self._fixed: dict[Term, bool] = {}
        self._known: dict[object, Term] = {}
        # By id, so that what two terms have in common is not looked at again and again: the term, which lives as long
        # as this does, and the one that is shared.
        self._shared: dict[int, tuple[Term, Term]] = {}
        self._needs: dict[Term, frozenset[int]] = {}
        self.costs: dict[Term, float] = {}
        self.inputs: dict[Term, tuple[Term, ...]] = {}
        self.filled: dict[frozenset[int], set[Term]] = {}
        for name, leaf in leaves.items():
            self.declare(name, leaf)
        self.roots = tuple(map(self.shared, roots))

    def declare(self, name: str, leaf: Leaf) -> None:
        """Adds an input."""
        self.leaves[name] = leaf
        self._dims[TensorVariable(name)], self._fixed[TensorVariable(name)] = leaf.dims, leaf.is_fixed

    def shared(self, term: Term) -> Term:
        """The term itself, equal terms being one object, so that they are compared quickly.

        Parts of parts along several axes have one form: the first axis is cut first. (So say the axioms
        `first-first-crosses`, `first-rest-crosses` and `rest-rest-crosses`.)
        """
        if id(term) not in self._shared:
            made = term
            if isinstance(term, Apply):
                made = self._in_order(Apply(term.operator, term.parameters, tuple(map(self.shared, term.arguments))))
            key = (made.operator, made.parameters, *map(id, made.arguments)) if isinstance(made, Apply) else made.name
            made = self._known.setdefault(key, made)
            self._shared[id(made)] = made, made
            self._shared[id(term)] = term, made
        return self._shared[id(term)][1]

    def _in_order(self, term: Apply) -> Apply:
        """A part of a part, that along the first axis inside."""
        if term.operator not in PARTS:
            return term
        (inner,) = term.arguments
        if not isinstance(inner, Apply) or inner.operator not in PARTS:
            return term
        if int(str(term.parameters[0])) >= int(str(inner.parameters[0])):
            return term
        turned = self.shared(Apply(term.operator, term.parameters, inner.arguments))
        return Apply(inner.operator, inner.parameters, (turned,))

    def dims(self, term: Term) -> Shape:
        """The four sizes of a term.

        Raises:
            IllFormed: its parts do not fit.
        """
        if term not in self._dims:
            assert isinstance(term, Apply)
            for argument in term.arguments:
                self.dims(argument)
            self._dims[term] = evaluate.shape_of(term, self._dims, {})
        return self._dims[term]

    def is_fixed(self, term: Term) -> bool:
        """Whether a term is the same in each run."""
        if term not in self._fixed:
            assert isinstance(term, Apply)
            self._fixed[term] = all(map(self.is_fixed, term.arguments))
        return self._fixed[term]

    def is_in_order(self, roots: tuple[Term, ...]) -> bool:
        """Whether the results can be computed one after another: none of them is needed for its own inputs."""
        needs = [self._needed(root) for root in roots]
        done: dict[int, bool] = {}
        for start in range(len(roots)):
            stack = [(start, False)]
            while stack:
                number, is_left = stack.pop()
                if is_left:
                    done[number] = True
                elif number in done:
                    if not done[number]:
                        return False
                else:
                    done[number] = False
                    stack.append((number, True))
                    stack += [(one, False) for one in needs[number] if not done.get(one, False)]
        return True

    def _needed(self, term: Term) -> frozenset[int]:
        if term not in self._needs:
            parts = [self._needed(one) for one in term.arguments] if isinstance(term, Apply) else []
            own = self.leaves[term.name].needs if isinstance(term, TensorVariable) else frozenset[int]()
            self._needs[term] = own.union(*parts)
        return self._needs[term]


# Substitutions where all sizes are numbers.

Binding = tuple[dict[Term, Term], dict[Size, Size]]


class Places:
    """The operators of a graph, by what they are and by what they are applied to."""

    def __init__(self, problem: Problem, roots: tuple[Term, ...]) -> None:
        self._problem = problem
        self._by_operator: dict[str, list[Apply]] = {}
        self._users: dict[Term, list[Apply]] = {}
        for term in terms.subterms(*roots):
            if isinstance(term, Apply):
                if not problem.is_fixed(term):
                    self._by_operator.setdefault(term.operator, []).append(term)
                for argument in set(term.arguments):
                    self._users.setdefault(argument, []).append(term)

    def matches(self, rule: Equation, first: Apply) -> Iterator[tuple[tuple[Term, ...], Binding]]:
        """How the source of a substitution lies in the graph, its first term at a given place: all of its places, and
        what its tensors and parameters stand for, conditions included."""
        yield from self._others(rule, (first,), _match(rule.source[0], first, {}, {}))

    def _others(
        self, rule: Equation, places: tuple[Term, ...], found: Iterable[Binding]
    ) -> Iterator[tuple[tuple[Term, ...], Binding]]:
        for tensors, sizes in found:
            if len(places) == len(rule.source):
                if _fits(self._problem, rule, places, tensors, sizes):
                    yield places, (tensors, sizes)
                continue
            pattern = rule.source[len(places)]
            assert isinstance(pattern, Apply)
            candidates = self._candidates(pattern, tensors)
            for place in self._by_operator.get(pattern.operator, []) if candidates is None else candidates:
                if place not in places and not self._problem.is_fixed(place):
                    yield from self._others(rule, (*places, place), _match(pattern, place, tensors, sizes))

    def _candidates(self, pattern: Apply, tensors: Mapping[Term, Term]) -> list[Apply] | None:
        """Where a pattern may be of which some tensors are known; None where none of them is in it."""
        for inner in pattern.arguments:
            if isinstance(inner, TensorVariable):
                below: list[Term] | list[Apply] | None = [tensors[inner]] if inner in tensors else None
            else:
                below = self._candidates(inner, tensors)
            if below is not None:
                users = (user for one in below for user in self._users.get(one, ()))
                return list(dict.fromkeys(user for user in users if user.operator == pattern.operator))
        return None


def _match(pattern: Term, term: Term, tensors: dict[Term, Term], sizes: dict[Size, Size]) -> Iterator[Binding]:
    if isinstance(pattern, TensorVariable):
        known = tensors.get(pattern)
        if known is None:
            yield {**tensors, pattern: term}, sizes
        elif known is term:
            yield tensors, sizes
        return
    if not isinstance(term, Apply) or pattern.operator != term.operator:
        return
    for own, other in zip(pattern.parameters, term.parameters, strict=True):
        if isinstance(own, str) and own not in CONSTANTS:
            if sizes.get(own, other) != other:
                return
            sizes = {**sizes, own: other}
        elif isinstance(own, int | str) and own != other:
            return
    orders = [term.arguments]
    if pattern.operator == "zip" and pattern.parameters[0] in _COMMUTE and term.arguments[0] is not term.arguments[1]:
        orders.append(term.arguments[::-1])
    for order in orders:
        yield from _match_all(pattern.arguments, order, tensors, sizes)


def _match_all(
    patterns: tuple[Term, ...], found: tuple[Term, ...], tensors: dict[Term, Term], sizes: dict[Size, Size]
) -> Iterator[Binding]:
    if not patterns:
        yield tensors, sizes
        return
    for one in _match(patterns[0], found[0], tensors, sizes):
        yield from _match_all(patterns[1:], found[1:], *one)


def _fits(
    problem: Problem, rule: Equation, places: tuple[Term, ...], tensors: dict[Term, Term], sizes: dict[Size, Size]
) -> bool:
    """Whether conditions hold, and sizes that the source has computed are those that are there."""
    try:
        for condition in rule.conditions:
            left, right = (number(problem, size, tensors, sizes) for size in (condition.left, condition.right))
            if not COMPARE[condition.comparison](left, right):
                return False
        return all(instantiate(problem, one, tensors, sizes) == place for one, place in _computed(rule, places))
    except IllFormed:
        return False


def _computed(rule: Equation, places: tuple[Term, ...]) -> Iterator[tuple[Term, Term]]:
    """The terms of a source in which a size is computed, each with what it has to be equal to."""
    for pattern, place in zip(rule.source, places, strict=True):
        inner = terms.subterms(pattern)
        if any(isinstance(s, Extent | SizeSum) for t in inner if isinstance(t, Apply) for s in t.parameters):
            yield pattern, place


def number(problem: Problem, size: Size, tensors: Mapping[Term, Term], sizes: Mapping[Size, Size]) -> int:
    """The number that a size of a substitution is."""
    match size:
        case int():
            return size
        case str():
            bound = sizes.get(size, size)
            if isinstance(bound, int):
                return bound
            return CONSTANTS[str(bound)]
        case Extent(tensor=tensor, axis=axis):
            place = number(problem, axis, tensors, sizes)
            if not 0 <= place < 4:
                raise IllFormed
            return problem.dims(instantiate(problem, tensor, tensors, sizes))[place]
        case SizeSum(sign=sign, left=left, right=right):
            return number(problem, left, tensors, sizes) + sign * number(problem, right, tensors, sizes)


def instantiate(problem: Problem, term: Term, tensors: Mapping[Term, Term], sizes: Mapping[Size, Size]) -> Term:
    """A term of a substitution with what its tensors and parameters stand for.

    Raises:
        IllFormed: its parts do not fit, or a size in it is not known.
    """
    if isinstance(term, TensorVariable):
        return tensors[term]
    parameters = tuple(_parameter(problem, size, tensors, sizes) for size in term.parameters)
    arguments = tuple(instantiate(problem, one, tensors, sizes) for one in term.arguments)
    made = problem.shared(Apply(term.operator, parameters, arguments))
    problem.dims(made)
    return made


def _parameter(problem: Problem, size: Size, tensors: Mapping[Term, Term], sizes: Mapping[Size, Size]) -> Size:
    if isinstance(size, str):
        return sizes.get(size, size)
    found = number(problem, size, tensors, sizes)
    if found >= UNKNOWN:
        raise IllFormed
    return found


class Cycle(Exception):
    """What is put together waits for itself.

    Attributes:
        places: terms of which at least one cannot be replaced.
    """

    def __init__(self, places: frozenset[Term]) -> None:
        super().__init__()
        self.places = places


def replaced(problem: Problem, roots: tuple[Term, ...], made: Mapping[Term, Term]) -> tuple[Term, ...]:
    """The results with other terms in place of some, wherever these are, in the other terms as well.

    Raises:
        Cycle: such a term would contain itself.
    """
    done: dict[Term, Term] = {}
    open_places: dict[Term, None] = {}

    def rebuild(term: Term) -> Term:
        if term not in done:
            if term in open_places:
                raise Cycle(frozenset(open_places))
            if term in made:
                open_places[term] = None
                done[term] = rebuild(made[term])
                del open_places[term]
            elif isinstance(term, TensorVariable):
                done[term] = term
            else:
                arguments = tuple(map(rebuild, term.arguments))
                is_same = all(a is b for a, b in zip(arguments, term.arguments, strict=True))
                done[term] = term if is_same else problem.shared(Apply(term.operator, term.parameters, arguments))
        return done[term]

    return tuple(map(rebuild, roots))
