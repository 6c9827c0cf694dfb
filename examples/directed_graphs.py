"""Recursion over graphs in which nodes share what is below them: each node is computed once, and its gradient, too.

Lattices of words and expressions with common parts (a DAG-LSTM, values), binary decision diagrams, and belief
propagation on trees, both ways. Lists of children are linked: a first one, and the next one after each; -1 ends them.

Run it: `python examples/directed_graphs.py`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import recgraph as rg

import numpy as np
import tensorflow as tf

NODE, PLACES, FLOATS = tf.TensorSpec([], tf.int32), tf.TensorSpec([None], tf.int32), tf.TensorSpec([None])


def linked(edges: Sequence[tuple[int, int]], nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """For each node the first of the edges that come from it, and for each edge the next one of the same node.

    Args:
        edges: pairs of nodes, from a node to one below it.
        nodes: how many there are.
    """
    first, following = np.full(nodes, -1, np.int32), np.full(len(edges), -1, np.int32)
    for edge in reversed(range(len(edges))):
        above = edges[edge][0]
        first[above], following[edge] = edge, first[above]
    return first, following


def dag_lstm(inputs: int, width: int) -> Callable[..., tf.Tensor]:
    """An LSTM over a directed acyclic graph whose edges have words (Zhu et al., 2016; cells as of Tai et al., 2015).

    Returns:
        A function of a node, the first edge of each node, the next edge and the node below of each edge, the vectors of
        the edges `[edges, inputs]`, and weights `[inputs + width, 4 * width]`; it gives the node's hidden state.
    """
    state, vectors = tf.TensorSpec([width]), tf.TensorSpec([None, inputs])
    matrix = tf.TensorSpec([inputs + width, 4 * width])

    @tf.function(input_signature=[NODE, PLACES, PLACES, PLACES, vectors, matrix])
    def hidden(
        root: tf.Tensor, first: tf.Tensor, following: tf.Tensor, below: tf.Tensor, words: tf.Tensor, weights: tf.Tensor
    ) -> tf.Tensor:
        @rg.subgraph(outputs=(state, state))
        def cell(node: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            if tf.gather(first, node) < 0:
                return tf.zeros([width]), tf.zeros([width])
            gates, kept = arriving(tf.gather(first, node))
            given, out, new = tf.split(gates, 3)
            memory = tf.sigmoid(given) * tf.tanh(new) + kept
            return tf.sigmoid(out) * tf.tanh(memory), memory

        @rg.subgraph(outputs=(tf.TensorSpec([3 * width]), state))
        def arriving(edge: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:  # all from this edge on
            if edge < 0:
                return tf.zeros([3 * width]), tf.zeros([width])
            h, memory = cell(tf.gather(below, edge))
            gates = tf.linalg.matvec(weights, tf.concat([tf.gather(words, edge), h], 0), transpose_a=True)
            others, kept = arriving(tf.gather(following, edge))
            return gates[width:] + others, tf.sigmoid(gates[:width]) * memory + kept

        return cell(root)[0]

    return hidden


LEAF, PLUS, TIMES, SINE = range(4)


@tf.function(input_signature=[NODE, PLACES, PLACES, PLACES, FLOATS])
def expression(
    root: tf.Tensor, operations: tf.Tensor, left: tf.Tensor, right: tf.Tensor, values: tf.Tensor
) -> tf.Tensor:
    """The value of an expression in which parts occur many times; `left` of a leaf is the place of its value."""

    @rg.subgraph(outputs=tf.TensorSpec([]))
    def value(node: tf.Tensor) -> tf.Tensor:
        operation, place = tf.gather(operations, node), tf.gather(left, node)
        if operation == LEAF:
            return tf.gather(values, place)
        if operation == SINE:
            return tf.sin(value(place))
        a, b = value(place), value(tf.gather(right, node))
        return tf.where(operation == PLUS, a + b, a * b)

    return value(root)


@tf.function(input_signature=[NODE, PLACES, PLACES, PLACES, FLOATS])
def decision_diagram(
    root: tf.Tensor, variables: tf.Tensor, low: tf.Tensor, high: tf.Tensor, probabilities: tf.Tensor
) -> tf.Tensor:
    """How probable it is that a binary decision diagram gives true (Bryant, 1986), variables being independent.

    The gradient says how much each variable matters (Birnbaum, 1969). Nodes 0 and 1 are false and true.
    """

    @rg.subgraph(outputs=tf.TensorSpec([]))
    def true(node: tf.Tensor) -> tf.Tensor:
        if node < 2:
            return tf.cast(node, tf.float32)
        p = tf.gather(probabilities, tf.gather(variables, node))
        return p * true(tf.gather(high, node)) + (1 - p) * true(tf.gather(low, node))

    return true(root)


def beliefs(states: int) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    """Belief propagation on trees (Pearl, 1982), by logarithms: up from the leaves and down again.

    Returns:
        A function of the parent, the first child and the next sibling of each node (-1 for none), what each node is for
        itself `[nodes, states]`, and how a parent and a child fit `[states, states]`. It gives each node's
        probabilities and the logarithm of the sum over all assignments, of which they are the gradient.
    """
    message = tf.TensorSpec([states])

    @tf.function(input_signature=[PLACES, PLACES, PLACES, tf.TensorSpec([None, states]), tf.TensorSpec([states] * 2)])
    def marginals(
        parents: tf.Tensor, first: tf.Tensor, following: tf.Tensor, alone: tf.Tensor, fit: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        @rg.subgraph(outputs=message)
        def below(node: tf.Tensor) -> tf.Tensor:  # the node and all below it
            return tf.gather(alone, node) + from_children(tf.gather(first, node))

        @rg.subgraph(outputs=message)
        def from_children(child: tf.Tensor) -> tf.Tensor:  # and its later siblings
            if child < 0:
                return tf.zeros([states])
            return up(child) + from_children(tf.gather(following, child))

        @rg.subgraph(outputs=message)
        def up(node: tf.Tensor) -> tf.Tensor:
            return tf.reduce_logsumexp(fit + below(node)[None, :], 1)

        @rg.subgraph(outputs=message)
        def down(node: tf.Tensor) -> tf.Tensor:  # from the parent, and all that is not below the node
            parent = tf.gather(parents, node)
            if parent < 0:
                return tf.zeros([states])
            others = below(parent) + down(parent) - up(node)
            return tf.reduce_logsumexp(fit + others[:, None], 0)

        @rg.subgraph(outputs=message)
        def belief(node: tf.Tensor) -> tf.Tensor:
            return below(node) + down(node)

        scores = belief.map(tf.range(tf.size(parents)))
        return tf.nn.softmax(scores), tf.reduce_logsumexp(scores[0])

    return marginals


def main() -> None:
    """Prints an answer of each."""
    random = np.random.default_rng(1)
    # "New York is large", with New York as one word, too; a node is a place between words, and edges lead back.
    edges = [(1, 0), (2, 1), (2, 0), (3, 2), (4, 3)]
    first, following = linked(edges, 5)
    words, weights = random.normal(size=(5, 3)).astype(np.float32), random.normal(size=(7, 16)).astype(np.float32) / 3
    hidden = dag_lstm(3, 4)(4, first, following, [below for _, below in edges], words, weights)
    print("the state at the end of the lattice:", tf.strings.as_string(hidden, precision=3).numpy().astype(str))

    # x^2 + x^2, squared and doubled again, 30 times: a tree of 2^60 leaves, and a line of nodes.
    nodes = [LEAF, *[TIMES, PLUS] * 30]
    shared = np.maximum(np.arange(61) - 1, 0).astype(np.int32)
    x = tf.constant([0.5])
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = expression(60, nodes, shared, shared, x)
    slope = tf.convert_to_tensor(tape.gradient(result, x))[0]
    print(f"an expression of 2^60 leaves: {result:.3f}, and its slope {slope:.4g}")

    chances = tf.constant([0.9, 0.8, 0.7])  # of three parts of which two have to work
    with tf.GradientTape() as tape:
        tape.watch(chances)
        works = decision_diagram(5, [0, 0, 2, 1, 1, 0], [0, 0, 0, 0, 2, 3], [0, 0, 1, 2, 1, 4], chances)
    matters = tf.strings.as_string(tf.convert_to_tensor(tape.gradient(works, chances)), precision=2)
    matters = matters.numpy().astype(str)
    print(f"two of three work: {works:.3f}, and the parts matter by {matters}")

    tree = ([-1, 0, 0, 1], [1, 3, -1, -1], [-1, 2, -1, -1])
    alone = tf.math.log([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8]])
    found, _ = beliefs(2)(*tree, alone, tf.math.log([[0.8, 0.2], [0.2, 0.8]]))
    print("beliefs:", tf.strings.as_string(found, precision=2).numpy().astype(str).tolist())


if __name__ == "__main__":
    main()
