"""The hierarchical multiscale recurrent network of Chung, Ahn and Bengio (ICLR 2017): a language model that finds where
its segments end; a layer works only where the layer below it has found an end, or where it has just ended itself."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import tensorflow as tf

from recgraph.models.common import WordNetwork
from recgraph.models.hyper import Hyper


@dataclasses.dataclass(frozen=True)
class MultiscaleHyper(Hyper):
    """As `Hyper`.

    Attributes:
      layers: how many, the slowest last.
      slope: of the hard sigmoid that decides on boundaries; the paper raises it while it trains.
    """

    layers: int = 3
    slope: float = 1.0


class HMRNN(WordNetwork):
    """The cell and the output module of the paper, a time step being an invocation that calls the next.

    Where a layer copies its state, nothing of it is computed, a branch and not a product with 0. The price: a layer
    that copies finds no end, and its gates have no gradient there. Elsewhere it is the paper's straight-through one.
    """

    defaults: ClassVar[MultiscaleHyper] = MultiscaleHyper(embedding=128, hidden=512)

    def __init__(self, symbols: int, hyper: MultiscaleHyper | None = None, seed: int = 0):
        """Creates the weights.

        Args:
          symbols: number of symbols.
          hyper: hyper-parameters; by default the class's own.
          seed: of the initial weights.
        """
        super().__init__(symbols, hyper or self.defaults, None, seed)
        embedding, hidden, layers = self.hyper.embedding, self.hyper.hidden, self.hyper.layers
        gates = 4 * hidden + 1
        self.own = [self._matrix(f"own_{n}", hidden, gates) for n in range(layers)]
        self.below = [self._matrix(f"below_{n}", hidden if n else embedding, gates) for n in range(layers)]
        self.above = [self._matrix(f"above_{n}", hidden, gates) for n in range(layers - 1)]
        self.biases = [self._zeros(f"bias_{n}", gates) for n in range(layers)]
        self.out_gates = self._matrix("out_gates", layers * hidden, layers)
        self.out_kernel = self._matrix("out_kernel", layers * hidden, embedding)
        self.symbol_kernel = self._matrix("symbol_kernel", embedding, symbols)
        self.symbol_bias = self._zeros("symbol_bias", symbols)

    def loss(self, symbols: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Predicts every symbol but the first from those before it.

        Args:
          symbols: int32 `[B, T]`.
          lengths: int32 `[B]`, symbols in each sequence; the rest of a row is not read.

        Returns:
          For each sequence, float32 `[B]`: the sum of the cross-entropies, and how many times a layer has worked.
        """
        size, layers = self.hyper.hidden, self.hyper.layers
        scalar, rows, ends = tf.TensorSpec([], tf.int32), tf.TensorSpec([layers, size]), tf.TensorSpec([layers])
        with self.subgraph("read", (scalar, scalar, rows, rows, ends), tf.TensorSpec([2])) as read:
            sequence, time = read.input(tf.int32), read.input(tf.int32)
            state = read.input(shape=rows.shape), read.input(shape=rows.shape), read.input(shape=ends.shape)
            entry = self.embed(symbols[sequence, time][tf.newaxis])
            hidden, memory, bounds, worked = self.step(entry, *state)
            target = symbols[sequence, time + 1][tf.newaxis]
            own = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=self.logits(hidden))
            rest = tf.cond(
                time + 2 < lengths[sequence],
                lambda: read(sequence, time + 1, hidden, memory, bounds),
                lambda: tf.zeros([2]),
            )
            read.output(rest + tf.stack([own[0], worked]))
        with self.subgraph("sequence", scalar, tf.TensorSpec([2])) as whole:
            sequence = whole.input(tf.int32)
            nothing = tf.zeros(rows.shape)
            whole.output(
                tf.cond(
                    lengths[sequence] > 1,
                    lambda: read(sequence, 0, nothing, nothing, tf.zeros(ends.shape)),
                    lambda: tf.zeros([2]),
                )
            )
        results = whole.map(tf.range(tf.size(lengths)))
        return results[:, 0], results[:, 1]

    def step(
        self, entry: tf.Tensor, hidden: tf.Tensor, memory: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """A time step: hidden and memory rows `[L, H]` and boundaries `[L]` after an entry `[1, E]`; layers at work."""
        layers = self.hyper.layers
        made: list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]] = []
        worked = tf.constant(0.0)
        row, end_below = entry, tf.constant(1.0)
        for n in range(layers):
            own = hidden[n : n + 1], memory[n : n + 1], ends[n]
            from_above = hidden[n + 1 : n + 2] if n + 1 < layers else None
            works = (end_below > 0.5) | (ends[n] > 0.5)
            made.append(self._layer(n, works, row, end_below, own, from_above))
            worked += tf.cast(works, tf.float32)
            row, _, end_below = made[-1]
        rows, memories, bounds = zip(*made, strict=True)
        return tf.concat(rows, 0), tf.concat(memories, 0), tf.stack(bounds), worked

    def _layer(
        self,
        n: int,
        works: tf.Tensor,
        below: tf.Tensor,
        end_below: tf.Tensor,
        own: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
        above: tf.Tensor | None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """UPDATE and FLUSH where a layer works, else COPY: its rows `[1, H]` and its boundary."""
        size = self.hyper.hidden
        hidden, memory, ended = own

        def work() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            gates = tf.nn.bias_add(tf.matmul(hidden, self.own[n]), self.biases[n])
            gates += end_below * tf.matmul(below, self.below[n])
            if above is not None:
                gates += ended * tf.matmul(above, self.above[n])
            sigmoids, update, end = tf.split(gates, [3 * size, size, 1], 1)
            keep, entry, exit_ = tf.split(tf.sigmoid(sigmoids), 3, 1)
            fresh = (1.0 - ended) * keep * memory + entry * tf.tanh(update)  # FLUSH forgets what has ended
            last = n + 1 == self.hyper.layers  # nobody asks where the segments of the last layer end
            return exit_ * tf.tanh(fresh), fresh, tf.constant(0.0) if last else self._boundary(end[0, 0])

        return tf.cond(works, work, lambda: (hidden, memory, tf.zeros([])))

    def _boundary(self, score: tf.Tensor) -> tf.Tensor:
        """0 or 1; its gradient is that of the hard sigmoid."""
        soft = tf.clip_by_value((self.hyper.slope * score + 1.0) / 2.0, 0.0, 1.0)
        return soft + tf.stop_gradient(tf.cast(soft > 0.5, tf.float32) - soft)

    def logits(self, hidden: tf.Tensor) -> tf.Tensor:
        """Scores of the next symbol, float32 `[1, V]`, from all layers' rows `[L, H]`, each with a gate."""
        layers, size = self.hyper.layers, self.hyper.hidden
        flat = tf.reshape(hidden, [1, layers * size])
        gates = tf.sigmoid(tf.matmul(flat, self.out_gates))
        gated = tf.reshape(tf.transpose(gates) * hidden, [1, layers * size])
        features = tf.nn.relu(tf.matmul(gated, self.out_kernel))
        return tf.nn.bias_add(tf.matmul(features, self.symbol_kernel), self.symbol_bias)
