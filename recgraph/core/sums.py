"""Contributions to the gradients of captured tensors: the operations that add them to the sums of a step."""

from __future__ import annotations

import tensorflow as tf

from recgraph import native


def add(gradient: tf.Tensor | tf.IndexedSlices) -> str:
    """Adds a contribution in the cheapest form that it can be kept in; the name of the operation that does."""
    if isinstance(gradient, tf.IndexedSlices):
        values = [tf.cast(gradient.indices, tf.int64), gradient.values]
        kind = "rows"
    elif (factors := _outer_product(gradient)) is not None:
        values = list(factors)
        kind = "outer"
    else:
        values = [gradient]
        kind = "dense"
    op = native.ops().recgraph_accumulate(values=values, slot=0, kind=kind)
    return str(op.name)


def _outer_product(gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor] | None:
    """`(a, b)` where the gradient is `transpose(a) @ b`: the weight gradient of a matrix product."""
    op = gradient.op
    if op.type != "MatMul":
        return None
    a, b = op.inputs
    if not op.get_attr("transpose_a"):
        a = _transposed(a)
    if op.get_attr("transpose_b"):
        b = _transposed(b)
    return None if a is None or b is None else (a, b)


def _transposed(matrix: tf.Tensor) -> tf.Tensor | None:
    """The transpose of a single column, which costs nothing; None for a wider matrix."""
    rows, columns = matrix.shape
    return tf.reshape(matrix, [1, rows if rows is not None else -1]) if columns == 1 else None
