"""Variables that a call makes live in its graph: they are freed with it, and nobody else sees them."""

from __future__ import annotations

import resource
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from recgraph.speculate import Speculated
from recgraph.speculate.observe.reasons import Inconvertible


def test_many_calls_leave_no_variables_behind() -> None:
    """Three hundred of four megabytes each."""

    @Speculated
    def step(x: tf.Tensor) -> tf.Tensor:
        v = tf.Variable(tf.ones([1024, 1024]) * x)
        v.assign_add(v)
        return tf.reduce_sum(v)

    for i in range(8):
        step(tf.constant(float(i)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(300):
        assert float(step(tf.constant(float(i)))) == 2.0 * 1024**2 * i
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    assert step.calls["graph"] > 300, step.explain()


def test_a_tape_around_the_call() -> None:
    """It sees what it sees eagerly: nothing flows through an assignment. The call's variables are none of its own."""
    w = tf.Variable(2.0)

    def step(x: tf.Tensor) -> tf.Tensor:
        table = tf.Variable(tf.stack([x, x, x]))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [0, 2]) ** 2) * w
        table.assign_sub(tape.gradient(loss, table))
        return tf.reduce_sum(tf.gather(table, [1, 2])) * w * x

    called = Speculated(step)
    for i in range(8):
        x, found = tf.constant(1.0 + i), []
        for function in (step, called):
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = function(x)
            found.append([y, tape.gradient(y, x), tape.gradient(y, w)])
        assert np.allclose(found[0], found[1])
    assert [one is w for one in tape.watched_variables()] == [True]
    assert called.calls["graph"] >= 4, called.explain()


def test_a_call_that_fails_after_it_has_written_to_its_variable() -> None:
    """The program's own variable keeps its value; the call's needs none."""
    total = tf.Variable(0.0)

    @Speculated
    def step(x: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
        v = tf.Variable(x)
        v.assign_add(x)
        total.assign_add(tf.reduce_sum(v))
        return tf.gather(v, k)

    for _ in range(6):
        step(tf.ones([3]), tf.constant(1))
    assert step.calls["graph"] == 3, step.explain()
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.ones([3]), tf.constant(7))
    assert float(total) == 6.0 * 7


def test_a_layer_that_is_built_by_a_later_call_is_built_eagerly() -> None:
    """A conversion that meets it leaves it alone: its weights are no variables of a graph."""
    layer, refused = keras.layers.Dense(2, kernel_initializer="ones"), 0

    @Speculated
    def step(x: tf.Tensor, wide: bool) -> tf.Tensor:
        v = tf.Variable(lambda: layer(x) if wide else x)
        return v + 1.0

    for i in range(16):
        y = step(tf.ones([2, 3]), i >= 5)
        refused += i < 5
    assert np.allclose(y, 4.0)
    assert isinstance(layer.kernel.numpy(), np.ndarray)
    assert step.calls["graph"] > 5, step.explain()


def test_a_variable_in_a_branch_that_a_tensor_decides() -> None:
    """Is refused, with the reason."""

    def step(x: tf.Tensor) -> tf.Tensor:
        y = x
        for _ in tf.range(tf.cast(tf.reduce_sum(x), tf.int32)):
            y = tf.Variable(y) + 1.0
        return y

    called: Any = Speculated(step, strict=True)
    with pytest.raises(Inconvertible, match="a variable is made where a tensor decides"):
        [called(tf.constant([1.0 + i % 4])) for i in range(12)]
