"""Lookups in tables, and their gradients: values put where an index says."""

from __future__ import annotations

import tensorflow as tf

from recgraph.batch.vectorize import NoRule, Site, VectorizedRows, known, merged, rule
from recgraph.core import sums

AttrValue = tf.compat.v1.AttrValue
# Of places among all rows: there may be more than int32 can count.
_WIDE = AttrValue(type=tf.int64.as_datatype_enum)


@rule("ResourceGather", "ResourceGatherNd")
def _resource_gather(site: Site) -> list[tf.Tensor]:
    if site.node.op == "ResourceGather" and site.attribute("batch_dims").i:
        raise NoRule("ResourceGather with batch_dims")
    _require_no_policy(site)
    return site.same(site.tensors())


@rule("GatherV2", "Gather")
def _gather(site: Site) -> tf.Tensor:
    table, indices = site.inputs[:2]
    axis = known(site.inputs[2], "the axis").item() if len(site.inputs) == 3 else 0
    axis %= max(table.rank, 1)
    inner = site.attribute("batch_dims").i
    inner += indices.rank if inner < 0 else 0
    if table.has_rows:
        if not indices.has_rows and not inner:
            return tf.gather(table.tensor, indices.tensor, axis=axis + 1)
        return tf.gather(table.tensor, site.with_rows(indices), axis=axis + 1, batch_dims=inner + 1)
    if inner:
        raise NoRule("Gather of a shared table with batch_dims")
    made = tf.gather(table.tensor, indices.tensor, axis=axis)
    rank = table.rank + indices.rank
    return made if axis == 0 else tf.transpose(made, [axis, *(i for i in range(rank) if i != axis)])


@rule("GatherNd")
def _gather_nd(site: Site) -> tf.Tensor:
    table, indices = site.inputs
    _require_no_policy(site)
    if not table.has_rows:
        return tf.gather_nd(table.tensor, indices.tensor)
    return tf.gather_nd(table.tensor, _numbered(site.with_rows(indices)))


@rule("ScatterNd")
def _scatter_nd(site: Site) -> VectorizedRows:
    indices, updates, shape = site.inputs
    _require_no_policy(site)
    if shape.has_rows:
        raise NoRule("ScatterNd into a computed shape")
    places, values = site.with_rows(indices), site.with_rows(updates)
    whole = tf.concat([tf.cast(site.count, tf.int64), tf.cast(shape.tensor, tf.int64)], 0)
    total = tf.scatter_nd(merged(places), sums.widened(merged(values)), shape.tensor) if indices.rank > 1 else None
    return VectorizedRows(tf.scatter_nd(_numbered(places), values, whole), True, total)


@rule("TensorScatterAdd", "TensorScatterMax", "TensorScatterMin", "TensorScatterSub", "TensorScatterUpdate")
def _tensor_scatter(site: Site) -> list[tf.Tensor]:
    _require_no_policy(site)
    tensor, indices, updates = (site.with_rows(value) for value in site.inputs)
    return site.same([tensor, _numbered(indices), updates], Tindices=_WIDE)


def _require_no_policy(site: Site) -> None:
    """Indices out of range, which are ignored if the operation says so, may lie in the range of another row."""
    if site.attribute("bad_indices_policy").s not in (b"", b"DEFAULT", b"ERROR"):
        raise NoRule(f"{site.node.op} that ignores some indices")


def _numbered(indices: tf.Tensor) -> tf.Tensor:
    """Indices `[rows, ..., depth]` into a table as indices, int64, into the tables of all rows."""
    shape = tf.shape(indices, tf.int64)
    numbers = tf.reshape(tf.range(shape[0]), tf.concat([shape[:1], tf.ones_like(shape[1:])], 0))
    column = tf.broadcast_to(numbers, tf.concat([shape[:-1], [1]], 0))
    numbered = tf.concat([column, tf.cast(indices, tf.int64)], -1)
    if indices.shape.rank is not None:
        depth = indices.shape[-1]
        numbered.set_shape([*indices.shape[:-1], None if depth is None else depth + 1])
    return numbered


@rule("UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd", "UnsortedSegmentSum")
def _unsorted_segments(site: Site) -> VectorizedRows:
    data, segments, number = site.inputs
    if number.has_rows:
        raise NoRule(f"{site.node.op} into a computed number of segments")
    count, rank = site.count, segments.rank
    values, ids = site.with_rows(data), tf.cast(site.with_rows(segments), tf.int64)
    many, rows = tf.cast(number.tensor, tf.int64), tf.cast(count[0], tf.int64)
    numbers = tf.reshape(tf.range(rows), tf.concat([count, [1] * rank], 0))
    # Values with a negative number are dropped, one that is too large is an error: neither may reach another row.
    apart = tf.where(ids < 0, ids, tf.where(ids < many, ids + many * numbers, many * rows))
    inner = tf.shape(values)[rank + 1 :]
    flat = tf.reshape(values, tf.concat([[-1], inner], 0))
    (made,) = site.same([flat, tf.reshape(apart, [-1]), many * rows], Tindices=_WIDE, Tnumsegments=_WIDE)
    made = tf.reshape(made, tf.concat([tf.cast(tf.stack([rows, many]), tf.int32), inner], 0))
    made.set_shape(tf.TensorShape([None, number.static]).concatenate(values.shape[rank + 1 :]))
    if site.node.op != "UnsortedSegmentSum":
        return VectorizedRows(made, True)
    return VectorizedRows(made, True, tf.math.unsorted_segment_sum(flat, tf.reshape(ids, [-1]), many))


@rule("OneHot")
def _one_hot(site: Site) -> list[tf.Tensor]:
    _, *others = site.inputs
    if any(value.has_rows for value in others):
        raise NoRule("OneHot with computed values")
    axis = site.attribute("axis").i
    return site.same(site.tensors(), axis=AttrValue(i=axis if axis < 0 else axis + 1))


@rule("LookupTableFindV2")
def _lookup(site: Site) -> list[tf.Tensor]:
    if site.inputs[0].has_rows or site.inputs[2].has_rows:
        raise NoRule("a lookup in a computed table")
    return site.same(site.tensors())
