"""TensorLists that go into SubGraphs and come out of them: their values do, their gradients are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.errors import GradientError

SCALAR = tf.constant([], tf.int32)


def listed(tensor: tf.Tensor) -> tf.Tensor:
    """Its rows, scalars, as a TensorList."""
    return tf.raw_ops.TensorListFromTensor(tensor=tensor, element_shape=SCALAR)


def first(values: tf.Tensor) -> tf.Tensor:
    """The first element of a TensorList."""
    return tf.raw_ops.TensorListGetItem(input_handle=values, index=0, element_shape=SCALAR, element_dtype=tf.float32)


def gradient_of(function: Callable[..., tf.Tensor], watched: tf.Tensor, *args: tf.Tensor) -> tf.Tensor | None:
    """Of a function's result; a graph is differentiated when it is called."""
    with tf.GradientTape() as tape:
        tape.watch(watched)
        result = function(*args)
    return tape.gradient(result, watched)


@pytest.fixture(params=["parallel", "batched", "auto"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine."""
    return str(request.param)


@pytest.fixture(params=["eager", "graph"])
def run(request: pytest.FixtureRequest) -> Callable[..., Callable[..., tf.Tensor]]:
    """A function as it is, or as a graph."""
    return tf.function if request.param == "graph" else lambda function: function


def test_a_list_as_argument(engine: str, run: Callable[..., Callable[..., tf.Tensor]]) -> None:
    """What the tape watches may not be lost in it; what it does not watch may be in it."""
    with rg.SubGraph("scaled", outputs=tf.TensorSpec([]), engine=engine) as scaled:
        values = scaled.input(tf.variant, [])
        x = scaled.input(tf.float32)
        scaled.output(x * first(values))

    def lost(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return scaled(listed(y), x)

    def stopped(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return scaled(listed(tf.stop_gradient(y)), x)

    x, y = tf.constant(2.0), tf.constant([3.0, 4.0])
    assert float(run(lost)(x, y)) == 6.0
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        result = run(stopped)(x, y)
    assert float(tape.gradient(result, x)) == 3.0
    with pytest.raises(GradientError, match="'scaled': no gradient flows through a TensorList that a call is given"):
        gradient_of(run(lost), y, x, y)


def test_a_list_as_result(engine: str, run: Callable[..., Callable[..., tf.Tensor]]) -> None:
    """Of one call, and of the rows of a map."""
    with rg.SubGraph("lists", outputs=tf.TensorSpec([], tf.variant), engine=engine) as lists:
        lists.output(listed(lists.input(tf.float32, [2])))
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    def one(x: tf.Tensor) -> tf.Tensor:
        return first(lists(x[1]))

    def mapped(x: tf.Tensor) -> tf.Tensor:
        return first(lists.map(x)[1])

    for call in (one, mapped):
        assert float(run(call)(x)) == 3.0
        with pytest.raises(GradientError, match="'lists': no gradient flows through a TensorList that a call gives"):
            gradient_of(run(call), x, x)
