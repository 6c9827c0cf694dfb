"""`DependencyTree`: a word at every node, any number of children, stored as the head of each word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ROOT = -1


@dataclass(frozen=True, slots=True)
class DependencyTree:
    """A tree over the words of a sentence, in the order of the sentence.

    Attributes:
        words: N strings.
        heads: N ints; index of the word that a word depends on, -1 at the root.

    Raises:
        ValueError: no words, lengths that differ, a head outside of the sentence, no root or several, a circle.

    Examples:
        >>> from recgraph.data import DependencyTree
        >>> tree = DependencyTree(("the", "dog", "barks"), (1, 2, -1))
        >>> tree.root, tree.children
        (2, ((), (0,), (1,)))
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]

    def __post_init__(self) -> None:
        problem = fault(self.heads)
        if len(self.words) != len(self.heads):
            raise ValueError(f"each word needs a head; found {len(self.words)} words and {len(self.heads)} heads")
        if problem is not None:
            place, text = problem
            raise ValueError(f"word {place}: {text}")

    def __len__(self) -> int:
        return len(self.words)

    def __str__(self) -> str:
        """Each word with its head, `the<-dog dog<-barks barks`."""
        arrows = (f"<-{self.words[head]}" if head != ROOT else "" for head in self.heads)
        return " ".join(word + arrow for word, arrow in zip(self.words, arrows, strict=True))

    @property
    def root(self) -> int:
        """The index of the word that depends on none."""
        return self.heads.index(ROOT)

    @property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each word, the words that depend on it, from left to right."""
        below: list[list[int]] = [[] for _ in self.heads]
        for word, head in enumerate(self.heads):
            if head != ROOT:
                below[head].append(word)
        return tuple(map(tuple, below))


def fault(heads: Sequence[int]) -> tuple[int, str] | None:
    """The first thing that keeps heads from being a tree: the word where, and what is wrong; None if it is one."""
    if not heads:
        return 0, "a sentence has at least one word"
    for word, head in enumerate(heads):
        if not ROOT <= head < len(heads):
            return word, f"its head is a word of the sentence or the root; found {head} in {len(heads)} words"
    roots = [word for word, head in enumerate(heads) if head == ROOT]
    if len(roots) > 1:
        return roots[1], f"a sentence has one root; word {roots[0]} is one already"
    reached = {ROOT}  # words from which the way up is known to end
    for start in range(len(heads)):
        path = []
        word = start
        while word not in reached:
            if word in path:
                return start, f"its head depends on it: the words {', '.join(map(str, path))} go round in a circle"
            path.append(word)
            word = heads[word]
        reached.update(path)
    return None
