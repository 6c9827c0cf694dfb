"""Shapes of which the graph does not know every dimension: Python sees a number where the graph has none."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.machine.protocol import Kind
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script.stand_ins import MadeFunction, PartialShape, Residual
from recgraph.speculate.values import script_calls


class AsList(MadeFunction):
    """`shape.as_list`."""

    def __init__(self, shape: PartialShape) -> None:
        self.shape = shape

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> list[Any]:
        """A new list."""
        return list(self.shape.dims)


def of(ev: Evaluator, tensor: tf.Tensor) -> tf.TensorShape | PartialShape:
    """The shape of a tensor of the graph as Python sees it."""
    if tensor.shape.is_fully_defined():
        return tensor.shape
    if tensor.shape.rank is None:
        raise ev.refuse(Feature.SHAPE, "the program reads the shape of a tensor of unknown rank")
    return PartialShape([_dim(ev, tensor, i, size) for i, size in enumerate(tensor.shape)])


def _dim(ev: Evaluator, tensor: tf.Tensor, index: int, size: int | None) -> int | Residual:
    """A dimension; of a tensor that the script gives to the graph it is known before that runs."""
    if size is not None:
        return size
    name = ev.heap.placeholders.get(id(tensor))
    if name is None:
        return Residual("", tensor=tf.shape(tensor, tf.int64)[index], late=True, limit=1 << 40)
    return Residual(ev.script.read(f"{name}.shape[{index}]"), ev.heap.examples[id(tensor)].shape[index])


def length(ev: Evaluator, tensor: tf.Tensor) -> int | Residual:
    """`len` of a tensor."""
    if tensor.shape.rank == 0:
        raise ev.refuse(Feature.RAISES, "len() of a scalar tensor")
    shape = of(ev, tensor)
    return shape.dims[0] if isinstance(shape, PartialShape) else int(shape[0])


def as_value(ev: Evaluator, shape: PartialShape) -> Residual:
    """The shape itself, for Python's operators."""
    if not shape.is_early:
        raise ev.refuse(Feature.SHAPE, "a shape is known only after the graph has run")
    return script_calls.in_script(ev, tf.TensorShape, [list(shape.dims)], {})


class Shape(Kind):
    """A shape of which the graph does not know every dimension."""

    name = "a shape that differs from call to call"

    @classmethod
    def takes(cls, value: Any) -> bool:
        """Every `PartialShape`."""
        return isinstance(value, PartialShape)

    def type(self) -> type:
        """What it is in eager execution."""
        return tf.TensorShape

    def truth(self) -> Any:
        """Of one that is known: whatever its dimensions are."""
        return True

    def get(self, name: str) -> Any:
        """Its rank, or its dimensions as a list."""
        if name in ("rank", "ndims"):
            return len(self.it.dims)
        if name == "as_list":
            return AsList(self.it)
        raise self.ev.refuse(Feature.SHAPE, f"{name} of a shape that differs from call to call")

    def item(self, index: Any) -> Any:
        """A dimension, or a part of the shape."""
        found = self.ev.item(self.it.dims, index)
        return PartialShape(found) if isinstance(index, slice) else found

    def members(self) -> list[Any]:
        """Its dimensions."""
        return list(self.it.dims)

    def length(self) -> int:
        """Its rank."""
        return len(self.it.dims)

    def operand(self) -> Any:
        """The shape as Python has it, if it is known before the graph."""
        return as_value(self.ev, self.it)
