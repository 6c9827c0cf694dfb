"""The plain recursive network of Socher et al. (2011, 2013): one matrix merges two children."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import tensorflow as tf

from recgraph.models.common import TreeModel
from recgraph.models.hyper import Hyper, State


class TreeRNN(TreeModel):
    """`h = tanh([h_left, h_right] W + b)`, and at a leaf the tanh of the word's vector."""

    defaults: ClassVar[Hyper] = Hyper(embedding=30, hidden=30, learning_rate=0.02, embedding_rate=3.0)

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
        self.kernel = self._matrix("kernel", 2 * self.hyper.hidden, self.hyper.hidden)
        self.bias = self._zeros("bias", self.hyper.hidden)

    def leaf(self, vector: tf.Tensor) -> State:
        """The word's own vector, squashed as all hidden rows are."""
        return (tf.tanh(vector),)

    def compose(self, left: State, right: State) -> State:
        """One affine map of both children."""
        children = tf.concat([left[0], right[0]], 1)
        return (tf.tanh(tf.nn.bias_add(tf.matmul(children, self.kernel), self.bias)),)


def require_equal_sizes(hyper: Hyper) -> None:
    """Refuses sizes that cannot work where a word's vector is a hidden row.

    Raises:
      ValueError: if they differ.
    """
    if hyper.embedding != hyper.hidden:
        raise ValueError(
            f"embedding and hidden must be equal in this model, found {hyper.embedding} and {hyper.hidden}. "
            "A leaf's hidden row is its word's vector; TreeLSTM takes different sizes."
        )
