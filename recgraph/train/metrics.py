"""Accuracy, fine-grained and binary, at the root and at all nodes, as sums that add up; correlations of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
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
    # In proportion to probabilities, which is enough; TensorFlow's softmax is compiled for each number of rows.
    shares = tf.exp(logits - tf.reduce_max(logits, 1, keepdims=True))
    binary = _pair(positive(shares), _binary_labels(batch.labels, logits.shape[1]))
    rows = [tf.gather(fine, batch.roots), fine, tf.gather(binary, batch.roots), binary]
    return tf.stack([tf.reduce_sum(row, 0) for row in rows])


def positive(shares: tf.Tensor) -> tf.Tensor:
    """1 where the positive classes together are likelier than the negative ones, int32 `[n]`.

    Args:
      shares: numbers `[n, C]` in proportion to the probabilities of the classes.
    """
    side = shares.shape[1] // 2
    below = tf.reduce_sum(shares[:, :side], 1)
    above = tf.reduce_sum(shares[:, -side:], 1)
    return tf.cast(above > below, tf.int32)


def accuracies(counts: Any) -> dict[str, float]:
    """Fractions by name; a metric without a single labelled node is left out."""
    return {name: float(hits / trials) for name, (hits, trials) in zip(NAMES, counts, strict=True) if trials > 0}


def relatedness(predicted: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """Pearson's and Spearman's correlation and the mean squared error, of scores float32 `[n]`; nothing for no scores.

    A correlation with a constant is 0 here, where the formula divides by zero.
    """
    if not len(true):
        return {}
    predicted, true = np.asarray(predicted, np.float64), np.asarray(true, np.float64)
    return {
        "pearson": _correlation(predicted, true),
        "spearman": _correlation(_ranks(predicted), _ranks(true)),
        "mse": float(np.mean((predicted - true) ** 2)),
    }


def count_brackets(predicted: tf.Tensor, true: tf.Tensor) -> tf.Tensor:
    """Of the spans of inner nodes but the roots, how many are predicted, and how many there are, float32 `[2]`.

    Args:
      predicted: int32 `[B, T, 2]`, the spans (i, j) of each sentence, then zeros; each at most once.
      true: the same.
    """
    width = tf.shape(true)[1] + 1
    keys, expected = (spans[:, :, 0] * width + spans[:, :, 1] for spans in (predicted, true))
    inside = (expected > 0) & (expected != tf.reduce_max(true[:, :, 1], 1, keepdims=True))
    found = tf.reduce_any(expected[:, :, tf.newaxis] == keys[:, tf.newaxis], 2)
    return tf.math.count_nonzero(tf.stack([inside & found, inside]), [1, 2], dtype=tf.float32)


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt(np.sum(a * a) * np.sum(b * b)))
    return float(np.sum(a * b)) / scale if scale > 0 else 0.0


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks, float64 `[n]`; equal values share the mean of theirs."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    return (ends - (sizes - 1) / 2)[group]


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
