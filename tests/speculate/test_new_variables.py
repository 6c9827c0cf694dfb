"""What a call makes and drops lives in its graph: variables, and Keras's objects with theirs. Nobody else sees them."""

from __future__ import annotations

import functools
import random
import resource
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from recgraph.speculate import Speculated
from recgraph.speculate.observe.reasons import Inconvertible


def test_many_calls_leave_no_variables_behind() -> None:
    """Three hundred of four megabytes each."""

    @Speculated
    def step(x: tf.Tensor) -> tf.Tensor:
        v = tf.Variable(tf.ones([1024, 1024]) * x)
        v.assign_add(v)
        return tf.reduce_sum(v)

    for i in range(8):
        step(tf.constant(float(i)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(300):
        assert float(step(tf.constant(float(i)))) == 2.0 * 1024**2 * i
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    assert step.calls["graph"] > 300, step.explain()


def test_a_tape_around_the_call() -> None:
    """It sees what it sees eagerly: nothing flows through an assignment. The call's variables are none of its own."""
    w = tf.Variable(2.0)

    def step(x: tf.Tensor) -> tf.Tensor:
        table = tf.Variable(tf.stack([x, x, x]))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [0, 2]) ** 2) * w
        table.assign_sub(tape.gradient(loss, table))
        return tf.reduce_sum(tf.gather(table, [1, 2])) * w * x

    called = Speculated(step)
    for i in range(8):
        x, found = tf.constant(1.0 + i), []
        for function in (step, called):
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = function(x)
            found.append([y, tape.gradient(y, x), tape.gradient(y, w)])
        assert np.allclose(found[0], found[1])
    assert [one is w for one in tape.watched_variables()] == [True]
    assert called.calls["graph"] >= 4, called.explain()


def test_a_call_that_fails_after_it_has_written_to_its_variable() -> None:
    """The program's own variable keeps its value; the call's needs none."""
    total = tf.Variable(0.0)

    @Speculated
    def step(x: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
        v = tf.Variable(x)
        v.assign_add(x)
        total.assign_add(tf.reduce_sum(v))
        return tf.gather(v, k)

    for _ in range(6):
        step(tf.ones([3]), tf.constant(1))
    assert step.calls["graph"] == 3, step.explain()
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.ones([3]), tf.constant(7))
    assert float(total) == 6.0 * 7


def test_a_layer_that_is_built_by_a_later_call_is_built_eagerly() -> None:
    """A conversion that meets it leaves it alone: its weights are no variables of a graph."""
    layer, refused = keras.layers.Dense(2, kernel_initializer="ones"), 0

    @Speculated
    def step(x: tf.Tensor, wide: bool) -> tf.Tensor:
        v = tf.Variable(lambda: layer(x) if wide else x)
        return v + 1.0

    for i in range(16):
        y = step(tf.ones([2, 3]), i >= 5)
        refused += i < 5
    assert np.allclose(y, 4.0)
    assert isinstance(layer.kernel.numpy(), np.ndarray)
    assert step.calls["graph"] > 5, step.explain()


def test_a_variable_in_a_branch_that_a_tensor_decides() -> None:
    """Is refused, with the reason."""

    def step(x: tf.Tensor) -> tf.Tensor:
        y = x
        for _ in tf.range(tf.cast(tf.reduce_sum(x), tf.int32)):
            y = tf.Variable(y) + 1.0
        return y

    called: Any = Speculated(step, strict=True)
    with pytest.raises(Inconvertible, match="a variable is made where a tensor decides"):
        [called(tf.constant([1.0 + i % 4])) for i in range(12)]


_NETWORK = keras.Sequential([keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
_NETWORK.build([None, 3])
_WEIGHTS = [0.1 + 0.05 * np.arange(v.shape.num_elements()).reshape(v.shape) for v in _NETWORK.variables]


def _metrics(x: tf.Tensor) -> Any:
    mean, accuracy = keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy()
    for i in tf.range(tf.cast(mean.count + x[0, 1] * 3.0, tf.int32)):
        mean.update_state(x * tf.cast(i, tf.float32))
    accuracy(tf.constant([0, 2]), x)
    first = mean.result()
    mean.reset_state()
    return first, mean.result(), accuracy.result(), mean.count + 1.0


def _inner_steps(x: tf.Tensor) -> Any:
    """As in MAML: an optimizer for a few steps, whose slots begin anew in each call."""
    optimizer = keras.optimizers.Adam(0.1)
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(_NETWORK(x * 0.1) ** 2)
        gradients = tape.gradient(loss, _NETWORK.trainable_variables)
        optimizer.apply_gradients(zip(gradients, _NETWORK.trainable_variables, strict=True))
    return loss, optimizer.iterations + 0


def _layers(x: tf.Tensor) -> Any:
    dense = keras.layers.Dense(4, lambda y: y * 2.0, kernel_initializer="ones")
    normal = keras.layers.BatchNormalization(momentum=0.5)
    y = normal(dense(x), training=True)
    return y, normal(y), normal.moving_mean + 0.0, dense.count_params()


def _random_model(x: tf.Tensor) -> Any:
    """Its initial values begin with seeds of Python's generator, as its dropout does."""
    model = keras.Sequential([keras.layers.Dense(4, "relu"), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss, random.random()


def _functional(x: tf.Tensor) -> Any:
    inputs = keras.Input([3])
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    return model(x), random.random()


@pytest.mark.parametrize("program", [_metrics, _inner_steps, _layers, _random_model, _functional])
def test_objects_of_keras_that_a_call_makes(program: Callable[[tf.Tensor], Any]) -> None:
    """Results, Python's generator and the names of later objects are those of eager calls."""
    x, found = tf.reshape(tf.range(6.0), [2, 3]), []
    for function in (program, called := Speculated(program)):
        random.seed(5)
        keras.backend.clear_session()
        _NETWORK.set_weights(_WEIGHTS)
        results = [function(x * (1.0 + i)) for i in range(6)]
        found.append([*results, *_NETWORK.get_weights(), random.random(), keras.layers.Dense(2).name])
    assert found[0].pop() == found[1].pop()
    for one, other in zip(*found, strict=True):
        tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-5), one, other)
    assert called.calls["graph"] == 3, called.explain()


_KEPT: dict[str, Any] = {}


def _returned() -> Any:
    return keras.metrics.Mean()


def _method() -> Any:
    return keras.metrics.Mean().update_state


def _partial() -> Any:
    return functools.partial(keras.metrics.Mean().update_state, 1.0)


def _stored() -> Any:
    _KEPT["mean"] = keras.metrics.Mean()


def _variable() -> Any:
    return [keras.metrics.Mean().total]


def _inner_layer() -> Any:
    layer = keras.layers.Bidirectional(keras.layers.LSTM(2))
    layer(tf.ones([1, 2, 3]))
    return layer.forward_layer.cell


def _building() -> Any:
    return keras.layers.Dense(1).build


def _method_of_a_variable() -> Any:
    return tf.Variable(1.0).assign_add


@pytest.mark.parametrize(
    "program", [_returned, _method, _partial, _stored, _variable, _inner_layer, _building, _method_of_a_variable]
)
def test_an_object_that_leaves_the_call(program: Callable[[], Any]) -> None:
    """Is made eagerly, a new one in each call."""
    called: Any = Speculated(program)
    results = [called() for _ in range(5)]
    assert called.calls["graph"] == 0
    assert len(set(map(id, results))) in (1, 5)
    assert "a variable that is made here is kept after the call" in called.explain()


def _named() -> str:
    return str(keras.layers.Dense(1).name)


def _path() -> str:
    layer = keras.layers.Dense(2)
    layer.build([1, 3])
    return str(layer.kernel.path)


def _text() -> str:
    return f"{keras.metrics.Mean()}"


def _wrapped() -> Any:
    return keras.Sequential([_NETWORK.layers[1], keras.layers.Dense(1)])(tf.ones([1, 4]))


def _connected() -> Any:
    return keras.Model(inputs := keras.Input([4]), _NETWORK.layers[1](inputs))(tf.ones([1, 4]))


def _added() -> Any:
    return keras.optimizers.LossScaleOptimizer(_OPTIMIZER).initial_scale


def _given(x: tf.Tensor) -> Any:
    if tf.reduce_sum(x) > 0.0:
        return keras.layers.Dense(1, kernel_initializer="ones")(x)
    return x[:, :1]


_OPTIMIZER = keras.optimizers.SGD()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (_named, "a name that is another one in each call"),
        (_path, "a name that is another one in each call"),
        (_text, "the text of a Mean"),
        (_wrapped, "from before the call is put into an object that it makes"),
        (_added, "from before the call is put into an object that it makes"),
        (_connected, "may keep an object of Keras's that the call makes"),
    ],
)
def test_objects_of_keras_that_are_refused(program: Callable[[], Any], reason: str) -> None:
    """What would not be as it is eagerly."""
    called: Any = Speculated(program)
    [called() for _ in range(5)]
    assert called.calls["graph"] == 0
    assert reason in called.explain()


def test_a_layer_that_is_made_where_a_tensor_decides() -> None:
    """Is refused, with the reason; the way that was always taken is a graph."""
    called: Any = Speculated(_given)
    assert [float(tf.reduce_sum(called(tf.ones([2, 3])))) for _ in range(5)] == [6.0] * 5
    assert called.calls["graph"] == 2
    assert [float(tf.reduce_sum(called(-tf.ones([2, 3])))) for _ in range(5)] == [-2.0] * 5
    assert [float(tf.reduce_sum(called(tf.ones([2, 3])))) for _ in range(5)] == [6.0] * 5


def test_what_the_call_has_made_in_a_branch() -> None:
    """Is read and written there, as eagerly; a layer of the call's that is changed there has a graph for each way."""

    def step(x: tf.Tensor) -> Any:
        v, dense = tf.Variable(x), keras.layers.Dense(1, kernel_initializer="ones")
        dense.build(x.shape)
        if tf.reduce_sum(x) > 0.0:
            v.assign(tf.add(v, 1.0))
            y = dense(tf.gather(v, [0]))
        else:
            y = dense(v)[:1]
        return v + 0.0, y

    def freeze(x: tf.Tensor) -> Any:
        dense = keras.layers.Dense(1, kernel_initializer="ones")
        y = dense(x)
        if tf.reduce_sum(x) > 0.0:
            dense.trainable = False
        return y, len(dense.trainable_variables)

    for program in (step, freeze):
        called: Any = Speculated(program)
        for i in range(10):
            x = tf.ones([2, 3]) * (-1.0) ** i
            tf.nest.map_structure(np.testing.assert_allclose, program(x), called(x))
        assert called.calls["graph"] > 4, called.explain()


def test_the_generator_that_all_share() -> None:
    """Is made by an eager call, though a layer that the call makes asks for it first."""

    @Speculated
    def step(x: tf.Tensor) -> Any:
        return keras.layers.Lambda(lambda y: y + keras.random.normal([2]))(x)

    for _ in range(12):
        keras.backend.clear_session()
        step(tf.ones([2]))
        assert isinstance(keras.random.normal([2]).numpy(), np.ndarray)
    assert "Keras makes its global generator of random numbers" in step.explain()
