"""The same network in plain eager Python: slow and obvious, what the recursive models are tested against."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph.models import common, losses


def unrolled(model: common.TreeModel, batch: Any, dropout_seed: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Runs a model over a batch, one Python call a node. Python recursion: for trees of moderate depth.

    Args:
      model: any `TreeModel`.
      batch: a `recgraph.data.TreeBatch` of eager tensors.
      dropout_seed: as in `TreeModel.loss`.

    Returns:
      The loss, float32 scalar, and the scores of every node, float32 `[N, C]`, without dropout.
    """
    words, left, right, roots = (tensor.numpy() for tensor in (batch.words, batch.left, batch.right, batch.roots))
    states: dict[int, common.State] = {}

    def visit(node: int) -> common.State:
        if words[node] >= 0:
            states[node] = model.leaf(model.embed(tf.constant(words[node : node + 1])))
        else:
            states[node] = model.compose(visit(left[node]), visit(right[node]))
        return states[node]

    for root in roots:
        visit(int(root))
    if not states:
        return tf.zeros([]), tf.zeros([0, model.hyper.classes])
    hidden = tf.concat([states[node][0] for node in range(len(words))], 0)
    keep = losses.dropout_rows(model.hyper, batch, dropout_seed)
    logits = model.logits(hidden if keep is None else hidden * keep)
    return tf.reduce_sum(losses.node_losses(logits, *losses.targets(batch))), model.logits(hidden)
