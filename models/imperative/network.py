"""What the networks share: the recursion over Python objects, the loss at every node, and the step."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.imperative.node import Node
from recgraph.models.imperative.weights import Adagrad, Weights, descend

State = tuple[tf.Tensor, ...]


class TreeNetwork:
    """A subclass says what happens at a leaf and at an inner node; a state is a tuple of `[1, H]`, output first."""

    def __init__(
        self, vocabulary: int, embedding: int, hidden: int, classes: int, rates: tuple[float, float] = (0.05, 0.1)
    ):
        """Creates the weights.

        Args:
          vocabulary: number of words.
          embedding: size of a word vector.
          hidden: size of a hidden row.
          classes: number of classes.
          rates: the learning rates of Adagrad, and of gradient descent for the embedding.
        """
        self.weights = Weights()
        self.embedding = self.weights.uniform([vocabulary, embedding], 0.05)
        self.output_kernel = self.weights.uniform([hidden, classes])
        self.output_bias = self.weights.constant([classes])
        self.make_weights(embedding, hidden)
        self.rates = rates
        self.optimizer = Adagrad(self.weights.all[1:], rates[0])

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*self.weights.all, *self.optimizer.sums]

    def make_weights(self, embedding: int, hidden: int) -> None:
        """The weights of a subclass."""
        raise NotImplementedError

    def leaf(self, vector: tf.Tensor) -> State:
        """The state of a leaf, given its word's vector, float32 `[1, E]`."""
        raise NotImplementedError

    def compose(self, left: State, right: State) -> State:
        """The state of a node, given those of its parts."""
        raise NotImplementedError

    def visit(self, node: Node) -> tuple[State, tf.Tensor]:
        """The state of a node, and the summed losses, float32 scalar, of all nodes of its tree."""
        if node.is_leaf:
            state = self.leaf(tf.nn.embedding_lookup(self.embedding, [node.word]))
            return state, self.node_loss(state, node.label)
        left, left_loss = self.visit(node.left)
        right, right_loss = self.visit(node.right)
        state = self.compose(left, right)
        return state, self.node_loss(state, node.label) + left_loss + right_loss

    def node_loss(self, state: State, label: int) -> tf.Tensor:
        """The loss at one node, float32 scalar."""
        logits = tf.matmul(state[0], self.output_kernel) + self.output_bias
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[label], logits=logits)[0]

    def train_step(self, trees: list[Node]) -> tf.Tensor:
        """One step over a list of trees. Returns the mean loss of a tree, float32 scalar."""
        with tf.GradientTape() as tape:
            total = 0.0
            for tree in trees:
                _, loss = self.visit(tree)
                total += loss
            mean = total / len(trees)
        embedding, *gradients = tape.gradient(mean, self.weights.all)
        descend([self.embedding], [embedding], self.rates[1])
        self.optimizer.apply(gradients, self.weights.all[1:])
        return mean
