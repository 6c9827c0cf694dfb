"""Families of operators: which operators, with which inputs, the generator puts together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recgraph.optimize.operators import CONSTANTS, OPERATORS, Numbers
from recgraph.optimize.terms import Apply, Size, Term

Shape = tuple[int, ...]
_NUMBERS = Numbers()
_COMMUTATIVE = {("zip", ("ADD",)), ("zip", ("MUL",)), ("zip", ("MAX",))}


@dataclass(frozen=True)
class Move:
    """An operator with its parameters; the size of a part is half of what there is.

    Attributes:
        operator: its name in the table.
        parameters: all but sizes of parts.
    """

    operator: str
    parameters: tuple[Size, ...] = ()

    @property
    def arity(self) -> int:
        """Number of tensors."""
        return OPERATORS[self.operator].arity

    @property
    def is_commutative(self) -> bool:
        """Whether the order of its two tensors does not matter."""
        return (self.operator, self.parameters) in _COMMUTATIVE

    @property
    def is_part(self) -> bool:
        """Whether it is one of the two results of a split."""
        return self.operator in ("first", "rest")

    def numbers(self, shapes: Sequence[Shape]) -> list[int] | None:
        """Its parameters as numbers, for tensors of these shapes; None where they do not fit."""
        numbers = [CONSTANTS[p] if isinstance(p, str) else p for p in self.parameters if isinstance(p, (int, str))]
        if self.is_part:
            whole = shapes[0][numbers[0]]
            if whole < 4 or whole & (whole - 1):  # a part of one row would have properties of its own
                return None
            numbers.append(whole // 2)
        conditions, _ = OPERATORS[self.operator].shape(_NUMBERS, numbers, shapes)
        return numbers if all(conditions) and not self._is_special(shapes) else None

    def _is_special(self, shapes: Sequence[Shape]) -> bool:
        """Whether an axis that matters has one row: what is true then is rarely true of others."""
        match self.operator:
            case "concat" | "sum" | "mean" | "softmax":
                return shapes[0][int(str(self.parameters[0]))] == 1
            case "matmul":
                return shapes[0][1] == 1
            case "transpose":
                return shapes[0][:2] == (1, 1)
        return False

    def shape(self, shapes: Sequence[Shape]) -> Shape:
        """The shape of its result."""
        numbers = self.numbers(shapes)
        assert numbers is not None
        return tuple(OPERATORS[self.operator].shape(_NUMBERS, numbers, shapes)[1])

    def term(self, arguments: tuple[Term, ...], part: Size) -> Apply:
        """The term, with the size of a part."""
        return Apply(self.operator, (*self.parameters, part) if self.is_part else self.parameters, arguments)


@dataclass(frozen=True)
class Family:
    """Operators, and the inputs that they are put together with.

    Attributes:
        inputs: the shape of each. Those of one shape stand for one another: of two graphs that differ in the names of
            inputs, only one is kept.
        moves: the operators.
        has_zeros: whether graphs count that are zero whatever their inputs are, such as x - x.
        operators: of how many graphs have, unless something else is asked for.
    """

    inputs: dict[str, Shape]
    moves: tuple[Move, ...]
    has_zeros: bool = False
    operators: int = 2

    def is_first(self, names: Iterable[str]) -> bool:
        """Whether, of the inputs of each shape, the first ones are used."""
        used = set(names)
        by_shape: dict[Shape, list[bool]] = {}
        for name, shape in self.inputs.items():
            by_shape.setdefault(shape, []).append(name in used)
        return all(flags == sorted(flags, reverse=True) for flags in by_shape.values())


def _zips(*names: str) -> list[Move]:
    return [Move("zip", (name,)) for name in names]


def _maps(*names: str) -> list[Move]:
    return [Move("map", (name,)) for name in names]


def _along(operator: str, *axes: int) -> list[Move]:
    return [Move(operator, (axis,)) for axis in axes]


def _parts(*axes: int) -> list[Move]:
    return [Move(operator, (axis,)) for axis in axes for operator in ("first", "rest")]


_MATRICES = dict.fromkeys("xyzw", (4, 4, 1, 1))
_NUMBER = {"k": (1, 1, 1, 1)}
_ROW = {"u": (1, 4, 1, 1)}
_MATMUL = [Move("matmul")]
_TRANSPOSE = [Move("transpose")]
_CONVS = [Move("conv", (1, stride, p, a)) for stride in (1, 2) for p in ("SAME", "VALID") for a in ("NONE", "RELU")]
_POOLS = [Move(pool, (3, stride, "SAME")) for pool in ("max_pool", "average_pool") for stride in (1, 2)]

FAMILIES = {
    "products": Family(
        {**_MATRICES, **_NUMBER},
        (*_zips("ADD", "SUB", "MUL"), *_MATMUL, *_TRANSPOSE, Move("scale"), *_along("concat", 0, 1), *_parts(0, 1)),
        operators=4,
    ),
    "elementwise": Family(
        {**_MATRICES, **_NUMBER},
        (
            *_zips("ADD", "SUB", "MUL", "MAX"),
            *_maps("RELU", "SIGMOID", "TANH", "NEG"),
            Move("scale"),
            *_along("concat", 0, 1),
            *_parts(0, 1),
        ),
        operators=3,
    ),
    "reductions": Family(
        {**dict(list(_MATRICES.items())[:3]), **_NUMBER, **_ROW, "v": (1, 4, 1, 1)},
        (
            *_zips("ADD", "MUL"),
            *_MATMUL,
            *_TRANSPOSE,
            Move("scale"),
            *_along("bias", 1),
            *_along("gain", 1),
            *_along("sum", 0, 1),
            *_along("mean", 0, 1),
            *_along("softmax", 0, 1),
            *_along("concat", 0, 1),
            *_parts(0, 1),
        ),
        operators=3,
    ),
    # Gates of a cell: parts of rows that two vectors are added to, or one function is applied to.
    "cells": Family(
        {**dict.fromkeys("xy", (4, 8, 1, 1)), **dict.fromkeys("uv", (1, 4, 1, 1))},
        (
            *_zips("ADD", "MUL"),
            *_maps("SIGMOID", "TANH"),
            *_along("bias", 1),
            *_along("gain", 1),
            *_along("concat", 1),
            *_parts(1),
        ),
        operators=3,
    ),
    "images": Family(
        {
            **dict.fromkeys("xy", (1, 4, 4, 4)),
            **dict.fromkeys("wv", (3, 3, 4, 4)),
            **dict.fromkeys("rq", (1, 1, 4, 4)),
            "u": (1, 1, 1, 4),
        },
        (
            *_zips("ADD", "MUL"),
            *_maps("RELU"),
            *_CONVS,
            *_POOLS,
            Move("enlarge", (3,)),
            *_along("bias", 3),
            *_along("gain", 3),
            *_along("concat", 2, 3),
            *_parts(3),
        ),
    ),
    # Convolutions of one image side by side, with what normalises their results.
    "convolutions": Family(
        {
            "x": (1, 4, 4, 4),
            **dict.fromkeys("wv", (3, 3, 4, 4)),
            **dict.fromkeys("uq", (1, 1, 1, 4)),
        },
        (
            Move("conv", (1, 1, "SAME", "NONE")),
            *_along("bias", 3),
            *_along("gain", 3),
            *_along("concat", 3),
            *_parts(3),
        ),
        operators=3,
    ),
    "constants": Family(
        dict.fromkeys("xy", (4, 4, 1, 1)),
        (
            *_zips("ADD", "SUB", "MUL", "MAX"),
            *_maps("RELU", "NEG", "SIGMOID", "TANH"),
            Move("zeros"),
            Move("ones"),
            *_MATMUL,
            *_TRANSPOSE,
            *_along("sum", 0, 1),
            *_along("softmax", 0, 1),
            *_along("concat", 0, 1),
            *_parts(0, 1),
        ),
        has_zeros=True,
    ),
    "everything": Family(
        {**_MATRICES, **_NUMBER, **_ROW},
        (
            *_zips("ADD", "SUB", "MUL", "MAX"),
            *_maps("RELU", "SIGMOID", "TANH", "NEG"),
            *_MATMUL,
            *_TRANSPOSE,
            Move("scale"),
            *_along("bias", 1),
            *_along("gain", 1),
            *_along("sum", 0, 1),
            *_along("mean", 0, 1),
            *_along("softmax", 0, 1),
            *_along("concat", 0, 1),
            *_parts(0, 1),
        ),
    ),
}
