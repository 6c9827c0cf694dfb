"""What an expression can be while a call is converted, besides known objects and tensors of the graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Final

import tensorflow as tf


@dataclasses.dataclass(eq=False)
class Residual:
    """A Python value that differs from call to call and stays in Python.

    Attributes:
        name: of the value in the script; "" where it comes out of the graph.
        example: its value in the call that is converted.
        tensor: where it comes out of the graph, int64, float64 or bool.
        late: whether it is known only after the graph.
        limit: what an integer that comes out of the graph does not exceed in absolute value, if that is known.
        is_array: whether it is NumPy's: what `.numpy()` gives of the tensor, which has its dtype and shape.
    """

    name: str
    example: Any = None
    tensor: Any = None
    late: bool = False
    limit: int | None = None
    is_array: bool = False


# What integers that flow between branches and rounds do not exceed.
HELD: Final = 1 << 62


@dataclasses.dataclass(frozen=True)
class Missing:
    """What a name or attribute is after it was deleted, or before it was set."""


MISSING = Missing()


def is_symbolic(value: Any) -> bool:
    """Whether a value is a tensor of the graph, or made of such."""
    return isinstance(value, tf.Tensor | tf.IndexedSlices | tf.RaggedTensor | tf.SparseTensor)


class Iteration:
    """An iterator that the program has made: a generator expression, a `zip`, a `map`.

    Args:
        members: what is left of it.
        forks: how many branches and loops of tensors were around us when it was made.
    """

    def __init__(self, members: Iterator[Any], forks: int) -> None:
        self.members, self.forks = members, forks


@dataclasses.dataclass(frozen=True, eq=False)
class Unsure:
    """The value of a name that has one only where a condition of the graph holds."""

    value: Any
    condition: tf.Tensor


class _Dummy:
    """A value that nobody will look at: what a branch that does not return has returned."""


DUMMY = _Dummy()


@dataclasses.dataclass(frozen=True)
class Rows:
    """What a loop in the graph goes through.

    Attributes:
        count: int64, how many.
        row: the one of a number.
        is_known: whether the script knows them, too, so that the loop may be unrolled.
        begins: whether there is at least one, so that the first round may come before the loop.
    """

    count: tf.Tensor
    row: Callable[[tf.Tensor], Any]
    is_known: bool = False
    begins: bool = False


@dataclasses.dataclass(eq=False)
class Ref:
    """An object that is a row of a table, or None.

    Attributes:
        table: of all objects of its class.
        row: int32 scalar, -1 for None.
    """

    table: Any
    row: tf.Tensor
