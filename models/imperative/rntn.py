"""The recursive neural tensor network (Socher et al., 2013), as recursion over plain Python objects."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.imperative.network import State, TreeNetwork


class RNTN(TreeNetwork):
    """`h = tanh(c V c' + c W + b)` with `c = [left, right]`; embedding and hidden size are the same."""

    def make_weights(self, embedding: int, hidden: int) -> None:
        """`V` as a matrix that multiplies the outer product of the children, as one row."""
        self.kernel = self.weights.uniform([2 * hidden, hidden])
        self.bias = self.weights.constant([hidden])
        self.tensor = self.weights.uniform([4 * hidden * hidden, hidden], 0.1 / (4 * hidden))

    def leaf(self, vector: tf.Tensor) -> State:
        """The word's vector, squashed."""
        return (tf.tanh(vector),)

    def compose(self, left: State, right: State) -> State:
        """An affine map of both children, and a quadratic one."""
        both = tf.concat([left[0], right[0]], 1)
        pairs = tf.reshape(tf.matmul(both, both, transpose_a=True), [1, -1])
        return (tf.tanh(tf.matmul(both, self.kernel) + self.bias + tf.matmul(pairs, self.tensor)),)
