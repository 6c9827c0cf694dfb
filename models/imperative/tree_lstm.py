"""The binary TreeLSTM (Tai et al., 2015), as recursion over plain Python objects."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.imperative.network import State, TreeNetwork


class TreeLSTM(TreeNetwork):
    """A forget gate for each child; a state is the output and the memory."""

    def make_weights(self, embedding: int, hidden: int) -> None:
        """Three gates at a leaf, five at a node."""
        self.leaf_kernel = self.weights.uniform([embedding, 3 * hidden])
        self.leaf_bias = self.weights.constant([3 * hidden])
        self.kernel = self.weights.uniform([2 * hidden, 5 * hidden])
        self.bias = self.weights.constant([5 * hidden])

    def leaf(self, vector: tf.Tensor) -> State:
        """Nothing is forgotten where nothing was remembered."""
        write, read, new = tf.split(tf.matmul(vector, self.leaf_kernel) + self.leaf_bias, 3, 1)
        memory = tf.sigmoid(write) * tf.tanh(new)
        return tf.sigmoid(read) * tf.tanh(memory), memory

    def compose(self, left: State, right: State) -> State:
        """Gates of both outputs, and both memories."""
        gates = tf.matmul(tf.concat([left[0], right[0]], 1), self.kernel) + self.bias
        write, read, forget_left, forget_right, new = tf.split(gates, 5, 1)
        kept = tf.sigmoid(forget_left) * left[1] + tf.sigmoid(forget_right) * right[1]
        memory = kept + tf.sigmoid(write) * tf.tanh(new)
        return tf.sigmoid(read) * tf.tanh(memory), memory
