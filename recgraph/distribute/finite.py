"""Whether gradients are finite: what is infinite, or no number, on one worker would be in the weights of all."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from recgraph.distribute.cluster_spec import WorkerAddress
from recgraph.distribute.collectives import Collectives
from recgraph.distribute.errors import NotFiniteError
from recgraph.distribute.reduction import Gradient, Reduction

_WHAT = "gradients or losses are not finite"
_NEXT_STEP = (
    "the weights are those from before this update, so save them if there is no checkpoint; look at that worker's part "
    "of the batch, try a lower learning rate or clip gradients, or skip such updates with keras's LossScaleOptimizer"
)


def are_finite(gradients: Sequence[Gradient], figures: tf.Tensor) -> tf.Tensor:
    """Whether all numbers are, a scalar."""
    values = [one.values if isinstance(one, tf.IndexedSlices) else one for one in gradients if one is not None]
    each = [tf.reduce_all(tf.math.is_finite(value)) for value in (*values, figures)]
    return tf.reduce_all(tf.stack(each))


def not_finite(workers: Sequence[int], update: int, place: WorkerAddress) -> NotFiniteError:
    """The error for the numbers of some workers.

    Args:
      workers: whose numbers are not finite; empty where only the sum of all is not.
      update: the number of the update in the scope, from 1.
      place: has the names of the workers.
    """
    who = " and ".join(map(place.name, workers)) or "the sum of all workers, of which none is infinite alone"
    return NotFiniteError(f"{_WHAT} in update {update}", found=f"those of {who}", next_step=_NEXT_STEP)


def finite_or_fail(
    reduction: Reduction, gradients: Sequence[Gradient], figures: tf.Tensor, collectives: Collectives
) -> tuple[list[Gradient], tf.Tensor]:
    """The sums over all workers, which fail on each worker where one of them is not finite.

    Each worker says with its figures whether its own are, so that all name the same worker.

    Args:
      reduction: adds up the gradients and the figures, which are to be there once more for each worker.
      gradients: of this worker.
      figures: of this worker.
      collectives: of the workers.
    """
    own = tf.cast(~are_finite(gradients, figures), figures.dtype)
    flags = tf.one_hot(collectives.index, collectives.size, own, tf.zeros([], figures.dtype), dtype=figures.dtype)
    wide = reduction.with_figures(collectives.size)
    sums, added = wide(gradients, tf.concat([figures, flags], 0))
    count = tf.size(figures)
    blamed = tf.where(added[count:] > 0)[:, 0]
    fails = tf.debugging.Assert(
        are_finite(sums, added[:count]), [f"{_WHAT}: those of the workers", blamed, f"next step: {_NEXT_STEP}"]
    )
    with tf.control_dependencies([] if fails is None else [fails]):
        passed = [
            tf.IndexedSlices(tf.identity(one.values), one.indices, one.dense_shape)
            if isinstance(one, tf.IndexedSlices)
            else tf.identity(one)
            for one in sums
        ]
        return passed, tf.identity(added[:count])
