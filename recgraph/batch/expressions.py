"""Chains of elementwise operations as code for one kernel (`cc/core/expression.h`).

A value of an expression is made of pieces: parts of the rows of arrays. Splits, concatenations, reshapes and broadcasts
only rearrange pieces; an elementwise operation is an instruction for each piece of its result.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

# In the order of the enumerations of `cc/core/row_kernels.h`.
UNARY = ("Copy", "Neg", "Abs", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Exp", "Tanh", "Sigmoid", "Relu")
BINARY = (
    *("Add", "Sub", "Mul", "Div", "Max", "Min", "SquaredDifference"),
    *("TanhGrad", "SigmoidGrad", "ReluGrad"),
)
_INPUT, _REGISTER, _OUTPUT = range(3)


@dataclasses.dataclass(eq=False)
class Array:
    """Rows of `width` floats: an input or what an operation computes; `shared` where all rows are one."""

    width: int
    is_input: bool = False
    shared: bool = False


@dataclasses.dataclass(frozen=True)
class Piece:
    """`width` floats of every row of an array, from `offset`; of a scalar, one float `width` times."""

    array: Array
    offset: int
    width: int
    scalar: bool = False

    def part(self, offset: int, width: int) -> Piece:
        """A part of the piece."""
        return Piece(self.array, self.offset if self.scalar else self.offset + offset, width, self.scalar)


Pieces: TypeAlias = tuple[Piece, ...]


def width_of(value: Pieces) -> int:
    """Floats of a row."""
    return sum(piece.width for piece in value)


def part(value: Pieces, offset: int, width: int) -> Pieces:
    """Floats `offset` to `offset + width` of every row."""
    found = []
    for piece in value:
        begin, end = max(offset, 0), min(offset + width, piece.width)
        if begin < end:
            found.append(piece.part(begin, end - begin))
        offset -= piece.width
    return tuple(found)


def repeated(value: Pieces, offset: int, times: int) -> Pieces:
    """The float at `offset` of every row, `times` times."""
    (piece,) = part(value, offset, 1)
    return (Piece(piece.array, piece.offset, times, scalar=times > 1 or piece.scalar),)


@dataclasses.dataclass
class _Instruction:
    """One piece of what an operation computes; those of one operation may run in any order."""

    operation: str
    out: Piece
    operands: tuple[Piece, ...]


class Expression:
    """An expression under construction."""

    def __init__(self) -> None:
        self._inputs: list[Array] = []
        self._outputs: list[Pieces] = []
        self._instructions: list[_Instruction] = []

    def input(self, width: int, shared: bool) -> Pieces:
        """The next input: `[rows, width]` or, shared, `[width]`."""
        self._inputs.append(Array(width, True, shared))
        return (Piece(self._inputs[-1], 0, width),)

    def output(self, value: Pieces) -> None:
        """Makes `value` the next output."""
        self._outputs.append(value)

    def apply(self, operation: str, *operands: Pieces) -> Pieces:
        """An elementwise operation on values of one width."""
        result = Array(width_of(operands[0]))
        cuts = sorted({0, *(cut for operand in operands for cut in _ends(operand))})
        for begin, end in zip(cuts, cuts[1:], strict=False):
            pieces = tuple(part(operand, begin, end - begin)[0] for operand in operands)
            self._instructions.append(_Instruction(operation, Piece(result, begin, end - begin), pieces))
        return (Piece(result, 0, result.width),)

    def encode(self) -> list[int]:
        """What `Expression::Decode` reads."""
        copies, places = self._placed_in_outputs()
        instructions = self._needed(copies)
        registers = _registers(instructions, places)
        places |= {array: (_INPUT, i, 0) for i, array in enumerate(self._inputs)}
        code = [len(self._inputs)]
        for array in self._inputs:
            code += [array.width, int(array.shared)]
        code += [len(registers), *registers, len(self._outputs), *map(width_of, self._outputs)]
        loops: list[_Loop] = []
        for _, group in itertools.groupby(instructions, lambda instruction: instruction.out.array):
            loops += _loops(_Loop.of(instruction, places) for instruction in group)
        return [*code, len(loops), *(number for loop in loops for number in loop.encode())]

    def _placed_in_outputs(self) -> tuple[list[_Instruction], dict[Array, tuple[int, int, int]]]:
        """Arrays that can be computed right where an output wants them, and copies for the rest of the outputs."""
        copies = []
        places: dict[Array, tuple[int, int, int]] = {}
        for number, value in enumerate(self._outputs):
            whole, offset = Array(width_of(value)), 0
            places[whole] = (_OUTPUT, number, 0)
            for piece in value:
                array = piece.array
                is_all = piece.offset == 0 and piece.width == array.width and not piece.scalar
                if array.is_input or array in places or not is_all:
                    copies.append(_Instruction("Copy", Piece(whole, offset, piece.width), (piece,)))
                else:
                    places[array] = (_OUTPUT, number, offset)
                offset += piece.width
        return copies, places

    def _needed(self, copies: list[_Instruction]) -> list[_Instruction]:
        """The instructions that some output depends on, in order."""
        wanted = {piece.array for value in self._outputs for piece in value}
        needed = []
        for instruction in reversed(self._instructions):
            if instruction.out.array in wanted:
                wanted.update(piece.array for piece in instruction.operands)
                needed.append(instruction)
        return [*reversed(needed), *copies]


@dataclasses.dataclass
class _Loop:
    """Instructions that differ only in where their places are, by the same steps from one to the next.

    Attributes:
        kind: arity, operation and width.
        spaces: of each place, its space, its index and whether it is a scalar.
        offsets: of each place, the first time.
        steps: by which the offsets grow, where there is a second time.
    """

    kind: tuple[int, int, int]
    spaces: tuple[tuple[int, int, int], ...]
    offsets: tuple[int, ...]
    steps: tuple[int, ...] = ()
    times: int = 1

    @staticmethod
    def of(instruction: _Instruction, places: dict[Array, tuple[int, int, int]]) -> _Loop:
        """One time."""
        names = UNARY if len(instruction.operands) == 1 else BINARY
        pieces = (instruction.out, *instruction.operands)
        return _Loop(
            (len(instruction.operands), names.index(instruction.operation), instruction.out.width),
            tuple((*places[piece.array][:2], int(piece.scalar)) for piece in pieces),
            tuple(places[piece.array][2] + piece.offset for piece in pieces),
        )

    def takes(self, other: _Loop) -> bool:
        """Whether `other` is the next time; then it is part of this loop."""
        steps = tuple(b - a for a, b in zip(self.offsets, other.offsets, strict=True))
        if self.times > 1:
            steps = tuple(step - (self.times - 1) * own for step, own in zip(steps, self.steps, strict=True))
        if min(steps) < 0 or (self.times > 1 and steps != self.steps):
            return False
        self.steps, self.times = steps, self.times + 1
        return True

    def encode(self) -> list[int]:
        """As `Expression::Decode` reads it."""
        code = [*self.kind, self.times]
        steps = self.steps or (0,) * len(self.offsets)
        for (space, index, scalar), offset, step in zip(self.spaces, self.offsets, steps, strict=True):
            code += [space, index, offset, scalar, step]
        return code


def _loops(instructions: Iterable[_Loop]) -> list[_Loop]:
    """The pieces of one operation as few loops: an outer product of rows is one for each pair of its parts."""
    found: dict[Any, list[_Loop]] = {}
    for one in instructions:
        alike = found.setdefault((one.kind, one.spaces), [])
        if not alike or not alike[-1].takes(one):
            alike.append(one)
    return [loop for alike in found.values() for loop in alike]


def _ends(value: Pieces) -> list[int]:
    ends, at = [], 0
    for piece in value:
        at += piece.width
        ends.append(at)
    return ends


def _registers(instructions: Sequence[_Instruction], places: dict[Array, tuple[int, int, int]]) -> list[int]:
    """Gives every array without a place a register, used again when its array is read no more; their widths."""
    last_use = {piece.array: i for i, what in enumerate(instructions) for piece in (what.out, *what.operands)}
    widths: list[int] = []
    free: dict[int, list[int]] = {}
    for i, instruction in enumerate(instructions):
        array = instruction.out.array
        if array not in places:
            if not free.get(array.width):
                free[array.width] = [len(widths)]
                widths.append(array.width)
            places[array] = (_REGISTER, free[array.width].pop(), 0)
        for ended in {piece.array for piece in (instruction.out, *instruction.operands)}:
            if last_use[ended] == i and not ended.is_input and places[ended][0] == _REGISTER:
                free.setdefault(ended.width, []).append(places[ended][1])
    return widths
