"""The LSTM language model of Zaremba et al. (2014): a Python loop over time, and states kept in the object."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from recgraph.models.imperative.weights import Weights, descend
from recgraph.models.zoo import generated, real
from recgraph.models.zoo.program import Program, Step


class Cell:
    """A layer of LSTM: `c' = f c + i g`, `h' = o tanh c'`, all gates by one product."""

    def __init__(self, weights: Weights, inputs: int, hidden: int, bound: float):
        """Args: who makes the weights, the size of its input and of its state, and the bound of the first weights."""
        self.hidden = hidden
        self.kernel = weights.uniform([inputs + hidden, 4 * hidden], bound)
        self.bias = weights.constant([4 * hidden])

    def __call__(self, row: tf.Tensor, state: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """A step in time.

        Args:
          row: float32 `[B, inputs]`.
          state: memory and output, each float32 `[B, hidden]`.

        Returns:
          The next state.
        """
        memory, output = state
        gates = tf.matmul(tf.concat([row, output], 1), self.kernel) + self.bias
        write, new, forget, read = tf.split(gates, 4, 1)
        memory = tf.sigmoid(forget) * memory + tf.sigmoid(write) * tf.tanh(new)
        return memory, tf.sigmoid(read) * tf.tanh(memory)


class LSTM:
    """Words in, words out. What the layers remember goes on from one batch to the next."""

    def __init__(
        self, vocabulary: int = 10_000, hidden: int = 200, layers: int = 2, rate: float = 1.0, max_norm: float = 5.0
    ):
        """Args: sizes, the learning rate and the norm that gradients are clipped to."""
        self.weights = Weights()
        self.rate, self.max_norm = rate, max_norm
        self.embedding = self.weights.uniform([vocabulary, hidden], 0.1)
        self.cells = [Cell(self.weights, hidden, hidden, 0.1) for _ in range(layers)]
        self.output_kernel = self.weights.uniform([hidden, vocabulary], 0.1)
        self.output_bias = self.weights.constant([vocabulary])
        self.states: list[tuple[tf.Tensor, tf.Tensor]] | None = None
        self.words_seen = 0

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return self.weights.all

    def reset(self) -> None:
        """Forgets: another text begins."""
        self.states = None

    def first_states(self, batch_size: int) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Zeros for each layer."""
        zeros = [tf.zeros([batch_size, cell.hidden]) for cell in self.cells]
        return [(zero, zero) for zero in zeros]

    def loss(self, words: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """The mean loss of a word, float32 scalar; moves the states on. See `train_step` for the arguments."""
        states = self.states
        if states is None:
            states = self.first_states(words.shape[0])
        vectors = tf.nn.embedding_lookup(self.embedding, words)
        total = 0.0
        for t in range(words.shape[1]):
            row = vectors[:, t]
            following = []
            for cell, state in zip(self.cells, states, strict=True):
                state = cell(row, state)
                row = state[1]
                following.append(state)
            states = following
            logits = tf.matmul(row, self.output_kernel) + self.output_bias
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets[:, t], logits=logits)
            total += tf.reduce_mean(losses)
        self.states = states
        return total / words.shape[1]

    def train_step(self, words: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """One step of gradient descent with clipped gradients.

        Args:
          words: int32 `[B, T]`.
          targets: the words after them, int32 `[B, T]`.

        Returns:
          The mean loss before it, float32 scalar.
        """
        with tf.GradientTape() as tape:
            loss = self.loss(words, targets)
        gradients = tape.gradient(loss, self.weights.all)
        clipped, _ = tf.clip_by_global_norm(gradients, self.max_norm)
        descend(self.weights.all, clipped, self.rate)
        self.words_seen += words.shape[0] * words.shape[1]
        return loss


def _make(small: bool) -> LSTM:
    return LSTM(50, 8, 2) if small else LSTM()


def _steps(batch_size: int, small: bool) -> list[Step]:
    length, vocabulary = (5, 50) if small else (20, 10_000)
    return generated.sequences(generated.text(8 * batch_size * length + 1, vocabulary), batch_size, length)


def _real(folder: Path, batch_size: int) -> list[Step]:
    return generated.sequences(real.text(folder, 8 * batch_size * 20 + 1, 10_000), batch_size, 20)


LSTM_PTB = Program("LSTM", _make, _steps, 20, 3, "words", lambda step: int(tf.size(step[0])), "PTB", _real)
