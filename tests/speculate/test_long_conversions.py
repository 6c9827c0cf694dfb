"""A conversion that would build too many operations rolls its loops up, or is given up before it has built them."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.speculate import Speculated
from recgraph.speculate.machine import evaluator


@pytest.fixture(autouse=True)
def few_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "MOST_OPERATIONS", 200)


def _differences(function: object, calls: list[tuple[tf.Tensor, int]]) -> tuple[Speculated, list[int]]:
    """The speculated function after these calls, and those that gave something else than eager ones."""
    converted = rg.function(function, mode="speculate")
    results = [(converted(*call), function(*call)) for call in calls]
    return converted, [i for i, pair in enumerate(results) if not all(map(_is_same, *map(tf.nest.flatten, pair)))]


def _is_same(one: tf.Tensor, other: tf.Tensor) -> bool:
    return bool(tf.reduce_all(tf.abs(one - other) <= 1e-5 * tf.abs(other)))


def _long(x: tf.Tensor, rounds: int) -> tf.Tensor:
    for i in range(100):
        x = tf.tanh(x) * 1.01 + float(i) * 0.001 - tf.reduce_mean(x)
    return x * float(rounds)


def _listing(x: tf.Tensor, rounds: int) -> list[tf.Tensor]:
    found = []
    for i in range(100):
        x = tf.tanh(x) * 1.01 + float(i) * 0.001 - tf.reduce_mean(x)
        found.append(x)
    return [*zip(*found, strict=True)][rounds]


def _rarely(x: tf.Tensor, rounds: int) -> list[tf.Tensor]:
    y = tf.tanh(x) * 2.0 + tf.sin(x) - tf.cos(x)
    return [y, *_listing(x, 0)] if rounds else [y]


def test_a_long_loop_is_one_of_the_graph() -> None:
    converted, differing = _differences(_long, [(tf.random.normal([4]), 1)] * 8)
    assert not differing
    assert converted.calls == {"eager": 3, "graph": 5, "fallback": 0}, converted.explain()
    assert converted._graphs[0].size < 200


def test_what_does_not_fit_into_a_loop_runs_eagerly() -> None:
    converted, differing = _differences(_listing, [(tf.random.normal([4]), 1)] * 6)
    assert not differing
    assert converted.calls["graph"] == 0
    assert "more than 200 operations" in converted.given_up


def test_calls_that_are_rare_and_long_leave_the_others_their_graph() -> None:
    calls = [(tf.random.normal([4]), int(i % 25 == 24)) for i in range(80)]
    converted, differing = _differences(_rarely, calls)
    assert not differing
    assert not converted.given_up, converted.explain()
    assert converted.calls["graph"] == 80 - 3 - 3, converted.explain()
    assert "more than 200 operations" in str(converted.explain())


def _halving(x: tf.Tensor, rounds: int) -> tuple[tf.Tensor, ...]:
    found = [(x,)]
    for i in range(100):
        x = x * 3.0 + float(i)
        while tf.reduce_sum(tf.abs(x)) > 1.0:
            x = tf.tanh(x) * 0.5
        found.append((x,))
    (every,) = zip(*found, strict=True)
    return every[:rounds]


def test_rounds_with_loops_are_a_loop_that_makes_a_list() -> None:
    """Of Python's, with each of its members."""
    converted, differing = _differences(_halving, [(tf.random.normal([4]), 60)] * 6)
    assert not differing
    assert converted.calls == {"eager": 3, "graph": 3, "fallback": 0}, converted.explain()
    assert converted._graphs[0].size < 200


def test_gradients_and_updates_do_not_count() -> None:
    """There are as many as there are weights: no loop would make them fewer."""
    weights = [tf.Variable(float(i)) for i in range(10)]
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(weights)

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.tanh(x * weight) for weight in weights])
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    converted = rg.function(step, mode="speculate")
    for _ in range(6):
        converted(tf.constant(0.5))
    assert converted.calls == {"eager": 3, "graph": 3, "fallback": 0}, converted.explain()
    assert converted._graphs[0].size > 200
