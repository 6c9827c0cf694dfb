"""Batches of pairs of dependency trees as flat arrays, `PairBatch`, and the `tf.data` pipeline that makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recgraph.data.dependency import ROOT
from recgraph.data.pipeline import Order, Share, batches
from recgraph.data.sick import Pair
from recgraph.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    import tensorflow as tf


class PairBatch(NamedTuple):
    """B pairs of dependency trees, N words together; numpy arrays or tensors.

    Attributes:
        words: int32 [N]; vocabulary ids.
        children: int32 [N - 2B]; the children of word n, from left to right, are
            children[offsets[n] : offsets[n + 1]].
        offsets: int32 [N + 1].
        left: int32 [B]; the root of each pair's first tree.
        right: int32 [B]; of its second.
        scores: float32 [B].
    """

    words: Any
    children: Any
    offsets: Any
    left: Any
    right: Any
    scores: Any


def pair_dataset(
    pairs: Sequence[Pair],
    vocabulary: Vocabulary,
    batch_size: int,
    *,
    shuffle_seed: int | None = None,
    first_epoch: int = 0,
    epochs: int = 1,
    share: Share | None = None,
) -> tf.data.Dataset:
    """Makes a dataset of `PairBatch`, of known cardinality; the last batch of an epoch may be smaller.

    Args:
        pairs: the pairs.
        vocabulary: maps their words to ids.
        batch_size: pairs per batch.
        shuffle_seed: seed of the order, which depends on it and the epoch alone; None keeps the given order.
        first_epoch: number of the first epoch.
        epochs: number of epochs.
        share: the part of one of several workers; a pair counts as one tree of all its words.

    Raises:
        ValueError: a batch size below 1, an epoch below 0.
    """
    import tensorflow as tf

    trees = [tree for pair in pairs for tree in (pair.left, pair.right)]
    splits = np.cumsum([0, *map(len, trees)]).astype(np.int64)
    words = tf.constant([vocabulary.id(word) for tree in trees for word in tree.words], tf.int32)
    heads = tf.constant([head for tree in trees for head in tree.heads], tf.int32)
    sentences = tf.RaggedTensor.from_row_splits(tf.stack([words, heads], 1), splits)
    scores = tf.constant([pair.score for pair in pairs], tf.float32)

    def make(rows: tf.Tensor) -> PairBatch:
        both = tf.gather(sentences, tf.reshape(tf.stack([2 * rows, 2 * rows + 1], 1), [-1]))
        return _link(both.flat_values, tf.cast(both.row_splits, tf.int32), tf.gather(scores, rows))

    order = Order(len(pairs), batch_size, shuffle_seed, first_epoch, epochs)
    return batches(order, make, np.diff(splits[::2]).astype(np.int32), share)


def _link(table: tf.Tensor, splits: tf.Tensor, scores: tf.Tensor) -> PairBatch:
    """The batch of words and heads, int32 [N, 2], of trees with row splits, int32 [2B + 1]."""
    import tensorflow as tf

    words, heads = tf.unstack(table, axis=1)
    nodes = tf.size(words)
    starts = tf.repeat(splits[:-1], splits[1:] - splits[:-1])
    heads = tf.where(heads == ROOT, nodes, heads + starts)  # the head of the roots is one that is not there
    by_head = tf.argsort(heads, stable=True)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(heads), heads, nodes + 1)
    roots = tf.reshape(tf.sort(by_head[nodes - counts[nodes] :]), [-1, 2])
    offsets = tf.concat([[0], tf.cumsum(counts[:nodes])], 0)
    return PairBatch(words, by_head[: nodes - counts[nodes]], offsets, roots[:, 0], roots[:, 1], scores)
