"""GCN (Kipf and Welling, 2017): papers classified by their words and by whom they cite, all in each step."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer


class GraphConvolution(tf.keras.layers.Layer):
    """Each node becomes a mean of what its neighbours become by themselves."""

    def __init__(self, outputs: int):
        """Args: numbers a node after it."""
        super().__init__()
        self.dense, self.drop = tf.keras.layers.Dense(outputs, use_bias=False), tf.keras.layers.Dropout(0.5)

    def call(self, nodes: tf.Tensor, neighbours: tf.SparseTensor) -> tf.Tensor:
        """float32 `[N, inputs]` to `[N, outputs]`, by weights of edges, sparse float32 `[N, N]`."""
        return tf.sparse.sparse_dense_matmul(neighbours, self.dense(self.drop(nodes)))


class Network(tf.keras.Model):
    """Two convolutions."""

    def __init__(self, hidden: int, classes: int):
        """Args: numbers a node between them, and the number of classes."""
        super().__init__()
        self.first, self.second = GraphConvolution(hidden), GraphConvolution(classes)

    def call(self, nodes: tf.Tensor, neighbours: tf.SparseTensor) -> tf.Tensor:
        """Scores, float32 `[N, classes]`, of words, float32 `[N, words]`, and edges, sparse float32 `[N, N]`."""
        return self.second(tf.nn.relu(self.first(nodes, neighbours)), neighbours)


class GCN(Trainer):
    """The network with its training."""

    def __init__(self, words: int = 1433, hidden: int = 128, classes: int = 7, decay: float = 5e-4):
        """Args: sizes, and the weight of the first layer's squares."""
        tf.keras.utils.set_random_seed(0)
        self.decay = decay
        self.network = Network(hidden, classes)
        self.network(tf.zeros([1, words]), tf.sparse.eye(1))
        super().__init__((self.network, tf.keras.optimizers.Adam(0.01)))

    def train_step(
        self, nodes: tf.Tensor, neighbours: tf.SparseTensor, labels: tf.Tensor, learned: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One step over all papers.

        Args:
          nodes: how often each word is in each paper, float32 `[N, words]`.
          neighbours: weights of edges, sparse float32 `[N, N]`.
          labels: int32 `[N]`.
          learned: whose classes are known, bool `[N]`.

        Returns:
          The mean loss before it, and the part of the other papers that it then classifies well, float32 scalars.
        """
        with tf.GradientTape() as tape:
            scores = self.network(nodes, neighbours, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
            loss = masked_mean(losses, learned) + self.decay * tf.nn.l2_loss(self.network.first.dense.kernel)
        self.learn(tape, loss)
        right = tf.equal(tf.argmax(self.network(nodes, neighbours), 1, tf.int32), labels)
        return loss, masked_mean(tf.cast(right, tf.float32), ~learned)


def masked_mean(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The mean, float32 scalar, of values, `[N]`, where a mask, bool `[N]`, is set."""
    weights = tf.cast(mask, tf.float32)
    return tf.reduce_sum(values * weights) / tf.reduce_sum(weights)


def papers(count: int, words: int, classes: int, seed: int = 0) -> Step:
    """Papers that mostly cite their own class, with words of it; see `GCN.train_step`."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, count)
    frequent = random.random((classes, words)) < 0.1
    nodes = (random.random((count, words)) < np.where(frequent[labels], 0.2, 0.02)).astype(np.float32)
    same = labels[:, None] == labels[None, :]
    edges = np.triu(random.random((count, count)) < np.where(same, 4.0, 0.5) * 4 / count, 1)
    edges = (edges | edges.T | np.eye(count, dtype=bool)).astype(np.float32)
    scale = 1.0 / np.sqrt(edges.sum(1))
    neighbours = tf.sparse.from_dense(edges * scale[:, None] * scale[None, :])
    learned = random.random(count) < 0.3
    return tf.constant(nodes), neighbours, tf.constant(labels.astype(np.int32)), tf.constant(learned)


def _make(small: bool) -> GCN:
    return GCN(20, 8, 3) if small else GCN()


def _steps(batch_size: int, small: bool) -> list[Step]:
    words, classes = (20, 3) if small else (1433, 7)
    return [papers(batch_size, words, classes)]


GCN_CORA = Program("GCN", _make, _steps, 2708, 30, "papers", lambda step: len(step[2]), "Cora")
