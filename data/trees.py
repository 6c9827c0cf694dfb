"""`Tree`: an immutable binary labelled tree, stored flat in post-order so that no depth is too deep."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

NO_LABEL = -1
"""The label of a node that has none."""
NO_CHILD = -1

_BAD_WORD = re.compile(r"[ ()\t\r\n]|^$")


@dataclass(frozen=True, slots=True)
class Tree:
    """A binary tree of N nodes in post-order: children before their parent, left before right, the root last.

    Attributes:
        words: N strings; the word at a leaf, "" at an inner node.
        left: N ints; index of the left child, -1 at a leaf.
        right: N ints; index of the right child, -1 at a leaf. In post-order this is always the previous node.
        labels: N ints; the class of the node, -1 for none.

    Raises:
        ValueError: there are no nodes, lengths differ, the order is not post-order, a label is below -1, or the word of
            a leaf is empty or contains a blank or a bracket (`recgraph.data.escape` makes such words safe).

    Examples:
        >>> from recgraph.data import parse_tree
        >>> tree = parse_tree("(3 (2 quite) (3 good))")
        >>> tree.left, tree.right, tree.labels, tree.tokens
        ((-1, -1, 0), (-1, -1, 1), (2, 3, 3), ('quite', 'good'))
    """

    words: tuple[str, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        count = len(self.words)
        if count == 0:
            raise ValueError("a tree needs at least one node; found none")
        if not count == len(self.left) == len(self.right) == len(self.labels):
            raise ValueError(
                f"words, left, right and labels must have one entry per node; found lengths "
                f"{count}, {len(self.left)}, {len(self.right)}, {len(self.labels)}"
            )
        if min(self.labels) < NO_LABEL:
            raise ValueError(f"labels must be classes from 0, or {NO_LABEL} for none; found {min(self.labels)}")
        _check_order(self)

    def __len__(self) -> int:
        return len(self.words)

    def __str__(self) -> str:
        """The tree in PTB form, `(3 (2 quite) (3 good))`; a node without a label prints `?` for it."""
        pieces: list[str] = []
        todo: list[int | str] = [len(self.words) - 1]
        while todo:
            item = todo.pop()
            if isinstance(item, str):
                pieces.append(item)
                continue
            label = self.labels[item]
            pieces.append(f"({label} " if label != NO_LABEL else "(? ")
            if self.left[item] == NO_CHILD:
                pieces.append(self.words[item] + ")")
            else:
                todo += [")", self.right[item], " ", self.left[item]]
        return "".join(pieces)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The words from left to right."""
        return tuple(word for word in self.words if word)

    @property
    def label(self) -> int:
        """The label of the root, -1 if it has none."""
        return self.labels[-1]

    @property
    def depth(self) -> int:
        """The number of edges from the root to the deepest leaf; 0 for a single word."""
        return self.heights[-1]

    @property
    def heights(self) -> list[int]:
        """For each node, the number of edges to the deepest leaf below it."""
        heights: list[int] = []
        for left, right in zip(self.left, self.right, strict=True):
            heights.append(0 if left == NO_CHILD else 1 + max(heights[left], heights[right]))
        return heights

    def with_labels(self, labels: Sequence[int]) -> Tree:
        """The same tree with other labels, one per node."""
        return Tree(self.words, self.left, self.right, tuple(labels))


def _check_order(tree: Tree) -> None:
    """Runs the tree as a stack program: a leaf pushes itself, an inner node takes exactly the two nodes on top."""
    stack: list[int] = []
    for node, (word, left, right) in enumerate(zip(tree.words, tree.left, tree.right, strict=True)):
        if left == NO_CHILD and right == NO_CHILD:
            if _BAD_WORD.search(word):
                raise ValueError(f"node {node}: a word must not be empty or contain blanks or brackets; found {word!r}")
        else:
            if stack[-2:] != [left, right]:
                raise ValueError(f"node {node}: children {left} and {right} are not the two subtrees just before it")
            if word:
                raise ValueError(f"node {node}: an inner node cannot have a word; found {word!r}")
            del stack[-2:]
        stack.append(node)
    if len(stack) != 1:
        raise ValueError(f"a tree must have one root; found {len(stack)} (nodes {stack[:5]})")


class TreeBuilder:
    """Collects nodes in post-order; `build` returns the `Tree`.

    Examples:
        >>> builder = TreeBuilder()
        >>> root = builder.node(builder.leaf("not"), builder.leaf("bad"), label=3)
        >>> builder.build().left
        (-1, -1, 0)
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.labels: list[int] = []

    def leaf(self, word: str, label: int = NO_LABEL) -> int:
        """Adds a leaf and returns its index."""
        return self._add(word, NO_CHILD, NO_CHILD, label)

    def node(self, left: int, right: int, label: int = NO_LABEL) -> int:
        """Adds the parent of two finished subtrees and returns its index."""
        return self._add("", left, right, label)

    def _add(self, word: str, left: int, right: int, label: int) -> int:
        self.words.append(word)
        self.left.append(left)
        self.right.append(right)
        self.labels.append(label)
        return len(self.words) - 1

    def build(self) -> Tree:
        """Returns the finished tree.

        Raises:
            ValueError: the nodes do not form one tree, see `Tree`.
        """
        return Tree(tuple(self.words), tuple(self.left), tuple(self.right), tuple(self.labels))
