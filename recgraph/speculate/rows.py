"""Writes to rows of a table that cannot fail: the same rows were read from it before."""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import invoke

# Writes of rows: (table, indices, values).
WRITES: Final = frozenset(f"ResourceScatter{kind}" for kind in ("Add", "Sub", "Mul", "Min", "Max", "Update"))
_READS: Final = frozenset({"ResourceGather"})
# Give some of the numbers that they are given, in some shape.
_RESHAPING: Final = frozenset({"ExpandDims", "Identity", "Reshape", "Squeeze", "Unique"})
# Of one tensor with rows, as many rows.
_ROW_BY_ROW: Final = frozenset({"Identity", "Mul", "Neg", "RealDiv"})


def cannot_fail(op: tf.Operation) -> bool:
    """Whether a write to rows of a table finds all rows there, and values that fit.

    The read that has come before fails where a row is not there, and what writes waits for what may fail.
    """
    table, indices, values = op.inputs[:3]
    data = tf_private.handle_data(table)
    if data is None or indices.shape.rank != 1:
        return False
    shape = tf.TensorShape(data.shape)
    if not shape.is_fully_defined() or not values.shape[1:].is_fully_defined() or values.shape[1:] != shape[1:]:
        return False
    return _were_read(table, indices) and (_is_as_long(values, indices) or _are_one_gradient(values, indices))


def _were_read(table: tf.Tensor, indices: tf.Tensor) -> bool:
    source = _numbers(indices)
    if source.op.type == "ConcatV2":
        return all(_were_read(table, part) for part in source.op.inputs[:-1])
    if source.op.type == "Recgraph>InvokeGradient":
        return invoke.table_of(source) is table
    reads = (user for user in table.consumers() if user.type in _READS)
    return any(_numbers(read.inputs[1]) is source and read.get_attr("batch_dims") == 0 for read in reads)


def _numbers(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type in _RESHAPING and tensor.value_index == 0:
        tensor = tensor.op.inputs[0]
    return tensor


def _is_as_long(values: tf.Tensor, indices: tf.Tensor) -> bool:
    return values.shape[0] is not None and values.shape[0] == indices.shape[0]


def _are_one_gradient(values: tf.Tensor, indices: tf.Tensor) -> bool:
    """Whether values are, scaled perhaps, the rows that come with these indices."""
    while values.op.type in _ROW_BY_ROW:
        rows = [tensor for tensor in values.op.inputs if tensor.shape.rank != 0]
        if len(rows) != 1:
            return False
        values = rows[0]
    is_pair = values.op is indices.op and values.value_index == indices.value_index + 1
    return is_pair and indices.op.type == "Recgraph>InvokeGradient"
