"""The shapes and values of terms with given sizes: by the shape functions and the references."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from recgraph.optimize import terms
from recgraph.optimize.arithmetic import Arithmetic, Reals
from recgraph.optimize.operators import AXES, CONSTANTS, MAPS, OPERATORS, ZIPS, Numbers
from recgraph.optimize.terms import Apply, Equation, Extent, Size, SizeCondition, SizeSum, TensorVariable, Term

Shape = tuple[int, ...]
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
}
_NUMBERS = Numbers()


class IllFormed(Exception):
    """A term has no value for these sizes."""


def size_of(size: Size, shapes: Mapping[Term, Shape], parameters: Mapping[str, int]) -> int:
    """The number that a size is, where the shapes of its tensors are known."""
    match size:
        case int():
            return size
        case str():
            return CONSTANTS[size] if size in CONSTANTS else parameters[size]
        case Extent(tensor=tensor, axis=axis):
            number = size_of(axis, shapes, parameters)
            if not 0 <= number < AXES:
                raise IllFormed
            return shapes[tensor][number]
        case SizeSum(sign=sign, left=left, right=right):
            return size_of(left, shapes, parameters) + sign * size_of(right, shapes, parameters)


def shape_of(term: Apply, shapes: Mapping[Term, Shape], parameters: Mapping[str, int]) -> Shape:
    """The shape of a term, where those of its parts are known.

    Raises:
        IllFormed: they do not fit.
    """
    numbers = [size_of(size, shapes, parameters) for size in term.parameters]
    conditions, dims = OPERATORS[term.operator].shape(_NUMBERS, numbers, [shapes[x] for x in term.arguments])
    if not all(conditions):
        raise IllFormed
    return tuple(dims)


def holds(condition: SizeCondition, shapes: Mapping[Term, Shape], parameters: Mapping[str, int]) -> bool:
    """Whether a condition is true."""
    left, right = (size_of(size, shapes, parameters) for size in (condition.left, condition.right))
    return _COMPARE[condition.comparison](left, right)


def values(
    order: Sequence[Term], tensors: Mapping[str, np.ndarray], parameters: Mapping[str, int], arithmetic: Arithmetic
) -> dict[Term, np.ndarray]:
    """The value of each of some terms, the parts before the whole; those that have none are left out."""
    found: dict[Term, np.ndarray] = {}
    shapes: dict[Term, Shape] = {}
    for term in order:
        try:
            if isinstance(term, TensorVariable):
                found[term] = tensors[term.name]
            else:
                shape_of(term, shapes, parameters)
                numbers = [size_of(size, shapes, parameters) for size in term.parameters]
                arguments = [found[argument] for argument in term.arguments]
                found[term] = OPERATORS[term.operator].reference(arithmetic, numbers, arguments)
            shapes[term] = found[term].shape[1:]
        except (IllFormed, KeyError):
            continue
    return found


VALUES: dict[str, tuple[int, ...]] = {
    "axis": tuple(range(AXES)),
    "size": (1, 2, 3),
    "window": (1, 2, 3),
    "stride": (1, 2, 3),
    "groups": (1, 2, 3),
    "padding": (CONSTANTS["SAME"], CONSTANTS["VALID"]),
    "activation": (CONSTANTS["NONE"], CONSTANTS["RELU"]),
    "map": tuple(CONSTANTS[name] for name in MAPS),
    "zip": tuple(CONSTANTS[name] for name in ZIPS),
}


def is_meant(equation: Equation, chosen: Mapping[str, int], shapes: Mapping[str, Shape]) -> bool:
    """Whether an equation says something for parameters and shapes: its source is well formed, its conditions hold."""
    known: dict[Term, Shape] = {}
    for term in terms.all_terms(equation):
        try:
            known[term] = shapes[term.name] if isinstance(term, TensorVariable) else shape_of(term, known, chosen)
        except (IllFormed, KeyError):
            continue
    try:
        return all(term in known for term in equation.source) and all(
            holds(condition, known, chosen) for condition in equation.conditions
        )
    except (IllFormed, KeyError):
        return False


def counterexample(
    equation: Equation,
    chosen: Mapping[str, int],
    shapes: Mapping[str, Shape],
    generator: np.random.Generator,
    arithmetic: Arithmetic | None = None,
    samples: int = 2,
) -> str:
    """Why the sides of an equation differ for a choice of parameters and shapes; empty where they do not.

    Nothing is demanded where the source is ill formed, or a condition does not hold.
    """
    if not is_meant(equation, chosen, shapes):
        return ""
    arithmetic = arithmetic or Reals()
    tensors = {name: arithmetic.random(generator, (samples, *shape)) for name, shape in shapes.items()}
    found = values(terms.all_terms(equation), tensors, chosen, arithmetic)
    known = {term: value.shape[1:] for term, value in found.items()}
    for source, target in zip(*equation.sides, strict=True):
        if target not in found:
            return f"{target} is ill formed"
        if found[source].shape[1:] != found[target].shape[1:]:
            return f"{source} has shape {known[source]}, {target} has {known[target]}"
        a, b = np.broadcast_arrays(found[source], found[target])
        if not np.allclose(a, b, rtol=1e-9, atol=1e-9):
            return f"{source} and {target} have other values"
    return ""
