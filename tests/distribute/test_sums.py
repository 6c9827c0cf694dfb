"""Sums over workers and shards, in one process: a stand-in for the collectives has the other workers' parts."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.distribute import Cluster, ClusterError, DisagreementError
from recgraph.distribute.cluster_spec import WorkerAddress
from recgraph.distribute.collectives import Collectives
from recgraph.distribute.reduction import Reduction, TableRows, divided
from recgraph.distribute.shards import SHARDS, ShardedReduction, shards_of, tree_sum

TABLE, MATRIX = (7, 3), (2, 5)
VARIABLES = [tf.Variable(tf.zeros(shape)) for shape in (MATRIX, TABLE)]


class Thread(Collectives):
    """Collectives of workers that are threads of this process."""

    def __init__(self, size: int, index: int, barrier: threading.Barrier, table: list[Any]):
        super().__init__(size, index, 1.0)
        self._barrier, self._table = barrier, table

    def sum(self, value: tf.Tensor, timeout: float | None = None) -> tf.Tensor:
        return tf.add_n(self._all(value))

    def gather(self, value: tf.Tensor, timeout: float | None = None) -> tf.Tensor:
        return tf.stack(self._all(value))

    def gather_rows(self, value: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.stack(self._all(tf.pad(value, [[0, rows - tf.shape(value)[0]], [0, 0]])))

    def _all(self, value: tf.Tensor) -> list[tf.Tensor]:
        self._table[self.index] = value
        self._barrier.wait(30)
        values = list(self._table)
        self._barrier.wait(30)
        return values


def run_together(size: int, work: Callable[[Collectives], Any]) -> list[Any]:
    """What each worker gets."""
    barrier, table = threading.Barrier(size), [None] * size
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, [Thread(size, index, barrier, table) for index in range(size)]))


def slices(*rows: tuple[int, float]) -> tf.IndexedSlices:
    values = tf.constant([[value] * TABLE[1] for _, value in rows], tf.float32, [len(rows), TABLE[1]])
    return tf.IndexedSlices(values, tf.constant([index for index, _ in rows], tf.int32), TABLE)


PARTS = [
    (slices((2, 1.0), (2, 0.5), (6, 2.0)), 3.0, 3),
    (slices(), 0.0, 0),  # a worker without an example
    (slices((0, -1.0), (2, 4.0), (3, 1.0), (5, 1.0)), 7.0, 1),
]


@pytest.mark.parametrize("dtypes", [("float32", "float32"), ("float32", "float64"), ("bfloat16", "float16")])
@pytest.mark.parametrize("sparse", [[1], []], ids=["rows", "whole"])
def test_the_mean_is_that_of_one_machine(sparse: list[int], dtypes: tuple[str, str]) -> None:
    """Parts of 3, 0 and 1 examples: a mean of means would be another number."""
    variables = [tf.Variable(tf.zeros(shape, kind)) for shape, kind in zip((MATRIX, TABLE), dtypes, strict=True)]

    def work(collectives: Collectives) -> tuple:
        rows, loss, count = PARTS[collectives.index]
        rows = tf.IndexedSlices(tf.cast(rows.values, dtypes[1]), rows.indices, rows.dense_shape)
        reduction = Reduction(collectives, variables, sparse, 2)
        sums, figures = reduction([tf.fill(MATRIX, tf.cast(loss, dtypes[0])), rows], tf.constant([loss, count]))
        return divided(sums, figures[1], variables), figures

    whole = sum(tf.convert_to_tensor(rows).numpy() for rows, _, _ in PARTS) / 4
    for (matrix, table), figures in run_together(3, work):
        np.testing.assert_allclose(figures, [10.0, 4.0])
        np.testing.assert_allclose(matrix, np.full(MATRIX, 2.5))
        np.testing.assert_allclose(tf.convert_to_tensor(table), whole, rtol=1e-6)
        assert isinstance(table, tf.IndexedSlices) is bool(sparse)
        assert (matrix.dtype.name, table.dtype.name) == dtypes


def test_sums_keep_the_digits_of_float64() -> None:
    """In rows and in whole tensors."""
    digit = 1.0 + 2.0**-40
    variables = [tf.Variable(tf.zeros(shape, tf.float64)) for shape in (MATRIX, TABLE)]

    def work(collectives: Collectives) -> list[Any]:
        rows = tf.IndexedSlices(tf.fill([1, TABLE[1]], tf.constant(digit, tf.float64)), [3 + collectives.index], TABLE)
        return Reduction(collectives, variables, [1], 0)([tf.fill(MATRIX, rows.values[0, 0]), rows], tf.zeros([0]))[0]

    for matrix, table in run_together(2, work):
        np.testing.assert_array_equal(matrix, np.full(MATRIX, 2 * digit))
        assert table.indices.numpy().tolist() == [3, 4]
        np.testing.assert_array_equal(table.values, np.full([2, TABLE[1]], digit))


def test_a_gradient_that_is_not_there_counts_as_zeros() -> None:
    """A variable that this step does not use."""
    (sums, _) = Reduction(Collectives(1, 0, 1.0), VARIABLES, [1], 0)([None, None], tf.zeros([0]))
    assert not tf.reduce_any(sums[0] != 0)
    assert sums[1].indices.shape[0] == 0


def test_no_examples_at_all_divide_by_one() -> None:
    (matrix,) = divided([tf.zeros(MATRIX)], tf.constant(0.0), VARIABLES[:1])
    assert np.isfinite(matrix).all()


def test_rows_of_one_index_are_added_up_before_they_travel() -> None:
    rows = TableRows.of(PARTS[0][0])
    assert sorted(zip(rows.indices.numpy(), rows.values.numpy()[:, 0], strict=True)) == [(2, 1.5), (6, 2.0)]


def random_shards(seed: int) -> list[tuple[list, tf.Tensor]]:
    """Gradients and figures of each shard, with values whose sum depends on the order."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(SHARDS):
        indices = random.integers(0, TABLE[0], random.integers(0, 6))
        values = (random.standard_normal((len(indices), TABLE[1])) * 10.0 ** random.integers(-4, 4)).astype(np.float32)
        matrix = (random.standard_normal(MATRIX) * 10.0 ** random.integers(-4, 4)).astype(np.float32)
        gradient = tf.IndexedSlices(tf.constant(values, shape=values.shape), tf.constant(indices, tf.int32), TABLE)
        made.append(([tf.constant(matrix), gradient], tf.constant(random.standard_normal(2).astype(np.float32))))
    return made


def sharded(size: int, shards: Sequence[tuple[list, tf.Tensor]]) -> list[tuple[np.ndarray, ...]]:
    """The sums that each of so many workers gets."""

    def work(collectives: Collectives) -> tuple[np.ndarray, ...]:
        first, _ = shards_of(collectives)
        reduction = ShardedReduction(collectives, VARIABLES, [1], 2)

        def shard(number: tf.Tensor) -> tuple[list, tf.Tensor]:
            return shards[first + int(number)]

        (matrix, table), figures = reduction(shard)
        order = np.argsort(table.indices)
        return matrix.numpy(), table.indices.numpy()[order], table.values.numpy()[order], figures.numpy()

    return run_together(size, work)


@pytest.mark.parametrize("seed", range(3))
def test_the_same_bits_for_any_number_of_workers(seed: int) -> None:
    shards = random_shards(seed)
    (alone,) = sharded(1, shards)
    for size in range(2, SHARDS + 1):
        for worker in sharded(size, shards):
            for mine, theirs in zip(worker, alone, strict=True):
                assert mine.tobytes() == theirs.tobytes()
    order = next(order for order in itertools.permutations(shards) if _in_order(order) != _in_order(shards))
    assert order  # another order gives other bits, so the comparison could fail


def _in_order(shards: Sequence[tuple[list, tf.Tensor]]) -> bytes:
    """The bits of a sum from first to last."""
    total = np.zeros(MATRIX, np.float32)
    for (matrix, _), _ in shards:
        total += matrix.numpy()
    return total.tobytes()


def test_the_sums_of_shards_are_sums() -> None:
    shards = random_shards(9)
    ((matrix, indices, values, figures),) = sharded(1, shards)
    np.testing.assert_allclose(matrix, sum(s[0][0].numpy().astype(np.float64) for s in shards), rtol=1e-4)
    table = sum(tf.convert_to_tensor(s[0][1]).numpy().astype(np.float64) for s in shards)
    np.testing.assert_allclose(values, table[indices], rtol=1e-4)
    np.testing.assert_allclose(figures, sum(s[1].numpy() for s in shards), rtol=1e-4)


def test_a_tree_adds_pairs() -> None:
    big = 2.0**24  # 1 is lost beside it
    assert float(tree_sum(tf.constant([[big], [1.0], [1.0], [1.0]]))[0]) == big + 2.0
    assert float(tree_sum(tf.constant([[1.0], [1.0], [1.0], [big]]))[0]) == big + 2.0


def test_more_workers_than_shards() -> None:
    with pytest.raises(ClusterError, match=r"9 workers are more than the 8 shards of a batch[\s\S]*1 to 8 workers"):
        shards_of(Collectives(9, 0, 1.0))


def exchanged(*arrays: np.ndarray) -> list[Any]:
    """What each worker gets when each gives one of the arrays, or the error that it sees."""
    hosts = tuple(f"127.0.0.1:{1000 + index}" for index in range(len(arrays)))

    def work(collectives: Collectives) -> Any:
        cluster = Cluster(WorkerAddress(hosts, collectives.index))
        cluster.collectives = collectives
        try:
            return cluster.exchange_rows(arrays[collectives.index])
        except DisagreementError as error:
            return str(error)

    return run_together(len(arrays), work)


@pytest.mark.parametrize(
    "shapes",
    [
        [(3, 0), (0, 0), (1, 0)],
        [(0, 0), (0, 0)],
        [(2, 0, 4), (5, 0, 4)],
        [(0, 3), (2, 3)],
        [(0,), (4,)],
        [(1, 2), (0, 2)],
    ],
    ids=str,
)
def test_rows_are_exchanged_whatever_their_shape(shapes: list[tuple[int, ...]]) -> None:
    """Rows without numbers, and workers without rows."""
    arrays = [np.random.default_rng(0).standard_normal(shape).astype(np.float16) for shape in shapes]
    for received in [*exchanged(*arrays), *exchanged(arrays[0])]:
        for one, other in zip(received, arrays, strict=False):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("other", "found"),
    [(np.zeros([1, 4]), r"float64 \[4\]"), (np.zeros([2, 2], np.int64), r"int64 \[2\]"), (np.zeros([1, 0]), "float64")],
)
def test_rows_of_other_kinds_are_refused_by_all_workers(other: np.ndarray, found: str) -> None:
    """Bytes of floats are no integers, and two rows of two numbers are not one of four."""
    for told in exchanged(np.zeros([1, 2]), other):
        assert re.search(
            "the workers do not have the same kind of rows to exchange[\\s\\S]*"
            rf"127.0.0.1:1001\): {found}[\s\S]*127.0.0.1:1000\), the chief: float64 \[2\]",
            told,
        )


def test_keys_are_the_same_on_all_workers_and_differ_in_a_graph() -> None:
    """A key has one shape, and one operation of a graph at a time."""

    def keys(collectives: Collectives) -> list[int]:
        found = []

        @tf.function
        def step(x: tf.Tensor) -> None:
            found.extend(collectives._key("sum", value) for value in (x, x, x[:2]))
            tf.while_loop(lambda i: i < 2, lambda i: found.append(collectives._key("sum", x)) or i + 1, [0])

        step(tf.zeros([3]))
        step.get_concrete_function(tf.zeros([4]))
        return found

    first, second = keys(Collectives(2, 0, 1.0)), keys(Collectives(2, 1, 1.0))
    assert first == second
    assert len(set(first[:4])) == 4
    assert len(set(first)) == 7  # the part of two numbers is the same in both graphs, which never run at once


def test_parts_of_a_program_of_the_users() -> None:
    workers = [Cluster.alone() for _ in range(3)]
    for index, worker in enumerate(workers):
        worker.place = type(worker.place)(("a:1", "b:1", "c:1"), index)
    assert [worker.part([5, 1, 4, 3, 3]).tolist() for worker in workers] == [[0], [1, 2], [3, 4]]
    parts = [worker.part([1]) for worker in workers]
    assert [part.tolist() for part in parts] == [[0], [], []]
    assert [tf.gather(tf.constant([7.0]), part).numpy().tolist() for part in parts] == [[7.0], [], []]
    assert [worker.part([]).dtype for worker in workers] == [np.int64] * 3
