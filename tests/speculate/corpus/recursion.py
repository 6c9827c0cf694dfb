"""Recursion over Python objects."""

from __future__ import annotations

import random
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program


class Node:
    """A node of a binary tree."""

    def __init__(self, word: int | None, left: Node | None = None, right: Node | None = None, label: int = 0) -> None:
        self.word, self.left, self.right, self.label = word, left, right, label

    @property
    def is_leaf(self) -> bool:
        return self.left is None


def tree(leaves: int, rng: random.Random) -> Node:
    """A random tree."""
    if leaves == 1:
        return Node(rng.randrange(9), label=rng.randrange(3))
    count = rng.randrange(1, leaves)
    return Node(None, tree(count, rng), tree(leaves - count, rng), rng.randrange(3))


def one_tree(i: int) -> tuple[Node]:
    """Another one for every call."""
    return (tree(2 + i % 6, random.Random(i)),)


def some_trees(i: int) -> tuple[list[Node]]:
    """Three."""
    return ([tree(2 + (i + j) % 5, random.Random(7 * i + j)) for j in range(3)],)


class Network:
    """A recursive network as people write it."""

    def __init__(self) -> None:
        self.words = tf.Variable(tf.random.stateless_normal([9, 4], [1, 2]) * 0.1)
        self.kernel = tf.Variable(tf.random.stateless_normal([8, 4], [1, 3]) * 0.1)
        self.output = tf.Variable(tf.random.stateless_normal([4, 3], [1, 4]) * 0.1)

    def forward(self, node: Node) -> tuple[tf.Tensor, tf.Tensor]:
        if node.is_leaf:
            state, loss = tf.tanh(tf.gather(self.words, [node.word])), tf.zeros([1])
        else:
            left, left_loss = self.forward(node.left)
            right, right_loss = self.forward(node.right)
            state, loss = tf.tanh(tf.concat([left, right], 1) @ self.kernel), left_loss + right_loss
        logits = state @ self.output
        return state, loss + tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[node.label], logits=logits)

    def update(self, tape: tf.GradientTape, loss: tf.Tensor) -> None:
        for variable in (self.words, self.kernel, self.output):
            gradient = tf.convert_to_tensor(tape.gradient(loss, variable))
            variable.assign_sub(0.1 * gradient)

    def step(self, node: Node) -> tf.Tensor:
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_sum(self.forward(node)[1])
        self.update(tape, loss)
        return loss

    def batch_step(self, nodes: list[Node]) -> tf.Tensor:
        with tf.GradientTape(persistent=True) as tape:
            loss = 0.0
            for node in nodes:
                loss += tf.reduce_sum(self.forward(node)[1])
        self.update(tape, loss)
        return loss

    def one_by_one(self, nodes: list[Node]) -> list[tf.Tensor]:
        losses = []
        for node in nodes:
            losses.append(self.step(node))
        return losses


@program
def a_recursive_network() -> Any:
    network = Network()
    return network.step, one_tree, vars(network)


@program
def a_recursive_network_over_a_batch() -> Any:
    network = Network()
    return network.batch_step, some_trees, vars(network)


@program
def weights_change_from_tree_to_tree() -> Any:
    network = Network()
    return network.one_by_one, some_trees, vars(network)


@program
def a_recursive_function_with_an_accumulator() -> Any:
    def depth_sum(node: Node, above: tf.Tensor) -> tf.Tensor:
        if node.left is None:
            return above
        return depth_sum(node.left, above + 1.0) + depth_sum(node.right, above * 2.0)

    def step(node: Node) -> tf.Tensor:
        return depth_sum(node, tf.constant(1.0))

    return step, one_tree, None


@program
def a_list_of_cells() -> Any:
    class Cell:
        def __init__(self, value: float, after: Any) -> None:
            self.value, self.after = value, after

    def total(cell: Any) -> tf.Tensor:
        if cell is None:
            return tf.constant(0.0)
        return tf.constant(0.5) * cell.value + total(cell.after)

    def step(cell: Any) -> tf.Tensor:
        return total(cell)

    def arguments(i: int) -> Any:
        made = None
        for j in range(1 + i % 4):
            made = Cell(float(i + j), made)
        return (made,)

    return step, arguments, None


class Branching:
    """A node with any number of children."""

    def __init__(self, word: int, children: list[Branching]) -> None:
        self.word, self.children = word, children


def branching(size: int, rng: random.Random) -> Branching:
    """A random tree of so many nodes, at least."""
    children = []
    while size > 1:
        part = rng.randrange(1, size)
        children.append(branching(part, rng))
        size -= part
    return Branching(rng.randrange(9), children)


@program
def children_in_a_list() -> Any:
    words = tf.Variable(tf.random.stateless_normal([9, 4], [1, 2]))
    kernel = tf.Variable(tf.random.stateless_normal([4, 4], [1, 3]) * 0.1)

    def forward(node: Branching) -> tf.Tensor:
        total = tf.gather(words, [node.word])
        for child in node.children:
            total += tf.tanh(forward(child) @ kernel)
        return total

    def step(node: Branching) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(forward(node) ** 2)
        kernel.assign_sub(0.01 * tape.gradient(loss, kernel))
        return loss

    return step, lambda i: (branching(3 + i % 5, random.Random(i)),), (words, kernel)


@program
def the_first_of_some_children() -> Any:
    def depth(node: Branching) -> tf.Tensor:
        if not node.children:
            return tf.constant(1.0)
        return depth(node.children[0]) + 0.5 * depth(node.children[-1]) + float(len(node.children))

    def step(node: Branching) -> Any:
        return depth(node)

    return step, lambda i: (branching(1 + i % 6, random.Random(i)),), None


@program
def a_tape_for_each_tree() -> Any:
    network = Network()

    def step(nodes: list[Node]) -> Any:
        found = []
        for node in nodes:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(network.forward(node)[1])
            found.append(tape.gradient(loss, network.output))
        return found

    return step, some_trees, vars(network)


@program
def an_attribute_changes_between_recursions() -> Any:
    class Sum:
        scale: Any = None

        def forward(self, node: Node) -> tf.Tensor:
            if node.left is None:
                return self.scale
            return self.forward(node.left) + self.forward(node.right)

        def step(self, x: tf.Tensor, node: Node) -> Any:
            self.scale = tf.reduce_sum(x)
            first = self.forward(node)
            self.scale = tf.reduce_max(x)
            return first, self.forward(node)

    model = Sum()
    return model.step, lambda i: (tf.constant([1.0, 2.0 + i]), *one_tree(i)), model
