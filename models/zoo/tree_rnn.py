"""TreeRNN (Socher et al., 2011), as recursion over plain Python objects."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.zoo import trees
from recgraph.models.zoo.program import Program
from recgraph.models.zoo.trees import TreeNetwork


class TreeRNN(TreeNetwork):
    """`h = tanh([left, right] W + b)`; embedding and hidden size are the same."""

    def make_weights(self, embedding: int, hidden: int) -> None:
        """One matrix for two children."""
        self.kernel = self.weights.uniform([2 * hidden, hidden])
        self.bias = self.weights.constant([hidden])

    def leaf(self, vector: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """The word's vector, squashed."""
        return (tf.tanh(vector),)

    def compose(self, left: tuple[tf.Tensor, ...], right: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        """One affine map of both children."""
        return (tf.tanh(tf.matmul(tf.concat([left[0], right[0]], 1), self.kernel) + self.bias),)


def _make(small: bool) -> TreeRNN:
    return TreeRNN(20, 6, 6, 5) if small else TreeRNN(2000, 30, 30, 5)


TREE_RNN = Program("TreeRNN", _make, trees.steps, 25, 2, "sentences", trees.sentences, "SST")
