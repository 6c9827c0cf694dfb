"""Generated dependency trees and sentence completion: which of five words was taken out of a sentence?

Stands in for the Microsoft Research Sentence Completion Challenge, which `fetch` cannot get. The sentences are those of
`generate.py`. A word's class decides where it may stand, so the wrong candidates are of other classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from recgraph.data.dependency import ROOT, DependencyTree
from recgraph.data.generate import LEXICON, generate_treebank
from recgraph.data.trees import NO_CHILD, Tree
from recgraph.data.vocabulary import Vocabulary

# The head of a phrase is the head of that part which comes first here: verbs before nouns before what describes them.
_RANKS = (("copula", "verb", "lacks"), ("noun",), ("great", "good", "plain", "bad", "awful"))
_VERB, _LAST = 0, len(_RANKS)
# Classes of which any word may stand where a word of another one does.
_GROUPS = {
    **dict.fromkeys(_RANKS[-1], "adjective"),
    **dict.fromkeys(("determiner", "article"), "specifier"),
    **dict.fromkeys(("with", "without"), "preposition"),
}
_WORDS = {word: None for _, words in LEXICON.values() for word in words}
_CLASSES = {word: frozenset(name for name, (_, words) in LEXICON.items() if word in words) for word in _WORDS}


class Question(NamedTuple):
    """A sentence with a gap.

    Attributes:
        tree: the whole sentence.
        place: index of the word that is taken out.
        candidates: words that may stand there, the right one among them.
        answer: index of the right one.
    """

    tree: DependencyTree
    place: int
    candidates: tuple[str, ...]
    answer: int

    def filled(self) -> list[DependencyTree]:
        """The sentence with each of the candidates."""
        before, after = self.tree.words[: self.place], self.tree.words[self.place + 1 :]
        return [DependencyTree((*before, word, *after), self.tree.heads) for word in self.candidates]


class TopDownBatch(NamedTuple):
    """B dependency trees, N words together, as a top-down model walks them; numpy arrays or tensors.

    Attributes:
        words: int32 [N]; vocabulary ids.
        left: int32 [N]; the nearest dependent to the left, -1 for none.
        right: int32 [N]; the nearest to the right.
        next: int32 [N]; the next dependent of the same head on the same side, farther away from it; -1 for none.
        roots: int32 [B].
    """

    words: Any
    left: Any
    right: Any
    next: Any
    roots: Any


def head_tree(
    tree: Tree, rank: Callable[[str], int], modifies: Callable[[str, str], bool] = lambda left, right: False
) -> DependencyTree:
    """The dependency tree of a binary tree: of two parts, the head of that with the lower rank is the head of both.

    Args:
        tree: the binary tree.
        rank: of a word; the left part's head wins where both are equal.
        modifies: whether two parts with these heads, such as "that" and "is", together describe what they stand beside:
            its head is then the head of all.
    """
    place: list[int] = []  # for each node of the binary tree, its head's place in the sentence
    ranks: list[float] = []  # for each node, that of its head, or infinite if it modifies
    heads: list[int] = []
    words: list[str] = []
    for word, left, right in zip(tree.words, tree.left, tree.right, strict=True):
        if left == NO_CHILD:
            place.append(len(words))
            ranks.append(rank(word))
            words.append(word)
            heads.append(ROOT)
            continue
        is_modifier = modifies(words[place[left]], words[place[right]])
        head, dependent = (right, left) if ranks[right] < ranks[left] else (left, right)
        heads[place[dependent]] = place[head]
        place.append(place[head])
        ranks.append(math.inf if is_modifier else ranks[head])
    return DependencyTree(tuple(words), tuple(heads))


def generate_dependencies(count: int, seed: int = 0) -> list[DependencyTree]:
    """Makes dependency trees of the distinct sentences that `generate_treebank` draws.

    Args:
        count: number of trees that are drawn.
        seed: equal seeds give equal trees.

    Returns:
        So many trees.
    """
    return [head_tree(tree, _rank, _modifies) for tree in generate_treebank(count, seed)]


def _rank(word: str) -> int:
    return next((i for i, names in enumerate(_RANKS) if not _CLASSES[word].isdisjoint(names)), _LAST)


def _modifies(left: str, right: str) -> bool:
    """Whether it is a relative clause ("that" may be a determiner elsewhere) or a phrase with a preposition."""
    is_relative = "relative" in _CLASSES[left] and _rank(right) == _VERB
    return is_relative or "preposition" in _groups(left)


def completion_questions(trees: Sequence[DependencyTree], seed: int = 0, candidates: int = 5) -> list[Question]:
    """Makes a question of each sentence, at a place drawn at random.

    Args:
        trees: the sentences.
        seed: equal seeds give equal questions.
        candidates: how many words there are to choose from.

    Returns:
        The questions, in the order of the sentences.
    """
    rng = np.random.default_rng(seed)
    return [_question(tree, rng, candidates) for tree in trees]


def _question(tree: DependencyTree, rng: np.random.Generator, candidates: int) -> Question:
    place = int(rng.integers(len(tree)))
    answer = int(rng.integers(candidates))
    groups = _groups(tree.words[place])
    others = [word for word in _WORDS if groups.isdisjoint(_groups(word))]
    words = [str(word) for word in rng.choice(others, candidates - 1, replace=False)]
    words.insert(answer, tree.words[place])
    return Question(tree, place, tuple(words), answer)


def _groups(word: str) -> frozenset[str]:
    """Where it may stand; "that" in two kinds of places."""
    return frozenset(_GROUPS.get(name, name) for name in _CLASSES[word])


def top_down_batch(trees: Sequence[DependencyTree], vocabulary: Vocabulary) -> TopDownBatch:
    """One batch of all the trees, in numpy."""
    words, roots = [], []
    links: list[tuple[int, int, int]] = []
    for tree in trees:
        start = len(words)
        words += [vocabulary.id(word) for word in tree.words]
        roots.append(start + tree.root)
        links += _links(tree, start)
    left, right, following = np.array(links, np.int32).reshape(-1, 3).T
    return TopDownBatch(np.array(words, np.int32), left, right, following, np.array(roots, np.int32))


def _links(tree: DependencyTree, start: int) -> list[tuple[int, int, int]]:
    """For each word the numbers of its nearest left, its nearest right, and its next fellow dependent."""
    links = [[-1, -1, -1] for _ in tree.words]
    for head, below in enumerate(tree.children):
        sides = [child for child in reversed(below) if child < head], [child for child in below if child > head]
        for side, chain in enumerate(sides):
            for child, farther in pairwise(chain):
                links[child][2] = start + farther
            if chain:
                links[head][side] = start + chain[0]
    return [tuple(link) for link in links]
