"""TreeRNN and TreeLSTM by hand: the nodes of all trees as a table, and a SubGraph that goes through its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.models.imperative import Node, TreeNetwork
from recgraph.models.imperative.weights import descend

INTEGERS = tf.TensorSpec([None], tf.int32)


def table(trees: list[Node]) -> list[np.ndarray]:
    """The nodes of trees, parents after their parts: roots, and for each node left, right, word and label, int32.

    Parts that are not there are -1, and so is the word of an inner node.
    """
    rows: list[tuple[int, int, int, int]] = []

    def enter(node: Node) -> int:
        if node.left is None or node.right is None:
            rows.append((-1, -1, -1 if node.word is None else node.word, node.label))
        else:
            rows.append((enter(node.left), enter(node.right), -1, node.label))
        return len(rows) - 1

    roots = np.array([enter(tree) for tree in trees], np.int32)
    return [roots, *np.array(rows, np.int32).T.copy()]


def network(made: TreeNetwork) -> Any:
    """A step over a list of trees."""
    weights = made.weights.all

    @tf.function(autograph=False, input_signature=[INTEGERS] * 5)
    def graph(roots: tf.Tensor, left: tf.Tensor, right: tf.Tensor, word: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            visit = _visit(made, left, right, word, label)
            _, losses = visit.map(roots)
            loss = tf.reduce_sum(losses) / tf.cast(tf.size(roots), tf.float32)
        embedding, *gradients = tape.gradient(loss, weights)
        descend([made.embedding], [embedding], made.rates[1])
        made.optimizer.apply(gradients, weights[1:])
        return loss

    return lambda trees: graph(*map(tf.constant, table(trees)))


def _visit(made: TreeNetwork, left: tf.Tensor, right: tf.Tensor, word: tf.Tensor, label: tf.Tensor) -> rg.SubGraph:
    """State and summed loss of the row of a node."""
    hidden = tf.TensorSpec([1, made.output_kernel.shape[0]])
    states = len(made.leaf(tf.zeros([1, made.embedding.shape[1]])))
    visit = rg.SubGraph("visit", inputs=tf.TensorSpec([], tf.int32), outputs=((hidden,) * states, tf.TensorSpec([])))
    with visit:
        row = visit.declared_arguments()

        def at_leaf() -> Any:
            state = made.leaf(tf.gather(made.embedding, tf.gather(word, [row])))
            return state, made.node_loss(state, tf.gather(label, row))

        def inside() -> Any:
            one, one_loss = visit(tf.gather(left, row))
            other, other_loss = visit(tf.gather(right, row))
            state = made.compose(one, other)
            return state, made.node_loss(state, tf.gather(label, row)) + one_loss + other_loss

        visit.output(tf.cond(tf.gather(left, row) < 0, at_leaf, inside))
    return visit
