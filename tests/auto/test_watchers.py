"""Whoever watches reads of variables is told of those of a graph: gradients under tf.recompute_grad depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import tensorflow as tf

import recgraph as rg

Block: TypeAlias = Callable[[tf.Tensor], tf.Tensor]
KERNEL, SCALE = tf.Variable(tf.ones([2, 2]) * 0.3), tf.Variable(0.5)
FROZEN = tf.Variable(1.5, trainable=False)
X = tf.ones([3, 2])
# The first calls are eager ones, in which everybody is told.
CALLS = 7


def block(x: tf.Tensor) -> tf.Tensor:
    """Reads variables, in a loop too, and one that is not trainable."""
    y = tf.tanh(x @ KERNEL) + FROZEN
    for _ in range(2):
        y = tf.sin(y) * SCALE
    return y


@rg.subgraph
def halved(x: tf.Tensor) -> tf.Tensor:
    """A recursion that reads them in its body."""
    return tf.cond(
        tf.reduce_sum(x) < 0.5, lambda: tf.tanh(x @ KERNEL), lambda: halved(tf.sin(x) * 0.3 * tf.tanh(SCALE))
    )


class Layer(rg.keras.SubGraphLayer):
    """Reads them in the body of a layer, as variables of its own."""

    output_size = 2

    def build(self, shape: Any) -> None:
        """Makes them."""
        self.kernel = self.add_weight(shape=(2, 2), initializer="ones")
        self.scale = self.add_weight(shape=(), initializer="ones")

    def body(self, x: Any, recurse: Any) -> Any:
        """One round, or none."""
        return tf.cond(x[0, 0] < 1.0, lambda: tf.tanh(x @ self.kernel), lambda: recurse(x * 0.5 * self.scale))


def _undecorated(x: tf.Tensor) -> tf.Tensor:
    with rg.speculation():
        return block(x)


def _optimized() -> Block:
    optimized: Block = rg.optimize(tf.function(block, autograph=False), X, seconds=0.1)
    return optimized


MODES: dict[str, Callable[[], Block]] = {
    "eager": lambda: block,
    "speculate": lambda: rg.function(block, mode="speculate"),
    "coexec": lambda: rg.function(block, mode="coexec"),
    "auto": lambda: rg.function(block),
    "speculation": lambda: _undecorated,
    "subgraph": lambda: halved,
    "map": lambda: lambda x: halved.map(x[:, None])[:, 0],
    "layer": lambda: Layer(),
    "optimize": _optimized,
}


def told(call: Callable[[], Any], *, is_recorded: bool) -> int:
    """Of how many variables `tf.custom_gradient` learns; `tf.recompute_grad` lets no tape record."""
    found: list[int] = []

    @tf.custom_gradient
    def around(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            if is_recorded:
                call()
            else:
                with tape.stop_recording():
                    call()

        def gradient(upstream: tf.Tensor, variables: Any = ()) -> Any:
            found.append(len(variables))
            return upstream, [tf.zeros_like(variable) for variable in variables]

        return x * 1.0, gradient

    with tf.GradientTape() as outer:
        outer.watch(x := tf.constant(1.0))
        y = around(x)
    outer.gradient(y, x)
    return found[0]


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_custom_gradients_learn_of_the_variables_that_a_graph_reads(mode: str, is_recorded: bool) -> None:
    """In every call, with a tape and without one; of those alone that are trainable."""
    function = MODES[mode]()
    for _ in range(2):  # what is traced is traced without a tape
        function(X)
    assert [told(lambda: function(X), is_recorded=is_recorded) for _ in range(CALLS)] == [2] * CALLS


def test_custom_gradients_learn_of_the_variables_of_co_executed_iterations() -> None:
    """In `rg.steps` the program itself reads them."""
    assert [told(lambda: block(X), is_recorded=False) for _ in rg.steps(range(CALLS))] == [2] * CALLS


def _gradients(function: Block) -> list[float]:
    remembering = tf.recompute_grad(function)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((remembering(remembering(X)) - 1.0) ** 2)
    return [float(tf.reduce_sum(gradient)) for gradient in tape.gradient(loss, [KERNEL, SCALE])]


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("subgraph", "map", "layer")])
def test_recompute_grad_finds_all_gradients(mode: str) -> None:
    """Of a function whose calls are graphs, called twice under one tape."""
    function, expected = MODES[mode](), _gradients(block)
    for _ in range(CALLS):
        assert _gradients(function) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "layer"])
def test_a_tape_knows_its_variables(mode: str) -> None:
    """`watched_variables` are those that were read, and are trainable."""
    function = MODES[mode]()
    for _ in range(CALLS):
        with tf.GradientTape() as tape:
            function(X)
        assert {id(variable) for variable in tape.watched_variables()} == {id(KERNEL), id(SCALE)}


def test_variables_that_are_gone_are_told_to_nobody() -> None:
    """A graph does not keep the variables of an object that is gone, and its calls go on with those of others."""

    class Model(tf.Module):
        def __init__(self) -> None:
            self.weight = tf.Variable(2.0)

    @rg.function(mode="speculate")
    def step(model: Model, x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x * model.weight) * 2.0 + x

    for _ in range(3):
        model = Model()
        counts = [told(lambda: step(model, X), is_recorded=False) for _ in range(CALLS)]  # noqa: B023
        assert counts == [1] * CALLS
