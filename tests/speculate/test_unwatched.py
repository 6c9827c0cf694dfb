"""A tape around a call differentiates what it watches, as eagerly: other gradients may fail, or be NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import tensorflow as tf

import recgraph as rg
from tests.speculate import comparing

Step: TypeAlias = Callable[[Any, Any], Any]
W = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
FROZEN = tf.Variable([[0.5, 0.0], [0.0, 0.5]], trainable=False)
ZERO = tf.constant([[0.0, 4.0], [1.0, 0.0]])


@tf.custom_gradient
def refuses(x: tf.Tensor) -> Any:
    """Has a value and no gradient."""

    def gradient(upstream: tf.Tensor) -> Any:
        raise ValueError("nobody differentiates this")

    return x * 2.0, gradient


@tf.custom_gradient
def fails_later(x: tf.Tensor) -> Any:
    """Its gradient fails where it runs."""

    def gradient(upstream: tf.Tensor) -> Any:
        return tf.debugging.check_numerics(upstream / 0.0, "a gradient")

    return x * 2.0, gradient


@tf.custom_gradient
def is_nan(x: tf.Tensor) -> Any:
    """Its gradient is no number."""
    return x * 2.0, lambda upstream: upstream * float("nan")


def sparse(x: Any, w: Any) -> Any:
    made = tf.sparse.from_dense(x)
    return tf.sparse.sparse_dense_matmul(made * 2.0, w)


def checked_root(x: Any, w: Any) -> Any:
    return tf.sqrt(tf.debugging.check_numerics(x, "")) @ w


def root(x: Any, w: Any) -> Any:
    return tf.sqrt(x) @ w


def refused(x: Any, w: Any) -> Any:
    return refuses(x) @ w


def failing(x: Any, w: Any) -> Any:
    return fails_later(x) @ w


def without_numbers(x: Any, w: Any) -> Any:
    return is_nan(x) @ w


def norm(x: Any, w: Any) -> Any:
    return (x * tf.norm(x - x)) @ w


def logarithm(x: Any, w: Any) -> Any:
    return tf.math.multiply_no_nan(tf.math.log(x), x) @ w


def stopped(x: Any, w: Any) -> Any:
    return tf.stop_gradient(tf.sqrt(x)) @ w + x


def with_a_frozen_variable(x: Any, w: Any) -> Any:
    return tf.sqrt(FROZEN) @ w @ x


def both(x: Any, w: Any) -> Any:
    return tf.sqrt(x) @ w, w * 2.0


def no_gradient(x: Any, w: Any) -> Any:
    return tf.raw_ops.Betainc(a=x + 1.0, b=x + 1.0, x=tf.fill([2, 2], 0.5)) @ w


def a_loop(x: Any, w: Any) -> Any:
    total = w
    for i in tf.range(2):
        total = total + tf.sqrt(x) * tf.cast(i, tf.float32)
    return total @ w


def a_branch(x: Any, w: Any) -> Any:
    if tf.reduce_sum(x) > 2.0:
        return tf.sqrt(x) @ w
    return refuses(x) @ w


def of_a_graph(x: Any, w: Any) -> Any:
    return _in_graph(x) @ w


@tf.function
def _in_graph(x: Any) -> Any:
    return tf.sqrt(x)


STEPS = [sparse, checked_root, root, refused, failing, without_numbers, norm, logarithm, stopped,
         with_a_frozen_variable, both, no_gradient, a_loop, a_branch, of_a_graph]  # fmt: skip


def plain(step: Step) -> Any:
    with tf.GradientTape() as tape:
        loss = _loss(step(ZERO, W))
    return tape.gradient(loss, [W, ZERO])


def choosy(step: Step) -> Any:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(W)
        loss = _loss(step(ZERO, W))
    return tape.gradient(loss, [W, FROZEN])


def of_nothing(step: Step) -> Any:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        loss = _loss(step(ZERO, W))
    return tape.gradient(loss, [W])


def persistent(step: Step) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        loss = _loss(step(ZERO, W))
    return [tape.gradient(loss, W), tape.gradient(loss * 2.0, [W, ZERO])]


def nested(step: Step) -> Any:
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = _loss(step(ZERO, W)) ** 2
        first = inner.gradient(loss, W)
    return first, outer.gradient(first, W)


def one_of_two(step: Step) -> Any:
    """The outer tape watches the input, the inner one the weights alone."""
    x = ZERO + 1.0
    with tf.GradientTape(watch_accessed_variables=False) as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            loss = _loss(step(x, W))
        first = inner.gradient(loss, W)
    return first, outer.gradient(loss, x)


def not_recorded(step: Step) -> Any:
    with tf.GradientTape() as tape:
        with tape.stop_recording():
            loss = _loss(step(ZERO, W))
        loss = loss + tf.reduce_sum(W)
    return tape.gradient(loss, [W])


def zeros_where_unconnected(step: Step) -> Any:
    with tf.GradientTape() as tape:
        loss = _loss(step(ZERO, W))
    return tape.gradient(loss, [W, FROZEN, ZERO], unconnected_gradients=tf.UnconnectedGradients.ZERO)


def all_watched(step: Step) -> Any:
    """What fails eagerly, fails."""
    with tf.GradientTape() as tape:
        tape.watch(ZERO)
        loss = _loss(step(ZERO, W))
    return tape.gradient(loss, [W, ZERO])


def jacobian(step: Step) -> Any:
    with tf.GradientTape() as tape:
        result = tf.nest.flatten(step(ZERO, W))[0]
    return tape.jacobian(result, W, experimental_use_pfor=False)


def never_asked(step: Step) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(ZERO)
        loss = _loss(step(ZERO, W))
    del tape
    return loss


def given(step: Step) -> Any:
    with tf.GradientTape() as tape:
        result = tf.nest.flatten(step(ZERO, W))[0]
    return tape.gradient(result, W, output_gradients=tf.ones_like(result) * 3.0)


TAPES = [plain, choosy, of_nothing, persistent, nested, one_of_two, not_recorded, zeros_where_unconnected, all_watched,
         jacobian, never_asked, given]  # fmt: skip


def _loss(result: Any) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(part) for part in tf.nest.flatten(result)])


def _outcome(tape: Any, step: Any) -> Any:
    try:
        return comparing.plain(tape(step))
    except Exception as error:
        return type(error).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_gradients_under_tapes_are_eagers(step: Any) -> None:
    """Also where one graph is called under one tape after the other, twice."""
    called = rg.function(step, mode="speculate")
    for _ in range(5):
        called(ZERO, W)
    for tape in [*TAPES, *TAPES]:
        before = called.calls["graph"]
        ours, eager = _outcome(tape, called), _outcome(tape, step)
        assert comparing.differences(eager, ours) == [], tape.__name__
        if tape in (plain, choosy, persistent) and step not in (a_branch,) and not called.given_up:
            assert called.calls["graph"] > before, (tape.__name__, called.explain())
    assert called.calls["graph"] >= 2 + len(TAPES) or step is refused, called.explain()


def test_the_sparse_product_of_the_report() -> None:
    """Call after call under a tape of its own, from the first on."""
    called = rg.function(sparse, mode="speculate")
    for _ in range(8):
        assert comparing.differences(_outcome(plain, sparse), _outcome(plain, called)) == []
    assert called.calls["graph"] >= 4, called.explain()
