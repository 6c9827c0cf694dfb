"""The child-sum TreeLSTM of Tai, Socher and Manning, "Improved Semantic Representations From Tree-Structured Long
Short-Term Memory Networks" (ACL 2015), sections 3.1 and 4.2: how related two sentences are."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from recgraph.models.common import Hyper, State, WordNetwork


@dataclasses.dataclass(frozen=True)
class RelatednessHyper(Hyper):
    """As `Hyper`; `classes` are the whole scores 1 .. classes.

    Attributes:
      similarity: size of the hidden layer that compares two sentences.
    """

    similarity: int = 50


class ChildSum(WordNetwork):
    """A node has a word and any number of children: their hidden rows are summed, each has a forget gate of its own.

    The children are one `map`, and a node without children maps over no rows, so the recursion needs no branch to end.
    """

    defaults: ClassVar[RelatednessHyper] = RelatednessHyper(embedding=300, hidden=150)

    def __init__(
        self,
        vocabulary_size: int,
        hyper: RelatednessHyper | None = None,
        vectors: np.ndarray | None = None,
        seed: int = 0,
    ):
        """See `TreeModel`. The paper holds pre-trained vectors fixed; `embedding_rate=0` does."""
        super().__init__(vocabulary_size, hyper or self.defaults, vectors, seed)
        embedding, hidden = self.hyper.embedding, self.hyper.hidden
        similarity, classes = self.hyper.similarity, self.hyper.classes
        self.word_kernel = self._matrix("word_kernel", embedding, 4 * hidden)
        self.sum_kernel = self._matrix("sum_kernel", hidden, 3 * hidden)
        self.forget_kernel = self._matrix("forget_kernel", hidden, hidden)
        self.bias = self._zeros("bias", 4 * hidden)
        self.similarity_kernel = self._matrix("similarity_kernel", 2 * hidden, similarity)
        self.similarity_bias = self._zeros("similarity_bias", similarity)
        self.output_kernel = self._matrix("output_kernel", similarity, classes)
        self.output_bias = self._zeros("output_bias", classes)

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

    def hidden_rows(self, batch: Any, nodes: tf.Tensor) -> tf.Tensor:
        """Hidden rows, float32 `[n, H]`, of some nodes, int32 `[n]`, of a `PairBatch`."""
        size = self.hyper.hidden
        row = tf.TensorSpec([1, size])
        with self.subgraph("tree", tf.TensorSpec([], tf.int32), (row, row)) as tree:
            node = tree.input(tf.int32)
            hidden, memory = tree.map(batch.children[batch.offsets[node] : batch.offsets[node + 1]])
            children = tf.reshape(hidden, [-1, size]), tf.reshape(memory, [-1, size])
            tree.output(self.node(self.embed(batch.words[node][None]), children))
        return tf.reshape(tree.map(nodes)[0], [-1, size])

    def logits(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """Class scores, float32 `[B, C]`, of the roots' hidden rows, each `[B, H]`."""
        features = tf.concat([left * right, tf.abs(left - right)], 1)
        compared = tf.sigmoid(tf.nn.bias_add(tf.matmul(features, self.similarity_kernel), self.similarity_bias))
        return tf.nn.bias_add(tf.matmul(compared, self.output_kernel), self.output_bias)

    def loss(self, batch: Any, dropout_seed: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """The divergence of the predicted distribution over classes from the target.

        Args:
          batch: a `recgraph.data.PairBatch`.
          dropout_seed: not used; the paper drops nothing in this task.

        Returns:
          The sum over the pairs, float32 scalar, and the predicted scores, float32 `[B]`.
        """
        logits = self._pair_logits(batch)
        target = sparse_target(batch.scores, self.hyper.classes)
        entropy = -tf.reduce_sum(tf.math.xlogy(target, target), 1)
        losses = tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=logits) - entropy
        return tf.reduce_sum(losses), tf.stop_gradient(expected_score(logits))

    def predict(self, batch: Any) -> tf.Tensor:
        """The predicted scores of a `PairBatch`, float32 `[B]`."""
        return expected_score(self._pair_logits(batch))

    def _pair_logits(self, batch: Any) -> tf.Tensor:
        pairs = tf.size(batch.left)
        rows = self.hidden_rows(batch, tf.concat([batch.left, batch.right], 0))
        return self.logits(rows[:pairs], rows[pairs:])


def sparse_target(scores: tf.Tensor, classes: int) -> tf.Tensor:
    """The distribution over 1 .. classes whose mean is the score and that has two neighbours at most, float32 `[B, C]`.

    Section 4.2 of the paper; a hat function around the score.
    """
    whole = tf.range(1.0, classes + 1.0)
    return tf.maximum(0.0, 1.0 - tf.abs(scores[:, tf.newaxis] - whole))


def expected_score(logits: tf.Tensor) -> tf.Tensor:
    """The mean of 1 .. C under the distribution, float32 `[B]`: `r^T p`."""
    classes = logits.shape[1]
    return tf.linalg.matvec(tf.nn.softmax(logits), tf.range(1.0, classes + 1.0))
