"""The parameters and shapes that an equation is tried with: those that its operators tell apart.

The shape functions of the operators are run with sizes that are not known yet (`Linear`). What they ask to be equal is
solved; the sizes that are left are free. What they compare, and by what they divide, says how large these have to
become: each comparison is to come out both ways, and each remainder is to occur, beyond the comparison as well.
Cases are made at random, until no two of these facts are seen together that were not before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recgraph.optimize import evaluate, terms
from recgraph.optimize.evaluate import VALUES, IllFormed, Shape
from recgraph.optimize.operators import AXES, CONSTANTS, OPERATORS
from recgraph.optimize.terms import Equation, Extent, Size, SizeSum, TensorVariable, Term

# Parameters: their numbers; tensors: their shapes.
Case = tuple[dict[str, int], dict[str, Shape]]
# A size is unknown by its name: the axis of a tensor, a parameter, or the number of a quotient.
Unknown = tuple[Any, ...]
# Parameters that are sizes: all others get a value before anything is solved.
_SIZES = ("size", "window")
# What a size has to reach at least, so that one is smaller, equal and larger than another one.
_LEAST = 3
# Larger sizes are not tried, nor tensors with more numbers.
_MOST, _MOST_NUMBERS = 12, 6000
# After so many cases in a row that show nothing new, all that can be shown together is taken to be known.
_PATIENCE = 200


class Linear:
    """A size that is a sum of unknown ones.

    Attributes:
        factors: of each unknown size.
        constant: the number that is added.
    """

    def __init__(self, factors: Mapping[Unknown, int], constant: int = 0) -> None:
        self.factors, self.constant = {key: n for key, n in factors.items() if n}, constant

    def __add__(self, other: Any) -> Linear:
        other = linear(other)
        factors = dict(self.factors)
        for key, factor in other.factors.items():
            factors[key] = factors.get(key, 0) + factor
        return Linear(factors, self.constant + other.constant)

    def __mul__(self, factor: int) -> Linear:
        return Linear({key: n * factor for key, n in self.factors.items()}, self.constant * factor)

    def __sub__(self, other: Any) -> Linear:
        return self + linear(other) * -1

    def __rsub__(self, other: Any) -> Linear:
        return linear(other) - self

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: Any) -> Any:
        return Comparison("==", self - other).decided()

    def __lt__(self, other: Any) -> Any:
        return Comparison("<", self - other).decided()

    def __le__(self, other: Any) -> Any:
        return Comparison("<=", self - other).decided()

    def __gt__(self, other: Any) -> Any:
        return Comparison("<", other - self).decided()

    def __ge__(self, other: Any) -> Any:
        return Comparison("<=", other - self).decided()

    def __hash__(self) -> int:
        return hash(self.key())

    def key(self) -> Any:
        """Equal for equal sums."""
        return frozenset(self.factors.items()), self.constant


def linear(size: Any) -> Linear:
    """A size as a sum."""
    return size if isinstance(size, Linear) else Linear({}, int(size))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Checks that a sum is zero, negative, or not positive."""

    sign: str
    difference: Linear

    def decided(self) -> Any:
        """Whether it is so, where that is known; else itself."""
        if self.difference.factors:
            return self
        n = self.difference.constant
        return {"==": n == 0, "!=": n != 0, "<": n < 0, "<=": n <= 0}[self.sign]


@dataclass
class LinearLogic:
    """The logic of sums: it notes what is asked. See `operators.Logic`.

    Attributes:
        generator: decides what depends on sizes that are not known.
        compared: the differences of sizes that are compared.
        divided: sums and by what they are divided.
        demanded: what decisions have taken for true.
        quotients: rounded up: what is divided, and by what.
    """

    generator: np.random.Generator
    compared: list[Comparison] = field(default_factory=list)
    divided: list[tuple[Linear, int]] = field(default_factory=list)
    demanded: list[Comparison] = field(default_factory=list)
    quotients: dict[Unknown, tuple[Linear, int]] = field(default_factory=dict)

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        """See `Logic`. What is not known is taken to be one or the other."""
        if not isinstance(condition, Comparison):
            return yes if condition else no
        self.compared.append(condition)
        if self.generator.random() < 0.5:
            self.demanded.append(condition)
            return yes
        return no

    def ceil(self, size: Any, stride: Any) -> Any:
        """See `Logic`. A quotient is unknown, and the same for the same sizes."""
        size = linear(size)
        if not size.factors or stride <= 1:
            return size if size.factors else -(-size.constant // max(stride, 1))
        self.divided.append((size, stride))
        name = ("quotient", size.key(), stride)
        self.quotients[name] = size, stride
        return Linear({name: 1})

    def divides(self, factor: Any, size: Any) -> Any:
        """See `Logic`. It is seen later whether it is so."""
        if factor > 1:
            self.divided.append((linear(size), factor))
        return True

    def odd(self, size: Any) -> Any:
        """See `Logic`. It is seen later whether it is so."""
        self.divided.append((linear(size), 2))
        return True


class FreeSizes:
    """The free sizes of an equation for some of its parameters, and what is asked of them.

    Args:
        equation: the equation.
        chosen: the parameters that are no sizes.
        generator: of random numbers.

    Raises:
        IllFormed: no sizes fit.
    """

    def __init__(self, equation: Equation, chosen: Mapping[str, int], generator: np.random.Generator) -> None:
        self._chosen, self._generator = chosen, generator
        self._asked = LinearLogic(generator)
        self._dims: dict[Term, list[Any]] = {}
        self._solved: dict[Unknown, Linear] = {}
        self._names = [n for n, kind in terms.parameters(equation).items() if kind in _SIZES]
        needed = set(terms.subterms(*equation.source))
        for term in terms.all_terms(equation):
            self._enter(term, term in needed)
        for condition in equation.conditions:
            found = Comparison(condition.comparison, self._size(condition.left) - linear(self._size(condition.right)))
            self._demand(found.decided())
        self._tensors = [term.name for term in self._dims if isinstance(term, TensorVariable)]
        unknown = [(name, axis) for name in self._tensors for axis in range(AXES)] + [(name,) for name in self._names]
        self._free = [key for key in unknown if key not in self._solved]
        self._largest = self._bounds()
        self._facts = list(self._told_apart())

    def _told_apart(self) -> Iterator[tuple[Any, Linear, int]]:
        """Comparisons and remainders that are not the same in all cases."""
        found = [
            *((("sign", i), one.difference, 0) for i, one in enumerate(self._asked.compared)),
            *((("rest", i), size, by) for i, (size, by) in enumerate(self._asked.divided)),
            *self._pairs(),
        ]
        for name, size, by in found:
            known = linear(self._known(size))
            if known.factors:
                yield name, known, by

    def _pairs(self) -> Iterator[tuple[Any, Linear, int]]:
        """Sizes of different tensors along one axis are compared in any case: a formula may lack it by mistake."""
        for axis in range(AXES):
            for one, other in itertools.combinations(self._tensors, 2):
                yield ("sizes", one, other, axis), Linear({(one, axis): 1}) - Linear({(other, axis): 1}), 0

    def _enter(self, term: Term, is_needed: bool) -> None:
        if isinstance(term, TensorVariable):
            self._dims[term] = [Linear({(term.name, axis): 1}) for axis in range(AXES)]
            return
        try:
            kinds = OPERATORS[term.operator].parameters
            numbers = [self._parameter(size, kind) for size, kind in zip(term.parameters, kinds, strict=True)]
            arguments = [[self._known(size) for size in self._dims[one]] for one in term.arguments]
            before = len(self._asked.demanded)
            conditions, dims = OPERATORS[term.operator].shape(self._asked, numbers, arguments)
        except (IllFormed, KeyError):
            if is_needed:
                raise IllFormed from None
            return
        for condition in [*self._asked.demanded[before:], *conditions]:
            if is_needed:
                self._demand(condition)
            elif isinstance(condition, Comparison):
                self._asked.compared.append(condition)
        self._dims[term] = dims

    def _parameter(self, size: Size, kind: str) -> Any:
        """A parameter. One that is no size is a number: a size of a tensor is demanded to be one."""
        found = self._size(size)
        if not isinstance(found, Linear) or kind in _SIZES:
            return found
        number = int(self._generator.choice(VALUES[kind]))
        self._demand(found == number)
        return number

    def _size(self, size: Size) -> Any:
        match size:
            case int():
                return size
            case str():
                if size in CONSTANTS:
                    return CONSTANTS[size]
                return self._chosen[size] if size in self._chosen else self._known(Linear({(size,): 1}))
            case Extent(tensor=tensor, axis=axis):
                number = self._size(axis)
                if not isinstance(number, int) or not 0 <= number < AXES or tensor not in self._dims:
                    raise IllFormed
                return self._known(self._dims[tensor][number])
            case SizeSum(sign=sign, left=left, right=right):
                found = self._size(left) + sign * self._size(right)
                return found.constant if isinstance(found, Linear) and not found.factors else found

    def _known(self, size: Any) -> Any:
        """A size with what is known of it; a number where that is all."""
        if not isinstance(size, Linear):
            return size
        while (key := next((key for key in size.factors if key in self._solved), None)) is not None:
            size = size - Linear({key: size.factors[key]}) + self._solved[key] * size.factors[key]
        return size if size.factors else size.constant

    def _demand(self, condition: Any) -> None:
        """Takes something for true: an equation is solved for one of its sizes.

        Raises:
            IllFormed: it cannot be.
        """
        if isinstance(condition, Comparison):
            condition = Comparison(condition.sign, linear(self._known(condition.difference))).decided()
        if condition is False or condition is np.False_:
            raise IllFormed
        if not isinstance(condition, Comparison):
            return
        if condition.sign != "==":
            self._asked.compared.append(condition)
            return
        factors = condition.difference.factors
        simple = [key for key, n in factors.items() if abs(n) == 1 and key[0] != "quotient"]
        if simple:
            key = simple[self._generator.integers(len(simple))]
            self._solved[key] = (condition.difference - Linear({key: factors[key]})) * -factors[key]

    def _bounds(self) -> dict[Unknown, int]:
        """How large each free size may become."""
        moduli = dict.fromkeys(self._free, 1)
        for size, by in self._asked.divided:
            for key in self._inner(size):
                moduli[key] = math.lcm(moduli.get(key, 1), by)
        largest = {key: _LEAST - 1 + by for key, by in moduli.items()}
        differences = [linear(self._known(one.difference)) for one in self._asked.compared]
        for difference in [*differences, *(one * -1 for one in differences)]:
            others = sum(largest.get(key, 1) for key, n in difference.factors.items() if n < 0)
            for key, n in difference.factors.items():
                if n > 0 and key in moduli:
                    largest[key] = max(largest[key], others - difference.constant + moduli[key])
        return {key: min(size, _MOST) for key, size in largest.items()}

    def _inner(self, size: Linear) -> Iterator[Unknown]:
        """The free sizes that a sum is made of."""
        for key in linear(self._known(size)).factors:
            if key[0] == "quotient":
                yield from self._inner(self._asked.quotients[key][0])
            else:
                yield key

    def draw(self) -> tuple[Case, list[Any]] | None:
        """A case, and the facts that it shows; None where the sizes that were drawn do not fit."""
        values = {key: int(self._generator.integers(1, self._largest[key] + 1)) for key in self._free}
        try:
            shapes = {name: tuple(self._number((name, i), values, 0) for i in range(AXES)) for name in self._tensors}
            sizes = {name: self._number((name,), values, 0) for name in self._names}
        except RecursionError:
            return None
        if any(min(shape) < 1 or math.prod(shape) > _MOST_NUMBERS for shape in shapes.values()):
            return None
        shown: list[Any] = list(self._chosen.items())
        shown += [(key, min(values[key], _LEAST)) for key in self._free]
        for name, size, by in self._facts:
            number = self._sum(size, values, 0)
            shown.append((name, number % by if by else (number > 0) - (number < 0)))
        return ({**self._chosen, **sizes}, shapes), shown

    def _number(self, key: Unknown, values: dict[Unknown, int], depth: int) -> int:
        if key not in values:
            if depth > 20:  # a size that is computed from itself
                raise RecursionError
            if key in self._solved:
                values[key] = self._sum(self._solved[key], values, depth + 1)
            else:
                size, by = self._asked.quotients[key]
                values[key] = -(-self._sum(size, values, depth + 1) // by)
        return values[key]

    def _sum(self, size: Linear, values: dict[Unknown, int], depth: int) -> int:
        return size.constant + sum(n * self._number(key, values, depth) for key, n in size.factors.items())


def cases(equation: Equation, generator: np.random.Generator, limit: int | None = None) -> Iterator[Case]:
    """Cases in which an equation says something.

    Args:
        equation: the equation.
        generator: of random numbers.
        limit: how many; None for as many as it takes until more show no two facts together that were not seen so.
    """
    kinds = {name: kind for name, kind in terms.parameters(equation).items() if kind not in _SIZES}
    numbers: dict[Any, int] = {}
    seen, count, idle = set[tuple[int, int]](), 0, 0
    while idle < _PATIENCE and (limit is None or count < limit):
        idle += 1
        chosen = {name: int(generator.choice(VALUES[kind])) for name, kind in kinds.items()}
        for case, shown in _drawn(equation, chosen, generator):
            facts = sorted({numbers.setdefault(one, len(numbers)) for one in shown})
            before = len(seen)
            seen.update(zip(facts, facts, strict=True), itertools.combinations(facts, 2))
            idle = 0 if len(seen) > before else idle + 1
            count += 1
            yield case
            if count == limit:
                return


def _drawn(
    equation: Equation, chosen: Mapping[str, int], generator: np.random.Generator, tries: int = 8
) -> Iterator[tuple[Case, list[Any]]]:
    """Some cases for some parameters."""
    try:
        sizes = FreeSizes(equation, chosen, generator)
    except IllFormed:
        return
    for _ in range(tries):
        found = sizes.draw()
        if found is not None and evaluate.is_meant(equation, *found[0]):
            yield found
