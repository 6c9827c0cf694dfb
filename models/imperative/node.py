"""`Node`: a tree as an object that has its parts as attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from recgraph.data import NO_LABEL, Tree, Vocabulary


class Node:
    """A node of a sentence's binary tree.

    Attributes:
      left, right: its parts; None at a leaf.
      word: the number of a leaf's word; None elsewhere.
      label: its class.
    """

    def __init__(self, label: int, word: int | None = None, left: Node | None = None, right: Node | None = None):
        """See the attributes."""
        self.label, self.word, self.left, self.right = label, word, left, right

    @property
    def is_leaf(self) -> bool:
        """Whether it is a word."""
        return self.left is None


def node_of(tree: Tree, vocabulary: Vocabulary) -> Node:
    """The root of a tree of a treebank. Parts come before what they are parts of, so no depth is too deep.

    Raises:
      ValueError: a node has no label; the networks have a loss at every node.
    """
    if NO_LABEL in tree.labels:
        raise ValueError(f"every node needs a label; found one without: {tree}")
    nodes: list[Node] = []
    for word, left, right, label in zip(tree.words, tree.left, tree.right, tree.labels, strict=True):
        is_leaf = left < 0
        nodes.append(Node(label, vocabulary.id(word)) if is_leaf else Node(label, None, nodes[left], nodes[right]))
    return nodes[-1]


def generate_nodes(count: int, words: int, vocabulary: int, classes: int, seed: int = 0) -> list[Node]:
    """Trees over about so many words each, whose labels follow from the words below."""
    random = np.random.default_rng(seed)
    lengths = np.clip(random.normal(words, words / 3.0, count).round(), 2, 3 * words).astype(int)
    return [_tree([int(w) for w in random.integers(0, vocabulary, length)], classes, random) for length in lengths]


def _tree(words: list[int], classes: int, random: Any) -> Node:
    label = sum(words) % classes
    if len(words) == 1:
        return Node(label, word=words[0])
    cut = int(random.integers(1, len(words)))
    return Node(label, left=_tree(words[:cut], classes, random), right=_tree(words[cut:], classes, random))
