"""BERT that classifies texts, with a metric of scikit-learn in the middle of each step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.models.zoo import bert, generated, real
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer

CLASSES = 2


class BertCLS(Trainer):
    """The encoder with a score for each class.

    Attributes:
      history: the metric of each step.
      best: the largest so far.
    """

    def __init__(self, size: bert.Size, metric: Callable[..., Any], rate: float = 3e-4, log_every: int = 5):
        """Args: sizes, a metric of classes and predictions, Adam's learning rate, and how often it is printed."""
        self.network = bert.make(size, CLASSES, by_row=False)
        super().__init__((self.network, tf.keras.optimizers.Adam(rate)))
        self.metric, self.log_every = metric, log_every
        self.history: list[float] = []
        self.best = 0.0

    def train_step(self, words: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
        """One step, which prints its loss and the metric now and then.

        Args:
          words: int32 `[B, T]`.
          classes: int32 `[B]`.

        Returns:
          The mean loss before it, float32 scalar.
        """
        with tf.GradientTape() as tape:
            scores = self.network(words, tf.zeros_like(words), training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=scores)
            loss = tf.reduce_mean(losses)
        predictions = tf.argmax(scores, 1)
        score = float(self.metric(classes.numpy(), predictions.numpy(), average="macro", zero_division=0.0))
        self.history.append(score)
        if score > self.best:
            self.best = score
        self.learn(tape, loss)
        if len(self.history) % self.log_every == 0:
            print(f"step {len(self.history)}: loss {loss.numpy():.3f}, F1 {score:.3f}, best {self.best:.3f}")
        return loss


def _make(small: bool) -> BertCLS:
    from sklearn.metrics import f1_score  # of the extra `zoo`; only this program wants it

    return BertCLS(_size(small), f1_score)


def _size(small: bool) -> bert.Size:
    return bert.Size(52, 12, 16, 2, 2) if small else bert.Size(5002, 64, 192, 4, 2)


def texts(count: int, length: int, vocabulary: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Texts of two classes with some words of their own: int32 `[count, length]`, and the classes, `[count]`."""
    random = np.random.default_rng(seed)
    classes = random.integers(0, CLASSES, count).astype(np.int32)
    words = random.integers(0, vocabulary, (count, length))
    telling = random.random((count, length)) < 0.2
    return np.where(telling, classes[:, None], words).astype(np.int32), classes


def _steps(batch_size: int, small: bool) -> list[Step]:
    size = _size(small)
    words, classes = texts(19 * batch_size // 2, size.length - 1, size.vocabulary - bert.SPECIAL)
    return _batches(words, classes, batch_size)


def _real(folder: Path, batch_size: int) -> list[Step]:
    size = _size(False)
    found = real.reviews(folder, 10 * batch_size, size.length - 1, size.vocabulary - bert.SPECIAL)
    return _batches(*found, batch_size)


def _batches(words: np.ndarray, classes: np.ndarray, batch_size: int) -> list[Step]:
    rows = np.pad(words + bert.SPECIAL, [(0, 0), (1, 0)], constant_values=bert.START)
    return generated.batches((rows, classes), batch_size)


BERT_CLS = Program("BERT-CLS", _make, _steps, 8, 4, "texts", lambda step: len(step[0]), "IMDb", _real)
