"""Contributions to the gradients of captured tensors: the operations that add them to the sums of a step."""

from __future__ import annotations

import tensorflow as tf

from recgraph import native, tf_private

# A tensor of at most so many numbers is added as a whole: a pair of tensors takes as much memory.
SMALL = 64

_WIDE = {
    tf.float16: tf.float64,
    tf.bfloat16: tf.float64,
    tf.float32: tf.float64,
    tf.complex64: tf.complex128,
}


def add(gradient: tf.Tensor | tf.IndexedSlices) -> str:
    """Adds a contribution in the cheapest form that it can be kept in; the name of the operation that does.

    A row of a tensor (`x[n]`) is one however it is read; whether the sum of rows is a sparse gradient or a dense one is
    up to `contract.Sum`.
    """
    if isinstance(gradient, tf.IndexedSlices):
        values = [tf.cast(gradient.indices, tf.int64), gradient.values]
        kind = "rows"
    elif (row := _row(gradient)) is not None:
        values = list(row)
        kind = "rows"
    elif (factors := _outer_product(gradient)) is not None:
        values = list(factors)
        kind = "outer"
    else:
        values = [gradient]
        kind = "dense"
    op = native.ops().recgraph_accumulate(values=values, slot=0, kind=kind)
    return str(op.name)


def widened(values: tf.Tensor) -> tf.Tensor:
    """Returns numbers in a dtype in which a long sum of them can be rounded once: in bfloat16, 256 + 1 is 256."""
    return tf.cast(values, _WIDE.get(values.dtype, values.dtype))


def dense(rows: tf.IndexedSlices) -> tf.Tensor:
    """The tensor that rows stand for: those with one index are added up, and rounded once."""
    total = tf.math.unsorted_segment_sum(widened(rows.values), rows.indices, rows.dense_shape[0])
    return tf.cast(total, rows.dtype)


def _row(gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor] | None:
    """`([n], y[None])` where the gradient is that of `x[n]`: y in row n, and zeros in as many others as x has."""
    op = gradient.op
    if op.type != "StridedSliceGrad" or (gradient.shape.num_elements() or SMALL + 1) <= SMALL:
        return None
    shape, begin, _, strides, inner = op.inputs
    if not _is_of_row(op, begin.shape[0], strides):
        return None
    numbers = begin if begin.shape[0] == 1 else begin[:1]
    return tf.cast(tf.math.floormod(numbers, shape[:1]), tf.int64), inner[None]  # the last row may be called -1


def _is_of_row(op: tf.Operation, count: int | None, strides: tf.Tensor) -> bool:
    """Whether `count` indices are an integer and then, if there are more, `:` or `...`."""
    steps = tf_private.constant_value(strides)
    if count is None or steps is None or (steps != 1).any():
        return False
    begin, end, ellipsis, new, single = (
        op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    )
    rest = 2**count - 2  # a bit for each index but the first
    return bool(new == 0 and single == 1 and ellipsis & 1 == 0 and ((begin & end) | ellipsis) & rest == rest)


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
