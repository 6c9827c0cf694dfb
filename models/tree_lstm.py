"""The constituency TreeLSTM of Tai, Socher and Manning, "Improved Semantic Representations From Tree-Structured Long
Short-Term Memory Networks" (ACL 2015), section 3.2 with two children."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import tensorflow as tf

from recgraph.models.common import TreeModel
from recgraph.models.hyper import Hyper, State


class TreeLSTM(TreeModel):
    """Inner nodes have an input, an output and an update gate, and one forget gate for each child.

    The gates of a node are one product: `[1, E] @ [E, 3H]` at a leaf, `[1, 2H] @ [2H, 5H]` at an inner node. The
    sigmoid gates are neighbours, so that one Sigmoid serves them all.
    """

    defaults: ClassVar[Hyper] = Hyper(embedding=300, hidden=150, dropout=0.5)

    def __init__(
        self,
        vocabulary_size: int,
        hyper: Hyper | None = None,
        vectors: np.ndarray | None = None,
        seed: int = 0,
    ):
        """See `TreeModel`."""
        super().__init__(vocabulary_size, hyper, vectors, seed)
        embedding, hidden = self.hyper.embedding, self.hyper.hidden
        self.leaf_kernel = self._matrix("leaf_kernel", embedding, 3 * hidden)
        self.leaf_bias = self._zeros("leaf_bias", 3 * hidden)
        self.inner_kernel = self._matrix("inner_kernel", 2 * hidden, 5 * hidden)
        self.inner_bias = self._zeros("inner_bias", 5 * hidden)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """Hidden row and memory row."""
        return (self.hyper.hidden, self.hyper.hidden)

    def leaf(self, vector: tf.Tensor) -> State:
        """No children, so nothing to forget: the memory is the gated update."""
        hidden = self.hyper.hidden
        gates = tf.nn.bias_add(tf.matmul(vector, self.leaf_kernel), self.leaf_bias)
        sigmoids, update = tf.split(gates, [2 * hidden, hidden], 1)
        entry, exit_ = tf.split(tf.sigmoid(sigmoids), 2, 1)
        memory = entry * tf.tanh(update)
        return exit_ * tf.tanh(memory), memory

    def compose(self, left: State, right: State) -> State:
        """The memory is the gated update and what each child's forget gate lets through of that child's memory."""
        hidden = self.hyper.hidden
        children = tf.concat([left[0], right[0]], 1)
        gates = tf.nn.bias_add(tf.matmul(children, self.inner_kernel), self.inner_bias)
        sigmoids, update = tf.split(gates, [4 * hidden, hidden], 1)
        entry, exit_, keep_left, keep_right = tf.split(tf.sigmoid(sigmoids), 4, 1)
        memory = entry * tf.tanh(update) + keep_left * left[1] + keep_right * right[1]
        return exit_ * tf.tanh(memory), memory
