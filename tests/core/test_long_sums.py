"""Gradients that many invocations contribute to: their error does not grow with the number of invocations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg

ENGINES = ["parallel", "batched"]
# What one rounding may do to a result; sums of floats are made of blocks, which are rounded, too.
ROUNDING = {
    tf.bfloat16: 2.0**-8,
    tf.float16: 2.0**-11,
    tf.float32: 1e-6,
    tf.float64: 1e-12,
    tf.complex64: 1e-6,
}
ROWS = 4001  # sums of so many ones in bfloat16 stay at 256, in half at 2048


def _wide(tensor: Any) -> np.ndarray:
    """The numbers of a tensor with all their digits."""
    whole = tf.convert_to_tensor(tensor)
    return tf.cast(whole, tf.complex128 if whole.dtype.is_complex else tf.float64).numpy()


def _near(found: Any, exact: np.ndarray, dtype: tf.DType, more: float = 1.0) -> None:
    np.testing.assert_allclose(_wide(found), exact, rtol=more * ROUNDING[dtype], atol=0)


def _positive(shape: list[int], dtype: tf.DType, seed: int) -> tf.Tensor:
    return tf.cast(tf.random.stateless_uniform(shape, [seed, 7], 0.5, 1.0, tf.float64), dtype)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ROUNDING, ids=lambda dtype: dtype.name)
def test_gradients_of_captured_tensors_are_rounded_once(dtype: tf.DType, engine: str) -> None:
    """A bias, a weight and a row of a table: seen as gradients that stop growing, 16 times too small."""
    bias, weight = tf.Variable(tf.zeros([2], dtype)), tf.Variable(tf.ones([3, 2], dtype))
    table = tf.Variable(tf.ones([5, 80], dtype))  # so many numbers that it is added row by row
    with rg.SubGraph("f", outputs=tf.TensorSpec([2], dtype), engine=engine) as f:
        x = f.input(dtype, [1, 3])
        f.output(tf.matmul(x, weight)[0] + bias + table[3][:2])
    rows, seeds = _positive([ROWS, 1, 3], dtype, 1), _positive([ROWS, 2], dtype, 2)
    with tf.GradientTape() as tape:
        results = f.map(rows)
    by_bias, by_weight, by_table = tape.gradient(results, [bias, weight, table], seeds)
    x, seed = _wide(rows)[:, 0], _wide(seeds)
    _near(by_bias, seed.sum(0), dtype)
    _near(by_weight, x.T @ seed, dtype)
    _near(_wide(by_table)[3, :2], seed.sum(0), dtype)
    assert not np.any(_wide(by_table)[4])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16], ids=lambda dtype: dtype.name)
def test_a_recursion_adds_as_often_as_it_is_deep(dtype: tf.DType, engine: str) -> None:
    """One contribution from each level, by as many runs of a block."""
    bias, weight = tf.Variable(tf.zeros([1, 2], dtype)), tf.Variable(tf.zeros([2, 2], dtype))
    with rg.SubGraph("f", outputs=tf.TensorSpec([1, 2], dtype), engine=engine) as f:
        n = f.input(tf.int32)
        f.output(
            tf.cond(
                n < 1,
                lambda: tf.zeros([1, 2], dtype),
                lambda: f(n - 1) + bias + tf.matmul(tf.ones([1, 2], dtype), weight),
            )
        )
    with tf.GradientTape() as tape:
        result = f(ROWS)
    by_bias, by_weight = tape.gradient(result, [bias, weight])
    _near(by_bias, np.full([1, 2], ROWS), dtype)
    _near(by_weight, np.full([2, 2], ROWS), dtype)


@pytest.mark.parametrize("engine", ENGINES)
def test_lookups_in_half_types_are_rounded_once(engine: str) -> None:
    """Numbers at computed places, whose gradients are put together for all rows at once."""
    table = tf.Variable(tf.ones([4, 2], tf.float16))
    with rg.SubGraph("f", outputs=tf.TensorSpec([2], tf.float16), engine=engine) as f:
        places = f.input(tf.int32, [2, 2])
        f.output(tf.gather_nd(table, places))
    with tf.GradientTape() as tape:
        result = f.map(tf.tile([[[1, 0], [2, 1]]], [ROWS, 1, 1]))
    gradient = tape.gradient(result, table)
    _near(gradient, np.array([[0, 0], [ROWS, 0], [0, ROWS], [0, 0]]), tf.float16)


@pytest.mark.parametrize(("engine", "rows"), [("parallel", 30_000), ("batched", 400_000)])
def test_long_sums_of_floats_keep_their_digits(engine: str, rows: int) -> None:
    """Numbers that are all alike are rounded in the same direction each time: one after another, 1e-4 is lost."""
    bias, weight = tf.Variable(tf.zeros([1, 1])), tf.Variable(tf.ones([1, 1]))
    with rg.SubGraph("f", outputs=tf.TensorSpec([1, 1]), engine=engine) as f:
        x = f.input(tf.float32, [1, 1])
        f.output(tf.matmul(x, weight) + bias)
    with tf.GradientTape() as tape:
        results = f.map(tf.fill([rows, 1, 1], 0.7))
    by_bias, by_weight = tape.gradient(results, [bias, weight], tf.fill([rows, 1, 1], 0.1))
    seed = float(np.float32(0.1))
    _near(by_bias, np.array([[seed * rows]]), tf.float32)
    _near(by_weight, np.array([[seed * rows * float(np.float32(0.7))]]), tf.float32)


@pytest.mark.parametrize("engine", ENGINES)
def test_sums_do_not_hide_what_is_no_number(engine: str) -> None:
    """An infinity or NaN among the contributions is in the gradient."""
    bias = tf.Variable(tf.zeros([3], tf.float16))
    with rg.SubGraph("f", outputs=tf.TensorSpec([3], tf.float16), engine=engine) as f:
        x = f.input(tf.float16, [3])
        f.output(x + bias)
    seeds = np.ones([300, 3], np.float16)
    seeds[100, 0], seeds[200, 1] = np.inf, np.nan
    with tf.GradientTape() as tape:
        results = f.map(tf.zeros([300, 3], tf.float16))
    gradient = tape.gradient(results, bias, seeds).numpy()
    assert np.isposinf(gradient[0])
    assert np.isnan(gradient[1])
    assert gradient[2] == 300
