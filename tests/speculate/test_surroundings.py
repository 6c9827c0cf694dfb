"""What is around a call, which TensorFlow and Keras read: a graph holds for it, or the call runs eagerly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.common.variables import AutocastScope

import recgraph as rg

X = tf.constant([1.0, 2.0, 3.0])
# Calls of which the first are observed, and one or two run as a graph before anything is around.
BEFORE, WITHIN = 5, 3


def converted(function: Callable[..., Any]) -> Any:
    """A function as graphs, after calls that have nothing around them."""
    step = rg.function(function, mode="speculate")
    for _ in range(BEFORE):
        step(X)
    assert step.calls["graph"] > 0, step.explain()
    return step


def _makes_variables(x: tf.Tensor) -> tf.Tensor:
    total = tf.Variable(x * 2.0)
    total.assign_add(x)
    return tf.reduce_sum(total.read_value() + tf.tanh(x))


def test_variable_creators_see_the_variables_of_a_call() -> None:
    """Each of those that a call makes, also where its graph was made before."""
    seen: list[Any] = []

    def creator(following: Any, **named: Any) -> Any:
        seen.append(named.get("name"))
        return following(**named)

    step = converted(_makes_variables)
    with tf.variable_creator_scope(creator):
        results = [float(step(X)) for _ in range(WITHIN)]
    assert len(seen) == WITHIN
    assert results == [pytest.approx(float(_makes_variables(X)))] * WITHIN
    ran = step.calls["graph"]
    step(X)
    assert step.calls["graph"] == ran + 1  # the graph is of use again


COUNT = keras.Variable(2.0)


def _reads_and_writes(x: tf.Tensor) -> tf.Tensor:
    COUNT.assign(COUNT + 1.0)
    return tf.reduce_sum(tf.sin(x) * COUNT)


def test_a_stateless_scope_stands_in_for_variables_of_keras() -> None:
    """What is read is what the scope maps, and what is written goes there."""
    step = converted(_reads_and_writes)
    before = float(COUNT)
    for _ in range(WITHIN):
        with keras.StatelessScope(state_mapping=[(COUNT, tf.constant(10.0))]) as scope:
            found = float(step(X))
        assert found == pytest.approx(float(tf.reduce_sum(tf.sin(X) * 11.0)))
        assert float(scope.get_current_value(COUNT)) == 11.0
        assert float(COUNT) == before


def test_variables_of_keras_are_cast_as_what_is_around_says() -> None:
    """Where the program reads one itself."""
    step = converted(lambda x: (COUNT.value * tf.cast(tf.sin(x), COUNT.value.dtype), COUNT.value.dtype.name))
    for _ in range(WITHIN):
        with AutocastScope("bfloat16"):
            value, name = step(X)
        assert (name, value.dtype) == ("bfloat16", tf.bfloat16)
    assert step(X)[1] == "float32"


class Around(keras.layers.Layer):
    """A layer that calls a function, which calls another layer without saying whether it is training."""

    def __init__(self, function: Any, inner: Any) -> None:
        super().__init__()
        self.function, self.inner = function, inner

    def call(self, x: Any, training: Any = None) -> Any:
        """What the function gives."""
        return self.function(x)


def test_layers_know_from_around_whether_they_are_training() -> None:
    """A function that a layer calls is a graph for training and another one for inference."""
    inner = keras.layers.BatchNormalization(momentum=0.5)
    rows = tf.constant([[1.0, 2.0], [3.0, 6.0]])
    inner(rows)
    step = rg.function(lambda x: inner(x) * 2.0, mode="speculate")
    layer = Around(step, inner)
    layer.built = True
    for training in [False] * 5 + [True, False, True, False]:
        inner.moving_mean.assign([0.0, 0.0])
        layer(rows, training=training)
        assert inner.moving_mean.numpy().tolist() == ([1.0, 2.0] if training else [0.0, 0.0])
    assert step.calls["graph"] > 2, step.explain()


def _records(x: tf.Tensor) -> tf.Tensor:
    loss = tf.reduce_sum(tf.sin(x) * x + x)
    tf.summary.scalar("loss", loss, step=1)
    return loss


def _tags(folder: Path) -> list[str]:
    events = [e for file in folder.iterdir() for e in tf.data.TFRecordDataset(str(file)).as_numpy_iterator()]
    parsed = [tf.compat.v1.Event.FromString(event) for event in events]
    return [value.tag for event in parsed for value in event.summary.value]


@pytest.mark.parametrize("condition", [None, True, lambda: True])
def test_summaries_are_recorded_where_something_records_them(condition: Any, tmp_path: Path) -> None:
    """By calls whose graph was made where there was no writer; names of scopes are in the tags."""
    step = converted(_records)
    writer = tf.summary.create_file_writer(str(tmp_path))
    recording = contextlib.nullcontext() if condition is None else tf.summary.record_if(condition)
    with writer.as_default(), recording, tf.name_scope("train"):
        for _ in range(WITHIN):
            step(X)
    writer.close()
    assert _tags(tmp_path) == ["train/loss"] * WITHIN
    assert "tf.summary.scalar may record summaries" in step.explain()


def test_a_writer_that_records_nothing_changes_nothing(tmp_path: Path) -> None:
    """The graph is of use there, too."""
    step, writer = converted(_records), tf.summary.create_file_writer(str(tmp_path))
    ran = step.calls["graph"]
    with writer.as_default(), tf.summary.record_if(False):
        step(X)
    assert step.calls["graph"] == ran + 1


def _names(x: tf.Tensor) -> Any:
    first = tf.Variable(x, name="v")
    with tf.name_scope("inner") as one:
        x = tf.sin(x) * x
    with tf.name_scope("inner") as other:
        second = tf.Variable(x, name="v")
        with tf.name_scope("deep"):
            deep = tf.get_current_name_scope()
    return tf.reduce_sum(first + second), one, other, deep, first.name, second.name


def test_names_have_the_scopes_around_a_call() -> None:
    """Those of scopes and variables, which eager execution does not number."""
    step = converted(_names)
    for scope in ("train", "train", "test", "train"):
        with tf.name_scope(scope):
            assert step(X)[1:] == _names(X)[1:]
    assert step(X)[1:] == ("inner/", "inner/", "inner/deep", "v:0", "inner/v:0")


@contextlib.contextmanager
def _numerics_checked() -> Iterator[None]:
    tf.debugging.enable_check_numerics()
    try:
        yield
    finally:
        tf.debugging.disable_check_numerics()


def test_operations_are_checked_where_each_is_to_be() -> None:
    """`tf.debugging.enable_check_numerics` finds what a graph would pass by."""
    step = converted(lambda x: tf.reduce_sum(tf.math.log(x) * 0.0 + tf.sin(x)))
    with _numerics_checked(), pytest.raises(tf.errors.InvalidArgumentError, match="(?s)Log.*-Inf"):
        step(tf.constant([0.0, 1.0, 2.0]))
    with _numerics_checked():
        step(X)


def test_functions_of_tensorflow_run_as_python_where_they_are_to() -> None:
    """`tf.config.run_functions_eagerly` lets a debugger see them."""
    entered: list[bool] = []

    @tf.function
    def inner(x: tf.Tensor) -> tf.Tensor:
        entered.append(tf.executing_eagerly())
        return tf.sin(x) * 2.0

    step = converted(lambda x: tf.reduce_sum(inner(x) * 3.0 + x))
    entered.clear()
    tf.config.run_functions_eagerly(True)
    try:
        for _ in range(WITHIN):
            step(X)
    finally:
        tf.config.run_functions_eagerly(False)
    assert entered == [True] * WITHIN


class _Hidden(keras.layers.Layer):
    """Keras puts a scope around its calls that is named after the class, which graphs do not allow."""

    @rg.function(mode="speculate")
    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x) * 2.0


def test_a_scope_that_graphs_do_not_allow() -> None:
    """The call becomes a graph; a program that reads names there runs eagerly."""
    layer = _Hidden()
    for _ in range(5):
        np.testing.assert_allclose(layer(tf.ones([2])), 2.0 * np.tanh(np.ones(2)), rtol=1e-6)
    assert _Hidden.call.calls["graph"] == 2, _Hidden.call.explain()
    step = rg.function(lambda x: (x * 2.0, tf.get_current_name_scope()), mode="speculate")
    for _ in range(5):
        with tf.name_scope("_scope"):
            doubled, name = step(tf.constant(1.0))
        assert (float(doubled), name) == (2.0, "_scope")
    assert step.calls["graph"] == 0
    assert "begins with an underscore" in str(step.explain())
