"""Operations along axes of a value: sums, maxima, softmax, sorting, losses."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from recgraph.batch.vectorize import NoRule, Site, VectorizedRows, known, merged, parted, reshape_rows, rule


def _axes(value: VectorizedRows, rank: int) -> np.ndarray:
    """Axes of one row's value as axes of the rows."""
    return np.asarray(known(value, "the axis")) % max(rank, 1) + 1


@rule("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum")
def _reduction(site: Site) -> list[tf.Tensor]:
    value, axes = site.inputs
    if axes.has_rows:
        raise NoRule(f"{site.node.op} over a computed axis")
    if value.rank == 0:
        return [value.tensor]
    if axes.static is not None:
        positions = np.ravel(_axes(axes, value.rank)).astype(np.int32)
        if site.node.op in ("Sum", "Mean", "Max", "Min", "Prod") and all(value.shape[p - 1] == 1 for p in positions):
            return [_without(site, value, positions)]
        return site.same([value.tensor, tf.constant(positions, axes.tensor.dtype)])
    return site.same([value.tensor, tf.where(axes.tensor < 0, axes.tensor, axes.tensor + 1)])


def _without(site: Site, value: VectorizedRows, positions: np.ndarray) -> tf.Tensor:
    """The sum over axes of length one, or over none: nothing to add."""
    if site.attribute("keep_dims").b or not positions.size:
        return value.tensor
    shape = [-1 if dim is None else dim for i, dim in enumerate(value.shape) if i + 1 not in positions]
    return reshape_rows(value.tensor, shape) if shape.count(-1) <= 1 else tf.squeeze(value.tensor, positions.tolist())


@rule("ArgMax", "ArgMin", "Cumprod", "Cumsum", "CumulativeLogsumexp", "ReverseV2")
def _along(site: Site) -> list[tf.Tensor]:
    value, axis = site.inputs
    return site.same([value.tensor, tf.constant(_axes(axis, value.rank), axis.tensor.dtype)])


@rule("ReduceJoin")
def _reduce_join(site: Site) -> list[tf.Tensor]:
    value, axes = site.inputs
    positions = np.ravel(_axes(axes, value.rank))
    if not positions.size:
        raise NoRule("ReduceJoin without axes")
    return site.same([value.tensor, tf.constant(positions, axes.tensor.dtype)])


@rule("Softmax", "LogSoftmax", "TopKV2")
def _along_the_last(site: Site) -> list[tf.Tensor]:
    value, *parameters = site.inputs
    if not value.has_rows or any(parameter.has_rows for parameter in parameters):
        raise NoRule(f"{site.node.op} with computed parameters")
    return site.same(site.tensors())


@rule("L2Loss")
def _l2_loss(site: Site) -> tf.Tensor:
    (value,) = site.inputs
    return tf.reduce_sum(0.5 * tf.square(value.tensor), list(range(1, value.rank + 1)))  # a whole sum may overflow


@rule("SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits")
def _cross_entropy(site: Site) -> list[tf.Tensor]:
    scores, labels = (site.with_rows(value) for value in site.inputs)
    sparse = site.node.op.startswith("Sparse")
    own, others = scores.shape[1:], labels.shape[1:]
    if not sparse and not (own.is_fully_defined() and own == others):
        shape = tf.broadcast_dynamic_shape(tf.shape(scores), tf.shape(labels))
        static = tf.broadcast_static_shape(scores.shape, labels.shape)
        scores, labels = (tf.ensure_shape(tf.broadcast_to(one, shape), static) for one in (scores, labels))
    height, classes = scores.shape[1], scores.shape[2]
    width = tf.shape(scores)[2] if classes is None else classes
    loss, gradient = site.same(
        [tf.reshape(scores, [-1, width]), tf.reshape(labels, [-1]) if sparse else tf.reshape(labels, [-1, width])]
    )
    if height is None:
        return [reshape_rows(loss, [-1], site.count), tf.reshape(gradient, tf.shape(scores))]
    return [tf.reshape(loss, [-1, height]), tf.reshape(gradient, [-1, height, width])]


@rule("InTopKV2", "LowerBound", "UpperBound")
def _merged(site: Site) -> list[tf.Tensor]:
    """What works on the rows of matrices works on those of all matrices."""
    *values, last = site.inputs
    tensors = [site.with_rows(value) for value in (values if site.node.op == "InTopKV2" else site.inputs)]
    if site.node.op == "InTopKV2":
        if last.has_rows:
            raise NoRule("InTopKV2 with a computed number")
        made = site.same([*map(merged, tensors), last.tensor])
    else:
        made = site.same(list(map(merged, tensors)))
    return [parted(tensor, tensors[-1]) for tensor in made]


@rule("Assert")
def _assert(site: Site) -> list[tf.Tensor]:
    condition, *data = site.tensors()
    site.same([tf.reduce_all(condition), *data])
    return []
