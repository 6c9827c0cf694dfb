"""The recursive algorithms beside TensorFlow's own and beside loops: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture(scope="module")
def example(load: Callable[[str], Any]) -> Any:
    return load("algorithms")


def values_and_gradients(function: Callable[..., tf.Tensor], *x: tf.Tensor) -> list[np.ndarray]:
    """Of a sum with other weights for each result."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = function(*x)
        weights = tf.cast(np.sin(np.arange(int(tf.size(result))) + 1.0), result.dtype)
        total = tf.reduce_sum(weights * result)
    return [result.numpy(), *(gradient.numpy() for gradient in tape.gradient(total, x, unconnected_gradients="zero"))]


def assert_same(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


def test_fft(example: Any) -> None:
    fft = example.make_fft()
    for length in (1, 2, 8, 256):
        real, imaginary = tf.random.stateless_normal([2, length], [length, 1])
        x = tf.complex(real, imaginary)
        assert_same(values_and_gradients(fft, x), values_and_gradients(tf.signal.fft, x))


def test_quicksort(example: Any) -> None:
    quicksort = example.make_quicksort()
    assert quicksort(tf.zeros([0])).shape == (0,)
    for length in (1, 2, 7, 100):
        x = tf.constant(np.random.default_rng(length).permutation(length) / 3, tf.float32)
        assert_same(values_and_gradients(quicksort, x), values_and_gradients(tf.sort, x))
    same = tf.constant([2.0, 1.0, 2.0, 2.0, 1.0])
    np.testing.assert_array_equal(quicksort(same), [1, 1, 2, 2, 2])


def recurrence_by_a_loop(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    states = [b[0]]
    for t in range(1, len(a)):
        states.append(a[t] * states[-1] + b[t])
    return tf.stack(states)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 33])
def test_linear_recurrence(example: Any, length: int) -> None:
    a, b = tf.random.stateless_uniform([2, length], [length, 2], -1, 1)
    assert_same(values_and_gradients(example.linear_recurrence, a, b), values_and_gradients(recurrence_by_a_loop, a, b))


def test_a_scan_keeps_the_order(example: Any) -> None:
    """Products of matrices do not commute."""
    matrices = tf.random.stateless_normal([21, 3, 3], [5, 6]) / 2
    scan = example.make_scan(lambda p, q: (p[0] @ q[0],), [tf.TensorSpec([None, 3, 3])])
    found, expected = scan(matrices), [matrices[0]]
    for matrix in matrices[1:]:
        expected.append(expected[-1] @ matrix)
    np.testing.assert_allclose(tf.nest.flatten(found)[0], tf.stack(expected), rtol=1e-4, atol=1e-5)


def test_it_runs(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    assert "quicksort: True" in capsys.readouterr().out
