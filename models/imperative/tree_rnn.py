"""TreeRNN (Socher et al., 2011), as recursion over plain Python objects."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.imperative.network import State, TreeNetwork


class TreeRNN(TreeNetwork):
    """`h = tanh([left, right] W + b)`; embedding and hidden size are the same."""

    def make_weights(self, embedding: int, hidden: int) -> None:
        """One matrix for two children."""
        self.kernel = self.weights.uniform([2 * hidden, hidden])
        self.bias = self.weights.constant([hidden])

    def leaf(self, vector: tf.Tensor) -> State:
        """The word's vector, squashed."""
        return (tf.tanh(vector),)

    def compose(self, left: State, right: State) -> State:
        """One affine map of both children."""
        return (tf.tanh(tf.matmul(tf.concat([left[0], right[0]], 1), self.kernel) + self.bias),)
