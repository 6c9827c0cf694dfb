"""SubGraphs that a step calls: nodes of its trace graph."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from tests.coexec.steps import STEPS, compared, mostly, number

ROW = tf.TensorSpec([1, 3])


def chain(kernel: tf.Variable) -> Any:
    """`h -> tanh(h @ kernel)`, so many times."""
    with rg.SubGraph("chain", outputs=ROW) as called:
        count = called.input(tf.int32, name="count")
        row = called.input(shape=[1, 3], name="row")
        called.output(tf.cond(count == 0, lambda: row, lambda: tf.tanh(called(count - 1, row) @ kernel)))
    return called


def trained(use: Any = lambda made, i: made) -> tuple[Any, Any]:
    """A step that trains a recursion."""
    kernel = tf.Variable(tf.random.stateless_normal([3, 3], [1, 2]))
    called = chain(kernel)

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            made = called(3, tf.ones([1, 3]) * x)
            loss = tf.reduce_sum(tf.square(made)) + tf.reduce_sum(kernel) * 0.01
        kernel.assign_sub(0.1 * tape.gradient(loss, kernel))
        return use(loss, x)

    return step, kernel


def test_a_recursion_with_weights_is_trained() -> None:
    """The call, its frame and its gradient are in the graph, which changes the weights as well."""
    mostly(compared(trained, number))


def test_the_ways_of_a_step_part_after_a_subgraph() -> None:
    """A new path in the middle: the call is done again, with the frame that its gradient needs."""

    def later(loss: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return loss * 2.0 if float(x) > 1.0 else loss + 1.0

    assert compared(lambda: trained(later), number).phases.counts["coexecuted"] > STEPS // 2


def test_a_subgraph_whose_depth_varies() -> None:
    """A value from Python."""
    kernel = tf.Variable(tf.eye(3) * 0.5)
    called = chain(kernel)

    def make() -> tuple[Any, Any]:
        def step(x: tf.Tensor) -> tf.Tensor:
            kernel.assign(kernel * 0.5 + 0.2)
            return called(tf.cast(x, tf.int32) % 4, tf.ones([1, 3])) + x

        kernel.assign(tf.eye(3) * 0.5)
        return step, kernel

    mostly(compared(make, number))


def test_a_subgraph_that_changes_a_variable() -> None:
    """In order with the step's own changes."""

    def make() -> tuple[Any, Any]:
        total = tf.Variable(0.0)
        with rg.SubGraph("add", outputs=tf.TensorSpec([])) as add:
            by = add.input(name="by")
            add.output(total.assign_add(by) * 1.0)

        def step(x: tf.Tensor) -> tf.Tensor:
            total.assign(total * 0.5)
            y = add(x)
            return total.read_value() + y

        return step, total

    mostly(compared(make, number))


def test_a_mapped_subgraph() -> None:
    """As many invocations as there are rows."""

    def make() -> tuple[Any, Any]:
        kernel = tf.Variable(tf.eye(3) * 0.5)
        called = chain(kernel)

        def step(x: tf.Tensor) -> tf.Tensor:
            rows = called.map(tf.constant([0, 1, 2]), tf.ones([3, 1, 3]) * x)
            kernel.assign_add(tf.reduce_mean(rows, axis=0) * 0.01 * tf.ones([3, 1]))
            return rows

        return step, kernel

    mostly(compared(make, number))


def test_a_subgraph_in_a_function() -> None:
    """A call of the function is one operation."""

    def make() -> tuple[Any, Any]:
        kernel = tf.Variable(tf.eye(3) * 0.5)
        called = chain(kernel)
        twice = tf.function(lambda row: called(2, called(1, row)))

        def step(x: tf.Tensor) -> tf.Tensor:
            y = twice(tf.ones([1, 3]) * x)
            kernel.assign_add(tf.ones([3, 3]) * tf.reduce_mean(y) * 0.01)
            return y

        return step, kernel

    mostly(compared(make, number))


def test_a_subgraph_that_runs_python() -> None:
    """Once a step, at its line: the steps run eagerly, and it is said why."""
    seen: list[float] = []

    def look(x: Any) -> Any:
        seen.append(float(x))
        return x

    with rg.SubGraph("looking", outputs=tf.TensorSpec([])) as looking:
        x = looking.input(name="x")
        looking.output(tf.ensure_shape(tf.numpy_function(look, [x], tf.float32), []))

    called = compared(lambda: (lambda x: looking(tf.sin(x)) + tf.cos(x), []), number)
    assert len(seen) == 2 * STEPS
    assert "PyFunc, whose effects must not happen before Python reaches the call" in called.phases.given_up


def test_an_exception_after_a_subgraph() -> None:
    """What was called has happened, once."""
    total = tf.Variable(0.0)
    with rg.SubGraph("add", outputs=tf.TensorSpec([])) as add:
        by = add.input(name="by")
        add.output(total.assign_add(by) * 1.0)

    @rg.function(mode="coexec")
    def step(x: tf.Tensor, fails: bool) -> tf.Tensor:
        y = add(x)
        if fails:
            raise KeyError("after")
        return y + 1.0

    for i in range(9):
        if i == 6:
            with pytest.raises(KeyError):
                step(tf.constant(1.0), True)
        else:
            assert float(step(tf.constant(1.0), False)) == i + 2.0
    assert float(total) == 9.0
