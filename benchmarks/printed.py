"""Cells as their papers print them, one dense layer for each gate and input, beside those of `recgraph.models`, which
experts would write: the same numbers in fewer and larger matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.models import HMRNN, TopDownTreeLSTM, TreeGRU, TreeLSTM
from recgraph.models.hm_rnn import MultiscaleHyper
from recgraph.models.hyper import Hyper, State
from recgraph.models.td_tree_lstm import EDGES


class Sum:
    """An affine map of several rows: `[1, K] @ [K, H]` for each, and a bias."""

    def __init__(self, kernels: list[np.ndarray], bias: np.ndarray, name: str):
        """Args: the matrices, the bias, and the name of the variables."""
        self.kernels = [tf.Variable(kernel, name=f"{name}_{i}") for i, kernel in enumerate(kernels)]
        self.bias = tf.Variable(bias, name=f"{name}_bias")

    def __call__(self, *rows: tf.Tensor) -> tf.Tensor:
        """float32 `[1, H]` of rows `[1, K]`."""
        total = tf.matmul(rows[0], self.kernels[0])
        for row, kernel in zip(rows[1:], self.kernels[1:], strict=True):
            total += tf.matmul(row, kernel)
        return total + self.bias


def gates(kernel: tf.Variable, bias: tf.Variable, inputs: int, count: int, name: str) -> list[Sum]:
    """A kernel of `count` gates side by side and `inputs` inputs one below the other, as one `Sum` for each gate."""
    rows = np.split(kernel.numpy(), inputs, 0)
    columns = [np.split(part, count, 1) for part in rows]
    biases = np.split(bias.numpy(), count)
    return [Sum([part[i] for part in columns], biases[i], f"{name}_{i}") for i in range(count)]


class PrintedTreeLSTM(TreeLSTM):
    """Equations (9) to (14) of Tai et al., a matrix for each gate and child."""

    def __init__(self, *args: Any, **named: Any):
        """See `TreeModel`."""
        super().__init__(*args, **named)
        self.leaf_gates = gates(self.leaf_kernel, self.leaf_bias, 1, 3, "leaf")
        self.inner_gates = gates(self.inner_kernel, self.inner_bias, 2, 5, "inner")
        self.variables_of_gates = [(g.kernels, g.bias) for g in (*self.leaf_gates, *self.inner_gates)]
        del self.leaf_kernel, self.leaf_bias, self.inner_kernel, self.inner_bias

    def leaf(self, vector: tf.Tensor) -> State:
        """See `TreeLSTM`."""
        entry, exit_, update = self.leaf_gates
        memory = tf.sigmoid(entry(vector)) * tf.tanh(update(vector))
        return tf.sigmoid(exit_(vector)) * tf.tanh(memory), memory

    def compose(self, left: State, right: State) -> State:
        """See `TreeLSTM`."""
        entry, exit_, keep_left, keep_right, update = (gate(left[0], right[0]) for gate in self.inner_gates)
        memory = tf.sigmoid(entry) * tf.tanh(update)
        memory += tf.sigmoid(keep_left) * left[1] + tf.sigmoid(keep_right) * right[1]
        return tf.sigmoid(exit_) * tf.tanh(memory), memory


class PrintedTreeGRU(TreeGRU):
    """The equations of Chen et al., a matrix for each gate and input."""

    def __init__(self, *args: Any, **named: Any):
        """See `TreeModel`."""
        super().__init__(*args, **named)
        self.resets = gates(self.reset_kernel, self.reset_bias, 2, 2, "reset")
        (self.candidate,) = gates(self.candidate_kernel, self.candidate_bias, 2, 1, "candidate")
        self.scores = gates(self.mixture_kernel, self.mixture_bias, 3, 3, "mixture")
        self.variables_of_gates = [(g.kernels, g.bias) for g in (*self.resets, self.candidate, *self.scores)]
        del self.reset_kernel, self.reset_bias, self.candidate_kernel, self.candidate_bias
        del self.mixture_kernel, self.mixture_bias

    def compose(self, left: State, right: State) -> State:
        """See `TreeGRU`."""
        resets = [tf.sigmoid(gate(left[0], right[0])) for gate in self.resets]
        candidate = tf.tanh(self.candidate(resets[0] * left[0], resets[1] * right[0]))
        mixed = candidate, left[0], right[0]
        shares = tf.nn.softmax(tf.concat([score(*mixed) for score in self.scores], 0), 0)
        return (tf.reduce_sum(shares * tf.concat(mixed, 0), 0, keepdims=True),)


class PrintedTopDownTreeLSTM(TopDownTreeLSTM):
    """The LSTMs of Zhang et al., a matrix for each gate, and for word and state."""

    def __init__(self, *args: Any, **named: Any):
        """See `TreeModel`."""
        super().__init__(*args, **named)
        embedding, hidden = self.hyper.embedding, self.hyper.hidden
        self.gates = []
        for edge, kernel, bias in zip(EDGES, self.kernels, self.biases, strict=True):
            columns = np.split(kernel.numpy(), 4, 1)
            parts = [[part[:embedding], part[embedding:]] for part in columns]
            biases = np.split(bias.numpy(), 4)
            self.gates.append([Sum(parts[i], biases[i], f"{edge}_{i}") for i in range(4)])
        self.variables_of_gates = [(g.kernels, g.bias) for edge in self.gates for g in edge]
        del self.kernels, self.biases
        assert hidden == self.hyper.hidden

    def cell(self, edge: int, vector: tf.Tensor, state: State) -> State:
        """See `TopDownTreeLSTM`."""
        entry, exit_, keep, update = (gate(vector, state[0]) for gate in self.gates[edge])
        memory = tf.sigmoid(entry) * tf.tanh(update) + tf.sigmoid(keep) * state[1]
        return tf.sigmoid(exit_) * tf.tanh(memory), memory


class LSTM(TopDownTreeLSTM):
    """An LSTM over sequences, an invocation for each word; the sum of the last state."""

    def __init__(self, vocabulary_size: int, hyper: Hyper | None = None, seed: int = 0):
        """Args: see `TreeModel`."""
        super().__init__(vocabulary_size, hyper, None, seed)

    def run(self, words: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """For each sequence, int32 `[T]` in a row of words and its length, the sum of its last state, float32 `[B]`."""
        row, scalar = tf.TensorSpec([1, self.hyper.hidden]), tf.TensorSpec([], tf.int32)
        with self.subgraph("read", (scalar, scalar, row, row), tf.TensorSpec([])) as read:
            sequence, time = read.input(tf.int32), read.input(tf.int32)
            state = read.input(shape=row.shape), read.input(shape=row.shape)
            vector = self.embed(tf.gather(tf.gather(words, sequence), time)[None])
            hidden, memory = self.cell(0, vector, state)
            read.output(
                tf.cond(
                    time + 1 < tf.gather(lengths, sequence),
                    lambda: read(sequence, time + 1, hidden, memory),
                    lambda: tf.reduce_sum(hidden),
                )
            )
        count = tf.size(lengths)
        nothing = tf.zeros([count, 1, self.hyper.hidden])
        return read.map(tf.range(count), tf.zeros_like(lengths), nothing, nothing)


class PrintedLSTM(PrintedTopDownTreeLSTM):
    """The same, a matrix for each gate and input."""

    def __init__(self, vocabulary_size: int, hyper: Hyper | None = None, seed: int = 0):
        """Args: see `TreeModel`."""
        super().__init__(vocabulary_size, hyper, None, seed)

    run = LSTM.run


class PrintedHMRNN(HMRNN):
    """The equations of Chung et al., a matrix for each gate and input."""

    def __init__(self, symbols: int, hyper: MultiscaleHyper | None = None, seed: int = 0):
        """Args: see `HMRNN`."""
        super().__init__(symbols, hyper, seed)
        size = self.hyper.hidden
        ends = [size, 2 * size, 3 * size, 4 * size]
        self.gate_kernels = []
        for n in range(self.hyper.layers):
            above = [self.above[n]] if n + 1 < self.hyper.layers else []
            columns = [np.split(kernel.numpy(), ends, 1) for kernel in (self.own[n], self.below[n], *above)]
            biases = np.split(self.biases[n].numpy(), ends)
            parts = [[kernel[i] for kernel in columns] for i in range(5)]
            self.gate_kernels.append([Sum(parts[i], biases[i], f"layer_{n}_{i}") for i in range(5)])
        self.variables_of_gates = [(g.kernels, g.bias) for layer in self.gate_kernels for g in layer]
        del self.own, self.below, self.above, self.biases

    def _layer(
        self,
        n: int,
        works: tf.Tensor,
        below: tf.Tensor,
        end_below: tf.Tensor,
        own: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
        above: tf.Tensor | None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        hidden, memory, ended = own

        def work() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            rows = [hidden, end_below * below] + ([] if above is None else [ended * above])
            last = n + 1 == self.hyper.layers
            made = [gate(*rows) for gate in self.gate_kernels[n][: 4 if last else 5]]
            keep, entry, exit_ = map(tf.sigmoid, made[:3])
            fresh = (1.0 - ended) * keep * memory + entry * tf.tanh(made[3])
            return exit_ * tf.tanh(fresh), fresh, tf.constant(0.0) if last else self._boundary(made[4][0, 0])

        return tf.cond(works, work, lambda: (hidden, memory, tf.zeros([])))
