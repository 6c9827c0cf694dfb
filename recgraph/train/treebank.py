"""The data of a run: its trees, its vocabulary, its word vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from recgraph.data import Vocabulary, load_embeddings
from recgraph.train.settings import Settings
from recgraph.train.stored import RunError
from recgraph.train.tasks import TASKS

FEW = 0.5
"""A smaller share of the words with a pre-trained vector is warned of."""


def load(settings: Settings) -> Any:
    """The three splits of the data, of which training may not be empty.

    Raises:
      ValueError: no example in train or dev.
    """
    bank = TASKS[settings.task].load(settings.data)
    for name in ("train", "dev"):
        if not getattr(bank, name):
            raise ValueError(
                f"{settings.data}: {name}.txt is empty; training needs trees for both training and selection"
            )
    return bank


def build_vocabulary(settings: Settings, bank: Any) -> Vocabulary:
    """The words of the training trees in lower case, and with vectors also words of dev and test that have one."""
    trees = TASKS[settings.task].trees
    vocabulary = Vocabulary.build(trees(bank.train), lowercase=True)
    if settings.vectors is None:
        return vocabulary
    seen = Vocabulary.build(trees([*bank.dev, *bank.test]), lowercase=True).words
    other = Vocabulary((seen[0], *(word for word in seen[1:] if word not in vocabulary)))
    found = load_embeddings(other, settings.vectors).found
    return Vocabulary((*vocabulary.words, *(word for word, has in zip(other.words, found, strict=True) if has)))


def vectors(
    settings: Settings, vocabulary: Vocabulary, tell: Callable[[str], None] = lambda text: None
) -> tuple[np.ndarray | None, dict[str, Any]]:
    """Pre-trained vectors `[V, E]`, or None, and what they say about the hyper-parameters.

    Args:
      settings: of the run.
      vocabulary: of the run.
      tell: is told how many of the words have a vector, and warned where these are few.

    Raises:
      RunError: no word has one.
    """
    if settings.vectors is None:
        return None, {}
    loaded = load_embeddings(vocabulary, settings.vectors, seed=settings.seed)
    if not loaded.found.any():
        raise RunError(
            "these vectors are of other words",
            where=settings.vectors,
            found=f"a vector of none of the {len(vocabulary) - 1} words of {settings.data}",
            expected="lines `word v1 v2 ...`, with words of the training sentences in lower case",
            next_step="give a file of vectors in the language of the sentences, or leave out --vectors",
        )
    tell(f"{settings.vectors}: {loaded}")
    if loaded.coverage < FEW:
        missing = _missing(vocabulary, loaded.found)
        tell(f"Warning: fewer than half of the words have a vector; among those without: {missing}")
    return loaded.matrix, {"embedding": loaded.matrix.shape[1]}


def _missing(vocabulary: Vocabulary, found: np.ndarray) -> str:
    """The most frequent words without a vector."""
    return ", ".join([word for word, has in zip(vocabulary.words, found, strict=True) if not has][1:6])
