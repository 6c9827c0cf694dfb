"""A finished SubGraph as a Keras layer: its variables are trained and saved with the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg


def refining(**options: Any) -> tuple[rg.SubGraph, tf.Variable, keras.layers.Dense]:
    """A state that is refined a given number of times, by a variable of the user's and by a layer of Keras."""
    w, dense = tf.Variable(tf.random.stateless_normal([4, 4], [1, 2]) * 0.3, name="w"), keras.layers.Dense(4)
    dense.build((None, 4))
    with rg.SubGraph("refine", outputs=tf.TensorSpec([4]), **options) as refine:
        state, steps = refine.input(tf.float32, [4]), refine.input(tf.int32)
        better = tf.tanh(tf.linalg.matvec(w, state)) + dense(state[None])[0]
        refine.output(tf.cond(steps <= 0, lambda: state, lambda: refine(better, steps - 1)))
    return refine, w, dense


def model_of(refine: rg.SubGraph) -> keras.Model:
    state, steps = keras.Input([4]), keras.Input([], dtype="int32")
    return keras.Model([state, steps], keras.layers.Dense(1)(rg.keras.SubGraphLayer(refine)([state, steps])))


def data() -> tuple[list[Any], Any]:
    random = np.random.default_rng(0)
    states, steps = random.normal(size=(12, 4)), random.integers(0, 4, 12)
    return [states.astype("float32"), steps.astype("int32")], random.normal(size=(12, 1)).astype("float32")


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_results_and_gradients_are_those_of_the_subgraph(engine: str) -> None:
    refine, w, _ = refining(engine=engine)
    layer = rg.keras.SubGraphLayer(refine)
    (states, steps), _ = data()
    for run in (layer, tf.function(layer)):
        with tf.GradientTape(persistent=True) as tape:
            found, expected = run((states, steps)), refine.map(states, steps)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_allclose(tape.gradient(found, w), tape.gradient(expected, w), rtol=1e-5)


def test_variables_are_trained_once() -> None:
    """Also those that a layer elsewhere in the model has."""
    refine, w, dense = refining()
    outer, states = model_of(refine), keras.Input([4])
    assert [v.path for v in outer.trainable_variables[1:3]] == [v.path for v in dense.trainable_variables]
    both = keras.Model([*outer.inputs, states], [outer(outer.inputs), dense(states)])
    both.compile(keras.optimizers.SGD(0.1), loss=["mse", "mse"])
    assert len(both.trainable_variables) == len({id(v.value) for v in both.trainable_variables}) == 5
    (x, steps), y = data()
    values = [tf.Variable(v.value) for v in both.trainable_variables]
    originals = [v.value for v in both.trainable_variables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((outer([x, steps]) - y) ** 2) + tf.reduce_mean((dense(x) - x) ** 2)
    for value, gradient in zip(values, tape.gradient(loss, originals), strict=True):
        value.assign_sub(0.1 * gradient)
    both.train_on_batch([x, steps, x], [y, x])
    for value, original in zip(values, originals, strict=True):
        np.testing.assert_allclose(original, value, rtol=1e-4, atol=1e-6)
    assert any(v is w for v in originals)


def test_it_is_saved_by_its_name(tmp_path: Path) -> None:
    """Weights come back into the variables of the SubGraph that is given; without one, the error says what to do."""
    refine, w, _ = refining()
    model, (x, y) = model_of(refine), data()
    model.compile("sgd", "mse")
    model.fit(x, y, verbose=0)
    expected, file = model.predict(x, verbose=0), str(tmp_path / "model.keras")
    model.save(file)
    model.export(str(tmp_path / "saved"), verbose=False)
    with pytest.raises(rg.errors.DefinitionError, match="custom_objects={'refine': ...}"):
        keras.models.load_model(file)
    other, *_kept = refining()
    loaded = keras.models.load_model(file, custom_objects={"refine": other})
    np.testing.assert_allclose(loaded.predict(x, verbose=0), expected, rtol=1e-5)
    w.assign(tf.zeros([4, 4]))
    np.testing.assert_allclose(loaded.predict(x, verbose=0), expected, rtol=1e-5)
    saved = tf.saved_model.load(str(tmp_path / "saved"))
    np.testing.assert_allclose(saved.serve(x), expected, rtol=1e-5)


def test_under_mixed_precision_it_computes_as_it_was_defined() -> None:
    refine, *_kept = refining()
    (states, steps), _ = data()
    layer = rg.keras.SubGraphLayer(refine, dtype="mixed_bfloat16")
    found = keras.Sequential([layer])((tf.cast(states, tf.bfloat16), steps))
    assert found.dtype == tf.float32
    np.testing.assert_allclose(
        found, refine.map(tf.cast(tf.cast(states, tf.bfloat16), tf.float32), steps), rtol=1e-5, atol=1e-6
    )


def test_what_it_cannot_be_given() -> None:
    refine, *_kept = refining()
    with pytest.raises(rg.errors.DefinitionError, match="engine, which SubGraph 'refine' has itself"):
        rg.keras.SubGraphLayer(refine, engine="parallel")
    with pytest.raises(rg.errors.DefinitionError, match="never defined"):
        rg.keras.SubGraphLayer(rg.SubGraph("open", tf.TensorSpec([]), tf.TensorSpec([])))
    with pytest.raises(rg.errors.DefinitionError, match="a variable that nobody holds any more"):
        rg.keras.SubGraphLayer(refining()[0])
    with pytest.raises(rg.errors.SignatureError, match="refine"):
        rg.keras.SubGraphLayer(refine)(tf.zeros([3, 4]))
    with pytest.raises(rg.errors.DefinitionError, match=r"give .*subgraphs"):
        rg.keras.SubGraphLayer(rg.subgraph(lambda x: x))
