"""Real data as the programs take it: trees of the treebank as objects, text of reviews."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from recgraph.data import Vocabulary, load_sst, read_imdb
from recgraph.data.imdb import sentences, tokenize
from recgraph.models.imperative import Node, node_of


def trees(folder: Path, count: int, vocabulary: int) -> list[Node]:
    """The first training trees of the Stanford Sentiment Treebank, with their most frequent words; others are one."""
    found = load_sst(folder).train[:count]
    known = Vocabulary(Vocabulary.build(found, lowercase=True).words[:vocabulary])
    return [node_of(tree, known) for tree in found]


def text(folder: Path, length: int, vocabulary: int) -> np.ndarray:
    """The beginning of the training reviews, their most frequent words numbered from 1, others 0; int32 `[length]`."""
    words = (word for review in read_imdb(folder) for one in sentences(review.text) for word in tokenize(one))
    found = [word.lower() for word in itertools.islice(words, length)]
    if len(found) < length:
        raise ValueError(f"the reviews in {folder} have {len(found)} words; {length} are needed")
    names, places, counts = np.unique(found, return_inverse=True, return_counts=True)
    numbers = np.zeros(len(names), np.int32)
    frequent = np.argsort(-counts, kind="stable")[: vocabulary - 1]
    numbers[frequent] = np.arange(1, len(frequent) + 1)
    return numbers[places]
