"""What the tests of the models share: small random trees, and a batch of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import Tree, TreeBatch, Vocabulary, encode, moderate

WORDS = 30


def random_trees(count: int, seed: int, most: int = 12) -> list[Tree]:
    """Trees of 1 to `most` words with a label, or none, at every node."""
    rng = np.random.default_rng(seed)
    trees = []
    for _ in range(count):
        words = [f"w{number}" for number in rng.integers(WORDS, size=rng.integers(1, most + 1))]
        tree = moderate(words, rng)
        trees.append(tree.with_labels(rng.integers(-1, 5, len(tree)).tolist()))
    return trees


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., TreeBatch]:
    """`make_batch(count, seed)`: a batch of random trees, as eager tensors."""
    vocabulary = Vocabulary(("<unk>", *(f"w{number}" for number in range(WORDS))))

    def make(count: int, seed: int = 0, most: int = 12) -> TreeBatch:
        return TreeBatch(*map(tf.constant, encode(random_trees(count, seed, most), vocabulary)))

    return make
