"""The matrix products of a model: what is left of it when everything else costs nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from recgraph.models import Hyper

LEAF, INNER, NODE = "leaf", "inner", "node"


@dataclasses.dataclass(frozen=True)
class Product:
    """`[rows, depth] @ [depth, width]` at every leaf, inner node or node.

    Attributes:
      at: one of the constants of this module.
      shared: whether the right factor is a weight, so that all nodes can be one product; else each has its own.
    """

    at: str
    depth: int
    width: int
    rows: int = 1
    shared: bool = True


def products(model: str, hyper: Hyper) -> list[Product]:
    """Those of one of `recgraph.models.MODELS`, without gradients."""
    hidden = hyper.hidden
    found = {
        "tree_rnn": [Product(INNER, 2 * hidden, hidden)],
        "rntn": [Product(INNER, 2 * hidden, hidden), Product(INNER, 4 * hidden**2, hidden)],
        "tree_lstm": [Product(LEAF, hyper.embedding, 3 * hidden), Product(INNER, 2 * hidden, 5 * hidden)],
        "tree_gru": [
            Product(LEAF, hyper.embedding, hidden),
            *(Product(INNER, *shape) for shape in ((2 * hidden,) * 2, (2 * hidden, hidden), (3 * hidden,) * 2)),
        ],
        "mv_rnn": [
            Product(LEAF, hyper.embedding // (2 * hidden) - 1, hidden, rows=hidden, shared=False),
            *[Product(INNER, hidden, hidden, shared=False)] * 2,
            Product(INNER, 2 * hidden, hidden),
            Product(INNER, 2 * hidden, hidden, rows=hidden),
        ],
    }
    return [*found[model], Product(NODE, hidden, hyper.classes)]


def graph(kinds: Sequence[Product], most: Mapping[str, int], training: bool) -> Any:
    """A graph of all products, each kind that shares a weight as one product over all its rows.

    In training there are two more for each: the gradients of rows and of weights.

    Args:
      kinds: what `products` gave.
      most: how many leaves, inner nodes and nodes there may be.
      training: whether there are gradients.

    Returns:
      A function of the numbers of leaves and of inner nodes, int32 scalars, to a number that depends on all products.
    """
    rows = [tf.random.normal([most[kind.at], kind.rows, kind.depth]) for kind in kinds]
    weights = [tf.random.normal([*([] if kind.shared else [most[kind.at]]), kind.depth, kind.width]) for kind in kinds]
    gradients = [tf.random.normal([most[kind.at], kind.rows, kind.width]) for kind in kinds]

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)] * 2, autograph=False)
    def run(leaves: tf.Tensor, inners: tf.Tensor) -> tf.Tensor:
        nodes = {LEAF: leaves, INNER: inners, NODE: leaves + inners}
        results = []
        for kind, left, weight, right in zip(kinds, rows, weights, gradients, strict=True):
            left, right = left[: nodes[kind.at]], right[: nodes[kind.at]]
            if kind.shared:
                left, right = tf.reshape(left, [-1, kind.depth]), tf.reshape(right, [-1, kind.width])
            else:
                weight = weight[: nodes[kind.at]]
            results.append(tf.matmul(left, weight))
            if training:
                results.append(tf.matmul(right, weight, transpose_b=True))
                results.append(tf.matmul(left, right, transpose_a=True))
        # A tree of one word has no inner nodes, so some products have no rows.
        return tf.add_n([tf.reduce_sum(tf.reshape(result, [-1])[:1]) for result in results])

    return run
