"""The data of a run: its trees, its vocabulary, its word vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recgraph.data import Vocabulary, load_embeddings
from recgraph.train.tasks import TASKS

if TYPE_CHECKING:
    from recgraph.train.settings import Settings


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


def vectors(settings: Settings, vocabulary: Vocabulary) -> tuple[np.ndarray | None, dict[str, Any]]:
    """Pre-trained vectors `[V, E]`, or None, and what they say about the hyper-parameters."""
    if settings.vectors is None:
        return None, {}
    matrix = load_embeddings(vocabulary, settings.vectors, seed=settings.seed).matrix
    return matrix, {"embedding": matrix.shape[1]}
