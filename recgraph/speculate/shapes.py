"""Shapes of which the graph does not know every dimension: Python sees a number where the graph has none."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from recgraph.speculate import residuals
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.values import Residual, StandIn


@dataclasses.dataclass(eq=False, repr=False)
class PartialShape(StandIn):
    """A shape with a residual for each dimension that differs from call to call."""

    dims: list[int | Residual]

    @property
    def is_early(self) -> bool:
        """Whether all of it is known before the graph."""
        return not any(isinstance(dim, Residual) and dim.late for dim in self.dims)


class AsList(StandIn):
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
        raise ev.refuse("shape", "the shape of a tensor whose rank is not known")
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
        raise ev.refuse("raises", "len of a scalar")
    shape = of(ev, tensor)
    return shape.dims[0] if isinstance(shape, PartialShape) else int(shape[0])


def attribute(ev: Evaluator, shape: PartialShape, name: str) -> Any:
    """An attribute of a shape."""
    if name in ("rank", "ndims"):
        return len(shape.dims)
    if name == "as_list":
        return AsList(shape)
    raise ev.refuse("shape", f"{name} of a shape that differs from call to call")


def as_value(ev: Evaluator, shape: PartialShape) -> Residual:
    """The shape itself, for Python's operators."""
    if not shape.is_early:
        raise ev.refuse("shape", "a shape that is known only after the graph")
    return residuals.in_script(ev, tf.TensorShape, [list(shape.dims)], {})
