"""Writes to rows of a table: which are known not to fail, and that those that do leave no trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.speculate.passes import ordering

TABLE = np.arange(12, dtype=np.float32).reshape(6, 2)


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many variables each graph that is made may have to put back."""
    counts: list[int] = []
    hold_back = ordering.hold_back_writes

    def counted(graph: tf.Graph, **how: bool) -> list[tf.Tensor]:
        handles = hold_back(graph, **how)
        counts.append(len(handles))
        return handles

    monkeypatch.setattr(ordering, "hold_back_writes", counted)
    return counts


def both(make: Callable[[tf.Variable, tf.Variable], Callable[[tf.Tensor], Any]], calls: list[list[int]]) -> None:
    """Compares eager calls with converted ones: results, errors, and the variables after each."""
    found = []
    for wrap in (lambda step: step, lambda step: rg.function(step, mode="speculate")):
        table, count = tf.Variable(TABLE), tf.Variable(0)
        step = wrap(make(table, count))
        history: list[Any] = []
        for rows in calls:
            try:
                result: Any = np.asarray(step(tf.constant(rows)))
            except tf.errors.InvalidArgumentError:
                result = "error"
            history.append((result, table.numpy().tolist(), int(count)))
        found.append(history)
    for eager, converted in zip(*found, strict=True):
        np.testing.assert_equal(converted, eager)


def descent(table: tf.Variable, count: tf.Variable) -> Callable[[tf.Tensor], tf.Tensor]:
    def step(rows: tf.Tensor) -> tf.Tensor:
        count.assign_add(1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, rows) ** 2)
        gradient = tape.gradient(loss, table)
        table.scatter_sub(tf.IndexedSlices(0.1 * gradient.values, gradient.indices))
        return loss

    return step


def neighbours(table: tf.Variable, count: tf.Variable) -> Callable[[tf.Tensor], tf.Tensor]:
    def step(rows: tf.Tensor) -> tf.Tensor:
        count.assign_add(1)
        found = tf.gather(table, rows)
        table.scatter_add(tf.IndexedSlices(found, rows + 1))  # of which the last may be out of range
        return found

    return step


def other_table(table: tf.Variable, count: tf.Variable) -> Callable[[tf.Tensor], tf.Tensor]:
    longer = tf.Variable(tf.ones([8, 2]))

    def step(rows: tf.Tensor) -> tf.Tensor:
        count.assign_add(1)
        found = tf.gather(longer, rows)
        table.scatter_add(tf.IndexedSlices(found, rows))
        return found

    return step


def test_rows_that_were_read_need_no_copy_of_the_table(undone: list[int]) -> None:
    both(descent, [[0, 1], [2, 2], [3, 1], [5, 0], [1, 4], [7, 1], [2, 3]])
    assert set(undone) == {0}


@pytest.mark.parametrize("make", [neighbours, other_table])
def test_other_rows_may_fail_and_leave_no_trace(make: Any, undone: list[int]) -> None:
    both(make, [[0, 1], [2, 2], [3, 1], [3, 0], [1, 4], [5, 7], [5, 1], [6, 0], [2, 3], [7, 0], [0, 1]])
    assert set(undone) == {1}


def test_rows_of_a_recursion_need_no_copy_of_the_table(undone: list[int]) -> None:
    table = tf.Variable(TABLE)

    class Node:
        def __init__(self, word: int, *children: Node) -> None:
            self.word, self.children = word, children

    def visit(node: Node) -> tf.Tensor:
        total = tf.gather(table, node.word)
        for child in node.children:
            total += tf.tanh(visit(child))
        return total

    @rg.function(mode="speculate", strict=True)
    def step(node: Node) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(visit(node) ** 2)
        gradient = tf.convert_to_tensor(tape.gradient(loss, table))
        table.assign_sub(0.1 * gradient)

    @rg.function(mode="speculate", strict=True)
    def sparse_step(node: Node) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(visit(node) ** 2)
        gradient = tape.gradient(loss, table)
        table.scatter_sub(tf.IndexedSlices(0.1 * gradient.values, gradient.indices))

    trees = [Node(1, Node(2), Node(3, Node(0))), Node(2, Node(3, Node(1), Node(4)), Node(5)), Node(0, Node(1), Node(1))]
    values = []
    for run in (step, sparse_step):
        table.assign(TABLE)
        for i in range(9):
            run(trees[i % 3])
        values.append(table.numpy())
    np.testing.assert_allclose(values[0], values[1], rtol=1e-5)
    assert set(undone) == {0}
