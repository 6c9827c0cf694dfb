"""The recursive neural tensor network of Socher et al., "Recursive Deep Models for Semantic Compositionality Over a
Sentiment Treebank" (EMNLP 2013), section 4.3."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import tensorflow as tf

from recgraph.models.common import TreeModel
from recgraph.models.hyper import Hyper, State
from recgraph.models.tree_rnn import require_equal_sizes


class RNTN(TreeModel):
    """`h_k = tanh(c V_k c' + (c W + b)_k)` with `c = [h_left, h_right]`: every pair of children's units has a weight.

    `V` is kept as a `[4HH, H]` matrix, so a node multiplies the outer product of `c`, as one row, by it.
    It starts small and learns slowly, see `rate`.
    """

    defaults: ClassVar[Hyper] = Hyper(embedding=30, hidden=30, learning_rate=0.02, embedding_rate=1.0)

    def __init__(
        self,
        vocabulary_size: int,
        hyper: Hyper | None = None,
        vectors: np.ndarray | None = None,
        seed: int = 0,
    ):
        """See `TreeModel`. A word's vector is the state of its leaf, so `embedding` and `hidden` must be equal."""
        super().__init__(vocabulary_size, hyper, vectors, seed)
        require_equal_sizes(self.hyper)
        hidden = self.hyper.hidden
        self.kernel = self._matrix("kernel", 2 * hidden, hidden)
        self.bias = self._zeros("bias", hidden)
        self.tensor = self._matrix("tensor", 4 * hidden * hidden, hidden, bound=0.1 / (4 * hidden))

    def rate(self, weight: tf.Variable) -> float:
        """A tenth for the tensor. Adagrad's first steps move each of its weights by the whole rate, however small the
        gradients are, and the sum over all pairs then saturates the tanh for good."""
        return super().rate(weight) * (0.1 if weight is self.tensor else 1.0)

    def leaf(self, vector: tf.Tensor) -> State:
        """The word's own vector, squashed as all hidden rows are."""
        return (tf.tanh(vector),)

    def compose(self, left: State, right: State) -> State:
        """An affine map of both children, and a quadratic one."""
        children = tf.concat([left[0], right[0]], 1)
        pairs = tf.reshape(tf.matmul(children, children, transpose_a=True), [1, 4 * self.hyper.hidden**2])
        linear = tf.nn.bias_add(tf.matmul(children, self.kernel), self.bias)
        return (tf.tanh(linear + tf.matmul(pairs, self.tensor)),)
