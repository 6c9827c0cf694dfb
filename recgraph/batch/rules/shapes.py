"""Operations that give a value another shape, put values together and take them apart."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from recgraph.batch.vectorize import (
    IsJoin,
    NoRule,
    Site,
    VectorizedRows,
    expanded,
    known,
    merged,
    parted,
    reshape_rows,
    rule,
)


@rule("Reshape")
def _reshape(site: Site) -> tf.Tensor:
    value, shape = site.inputs
    if shape.has_rows:
        raise NoRule("Reshape to a computed shape")
    if shape.static is None:
        return reshape_rows(value.tensor, shape.tensor)
    wanted = [int(dim) for dim in shape.static]
    size = value.shape.num_elements()
    if -1 in wanted and size:
        rest = int(np.prod([dim for dim in wanted if dim != -1]))
        wanted = [size // rest if dim == -1 else dim for dim in wanted] if rest else wanted
    return reshape_rows(value.tensor, wanted)


@rule("ExpandDims")
def _expand_dims(site: Site) -> tf.Tensor:
    value, axis = site.inputs
    position = known(axis, "the axis").item()
    return tf.expand_dims(value.tensor, position if position < 0 else position + 1)


@rule("Squeeze")
def _squeeze(site: Site) -> tf.Tensor:
    (value,) = site.inputs
    axes = [axis % value.rank + 1 for axis in site.attribute("squeeze_dims").list.i]
    if not axes:
        if not value.shape.is_fully_defined():
            raise NoRule("Squeeze of an unknown shape")
        axes = [i + 1 for i, dim in enumerate(value.shape) if dim == 1]
    return tf.squeeze(value.tensor, axes) if axes else value.tensor


@rule("Transpose", "ConjugateTranspose")
def _transpose(site: Site) -> list[tf.Tensor]:
    value, order = site.inputs
    places = [0, *(int(axis) + 1 for axis in known(order, "the order"))]
    return site.same([value.tensor, tf.constant(places, order.tensor.dtype)])


@rule("Shape", "Size", "Rank")
def _shape(site: Site) -> VectorizedRows:
    (value,) = site.inputs
    dtype = tf.as_dtype(site.attribute("out_type").type or tf.int32.as_datatype_enum)
    if site.node.op == "Rank":
        return VectorizedRows(tf.constant(value.rank), False)
    if value.shape.is_fully_defined():
        shape = value.shape.as_list()
        return VectorizedRows(tf.constant(shape if site.node.op == "Shape" else int(np.prod(shape)), dtype), False)
    # The rows of one batch are alike in shape, whatever it is.
    shape = tf.shape(value.tensor, out_type=dtype)[1:]
    return VectorizedRows(shape if site.node.op == "Shape" else tf.reduce_prod(shape), False)


@rule("ShapeN")
def _shape_n(site: Site) -> list[VectorizedRows]:
    dtype = tf.as_dtype(site.attribute("out_type").type)
    made = []
    for value in site.inputs:
        if value.shape.is_fully_defined():
            made.append(VectorizedRows(tf.constant(value.shape.as_list(), dtype), False))
        else:
            shape = tf.shape(value.tensor, out_type=dtype)
            made.append(VectorizedRows(shape[1:] if value.has_rows else shape, False))
    return made


@rule("Fill", "BroadcastTo")
def _fill(site: Site) -> tf.Tensor:
    value, shape = site.inputs if site.node.op == "BroadcastTo" else site.inputs[::-1]
    if shape.has_rows:
        raise NoRule(f"{site.node.op} to a computed shape")
    rank = shape.tensor.shape[0]
    if rank is None:
        raise NoRule("rank unknown")
    target = tf.concat([site.count, tf.cast(shape.tensor, tf.int32)], 0)
    return tf.broadcast_to(expanded(value, rank), target)


@rule("Pack")
def _pack(site: Site) -> tf.Tensor:
    rank = site.inputs[0].rank
    axis = site.attribute("axis").i
    return tf.stack([site.with_rows(value) for value in site.inputs], axis % (rank + 1) + 1)


@rule("Unpack")
def _unpack(site: Site) -> list[tf.Tensor]:
    (value,) = site.inputs
    return tf.unstack(value.tensor, site.attribute("num").i, axis=site.attribute("axis").i % value.rank + 1)


@rule("ConcatV2")
def _concat(site: Site) -> tf.Tensor:
    *values, axis = site.inputs
    position = int(known(axis, "the axis")) % values[0].rank
    if position == 0 and any(value.shape[0] is None for value in values):
        raise IsJoin
    return tf.concat([site.with_rows(value) for value in values], position + 1)


@rule("Split")
def _split(site: Site) -> list[tf.Tensor]:
    axis, value = site.inputs
    return tf.split(value.tensor, site.attribute("num_split").i, int(known(axis, "the axis")) % value.rank + 1)


@rule("SplitV")
def _split_v(site: Site) -> list[tf.Tensor]:
    value, sizes, axis = site.inputs
    if sizes.has_rows:
        raise NoRule("SplitV into computed sizes")
    position = tf.constant(int(known(axis, "the axis")) % value.rank + 1, axis.tensor.dtype)
    return site.same([value.tensor, sizes.tensor, position])


@rule("Tile")
def _tile(site: Site) -> tf.Tensor:
    value, multiples = site.inputs
    if multiples.has_rows:
        raise NoRule("Tile by computed numbers")
    return tf.tile(value.tensor, tf.concat([tf.ones([1], multiples.tensor.dtype), multiples.tensor], 0))


@rule("Pad", "PadV2", "MirrorPad", "MirrorPadGrad")
def _pad(site: Site) -> list[tf.Tensor]:
    value, paddings, *constant = site.inputs
    if paddings.has_rows or any(part.has_rows for part in constant):
        raise NoRule("Pad by computed numbers")
    front = tf.zeros([1, 2], paddings.tensor.dtype)
    return site.same([value.tensor, tf.concat([front, paddings.tensor], 0), *(part.tensor for part in constant)])


@rule("Roll")
def _roll(site: Site) -> list[tf.Tensor]:
    value, shift, axes = site.inputs
    if shift.has_rows:
        raise NoRule("Roll by computed numbers")
    places = known(axes, "the axis") % value.rank + 1
    return site.same([value.tensor, shift.tensor, tf.constant(places, axes.tensor.dtype)])


@rule("ReverseSequence")
def _reverse_sequence(site: Site) -> tf.Tensor:
    if site.attribute("batch_dim").i != 0:
        raise NoRule("ReverseSequence of batches that do not come first")
    values, lengths = (site.with_rows(value) for value in site.inputs)
    (made,) = site.same([merged(values), merged(lengths)])
    return parted(made, values)
