"""The loss at a node, and what it needs of a batch: classes, weights, dropout."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from recgraph.models.hyper import Hyper


class Draws(NamedTuple):
    """A seed of dropout where a batch is divided: each part sees what the whole batch would draw for its nodes.

    Attributes:
      seed: int32 `[2]`.
      part: a `recgraph.data.Part`.
    """

    seed: tf.Tensor
    part: Any


def node_draws(batch: Any, columns: int, seed: tf.Tensor | Draws) -> tf.Tensor:
    """Numbers in [0, 1) for each node, float32 `[N, columns]`."""
    if not isinstance(seed, Draws):
        return tf.random.stateless_uniform([tf.size(batch.words), columns], seed)
    return tf.gather(tf.random.stateless_uniform([seed.part.all_nodes, columns], seed.seed), seed.part.nodes)


def word_draws(words: tf.Tensor, seed: tf.Tensor | Draws) -> tf.Tensor:
    """Numbers in [0, 1) for each word of binary trees, float32 `[B, T]`; T is one more than the longest has words."""
    if not isinstance(seed, Draws):
        return tf.random.stateless_uniform(tf.shape(words), seed)
    shape = [seed.part.all_trees, (seed.part.longest + 1) // 2 + 1]
    return tf.gather(tf.random.stateless_uniform(shape, seed.seed), seed.part.trees)[:, : tf.shape(words)[1]]


def dropout_rows(hyper: Hyper, batch: Any, seed: tf.Tensor | Draws | None) -> tf.Tensor | None:
    """What to multiply the hidden rows by before the output, float32 `[N, H]`, or None where nothing is dropped.

    Drawn once for the batch and not inside the recursion, so the values do not depend on the order of execution.
    """
    rate = hyper.dropout
    if seed is None or rate == 0.0:
        return None
    draws = node_draws(batch, hyper.hidden, seed)
    return tf.where(draws >= rate, 1.0 / (1.0 - rate), 0.0)


def targets(batch: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Classes with 0 in place of "none", int32 `[N]`, and the weight of each node in the loss, float32 `[N]`."""
    return tf.maximum(batch.labels, 0), tf.cast(batch.labels >= 0, tf.float32)


def node_losses(logits: tf.Tensor, target: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """Weighted cross-entropies, float32 `[n]`, of scores float32 `[n, C]` against classes int32 `[n]`."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits) * weight
