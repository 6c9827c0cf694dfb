"""Arrays of NumPy's that have another shape in each call: one graph has them all, and gives what eager calls give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.speculate import Speculated

_DATA = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
_SIZES = (4, 7, 4, 9, 5, 12, 40, 1, 6, 7, 30, 4, 2, 9)


def _given(n: int) -> tuple[Any, ...]:
    return (_DATA[:n],)


def _number(n: int) -> tuple[Any, ...]:
    return (n,)


def _sum(a: np.ndarray) -> Any:
    return tf.reduce_sum(tf.constant(a) * 2.0, 0)


def _part(n: int) -> Any:
    return tf.reduce_sum(_DATA[:n, : n % 3 + 1] * tf.ones([1]), 0)


def _sizes(a: np.ndarray) -> Any:
    return tf.reshape(tf.constant(a), [a.shape[0] * a.shape[1]]) + a.size + len(a) + a.ndim, a.shape


def _mask(a: np.ndarray) -> Any:
    mask = np.tril(np.ones((a.shape[0], a.shape[0]), np.float32))
    return tf.matmul(mask, a), mask.shape[0], mask.T.size


def _ones(a: np.ndarray) -> Any:
    return tf.ones(a.shape) + a, a.dtype == np.float32


def _rows(a: np.ndarray) -> Any:
    """A loop is unrolled, which holds for one length."""
    total = tf.zeros([6])
    for row in a:
        total = total * 0.5 + row
    return total


def _two(a: np.ndarray) -> Any:
    """Two at one line, of which only one varies."""
    return tf.reduce_sum(tf.constant(a) + tf.constant(_DATA[:1] * np.float32(len(a))), 1)


def _squeezed(a: np.ndarray) -> Any:
    """The rank depends on the size."""
    return tf.convert_to_tensor(np.squeeze(a[:, :1])), tf.rank(np.squeeze(a[:, :1]))


def _unknown(a: np.ndarray) -> Any:
    """TensorFlow needs to know the size."""
    return tf.add_n(tf.unstack(tf.constant(a)))


@pytest.mark.parametrize(
    ("step", "arguments", "is_open"),
    [
        (_sum, _given, True), (_part, _number, True), (_sizes, _given, True), (_mask, _given, True),
        (_ones, _given, True), (_two, _given, True), (_rows, _given, False), (_squeezed, _given, False),
        (_unknown, _given, False),
    ],
)  # fmt: skip
def test_an_array_of_another_shape_each_time(
    step: Callable[..., Any], arguments: Callable[[int], tuple[Any, ...]], is_open: bool
) -> None:
    """As eagerly; where no size has to be known, the third shape leaves them open."""
    speculated = Speculated(step)
    for n in _SIZES:
        mine, theirs = speculated(*arguments(n)), step(*arguments(n))
        tf.nest.map_structure(lambda one, other: np.testing.assert_allclose(one, other, 1e-5, 1e-5), mine, theirs)
        assert tf.nest.map_structure(type, mine) == tf.nest.map_structure(type, theirs)
    if is_open:
        assert len(speculated._graphs) <= 3, speculated.explain()
        assert speculated.calls == {"eager": 3, "graph": len(_SIZES) - 3, "fallback": 0}, speculated.explain()
    assert speculated.calls["graph"] > 0, speculated.explain()


def test_two_shapes_have_a_graph_each() -> None:
    """The batches of an epoch, and the last one."""
    speculated = Speculated(_sum)
    for n in (8, 8, 8, 8, 5, 8, 5, 8, 5):
        np.testing.assert_array_equal(speculated(_DATA[:n]), _sum(_DATA[:n]))
    assert [graph.runs for graph in speculated._graphs] == [3, 3], speculated.explain()
    assert speculated.calls["fallback"] == 0, speculated.explain()


def test_rank_and_dtype_vary() -> None:
    """No graph is used for an array of another rank or dtype."""
    arrays = [_DATA[:3], _DATA[0], _DATA[:2].astype(np.float64), _DATA[:5, :2], _DATA[None], np.arange(3), _DATA[:0]]

    def step(a: np.ndarray) -> Any:
        return tf.convert_to_tensor(a) * 2, a.ndim, a.size

    speculated = Speculated(step)
    for i in range(60):
        array = arrays[i * 5 % 7]
        mine, theirs = speculated(array), step(array)
        assert (mine[0].dtype, *mine[1:]) == (theirs[0].dtype, *theirs[1:])
        np.testing.assert_array_equal(mine[0], theirs[0])
    assert speculated.calls["graph"] > 0, speculated.explain()


def test_gradients_of_open_sizes() -> None:
    """The gradient by what is computed of an array, and by a variable beside it."""
    v = tf.Variable(tf.ones([6, 2]))

    def step(a: np.ndarray, weights: np.ndarray) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.tanh(a @ v) * weights[:, None])
        gradient = tape.gradient(loss, v)
        v.assign_sub(0.01 * gradient)
        return loss, gradient

    found = []
    for called in (step, Speculated(step)):
        v.assign(tf.ones([6, 2]))
        found.append([called(_DATA[:n], np.linspace(0, 1, n, dtype=np.float32)) for n in _SIZES])
    tf.nest.map_structure(lambda one, other: np.testing.assert_allclose(one, other, 1e-5, 1e-6), *found)
