"""Captured matrices put together to one: what a call makes of its weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from recgraph import native, tf_private
from recgraph.optimize.problem import Problem
from recgraph.optimize.terms import Apply, Term

# The attribute with the shapes of the parts: TensorFlow knows none of variables where it makes the body of a loop anew.
_SHAPES = "_recgraph_part_shapes"


@dataclass(frozen=True)
class MergedPart:
    """A part of a matrix.

    Attributes:
        term: the part.
        begin: the row and the column where it begins.
    """

    term: Term
    begin: tuple[int, int]


def blocks(problem: Problem, term: Term, begin: tuple[int, int] = (0, 0)) -> list[MergedPart]:
    """What joints of joints along rows and columns consist of; those of images and kernels along channels alone, as
    columns."""
    axes = (0, 1) if problem.dims(term)[2:] == (1, 1) else (3,)
    if not isinstance(term, Apply) or term.operator != "concat" or term.parameters[0] not in axes:
        return [MergedPart(term, begin)]
    first, second = term.arguments
    axis = int(str(term.parameters[0]))
    size = problem.dims(first)[axis]
    after = (begin[0] + size, begin[1]) if axis == 0 else (begin[0], begin[1] + size)
    return [*blocks(problem, first, begin), *blocks(problem, second, after)]


def joined(
    parts: Sequence[tf.Tensor], begins: Sequence[tuple[int, int]], dims: Sequence[int], is_row: bool
) -> tf.Tensor:
    """Returns the same for parts of a tensor of four sizes, as TensorFlow has it: of one, two or four axes."""
    if is_row:
        return merged(parts, begins, [max(dims)])
    if tuple(dims[2:]) == (1, 1):
        return merged(parts, begins, dims[:2])
    flat = [tf.reshape(part, [-1, part.shape[-1]]) for part in parts]
    return tf.reshape(merged(flat, begins, [math.prod(dims[:3]), dims[3]]), dims)


def merged(parts: Sequence[tf.Tensor], begins: Sequence[tuple[int, int]], shape: Sequence[int]) -> tf.Tensor:
    """A matrix or a vector of parts.

    In a graph it is kept from one run to the next while the parts do not change.
    """
    keep = not tf_private.executing_eagerly()
    flat = [number for begin in begins for number in begin]
    made = native.ops().recgraph_merge(parts=parts, shape=shape, begins=flat, keep=keep)
    if keep:
        shapes = tf.compat.v1.AttrValue.ListValue(shape=[part.shape.as_proto() for part in parts])
        tf_private.set_attribute(made.op, _SHAPES, tf.compat.v1.AttrValue(list=shapes))
    return made


def _gradient_of_merge(op: Any, gradient: tf.Tensor) -> list[tf.Tensor]:
    is_noted = isinstance(op, tf.Operation) and _SHAPES in op.node_def.attr  # a tape has no operation
    shapes = op.get_attr(_SHAPES) if is_noted else [part.shape for part in op.inputs]
    return list(native.ops().recgraph_parts(whole=gradient, begins=op.get_attr("begins"), N=len(shapes), shapes=shapes))


def _gradient_of_parts(op: Any, *gradients: tf.Tensor) -> tf.Tensor:
    parts = [
        tf.zeros(shape, op.inputs[0].dtype) if gradient is None else gradient
        for shape, gradient in zip(op.get_attr("shapes"), gradients, strict=True)
    ]
    return native.ops().recgraph_merge(parts=parts, shape=op.inputs[0].shape, begins=op.get_attr("begins"), keep=False)


tf.RegisterGradient("Recgraph>Merge")(_gradient_of_merge)
tf.RegisterGradient("Recgraph>Parts")(_gradient_of_parts)
