"""What Python's thread knows of values without the graph: then it does not wait, and the graph need not tell."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from recgraph.coexec import Coexecuted

WAITS_FOR_NONE = "Python waits for 0 operations"


def test_the_graph_does_not_tell_what_python_knows() -> None:
    """Lookups by indices of a batch."""
    table = tf.Variable(tf.random.stateless_normal([50, 4], [1, 2]))

    @Coexecuted
    def step(tokens: np.ndarray) -> tf.Tensor:
        rows = tf.gather(tf.tanh(table), tokens)
        table.assign_sub(0.1 * table)
        return tf.reduce_sum(rows)

    for i in range(8):
        tokens = np.array([i, 2 * i, 3 * i], np.int32)
        expected = np.tanh(table.numpy())[tokens].sum()
        assert float(step(tokens)) == pytest.approx(expected, rel=1e-5)
    assert step.phases.counts["left"] == 0
    assert WAITS_FOR_NONE in step.explain()


@pytest.mark.parametrize("is_read", [False, True])
def test_a_step_that_has_to_wait_for_the_first_time_leaves_its_graph_once(is_read: bool) -> None:
    """More numbers than Python's thread goes through by itself."""

    @Coexecuted
    def step(numbers: np.ndarray) -> tuple[tf.Tensor, float]:
        found, places = tf.unique(tf.constant(numbers) * 2)
        total = tf.reduce_sum(found)
        return places, float(total) if is_read else 0.0

    for i in range(14):
        size = 100_000 if i in (8, 11) else 100 + i
        numbers = np.arange(size, dtype=np.int32) % (7 + i)
        places, total = step(numbers)
        assert places.shape == [size]
        assert places.numpy().tolist() == (np.arange(size) % (7 + i)).tolist()
        assert total == (2 * np.unique(numbers).sum() if is_read else 0.0)
        if i == 7:
            assert WAITS_FOR_NONE in step.explain()
    explained = step.explain()
    assert explained.count("Python has to wait, as it never had to: Unique") == 1, explained
    assert WAITS_FOR_NONE not in explained
    assert step.phases.counts["coexecuted"] >= 5


def test_a_bad_index_is_an_error_at_its_line() -> None:
    """Though no step has waited for the lookup before, and though nothing needs it."""
    table, total = tf.Variable(tf.ones([5, 2])), tf.Variable(0.0)

    def step(index: int) -> None:
        total.assign_add(1.0)
        tf.gather(tf.tanh(table), np.array([0, index], np.int32))
        total.assign_add(1.0)

    called = Coexecuted(step)
    for i in range(12):
        if i == 8:
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 9 is not in \[0, 5\)"):
                called(9)
        else:
            called(i % 5)
    assert float(total) == 2.0 * 11 + 1.0
    assert called.phases.counts["coexecuted"] >= 8


def test_what_is_used_twice_is_known_once() -> None:
    """Each number comes from two that are the same, thirty times over."""
    table = tf.Variable(tf.reshape(tf.range(300.0), [100, 3]))

    @Coexecuted
    def step(places: np.ndarray) -> tf.Tensor:
        index = tf.constant(places)
        for _ in range(29):
            index = tf.maximum(index, index - 1)
        return tf.gather(table * 2.0, index)

    for i in range(8):
        places = (np.arange(80, dtype=np.int32) + i) % 100
        np.testing.assert_array_equal(step(places), 2.0 * table.numpy()[places])
    assert step.phases.counts["coexecuted"] >= 5
