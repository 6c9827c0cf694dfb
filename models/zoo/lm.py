"""The language model of Jozefowicz et al. (2016): an LSTM with a projection, and a sampled softmax over many words."""

from __future__ import annotations

import math
from pathlib import Path

import tensorflow as tf

from recgraph.models.imperative.weights import Adagrad, Weights
from recgraph.models.zoo import generated, real
from recgraph.models.zoo.program import Program, Step


class LM:
    """Words in, words out, the states kept from batch to batch.

    Attributes:
      softmax: "sampled", or "full", which evaluation takes; a plain attribute.
      steps: how many were taken; draws the samples.
    """

    def __init__(
        self,
        vocabulary: int = 10_000,
        embedding: int = 128,
        hidden: int = 256,
        samples: int = 512,
        softmax: str = "sampled",
        rate: float = 0.2,
    ):
        """Args: sizes, how many words are drawn beside the right ones, which softmax, and Adagrad's learning rate."""
        self.weights = Weights()
        self.vocabulary, self.hidden, self.samples, self.softmax = vocabulary, hidden, samples, softmax
        self.embedding = self.weights.uniform([vocabulary, embedding], 0.1)
        self.kernel = self.weights.uniform([2 * embedding, 4 * hidden])
        self.bias = self.weights.constant([4 * hidden])
        self.projection = self.weights.uniform([hidden, embedding])
        self.output_kernel = self.weights.uniform([vocabulary, embedding], 0.1)
        self.output_bias = self.weights.constant([vocabulary])
        self.optimizer = Adagrad(self.weights.all, rate, 1.0)
        self.memory: tf.Tensor | None = None
        self.output: tf.Tensor | None = None
        self.steps = 0

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*self.weights.all, *self.optimizer.sums]

    def cell(self, row: tf.Tensor) -> None:
        """Moves the states on by a row, float32 `[B, embedding]`."""
        gates = tf.matmul(tf.concat([row, self.output], 1), self.kernel) + self.bias
        write, new, forget, read = tf.split(gates, 4, 1)
        self.memory = tf.sigmoid(forget + 1.0) * self.memory + tf.sigmoid(write) * tf.tanh(new)
        self.output = tf.matmul(tf.sigmoid(read) * tf.tanh(self.memory), self.projection)

    def losses(self, rows: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """The loss of each word, float32 `[n]`, of rows, float32 `[n, embedding]`, and int32 `[n]`."""
        if self.softmax == "full":
            logits = tf.matmul(rows, self.output_kernel, transpose_b=True) + self.output_bias
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
        drawn = self.draw()
        right = tf.reduce_sum(rows * tf.gather(self.output_kernel, targets), 1) + tf.gather(self.output_bias, targets)
        others = tf.matmul(rows, tf.gather(self.output_kernel, drawn), transpose_b=True)
        others += tf.gather(self.output_bias, drawn) - self.log_expected(drawn)
        hits = targets[:, tf.newaxis] == drawn[tf.newaxis, :]
        others = tf.where(hits, -1e9, others)
        right -= self.log_expected(targets)
        return tf.reduce_logsumexp(tf.concat([right[:, tf.newaxis], others], 1), 1) - right

    def draw(self) -> tf.Tensor:
        """Words by frequency, as Zipf's law has it, int32 `[samples]`; others in each step."""
        uniform = tf.random.stateless_uniform([self.samples], [self.steps, 0])
        drawn = tf.cast(tf.exp(uniform * math.log(self.vocabulary + 1.0)), tf.int32) - 1
        return tf.minimum(drawn, self.vocabulary - 1)

    def log_expected(self, words: tf.Tensor) -> tf.Tensor:
        """The logarithm of how often each of the words, int32 `[n]`, is drawn in a step, float32 `[n]`."""
        words = tf.cast(words, tf.float32)
        share = tf.math.log((words + 2.0) / (words + 1.0)) / math.log(self.vocabulary + 1.0)
        return tf.math.log(share * self.samples)

    def loss(self, words: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """The mean loss of a word, float32 scalar; moves the states on. See `train_step` for the arguments."""
        if self.memory is None:
            self.memory = tf.zeros([words.shape[0], self.hidden])
            self.output = tf.zeros([words.shape[0], self.embedding.shape[1]])
        outputs = []
        for row in tf.unstack(tf.gather(self.embedding, words), axis=1):
            self.cell(row)
            outputs.append(self.output)
        rows = tf.concat(outputs, 0)
        return tf.reduce_mean(self.losses(rows, tf.reshape(tf.transpose(targets), [-1])))

    def train_step(self, words: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """One step of Adagrad.

        Args:
          words: int32 `[B, T]`.
          targets: the words after them, int32 `[B, T]`.

        Returns:
          The mean loss before it, float32 scalar.
        """
        with tf.GradientTape() as tape:
            loss = self.loss(words, targets)
        self.optimizer.apply(tape.gradient(loss, self.weights.all), self.weights.all)
        self.steps += 1
        return loss


def _make(small: bool) -> LM:
    return LM(60, 6, 8, 10) if small else LM()


def _steps(batch_size: int, small: bool) -> list[Step]:
    length, vocabulary = (4, 60) if small else (20, 10_000)
    return generated.sequences(generated.text(4 * batch_size * length + 1, vocabulary), batch_size, length)


def _real(folder: Path, batch_size: int) -> list[Step]:
    return generated.sequences(real.text(folder, 4 * batch_size * 20 + 1, 10_000), batch_size, 20)


LM_1B = Program("LM", _make, _steps, 256, 3, "words", lambda step: int(tf.size(step[0])), "1B", _real)
