"""BERT that answers questions: where in a passage the answer begins and ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from recgraph.models.zoo import bert, generated, real
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer

# Words before and after the answer, of which the question is made.
CONTEXT = 2
MAX_ANSWER = 3


class BertQA(Trainer):
    """The encoder with two scores for each word, and Adam with a rate that falls."""

    def __init__(self, size: bert.Size, rate: float = 3e-4):
        """Args: sizes, and the learning rate at the beginning."""
        schedule = tf.keras.optimizers.schedules.PolynomialDecay(rate, 1000, 0.0)
        self.network = bert.make(size, 2, by_row=True)
        super().__init__((self.network, tf.keras.optimizers.AdamW(schedule, weight_decay=0.01)))

    def train_step(self, words: tf.Tensor, parts: tf.Tensor, first: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
        """One step.

        Args:
          words: question and passage, int32 `[B, T]`.
          parts: 0 in the question and 1 in the passage, int32 `[B, T]`.
          first: the place of the answer's first word, int32 `[B]`.
          last: that of the last, int32 `[B]`.

        Returns:
          The mean loss before it, float32 scalar.
        """
        with tf.GradientTape() as tape:
            begins, ends = tf.unstack(self.network(words, parts, training=True), axis=2)
            losses = [
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=place, logits=scores)
                for place, scores in ((first, begins), (last, ends))
            ]
            loss = tf.reduce_mean(sum(losses)) / 2.0
        self.learn(tape, loss, max_norm=1.0)
        return loss


def questions(words: np.ndarray, count: int, length: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Passages of a text with questions that are the words around their answers; see `train_step` for the arrays."""
    random = np.random.default_rng(seed)
    passage = length - 2 * CONTEXT - 2
    rows, parts = np.zeros((count, length), np.int32), np.zeros((count, length), np.int32)
    parts[:, -passage:] = 1
    first = random.integers(CONTEXT, passage - CONTEXT - MAX_ANSWER, count)
    last = first + random.integers(0, MAX_ANSWER, count)
    for row, begin, end, start in zip(rows, first, last, random.integers(0, len(words) - passage, count), strict=True):
        found = words[start : start + passage] + bert.SPECIAL
        asked = [*found[begin - CONTEXT : begin], *found[end + 1 : end + 1 + CONTEXT]]
        row[:] = [bert.START, *asked, bert.SEPARATOR, *found]
    offset = length - passage
    return rows, parts, (first + offset).astype(np.int32), (last + offset).astype(np.int32)


def _size(small: bool) -> bert.Size:
    return bert.Size(52, 24, 16, 2, 2) if small else bert.Size(5002, 64, 192, 4, 2)


def _steps(batch_size: int, small: bool) -> list[Step]:
    size = _size(small)
    return _batches(generated.text(2000, size.vocabulary - bert.SPECIAL), batch_size, size.length)


def _real(folder: Path, batch_size: int) -> list[Step]:
    size = _size(False)
    return _batches(real.text(folder, 20_000, size.vocabulary - bert.SPECIAL), batch_size, size.length)


def _batches(words: np.ndarray, batch_size: int, length: int) -> list[Step]:
    return generated.batches(questions(words, 10 * batch_size, length), batch_size)


BERT_QA = Program(
    "BERT-Q&A", lambda small: BertQA(_size(small)), _steps, 8, 4, "passages", lambda step: len(step[0]), "SQuAD", _real
)
