"""Real data as the programs take it: trees of the treebank as objects, text of reviews."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from recgraph.data import Vocabulary, load_sst, read_imdb, tokenize
from recgraph.data.imdb import sentences as splitted
from recgraph.models.imperative import Node, node_of


def trees(folder: Path, count: int, vocabulary: int) -> list[Node]:
    """The first training trees of the Stanford Sentiment Treebank, with their most frequent words; others are one."""
    found = load_sst(folder).train[:count]
    known = Vocabulary(Vocabulary.build(found, lowercase=True).words[:vocabulary])
    return [node_of(tree, known) for tree in found]


def text(folder: Path, length: int, vocabulary: int) -> np.ndarray:
    """The beginning of the training reviews, their most frequent words numbered from 1, others 0; int32 `[length]`."""
    found = list(itertools.islice((word for review in read_imdb(folder) for word in _words(review.text)), length))
    if len(found) < length:
        raise ValueError(f"the reviews in {folder} have {len(found)} words; {length} are needed")
    return _numbered(found, vocabulary)


def sentences(folder: Path, count: int, longest: int, vocabulary: int) -> list[np.ndarray]:
    """The first sentences of the training reviews, cut where they are too long; the numbers, int32, are 1 or more."""
    texts = (one for review in read_imdb(folder) for one in splitted(review.text))
    found = [tokenize(one)[:longest] for one in itertools.islice(texts, count)]
    found = [words for words in found if len(words) > 1]
    numbers = _numbered([word for words in found for word in words], vocabulary - 1) + 1
    return np.split(numbers, np.cumsum([len(words) for words in found])[:-1])


def reviews(folder: Path, count: int, length: int, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """The beginnings of training reviews, as many of either kind.

    Returns:
      Their words, numbered as in `text` and 0 after the end, int32 `[count, length]`, and 1 for a good film, 0 for a
      bad one, int32 `[count]`.
    """
    pairs = zip(_texts(folder, "neg"), _texts(folder, "pos"), strict=False)
    texts = [one for pair in itertools.islice(pairs, count // 2) for one in pair]
    found = [word for one in texts for word in [*_words(one), *[""] * length][:length]]
    numbers = _numbered(found, vocabulary).reshape(-1, length)
    return numbers, np.arange(len(texts), dtype=np.int32) % 2


def _texts(folder: Path, label: str) -> Iterator[str]:
    return (review.text for review in read_imdb(folder) if review.label == label)


def _words(text: str) -> Iterator[str]:
    return (word for one in splitted(text) for word in tokenize(one))


def _numbered(words: list[str], vocabulary: int) -> np.ndarray:
    """The most frequent words from 1, others and "" 0; int32."""
    names, places, counts = np.unique([word.lower() for word in words], return_inverse=True, return_counts=True)
    counts[names == ""] = 0
    numbers = np.zeros(len(names), np.int32)
    frequent = np.argsort(-counts, kind="stable")[: vocabulary - 1]
    numbers[frequent] = np.arange(1, len(frequent) + 1)
    numbers[names == ""] = 0
    return numbers[places]
