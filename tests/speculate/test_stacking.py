"""Products that become one: which do, and that what they compute stays what it was."""

from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import recgraph as rg
from recgraph.speculate.passes import rewrites as stacking
from recgraph.speculate.run import conversion


def products(graph: tf.Graph) -> int:
    """The products that somebody needs."""
    needed: set[str] = set()
    waiting = [op for op in graph.get_operations() if op.type == "Identity" and not op.outputs[0].consumers()]
    while waiting:
        op = waiting.pop()
        if op.name not in needed:
            needed.add(op.name)
            waiting += [tensor.op for tensor in op.inputs]
    return sum(op.type == "MatMul" and op.name in needed for op in graph.get_operations())


def rewritten(build: Any) -> tuple[tf.Graph, list[np.ndarray], list[np.ndarray]]:
    """A graph after the rewriting, and its results before and after."""
    graph = tf.compat.v1.Graph()
    with graph.as_default():
        results = [tf.identity(tensor) for tensor in build()]
        with tf.compat.v1.Session(graph=graph) as session:
            before = session.run(results)
    stacking.stack_products(graph)
    with tf.compat.v1.Session(graph=graph) as session:
        return graph, before, session.run(results)


def rows(seed: int, count: int = 2, width: int = 8) -> tf.Tensor:
    """float32 `[count, width]`."""
    return tf.constant(np.random.default_rng(seed).normal(size=[count, width]).astype(np.float32))


def test_independent_products_become_one() -> None:
    def build() -> list[tf.Tensor]:
        weights = rows(0, 32, 64)
        return [rows(i + 1, 2, 32) @ weights for i in range(5)]

    graph, before, after = rewritten(build)
    assert products(graph) == 1
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_a_chain_of_products_stays() -> None:
    def build() -> list[tf.Tensor]:
        weights, state = rows(0, 32, 32), rows(1, 2, 32)
        for _ in range(4):
            state = tf.tanh(state @ weights)
        return [state]

    graph, before, after = rewritten(build)
    assert products(graph) == 4
    np.testing.assert_array_equal(after, before)


def test_two_groups_that_wait_for_each_other_do_not_make_a_circle() -> None:
    def build() -> list[tf.Tensor]:
        a, b = rows(0, 16, 16), rows(1, 16, 16)
        first = rows(2, 1, 16) @ a
        second = first @ b  # a, then b
        third = rows(3, 1, 16) @ b
        fourth = third @ a  # b, then a
        return [second, fourth]

    _, before, after = rewritten(build)
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_weights_smaller_than_the_rows_are_left_alone() -> None:
    graph, *_ = rewritten(lambda: [rows(i, 64) @ rows(9, 8, 4) for i in range(3)])
    assert products(graph) == 3


def test_a_gradient_that_is_a_sum_of_products_becomes_one_product() -> None:
    def build() -> list[tf.Tensor]:
        terms = [tf.matmul(rows(i, 2, 32), rows(i + 10, 2, 32), transpose_a=True) for i in range(4)]
        return [tf.add_n([*terms, rows(50, 32, 32)])]

    graph, before, after = rewritten(build)
    assert products(graph) == 1
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_rows_stacked_by_two_rules_are_stacked_once() -> None:
    def build() -> list[tf.Tensor]:
        weights, inputs = rows(0, 32, 32), [rows(i + 1, 2, 32) for i in range(4)]
        gradient = tf.add_n([tf.matmul(x, tf.tanh(x), transpose_a=True) for x in inputs])
        return [gradient, *(x @ weights for x in reversed(inputs))]

    graph, before, after = rewritten(build)
    assert products(graph) == 2
    assert sum(op.type == "ConcatV2" for op in graph.get_operations()) == 2
    for one, other in zip(after, before, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@st.composite
def programs(draw: Any) -> list[tuple[int, int, bool]]:
    """Products by one of three weights, of an earlier result or of new rows, by the weights or their transpose."""
    count = draw(st.integers(2, 12))
    return [(draw(st.integers(0, i)), draw(st.integers(0, 2)), draw(st.booleans())) for i in range(count)]


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(programs())
def test_random_programs_compute_what_they_did(program: list[tuple[int, int, bool]]) -> None:
    def build() -> list[tf.Tensor]:
        weights = [rows(i, 16, 16) / 4.0 for i in range(3)]
        values = [rows(7, 1, 16)]
        for of, by, transposed in program:
            values.append(tf.tanh(tf.matmul(values[of], weights[by], transpose_b=transposed)))
        gradients = tf.gradients(tf.add_n([tf.reduce_sum(value) for value in values]), weights)
        return values + [tf.convert_to_tensor(one) for one in gradients if one is not None]

    _, before, after = rewritten(build)
    for one, other in zip(after, before, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_variable_written_between_two_products_is_read_twice() -> None:
    weights = tf.Variable(np.eye(16, dtype=np.float32))

    def step(x: tf.Tensor) -> tf.Tensor:
        first = x @ weights
        weights.assign_add(tf.ones([16, 16]))
        second = (x + 1.0) @ weights
        return tf.concat([first, second], 0)

    def run(call: Any) -> list[np.ndarray]:
        weights.assign(np.eye(16, dtype=np.float32))
        return [call(rows(i, 1, 16)).numpy() for i in range(6)]

    speculated = rg.function(step, mode="speculate", strict=True)
    np.testing.assert_allclose(run(speculated), run(step), rtol=1e-5)
    assert speculated.calls["graph"] == 3


def test_an_unrolled_loop_in_time_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    monkeypatch.setattr(
        conversion, "stack_products", lambda graph: (stacking.stack_products(graph), counts.append(products(graph)))
    )
    weights = tf.Variable(rows(0, 16, 64))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            total = 0.0
            for t in range(5):
                total += tf.reduce_sum(tf.tanh(x[:, t] @ weights))
        weights.assign_sub(0.1 * tape.gradient(total, weights))
        return total

    speculated = rg.function(step, mode="speculate", strict=True)
    eager = tf.Variable(weights)
    x = tf.reshape(rows(3, 1, 80), [1, 5, 16])
    losses = [float(speculated(x)) for _ in range(6)]
    weights.assign(eager)
    np.testing.assert_allclose(losses, [float(step(x)) for _ in range(6)], rtol=1e-4)
    assert counts == [1]
