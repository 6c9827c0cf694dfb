"""A batch that several workers divide: every example once, parts even, whatever the sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import Share, TreeBatch, Vocabulary, generate_treebank, tree_dataset
from recgraph.data.pipeline import deal

TREES = generate_treebank(23, seed=4)
VOCABULARY = Vocabulary.build(TREES)


def batches(share: Share | None, batch_size: int = 10, epochs: int = 2) -> list:
    return list(tree_dataset(TREES, VOCABULARY, batch_size, shuffle_seed=3, epochs=epochs, share=share))


def trees_of(batch: TreeBatch) -> list[tuple[int, ...]]:
    """Each tree's words."""
    ends = batch.offsets.numpy()
    return [tuple(batch.words.numpy()[i:j]) for i, j in itertools.pairwise(ends)]


@pytest.mark.parametrize("parts", [1, 2, 4, 16])
def test_the_parts_of_a_batch_are_the_batch(parts: int) -> None:
    """Each tree once and where `Part` says; 16 parts of a last batch of 3 trees are mostly empty."""
    wholes = batches(None)
    shared = [batches(Share(parts, first, 1)) for first in range(parts)]
    for step, whole in enumerate(wholes):
        expected = trees_of(whole)
        found: dict[int, tuple[int, ...]] = {}
        for batch, part in (one[step] for one in shared):
            found |= dict(zip(part.trees.numpy().tolist(), trees_of(batch), strict=True))
            assert (int(part.all_trees), int(part.all_nodes)) == (len(expected), len(whole.words))
            assert int(part.longest) == max(map(len, expected))
            np.testing.assert_array_equal(whole.words.numpy()[part.nodes], batch.words)
        assert [found[tree] for tree in range(len(expected))] == expected


def test_several_parts_follow_each_other() -> None:
    """A worker that makes two of four parts sees what two workers would."""
    both = batches(Share(4, 2, 2))
    each = [batches(Share(4, 2, 1)), batches(Share(4, 3, 1))]
    assert len(both) == 2 * len(each[0])
    for place, (batch, part) in enumerate(both):
        other, other_part = each[place % 2][place // 2]
        for mine, theirs in zip([*batch, *part], [*other, *other_part], strict=True):
            np.testing.assert_array_equal(mine, theirs)


def longest_first(costs: list[int], parts: int) -> list[int]:
    """The slow reference: what each part has to do."""
    loads = [0] * parts
    for cost in sorted(costs, reverse=True):
        loads[loads.index(min(loads))] += cost
    return loads


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_work_is_even_and_not_the_number_of_trees(parts: int) -> None:
    random = np.random.default_rng(parts)
    costs = random.geometric(0.05, [7, 25]).astype(np.int32)
    for row, chosen in zip(costs, deal(tf.constant(costs), parts).numpy(), strict=True):
        loads = [int(row[chosen == part].sum()) for part in range(parts)]
        assert loads == longest_first(row.tolist(), parts)
        assert max(loads) - min(loads) <= row.max()
