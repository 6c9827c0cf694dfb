"""The gated recursive network of Chen, Qiu, Zhu, Wu and Huang, "Sentence Modeling with Gated Recursive Neural Network"
(EMNLP 2015): the gated recurrent unit for two children."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import tensorflow as tf

from recgraph.models.common import TreeModel
from recgraph.models.hyper import Hyper, State


class TreeGRU(TreeModel):
    """A node is, unit by unit, a mixture of a candidate and of its two children.

    Reset gates say what of the children the candidate sees; the parts of the mixture are a softmax over the three.
    """

    defaults: ClassVar[Hyper] = Hyper(embedding=150, hidden=150, dropout=0.5)

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
        self.leaf_kernel = self._matrix("leaf_kernel", embedding, hidden)
        self.leaf_bias = self._zeros("leaf_bias", hidden)
        self.reset_kernel = self._matrix("reset_kernel", 2 * hidden, 2 * hidden)
        self.reset_bias = self._zeros("reset_bias", 2 * hidden)
        self.candidate_kernel = self._matrix("candidate_kernel", 2 * hidden, hidden)
        self.candidate_bias = self._zeros("candidate_bias", hidden)
        self.mixture_kernel = self._matrix("mixture_kernel", 3 * hidden, 3 * hidden)
        self.mixture_bias = self._zeros("mixture_bias", 3 * hidden)

    def leaf(self, vector: tf.Tensor) -> State:
        """An affine map of the word's vector, squashed."""
        return (tf.tanh(tf.nn.bias_add(tf.matmul(vector, self.leaf_kernel), self.leaf_bias)),)

    def compose(self, left: State, right: State) -> State:
        """The candidate is made of the children as their reset gates let them through, then mixed with them."""
        children = tf.concat([left[0], right[0]], 1)
        resets = tf.sigmoid(tf.nn.bias_add(tf.matmul(children, self.reset_kernel), self.reset_bias))
        candidate = tf.matmul(resets * children, self.candidate_kernel)
        candidate = tf.tanh(tf.nn.bias_add(candidate, self.candidate_bias))
        mixed = tf.concat([candidate, children], 1)
        scores = tf.nn.bias_add(tf.matmul(mixed, self.mixture_kernel), self.mixture_bias)
        thirds = [3, self.hyper.hidden]
        shares = tf.nn.softmax(tf.reshape(scores, thirds), 0)
        return (tf.reduce_sum(shares * tf.reshape(mixed, thirds), 0, keepdims=True),)
