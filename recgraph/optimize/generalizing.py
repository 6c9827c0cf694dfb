"""From a candidate over squares to a substitution for all sizes: sizes of parts, conditions, and parameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from recgraph.optimize import evaluate, terms
from recgraph.optimize.evaluate import IllFormed, Shape
from recgraph.optimize.operators import AXES, OPERATORS
from recgraph.optimize.terms import Apply, Equation, Extent, Size, SizeCondition, SizeSum, TensorVariable, Term

Side = tuple[Term, ...]
Piece = tuple[int, Size]
HALF = "half"
# The sizes to try in place of one of a candidate: those of kernels are odd, where a kernel has to be enlarged.
CHOICES = {1: (1, 2), 2: (1, 2, 3), 3: (1, 3), 4: (2, 3, 5), 8: (3, 4, 7)}
_FOLLOWS_FIRST = {"map", "zip", "bias", "gain", "softmax", "zeros", "ones"}


class Sizes:
    """The sizes of the parts of a candidate: that of the tensor which lies there, or a parameter.

    Args:
        shapes: of the inputs of the candidate.
        key: what parts of inputs have one parameter: those of one input and axis, of one axis, or all.
    """

    def __init__(self, shapes: Mapping[str, Shape], key: int) -> None:
        self._shapes: dict[Term, Shape] = {TensorVariable(name): shape for name, shape in shapes.items()}
        self._key = key
        self._names: dict[object, str] = {}
        self._sized: dict[Term, Term] = {}

    def __call__(self, term: Term) -> Term:
        """The term with sizes."""
        if isinstance(term, TensorVariable):
            return term
        if term not in self._sized:
            arguments = tuple(map(self, term.arguments))
            parameters = term.parameters
            if HALF in parameters:
                axis = int(str(parameters[0]))
                cut = self._cut(term.arguments[0], axis)
                parameters = (axis, total([size for _, size in cut[0]]))
            self._sized[term] = Apply(term.operator, parameters, arguments)
        return self._sized[term]

    def shape(self, term: Term) -> Shape:
        """The shape of a term of the candidate."""
        if term not in self._shapes:
            assert isinstance(term, Apply)
            self._shapes[term] = evaluate.shape_of(halved(term, self.shape), _Shapes(self.shape), {})
        return self._shapes[term]

    def _cut(self, term: Term, axis: int) -> tuple[list[Piece], list[Piece]]:
        """The pieces of a tensor along an axis before and after the middle."""
        middle, before = self.shape(term)[axis] // 2, list[Piece]()
        pieces = self._pieces(term, axis)
        for i, (length, size) in enumerate(pieces):
            if middle == 0:
                return before, pieces[i:]
            if length > middle:
                name = self._name(size, axis, middle)
                after = SizeSum(-1, size, name)
                return [*before, (middle, name)], [(length - middle, after), *pieces[i + 1 :]]
            before.append((length, size))
            middle -= length
        raise AssertionError("a tensor is shorter than its pieces")

    def _name(self, size: Size, axis: int, middle: int) -> str:
        key = [(size, axis, middle), (axis, middle), middle][self._key]
        return self._names.setdefault(key, "nmlhij"[len(self._names)])

    def _pieces(self, term: Term, axis: int) -> list[Piece]:
        """What a tensor consists of along an axis: lengths in the candidate, and sizes."""
        whole: list[Piece] = [(self.shape(term)[axis], Extent(self(term), axis))]
        if isinstance(term, TensorVariable):
            return whole
        first = term.arguments[0] if term.arguments else None
        match term.operator, axis:
            case "concat", _ if term.parameters[0] == axis:
                return [piece for part in term.arguments for piece in self._pieces(part, axis)]
            case (("first" | "rest"), _) if term.parameters[0] == axis:
                return self._cut(term.arguments[0], axis)[term.operator == "rest"]
            case (("sum" | "mean"), _) if term.parameters[0] == axis:
                return whole
            case "matmul", (0 | 1):
                return self._pieces(term.arguments[axis], axis)
            case "transpose", (0 | 1):
                return self._pieces(term.arguments[0], 1 - axis)
            case "conv", (0 | 3):
                return self._pieces(term.arguments[axis == 3], axis)
            case (("max_pool" | "average_pool"), (0 | 3)):
                return self._pieces(term.arguments[0], axis)
            case "enlarge", (2 | 3):
                return self._pieces(term.arguments[0], axis)
            case (("concat" | "first" | "rest" | "sum" | "mean"), _):
                return self._pieces(term.arguments[0], axis)
            case "scale", _:
                return self._pieces(term.arguments[1], axis)
            case "zip", _:
                return max((self._pieces(part, axis) for part in term.arguments), key=len)
        return self._pieces(first, axis) if term.operator in _FOLLOWS_FIRST and first is not None else whole


class _Shapes(dict[Term, Shape]):
    """Shapes that are computed when they are asked for."""

    def __init__(self, shape: Callable[[Term], Shape]) -> None:
        self._shape = shape

    def __missing__(self, term: Term) -> Shape:
        return self._shape(term)


def halved(term: Apply, shape: Callable[[Term], Shape]) -> Apply:
    """A term of a candidate with a number in place of the middle."""
    if HALF not in term.parameters:
        return term
    axis = int(str(term.parameters[0]))
    return Apply(term.operator, (axis, shape(term.arguments[0])[axis] // 2), term.arguments)


def all_halved(term: Term, shape: Callable[[Term], Shape]) -> Term:
    """Returns the same for all that is in it."""
    if isinstance(term, TensorVariable):
        return term
    one = halved(term, shape)
    return Apply(one.operator, one.parameters, tuple(all_halved(argument, shape) for argument in term.arguments))


def total(sizes: Sequence[Size]) -> Size:
    """The sum of sizes."""
    result = sizes[0]
    for size in sizes[1:]:
        result = SizeSum(1, result, size)
    return result


def sized(source: Side, target: Side, shapes: Mapping[str, Shape]) -> Iterator[Equation]:
    """The substitutions that a candidate may stand for, the most general one first."""
    seen = set()
    for key in range(3):
        sizes = Sizes(shapes, key)
        equation = Equation(tuple(map(sizes, source)), tuple(map(sizes, target)))
        if equation not in seen and terms.is_closed(equation):
            seen.add(equation)
            yield equation


def choices_like(equation: Equation, shapes: Mapping[str, Shape]) -> dict[str, list[Shape]]:
    """Shapes for each input that are similar to those of the candidate: without axes that it does not have."""
    last = (1, 2) if is_of_any_rank(equation) else (1,)
    return {
        name: list(itertools.product(*(last if _is_missing(shape, i) else CHOICES[n] for i, n in enumerate(shape))))
        for name, shape in shapes.items()
    }


class Sampler:
    """Random shapes and parameters with which terms are well formed.

    Args:
        equation: what the terms are of.
        choices: the shapes that each input may have.
        seed: of the random numbers.
    """

    def __init__(self, equation: Equation, choices: Mapping[str, Sequence[Shape]], seed: int = 0) -> None:
        self.equation = equation
        self.generator = np.random.default_rng(seed)
        self._choices = choices
        self._kinds = terms.parameters(equation)

    def equalities(self) -> Iterator[SizeCondition]:
        """Conditions that sizes of inputs are equal: those along one axis first."""
        places = [
            (Extent(TensorVariable(name), axis), axis)
            for name, choices in self._choices.items()
            for axis in range(AXES)
            if len({shape[axis] for shape in choices}) > 1
        ]
        pairs = list(itertools.combinations(places, 2))
        for is_along in (True, False):
            yield from (SizeCondition(a, "==", b) for (a, i), (b, j) in pairs if (i == j) == is_along)

    def __call__(self, side: Side, count: int, tries: int = 60) -> list[tuple[dict[str, int], dict[str, Shape]]]:
        """Some samples with which the terms of `side` are well formed; fewer where they are hard to find."""
        order = list(terms.subterms(*side, *self.equation.source))
        wanted = set(terms.subterms(*side))
        found = []
        for _ in range(tries):
            chosen = {name: int(self.generator.choice(evaluate.VALUES[kind])) for name, kind in self._kinds.items()}
            shapes: dict[Term, Shape] = {}
            self._left = 500
            if self._extend(order, 0, wanted, shapes, chosen):
                found.append((chosen, {t.name: shapes[t] for t in order if isinstance(t, TensorVariable)}))
            if len(found) == count:
                break
        return found

    def _extend(
        self, order: list[Term], i: int, wanted: set[Term], shapes: dict[Term, Shape], chosen: Mapping[str, int]
    ) -> bool:
        self._left -= 1
        if i == len(order) or self._left <= 0:
            return i == len(order)
        term = order[i]
        if isinstance(term, TensorVariable):
            choices = self._choices[term.name]
            for place in self.generator.permutation(len(choices)):
                shapes[term] = choices[place]
                if self._extend(order, i + 1, wanted, shapes, chosen):
                    return True
            return False
        if term in wanted:
            try:
                shapes[term] = evaluate.shape_of(term, shapes, chosen)
            except (IllFormed, KeyError):
                return False
        return self._extend(order, i + 1, wanted, shapes, chosen)


def with_conditions(equation: Equation, shapes: Mapping[str, Shape], samples: int = 12) -> Equation | None:
    """The substitution with the conditions under which its target is well formed; None where its sides differ.

    Args:
        equation: a substitution without conditions.
        shapes: of its inputs in the candidate, which say what may be of another size.
        samples: on how many random shapes it is tested.
    """
    sampler = Sampler(equation, choices_like(equation, shapes))
    good = sampler((*equation.source, *equation.target), samples, tries=100)
    if not good or any(_differs(equation, chosen, found, sampler.generator) for chosen, found in good):
        return None
    bad = [one for one in sampler(equation.source, 3 * samples) if _differs(equation, *one, sampler.generator)]
    if not bad:
        return equation
    conditions = []
    for condition in sampler.equalities():
        if all(_holds(condition, found) for _, found in good) and not all(_holds(condition, found) for _, found in bad):
            conditions.append(condition)
            bad = [one for one in bad if _holds(condition, one[1])]
        if not bad:
            return Equation(equation.source, equation.target, tuple(conditions))
    return None


def _differs(
    equation: Equation, chosen: Mapping[str, int], shapes: Mapping[str, Shape], generator: np.random.Generator
) -> bool:
    return evaluate.counterexample(equation, chosen, shapes, generator) != ""


def _holds(condition: SizeCondition, shapes: Mapping[str, Shape]) -> bool:
    known: dict[Term, Shape] = {TensorVariable(name): shape for name, shape in shapes.items()}
    return evaluate.holds(condition, known, {})


_FREE = {"map", "zip", "scale", "concat", "first", "rest", "sum", "mean", "softmax", "bias", "gain", "zeros", "ones"}


def is_of_any_rank(equation: Equation) -> bool:
    """Whether its operators are for tensors of any number of axes."""
    return {term.operator for term in terms.all_terms(equation) if isinstance(term, Apply)} <= _FREE


def _is_missing(shape: Shape, axis: int) -> bool:
    return axis >= 2 and shape[2:] == (1, 1)


def abstractions(equation: Equation) -> Iterator[tuple[dict[Size, Size], tuple[SizeCondition, ...]]]:
    """What may be replaced by a parameter of any value: constants, with conditions. The most general one first."""
    inner = [term for term in terms.all_terms(equation) if isinstance(term, Apply)]
    mapping: dict[Size, Size] = {}
    if is_of_any_rank(equation):
        axes = {
            int(str(term.parameters[0])) for term in inner if term.operator not in ("map", "zip") and term.parameters
        }
        mapping |= {axis: "ab"[i] for i, axis in enumerate(sorted(axes))}
    conditions = (SizeCondition("a", "!=", "b"),) if len(mapping) == 2 else ()
    functions = [{str(t.parameters[0]) for t in inner if t.operator == kind} for kind in ("map", "zip")]
    plain: dict[Size, Size] = {
        next(iter(found)): name for found, name in zip(functions, "fg", strict=True) if len(found) == 1
    }
    for chosen in _subsets(plain):
        if mapping or chosen:
            yield {**mapping, **chosen}, conditions
    for chosen in _subsets(plain):
        if mapping and chosen:
            yield chosen, ()


def _subsets(mapping: dict[Size, Size]) -> Iterator[dict[Size, Size]]:
    for count in range(len(mapping), -1, -1):
        for names in itertools.combinations(mapping, count):
            yield {name: mapping[name] for name in names}


WINDOW_NAMES = {"stride": "s", "padding": "p", "activation": "c", "window": "h", "groups": "i"}


def window_abstractions(equation: Equation) -> Iterator[dict[str, str]]:
    """Which kinds of parameters of convolutions and the like may have any value: those that have one value alone."""
    found: dict[str, set[Size]] = {}
    for term in terms.all_terms(equation):
        if isinstance(term, Apply):
            for kind, size in zip(OPERATORS[term.operator].parameters, term.parameters, strict=True):
                found.setdefault(kind, set()).add(size)
    names = {kind: name for kind, name in WINDOW_NAMES.items() if len(found.get(kind, ())) == 1}
    for count in range(len(names), 0, -1):
        for kinds in itertools.combinations(names, count):
            yield {kind: names[kind] for kind in kinds}


def with_names(term: Term, names: Mapping[str, str]) -> Term:
    """A term with a name in place of each parameter of some kinds."""
    if isinstance(term, TensorVariable):
        return term
    kinds = OPERATORS[term.operator].parameters
    parameters = (names.get(kind, size) for kind, size in zip(kinds, term.parameters, strict=True))
    return Apply(term.operator, tuple(parameters), tuple(with_names(one, names) for one in term.arguments))
