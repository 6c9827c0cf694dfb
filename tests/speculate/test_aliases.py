"""One tensor in two places, with a tape around the calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg


def gradients(step: Any, a: tf.Tensor, b: tf.Tensor) -> list[Any]:
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        value = step(a, b)
    return [None if g is None else np.asarray(g) for g in tape.gradient(value, [a, b])]


@pytest.mark.parametrize("mode", ["speculate", "coexec", "auto"])
def test_a_tape_around_calls_with_one_tensor_or_two(mode: str) -> None:
    def step(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(a * a * b)

    converted = rg.function(step, mode=mode)
    for i in range(30):
        a = tf.constant([1.0, 2.0]) * i
        b = a if i % 3 == 2 else a + 1.0
        for mine, right in zip(gradients(converted, a, b), gradients(step, a, b), strict=True):
            np.testing.assert_allclose(mine, right)
