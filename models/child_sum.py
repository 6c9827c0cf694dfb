"""The child-sum TreeLSTM of Tai, Socher and Manning, "Improved Semantic Representations From Tree-Structured Long
Short-Term Memory Networks" (ACL 2015), section 3.1."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.hyper import State
from recgraph.models.relatedness import PairModel


class ChildSum(PairModel):
    """The hidden rows of a node's children are summed, and each child has a forget gate of its own."""

    def make_cell(self) -> None:
        """See `PairModel`."""
        embedding, hidden = self.hyper.embedding, self.hyper.hidden
        self.word_kernel = self._matrix("word_kernel", embedding, 4 * hidden)
        self.sum_kernel = self._matrix("sum_kernel", hidden, 3 * hidden)
        self.forget_kernel = self._matrix("forget_kernel", hidden, hidden)
        self.bias = self._zeros("bias", 4 * hidden)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """Hidden row and memory row."""
        return (self.hyper.hidden, self.hyper.hidden)

    def node(self, vector: tf.Tensor, children: State) -> State:
        """Equations 2-8: the state, two `[1, H]`, of a word's vector `[1, E]` and of its K children, two `[K, H]`."""
        hidden = self.hyper.hidden
        word = tf.nn.bias_add(tf.matmul(vector, self.word_kernel), self.bias)
        word_gates, word_forget = tf.split(word, [3 * hidden, hidden], 1)
        gates = word_gates + tf.matmul(tf.reduce_sum(children[0], 0, keepdims=True), self.sum_kernel)
        sigmoids, update = tf.split(gates, [2 * hidden, hidden], 1)
        entry, exit_ = tf.split(tf.sigmoid(sigmoids), 2, 1)
        keep = tf.sigmoid(word_forget + tf.matmul(children[0], self.forget_kernel))
        memory = entry * tf.tanh(update) + tf.reduce_sum(keep * children[1], 0, keepdims=True)
        return exit_ * tf.tanh(memory), memory
