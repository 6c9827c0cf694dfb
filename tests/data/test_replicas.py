"""Trees as rows, and batches that a distribution strategy has cut: found, as they may look like trees."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import TreeBatch, TreeRows, Vocabulary, encode, generate_treebank, tree_dataset, whole
from recgraph.data.completion import generate_dependencies, top_down_batch
from recgraph.data.pairs import PairBatch


def trees_of(count: int, seed: int) -> TreeBatch:
    trees = generate_treebank(count, seed=seed)
    return TreeBatch(*map(tf.constant, encode(trees, Vocabulary.build(trees))))


def top_down_of(count: int, seed: int) -> Any:
    trees = generate_dependencies(count, seed=seed)
    batch = top_down_batch(trees, Vocabulary.build(trees))
    return type(batch)(*map(tf.constant, batch))


def pairs_of(count: int, seed: int) -> PairBatch:
    """Pairs of chains."""
    dice = np.random.default_rng(seed)
    sizes = dice.integers(1, 6, 2 * count)
    ends = np.cumsum(sizes)
    words = int(ends[-1])
    is_leaf = np.isin(np.arange(words), ends - sizes)
    children = np.arange(words)[~is_leaf] - 1
    offsets = np.concatenate([[0], np.cumsum(~is_leaf)])
    roots = ends - 1
    columns = [np.arange(words), children, offsets, roots[::2], roots[1::2]]
    return PairBatch(*(tf.constant(one, tf.int32) for one in columns), tf.zeros([count]))


MAKERS = {"TreeBatch": trees_of, "PairBatch": pairs_of, "TopDownBatch": top_down_of}


def parts(batch: Any, replicas: int) -> list[Any]:
    """As strategies split a batch: each array by itself, the first parts the larger ones."""
    made = []
    for i in range(replicas):
        shares = [-(-one.shape[0] // replicas) for one in batch]
        made.append(type(batch)(*(one[share * i : share * (i + 1)] for one, share in zip(batch, shares, strict=True))))
    return made


def why_not_whole(batch: Any) -> str:
    """What the check says, or nothing."""
    try:
        whole(batch)
    except tf.errors.InvalidArgumentError as error:
        return str(error)
    return ""


def is_whole(batch: Any) -> bool:
    """Whether the check finds nothing; what it finds it says in full."""
    why = why_not_whole(batch)
    if why:
        assert "a batch was cut in the middle of a tree" in why
        assert "dataset.map(TreeRows.of)" in why
        assert "strategy.distribute_datasets_from_function" in why
    return not why


@pytest.mark.parametrize("kind", MAKERS)
def test_batches_that_were_cut_are_found(kind: str) -> None:
    """Of the parts of a batch one at least, whatever the sizes; never a whole one."""
    for seed in range(1, 31):
        batch = MAKERS[kind](2 + seed % 5, seed)
        assert is_whole(batch)
        assert not all(is_whole(part) for part in parts(batch, 2)), seed
        assert not all(is_whole(part) for part in parts(batch, 3)), seed


def test_a_batch_without_trees_is_whole() -> None:
    assert is_whole(encode([], Vocabulary.build([])))


def test_in_a_graph_the_check_comes_first() -> None:
    """What reads the arrays waits for it."""
    step = tf.function(lambda batch: tf.gather(batch.words, whole(batch).roots), autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a batch was cut in the middle of a tree"):
        step(parts(trees_of(4, 1), 2)[1])


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_rows_are_the_trees(replicas: int) -> None:
    """All rows are the batch; parts of them, also of none, are batches of those trees."""
    for seed in range(1, 6):
        batch = trees_of(5, seed)
        rows = TreeRows.of(batch)
        shared = [part.batch() for part in parts(rows, replicas)]
        assert all(map(is_whole, shared))
        np.testing.assert_array_equal(tf.concat([part.words for part in shared], 0), batch.words)
        first = 0
        for part in shared:
            nodes = slice(first, first + int(part.words.shape[0]))
            for mine, theirs in ((part.left, batch.left), (part.right, batch.right)):
                np.testing.assert_array_equal(tf.where(mine < 0, mine, mine + first), theirs[nodes])
            np.testing.assert_array_equal(part.labels, batch.labels[nodes])
            first = nodes.stop
    assert [int(size) for size in TreeRows.of(batch).sizes] == [int(n) for n in batch.offsets[1:] - batch.offsets[:-1]]
    assert TreeRows(*(column[:0] for column in rows)).batch().roots.shape == [0]


def test_rows_go_through_datasets() -> None:
    trees = generate_treebank(7, seed=3)
    flat = tree_dataset(trees, Vocabulary.build(trees), batch_size=3)
    for batch, rows in zip(flat, flat.map(TreeRows.of), strict=True):
        for mine, theirs in zip(rows.batch(), batch, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow
def test_two_replicas() -> None:
    """In a process of their own, as devices cannot be changed later."""
    command = [sys.executable, "-m", "tests.data.replicas"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    np.testing.assert_allclose([sum(parts) for parts in told["parts"]], told["expected"], rtol=1e-5)
    assert all(len(parts) == 2 and min(parts) > 0.0 for parts in told["parts"])
    assert np.isfinite(told["fitted"]).all()
    assert "a batch was cut in the middle of a tree" in told["cut"]
    assert told["whole"] == [2]
