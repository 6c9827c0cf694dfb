"""Arrays of NumPy's that have another shape in each call: one graph has them all, and gives what eager calls give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from recgraph.speculate import Speculated
from recgraph.speculate.script.symbolic import fixed
from recgraph.speculate.values import dynamic

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


# What is done to a tensor of shape [n, m, 4], of which n and m vary, before its sizes are asked for.
_SHAPED: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "slice": lambda x: x[1:, :-1],
    "steps": lambda x: x[::2, ::-1, 1:],
    "backwards": lambda x: x[3:0:-1, -3:],
    "empty": lambda x: x[5:2, 100:],
    "new axes": lambda x: x[tf.newaxis, ..., tf.newaxis],
    "one": lambda x: x[0, :, 2],
    "one from the end": lambda x: x[..., -1],
    "dots in the middle": lambda x: x[1:, ..., tf.newaxis, 0],
    "dots for nothing": lambda x: x[:-1, ..., :, 0],
    "elementwise": lambda x: tf.nn.relu(tf.cast(x, tf.float32) * 2.0 + 1.0),
    "broadcast": lambda x: x[:, :, 0] + tf.zeros([1, 1]),
    "row": lambda x: tf.ones([4]) * x,
    "squared": lambda x: x * x,
    "where": lambda x: tf.where(x > 0.0, x, 0.0),
    "transposed": lambda x: tf.transpose(x, [2, 0, 1]),
    "expanded": lambda x: tf.expand_dims(tf.expand_dims(x, 0), -2),
    "product": lambda x: tf.matmul(x, x, transpose_b=True),
    "other product": lambda x: tf.matmul(x[0], x[0], transpose_a=True),
    "rows of rows": lambda x: tf.matmul(x[:, 0], tf.ones([4, 3])),
    "gathered": lambda x: tf.gather(tf.ones([5, 3]), tf.cast(x[:, 0] > 0.0, tf.int32)),
    "gathered from": lambda x: tf.gather(x, [0, 1]),
    "one hot": lambda x: tf.one_hot(tf.cast(x[:, :, 0] > 0.0, tf.int32), 5),
    "one hot in front": lambda x: tf.one_hot(tf.cast(x[:, :, 0] > 0.0, tf.int32), 5, axis=0),
    "softmax": lambda x: tf.nn.softmax(tf.nn.bias_add(x, tf.ones([4]))),
}


@pytest.mark.parametrize("name", _SHAPED)
def test_sizes_that_the_script_knows(name: str) -> None:
    """NumPy gets the sizes of tensors that were made of inputs, and makes arrays for the graph."""
    shaped = _SHAPED[name]

    def step(x: tf.Tensor) -> Any:
        y = shaped(x)
        counts = [np.arange(2 * size + 1) for size in y.shape]
        half = np.zeros((y.shape[0] // 2, y.shape[-1] + 1), np.float32)
        return [tf.constant(count) for count in counts], tf.convert_to_tensor(half)

    speculated = Speculated(step, strict=True)
    for n, m in [(3, 4), (5, 3), (4, 6), (6, 5), (4, 4), (2, 7), (7, 2), (9, 9), (2, 2), (3, 4)]:
        x = tf.random.normal([n, m, 4])
        tf.nest.map_structure(np.testing.assert_array_equal, speculated(x), step(x))
    assert speculated.calls["fallback"] == 0, speculated.explain()
    assert len(speculated._graphs) <= 3, speculated.explain()


def test_sizes_that_a_tensor_decides() -> None:
    """What the script cannot know before the graph is not asked for: these run eagerly."""

    def step(x: tf.Tensor) -> Any:
        return tf.constant(np.arange(tf.boolean_mask(x, x > 0.0).shape[0]))

    speculated = Speculated(step)
    for n in range(3, 12):
        x = tf.random.normal([n])
        np.testing.assert_array_equal(speculated(x), step(x))


def test_a_loop_over_sizes_in_a_layer() -> None:
    """No eager call sees how often a loop goes round in what a library calls: once at least, as gradients need it."""

    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.cell = keras.layers.Dense(4, activation="tanh", kernel_initializer="glorot_normal")

        def call(self, x: tf.Tensor) -> Any:
            y, found = x[:, 0], tf.zeros((2, 1, 4))
            for t in range(x.shape[1]):
                y = self.cell(y + x[:, t])
                found = tf.concat([found, y[:, tf.newaxis]], 1)
            return found[:, 1:]

    model = Model()
    model(tf.zeros((2, 1, 4)))

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x) ** 2)
        return loss, tape.gradient(loss, model.trainable_variables)

    speculated = Speculated(step)
    for n in (3, 4, 5, 6, 7, 2, 9, 1, 12):
        x = tf.random.normal([2, n, 4])
        mine, theirs = speculated(x), step(x)
        tf.nest.map_structure(lambda one, other: np.testing.assert_allclose(one, other, 1e-4, 1e-5), mine, theirs)
    assert len(speculated._graphs) == 1, speculated.explain()


@pytest.mark.parametrize(
    ("call", "writes"),
    [
        (lambda a: a.sort(), True),
        (lambda a: np.put(a, [0], 3.0), True),
        (lambda a: np.reshape(a, (7,)), False),
        (lambda a: a + np.zeros(5), False),
    ],
)
def test_a_call_that_fails_since_it_writes_is_told_from_one_that_fails(call: Callable[..., Any], writes: bool) -> None:
    """By what it does to a copy, whatever NumPy says about it; the array stays as it was."""
    held = np.array([2.0, 1.0, 3.0])
    with pytest.raises(ValueError, match="read-only|cannot reshape|could not be broadcast"):
        call(fixed(held))
    assert dynamic._writes(call, [fixed(held)], {}) is writes
    assert not dynamic._writes(call, [held], {})
    assert held.tolist() == [2.0, 1.0, 3.0]
