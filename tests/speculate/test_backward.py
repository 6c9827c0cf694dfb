"""What writes does not wait for the backward pass, unless that has gradients of the user's, which may fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.speculate.passes import ordering
from recgraph.speculate.run.function import Speculated


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[ordering.Order]:
    """What is found in each graph that is made."""
    found: list[ordering.Order] = []
    of = ordering.Order.of
    monkeypatch.setattr(ordering.Order, "of", lambda graph: found.append(of(graph)) or found[-1])
    return found


def convolution(apply: Callable[[tf.Tensor], tf.Tensor]) -> tuple[Speculated, tf.Variable]:
    """A step of a convolution of images whose number changes."""
    kernel = tf.Variable(tf.random.stateless_uniform([3, 3, 1, 2], [1, 2]))

    @rg.function(mode="speculate")
    def step(images: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(apply(tf.nn.conv2d(images, kernel, 1, "SAME")))
        kernel.assign_sub(0.1 * tape.gradient(loss, kernel))
        return loss

    return step, kernel


def train(step: Any) -> list[float]:
    """Losses of batches of several sizes."""
    return [float(step(tf.random.stateless_uniform([size, 6, 6, 1], [size, 3]))) for size in (4, 4, 4, 3, 3, 2, 5)]


def test_nothing_waits_for_gradients_of_unknown_shape(orders: list[ordering.Order]) -> None:
    step, kernel = convolution(tf.nn.relu)
    losses = train(step)
    assert step.calls["graph"] > 2, step.explain()
    assert not [op.name for op in orders[-1].fallible if "gradient_tape" in op.name]
    eager, eager_kernel = convolution(tf.nn.relu)
    np.testing.assert_allclose(losses, train(eager.function), rtol=1e-5)
    np.testing.assert_allclose(kernel, eager_kernel, rtol=1e-5)


def test_the_gradient_of_the_images_is_not_computed(orders: list[ordering.Order]) -> None:
    step, _ = convolution(tf.nn.relu)
    train(step)
    assert step.calls["graph"] > 2
    graph = orders[-1].fallible.pop().graph
    unused = [op for op in graph.get_operations() if op.type == "Conv2DBackpropInput"]
    assert unused, "there is one more to be computed than is needed"
    assert not {*unused} & {*graph.control_outputs}


def test_a_gradient_of_the_users_may_fail() -> None:
    """It gives something of another shape in one call: an error, as eagerly, and the variable is as it was."""

    @tf.custom_gradient
    def odd(x: tf.Tensor) -> Any:
        return x * 2.0, lambda up: tf.reshape(up, [-1])[: tf.size(up) - tf.cast(tf.reduce_max(x) > 5.0, tf.int32)]

    def made() -> tuple[Speculated, tf.Variable]:
        weight = tf.Variable([1.0, 2.0])

        @rg.function(mode="speculate")
        def step(x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(odd(tf.reshape(x, [-1, 2]) * weight) * 3.0)
            weight.assign_sub(0.1 * tf.reshape(tape.gradient(loss, weight), [2]))
            return loss

        return step, weight

    def run(step: Any, weight: tf.Variable) -> list[Any]:
        found: list[Any] = []
        for size, value in ((2, 1.0), (2, 1.0), (2, 1.0), (4, 1.0), (6, 1.0), (4, 9.0), (4, 1.0)):
            try:
                found.append(step(tf.fill([size], value)).numpy())
            except Exception as error:
                found.append(type(error))
            found.append(weight.numpy().tolist())
        return found

    converted, weight = made()
    eager, eager_weight = made()
    assert str(run(converted, weight)) == str(run(eager.function, eager_weight))


def test_gradients_that_are_given_may_not_fit() -> None:
    """`output_gradients` of the program are of any shape."""
    weight = tf.Variable([[1.0, 2.0]])

    def step(x: tf.Tensor, up: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = tf.matmul(x, weight, transpose_b=True)
        weight.assign_sub(tape.gradient(y, weight, output_gradients=up))
        return y

    converted = rg.function(step, mode="speculate")
    for rows in (3, 3, 3, 4, 5, 4):
        converted(tf.ones([rows, 2]), tf.ones([rows, 1]))
    before = weight.numpy()
    with pytest.raises(tf.errors.InvalidArgumentError):
        converted(tf.ones([3, 2]), tf.ones([4, 1]))
    np.testing.assert_array_equal(weight, before)
