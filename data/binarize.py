"""Binarisers: a binary tree over any sentence, in three shapes (section 5.6.3 of Jeong's thesis, table 5.1).

In a balanced tree of n words, (n + 1) / 2 nodes can run at once; in a linear tree, one or two. So the shape bounds the
parallelism that a model can use. No node has a label.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from recgraph.data.trees import NO_CHILD, Tree, TreeBuilder


def balanced(tokens: Sequence[str]) -> Tree:
    """Builds the shallowest tree, of depth ceil(log2 n): every node halves its words, an extra word goes to the left.

    Args:
        tokens: the words.

    Raises:
        ValueError: the sentence is empty.
    """
    return _split_tree(tokens, lambda low, high: (low + high + 1) // 2)


def moderate(tokens: Sequence[str], rng: np.random.Generator | int = 0) -> Tree:
    """Builds a tree that is cut at uniformly random places; like real parse trees it has depth O(log n) on average.

    Args:
        tokens: the words.
        rng: a generator that draws the cuts, or a seed.

    Raises:
        ValueError: the sentence is empty.
    """
    draw = np.random.default_rng(rng)
    return _split_tree(tokens, lambda low, high: int(draw.integers(low + 1, high)))


def linear(tokens: Sequence[str], branching: str = "right") -> Tree:
    """Builds the deepest tree, of depth n - 1: one child of every inner node is a word.

    Args:
        tokens: the words.
        branching: "right" for (a (b (c d))), "left" for (((a b) c) d).

    Raises:
        ValueError: the sentence is empty, or `branching` is unknown.
    """
    if branching == "right":
        return _split_tree(tokens, lambda low, high: low + 1)
    if branching == "left":
        return _split_tree(tokens, lambda low, high: high - 1)
    raise ValueError(f'branching must be "right" or "left"; found {branching!r}')


SHAPES: dict[str, Callable[[Sequence[str], np.random.Generator], Tree]] = {
    "balanced": lambda tokens, rng: balanced(tokens),
    "moderate": moderate,
    "linear": lambda tokens, rng: linear(tokens),
}
"""What makes a tree of words, by the name of its shape."""


def binarize(tokens: Sequence[str], shape: str = "balanced", rng: np.random.Generator | int = 0) -> Tree:
    """Builds a tree of a named shape.

    Args:
        tokens: the words.
        shape: "balanced", "moderate" or "linear".
        rng: for "moderate", a generator that draws the cuts, or a seed.

    Raises:
        ValueError: the sentence is empty, or the shape is unknown.

    Examples:
        >>> binarize("not a bad film".split()).left
        (-1, -1, 0, -1, -1, 3, 2)
    """
    if shape not in SHAPES:
        raise ValueError(f"shape must be one of {', '.join(SHAPES)}; found {shape!r}")
    return SHAPES[shape](tokens, np.random.default_rng(rng))


def tree_of_spans(tokens: Sequence[str], spans: Sequence[tuple[int, int]]) -> Tree:
    """Builds the tree with the given brackets.

    Args:
        tokens: n words.
        spans: for each of the n - 1 gaps between words, from left to right, the span that is cut there: (i, j) for the
            words i .. j-1.

    Raises:
        ValueError: the sentence is empty, or the spans do not form a tree.
    """
    cuts = {(int(low), int(high)): gap + 1 for gap, (low, high) in enumerate(spans)}
    if len(cuts) != len(tokens) - 1 or any(not low < cut < high for (low, high), cut in cuts.items()):
        raise ValueError(f"{len(tokens)} words need {len(tokens) - 1} spans, each around its gap; found {list(spans)}")
    try:
        return _split_tree(tokens, lambda low, high: cuts[low, high])
    except KeyError as missing:
        raise ValueError(f"the spans do not make a tree: {missing} is not among them") from None


def brackets(tree: Tree) -> set[tuple[int, int]]:
    """Returns the spans (i, j), for words i .. j-1, of all inner nodes except the root."""
    starts: list[int] = []
    words = 0
    found = set()
    for left in tree.left:
        words += left == NO_CHILD
        starts.append(words - 1 if left == NO_CHILD else starts[left])
        if left != NO_CHILD:
            found.add((starts[-1], words))
    return found - {(0, words)}


def _split_tree(tokens: Sequence[str], split: Callable[[int, int], int]) -> Tree:
    """Builds the tree whose node over words low..high-1 is cut at split(low, high)."""
    if isinstance(tokens, str):
        raise TypeError(f"a sentence must be a sequence of words; found the string {tokens!r}: split it first")
    if len(tokens) == 0:
        raise ValueError("a sentence needs at least one word")
    builder = TreeBuilder()
    done: list[int] = []
    todo: list[tuple[int, int] | None] = [(0, len(tokens))]  # None: join the last two finished subtrees
    while todo:
        span = todo.pop()
        if span is None:
            right, left = done.pop(), done.pop()
            done.append(builder.node(left, right))
        elif span[1] - span[0] == 1:
            done.append(builder.leaf(tokens[span[0]]))
        else:
            middle = split(*span)
            todo += [None, (middle, span[1]), (span[0], middle)]
    return builder.build()
