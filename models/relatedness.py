"""How related two sentences are, by dependency trees: Tai, Socher and Manning, "Improved Semantic Representations From
Tree-Structured Long Short-Term Memory Networks" (ACL 2015), section 4.2, with any cell for a node and its children."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from recgraph.data import whole
from recgraph.models.common import WordNetwork
from recgraph.models.hyper import Hyper, State


@dataclasses.dataclass(frozen=True)
class RelatednessHyper(Hyper):
    """As `Hyper`; `classes` are the whole scores 1 .. classes.

    Attributes:
      similarity: size of the hidden layer that compares two sentences.
    """

    similarity: int = 50


class PairModel(WordNetwork):
    """A node has a word and any number of children; a subclass has `state_sizes`, `make_cell` and `node`.

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
        self.make_cell()
        hidden, similarity, classes = self.hyper.hidden, self.hyper.similarity, self.hyper.classes
        self.similarity_kernel = self._matrix("similarity_kernel", 2 * hidden, similarity)
        self.similarity_bias = self._zeros("similarity_bias", similarity)
        self.output_kernel = self._matrix("output_kernel", similarity, classes)
        self.output_bias = self._zeros("output_bias", classes)

    def make_cell(self) -> None:
        """Creates the weights that `node` uses."""
        raise NotImplementedError

    def node(self, vector: tf.Tensor, children: State) -> State:
        """The state, rows `[1, size]`, of a word's vector `[1, E]` and of its K children, `[K, size]`."""
        raise NotImplementedError

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The sizes of the rows that make up a state, the hidden row first."""
        return (self.hyper.hidden,)

    def hidden_rows(self, batch: Any, nodes: tf.Tensor) -> tf.Tensor:
        """Hidden rows, float32 `[n, H]`, of some nodes, int32 `[n]`, of a `PairBatch`."""
        sizes = self.state_sizes
        rows = tuple(tf.TensorSpec([1, size]) for size in sizes)
        with self.subgraph("tree", tf.TensorSpec([], tf.int32), rows) as tree:
            node = tree.input(tf.int32)
            below = tree.map(batch.children[batch.offsets[node] : batch.offsets[node + 1]])
            children = tuple(tf.reshape(rows, [-1, size]) for rows, size in zip(below, sizes, strict=True))
            tree.output(self.node(self.embed(batch.words[node][None]), children))
        return tf.reshape(tree.map(nodes)[0], [-1, sizes[0]])

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
        batch = whole(batch)
        logits = self._pair_logits(batch)
        target = sparse_target(batch.scores, self.hyper.classes)
        entropy = -tf.reduce_sum(tf.math.xlogy(target, target), 1)
        losses = tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=logits) - entropy
        return tf.reduce_sum(losses), tf.stop_gradient(expected_score(logits))

    def predict(self, batch: Any) -> tf.Tensor:
        """The predicted scores of a `PairBatch`, float32 `[B]`."""
        return expected_score(self._pair_logits(whole(batch)))

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
