"""The doubly recurrent network of Alvarez-Melis and Jaakkola, "Tree-structured decoding with doubly-recurrent neural
networks" (ICLR 2017): a tree of any arity out of a vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from recgraph.models.common import WordNetwork
from recgraph.models.hyper import Hyper
from recgraph.models.texts import to_numbers, to_text

Nested = tuple[int, tuple[Any, ...]]  # a label, and subtrees


class OrderedBatch(NamedTuple):
    """B trees, N nodes together; numpy arrays or tensors.

    Attributes:
      labels: int32 `[N]`.
      first: int32 `[N]`; the first child, -1 for none.
      next: int32 `[N]`; the next child of the same parent, -1 for none.
      roots: int32 `[B]`.
    """

    labels: Any
    first: Any
    next: Any
    roots: Any


class DRNN(WordNetwork):
    """Two recurrences meet in a node: one comes down from its parent, one goes on from the sibling before it.

    From both it decides whether it has children, whether it has a further sibling, and then, knowing both decisions,
    its label. The recurrences are GRUs.
    """

    defaults: ClassVar[Hyper] = Hyper(embedding=50, hidden=50)

    def __init__(self, labels: int, hyper: Hyper | None = None, seed: int = 0):
        """Creates the weights.

        Args:
          labels: number of labels.
          hyper: hyper-parameters; by default the class's own.
          seed: of the initial weights.
        """
        super().__init__(labels, hyper or self.defaults, None, seed)
        embedding, hidden = self.hyper.embedding, self.hyper.hidden
        for way in ("down", "on"):
            setattr(self, f"{way}_gates", self._matrix(f"{way}_gates", embedding + hidden, 2 * hidden))
            setattr(self, f"{way}_update", self._matrix(f"{way}_update", embedding + hidden, hidden))
        self.meet = self._matrix("meet", 2 * hidden, hidden)
        self.more_kernel = self._matrix("more_kernel", hidden, 2)
        self.more_bias = self._zeros("more_bias", 2)
        self.label_kernel = self._matrix("label_kernel", hidden + 2, labels)
        self.label_bias = self._zeros("label_bias", labels)

    def advance(self, way: str, vector: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """One step of a GRU, "down" or "on": the next state, `[1, H]`, from a label's vector `[1, E]` and the state."""
        gates = tf.sigmoid(tf.matmul(tf.concat([vector, state], 1), getattr(self, f"{way}_gates")))
        keep, reset = tf.split(gates, 2, 1)
        update = tf.tanh(tf.matmul(tf.concat([vector, reset * state], 1), getattr(self, f"{way}_update")))
        return keep * state + (1.0 - keep) * update

    def more_logits(self, down: tf.Tensor, on: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Where the recurrences meet, `[1, H]`, and how sure it is of children and of a sibling, `[2]`."""
        met = tf.tanh(tf.matmul(tf.concat([down, on], 1), self.meet))
        return met, tf.nn.bias_add(tf.matmul(met, self.more_kernel), self.more_bias)[0]

    def label_logits(self, met: tf.Tensor, more: tf.Tensor) -> tf.Tensor:
        """Scores of the labels, `[1, V]`, given what was decided, bool `[2]`."""
        features = tf.concat([met, tf.cast(more, tf.float32)[tf.newaxis]], 1)
        return tf.nn.bias_add(tf.matmul(features, self.label_kernel), self.label_bias)

    def loss(self, batch: Any, vectors: tf.Tensor) -> tf.Tensor:
        """Minus the log-probability of given trees: labels and decisions, each after the true ones before it.

        Args:
          batch: an `OrderedBatch`.
          vectors: float32 `[B, H]`, what each tree is to be made of.

        Returns:
          For each tree, float32 `[B]`.
        """
        row = tf.TensorSpec([1, self.hyper.hidden])
        nothing = tf.zeros(row.shape)
        table = tf.stack([batch.labels, batch.first, batch.next], 1)
        with self.subgraph("loss", (tf.TensorSpec([], tf.int32), row, row), tf.TensorSpec([])) as tree:
            node, down, on = tree.input(tf.int32), tree.input(shape=row.shape), tree.input(shape=row.shape)
            label, first, following = tf.unstack(tf.gather(table, node), num=3)
            vector = self.embed(label[tf.newaxis])
            more = tf.stack([first, following]) >= 0
            met, logits = self.more_logits(down, on)
            own = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=label[tf.newaxis], logits=self.label_logits(met, more)
            )
            shape = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(more, tf.float32), logits=logits)
            below = tf.cond(more[0], lambda: tree(first, self.advance("down", vector, down), nothing), lambda: 0.0)
            beside = tf.cond(more[1], lambda: tree(following, down, self.advance("on", vector, on)), lambda: 0.0)
            tree.output(own[0] + tf.reduce_sum(shape) + below + beside)
        rows = vectors[:, tf.newaxis]
        return tree.map(batch.roots, rows, tf.zeros_like(rows))

    def generate(self, vectors: tf.Tensor, most_levels: int = 8) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """The trees that the network makes of vectors float32 `[B, H]`, the likeliest decision taken everywhere.

        Returns:
          Labels, int32 `[B, (n)]`, in pre-order, and the level of each node, 0 at the root.
        """
        row, scalar = tf.TensorSpec([1, self.hyper.hidden]), tf.TensorSpec([], tf.int32)
        nothing, no_nodes = tf.zeros(row.shape), tf.zeros([2, 0], tf.int32)
        with self.subgraph("nodes", (scalar, scalar, row, row), tf.TensorSpec([2, None], tf.int32)) as tree:
            level, place = tree.input(tf.int32), tree.input(tf.int32)
            down, on = tree.input(shape=row.shape), tree.input(shape=row.shape)
            met, logits = self.more_logits(down, on)
            # A root has no sibling, and a circle of decisions would be a tree without end.
            possible = tf.stack([level < most_levels, (level > 0) & (place < most_levels)])
            more = (logits > 0) & possible
            label = tf.argmax(self.label_logits(met, more), 1, tf.int32)
            vector = self.embed(label)
            below = tf.cond(
                more[0], lambda: tree(level + 1, 0, self.advance("down", vector, down), nothing), lambda: no_nodes
            )
            beside = tf.cond(
                more[1], lambda: tree(level, place + 1, down, self.advance("on", vector, on)), lambda: no_nodes
            )
            tree.output(tf.concat([tf.stack([label, level[tf.newaxis]]), below, beside], 1))
        with self.subgraph("texts", row, tf.TensorSpec([2], tf.string)) as texts:
            texts.output(to_text(tree(0, 0, texts.input(shape=row.shape), nothing)))
        made = texts.map(vectors[:, tf.newaxis])
        return to_numbers(made[:, 0]), to_numbers(made[:, 1])


def ordered_batch(trees: Sequence[Nested]) -> OrderedBatch:
    """One batch, in numpy, of trees that are pairs of a label and a tuple of subtrees: `(3, ((1, ()), (2, ())))`."""
    labels: list[int] = []
    links: list[list[int]] = []

    def add(tree: Nested) -> int:
        number = len(labels)
        labels.append(tree[0])
        links.append([-1, -1])
        below = [add(child) for child in tree[1]]
        links[number][0] = below[0] if below else -1
        for child, following in zip(below, below[1:], strict=False):
            links[child][1] = following
        return number

    roots = [add(tree) for tree in trees]
    first, following = np.array(links, np.int32).reshape(-1, 2).T
    return OrderedBatch(np.array(labels, np.int32), first, following, np.array(roots, np.int32))
