"""Accuracy, fine-grained and binary, at the root and at all nodes, as sums that add up over batches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

NEUTRAL = 2
NAMES = ("root", "nodes", "root_binary", "nodes_binary")


def count(batch: Any, logits: tf.Tensor) -> tf.Tensor:
    """Hits and trials of a batch.

    Args:
      batch: a `recgraph.data.TreeBatch`.
      logits: class scores of all nodes, float32 `[N, C]`; C is 5, or 2 where the task is binary.

    Returns:
      float32 `[4, 2]`: for each of `NAMES`, how many were right and how many had a label.
    """
    fine = _pair(tf.argmax(logits, 1, tf.int32), batch.labels)
    binary = _pair(positive(tf.nn.softmax(logits)), _binary_labels(batch.labels, logits.shape[1]))
    rows = [tf.gather(fine, batch.roots), fine, tf.gather(binary, batch.roots), binary]
    return tf.stack([tf.reduce_sum(row, 0) for row in rows])


def positive(probabilities: tf.Tensor) -> tf.Tensor:
    """1 where the positive classes together are likelier than the negative ones, int32 `[n]`."""
    side = probabilities.shape[1] // 2
    below = tf.reduce_sum(probabilities[:, :side], 1)
    above = tf.reduce_sum(probabilities[:, -side:], 1)
    return tf.cast(above > below, tf.int32)


def accuracies(counts: Any) -> dict[str, float]:
    """Fractions by name; a metric without a single labelled node is left out."""
    return {name: float(hits / trials) for name, (hits, trials) in zip(NAMES, counts, strict=True) if trials > 0}


def _binary_labels(labels: tf.Tensor, classes: int) -> tf.Tensor:
    """Two-class labels, -1 for none: neutral has no side."""
    if classes == 2:
        return labels
    sided = tf.where(labels == NEUTRAL, -1, tf.cast(labels > NEUTRAL, tf.int32))
    return tf.where(labels < 0, -1, sided)


def _pair(predicted: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Is it right, and does it count, float32 `[n, 2]`."""
    labelled = labels >= 0
    return tf.cast(tf.stack([(predicted == labels) & labelled, labelled], 1), tf.float32)
