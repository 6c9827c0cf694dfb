"""Attention over the children of a node: what a word takes of each of its dependents is a softmax over them, as in
Bahdanau, Cho and Bengio, "Neural Machine Translation by Jointly Learning to Align and Translate" (ICLR 2015)."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.hyper import State
from recgraph.models.relatedness import PairModel


class ChildAttention(PairModel):
    """`h = tanh([x, a] W + b)`: the word's vector x, and the children's rows C weighted by `a = softmax(x Q C') C`."""

    def make_cell(self) -> None:
        """See `PairModel`."""
        embedding, hidden = self.hyper.embedding, self.hyper.hidden
        self.query_kernel = self._matrix("query_kernel", embedding, hidden)
        self.kernel = self._matrix("kernel", embedding + hidden, hidden)
        self.bias = self._zeros("bias", hidden)

    def node(self, vector: tf.Tensor, children: State) -> State:
        """See `PairModel`. Without children nothing is taken: a product over no rows is zero."""
        (rows,) = children
        scores = tf.matmul(tf.matmul(vector, self.query_kernel), rows, transpose_b=True)
        taken = tf.matmul(tf.nn.softmax(scores), rows)
        return (tf.tanh(tf.nn.bias_add(tf.matmul(tf.concat([vector, taken], 1), self.kernel), self.bias)),)
