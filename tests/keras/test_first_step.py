"""The first step of a layer: how often its body is traced and finished, and what makes it anew."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.core import finishing, program
from recgraph.keras import tracing

TREES = np.array([[[3, 1, 2], [1, -1, -1], [2, -1, -1]], [[4, -1, 1], [2, -1, -1], [0, -1, -1]]], np.int32)
LABELS = np.array([[1.0], [0.0]], np.float32)


@keras.saving.register_keras_serializable("tests")
class Tree(rg.keras.TreeLayer):
    """A scaled sum over two children."""

    scale = 1.0

    def __init__(self, rate: float = 0.0, **options: Any) -> None:
        super().__init__(output_size=4, **options)
        policy = self.dtype_policy
        self.embedding = keras.layers.Embedding(5, 4, dtype=policy)
        self.dense = keras.layers.Dense(4, "tanh", dtype=policy)
        self.drop = keras.layers.Dropout(rate, dtype=policy)

    def node(self, inputs: tf.Tensor, child: Any) -> tf.Tensor:
        """See `TreeLayer`."""
        word, left, right = tf.unstack(inputs, axis=1)
        return self.scale * self.drop(self.dense(self.embedding(word) + child(left) + child(right)))


def _model(**options: Any) -> tuple[keras.Model, Tree]:
    keras.utils.set_random_seed(1)
    tree = Tree(**options)
    model = keras.Sequential([tree, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model, tree


def _fit(model: keras.Model) -> float:
    loss: float = model.fit(TREES, LABELS, epochs=1, verbose=0).history["loss"][0]
    return loss


def _counted(trace: tracing.BodyTrace, calls: list[Any], function: Any, *given: Any, **named: Any) -> Any:
    calls.append(trace)
    return function(trace, *given, **named)


@pytest.fixture(autouse=True)
def finished(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that were finished in a test."""
    made, finish = list[Any](), finishing._finish
    monkeypatch.setattr(finishing, "kept", finishing.Kept())
    monkeypatch.setattr(finishing, "_finish", lambda written: made.append(written) or finish(written))
    return made


def test_a_step_is_finished_once(finished: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras asks twice for shapes and traces the step twice: there is one trial for questions, one for steps."""
    tried, traced = list[Any](), list[Any]()
    for name, calls in (("tried", tried), ("subgraph", traced)):
        function = getattr(tracing.BodyTrace, name)
        counted = functools.partialmethod(_counted, calls, function)
        monkeypatch.setattr(tracing.BodyTrace, name, counted)
    model, _ = _model(rate=0.5)
    _fit(model)
    assert len(finished) == 1
    assert (len(tried), len(traced)) == (2, 2)
    _fit(model)
    assert len(finished) == 1
    assert (len(tried), len(traced)) == (2, 2)


def test_shapes_are_told_without_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of roots, of all nodes, and of states that are nests; and what the layer would run can still be looked at."""
    monkeypatch.setattr(program, "link", lambda *_: pytest.fail("a program was linked"))
    inputs = keras.Input([3, 3], dtype="int32")
    tree = Tree()
    assert tree(inputs).shape == (None, 4)
    assert Tree(return_nodes=True)(inputs).shape == (None, 3, 4)
    assert isinstance(tree.recgraph_subgraph(), rg.SubGraph)


def test_a_gradient_in_a_layer_has_a_shape() -> None:
    """Also where Keras asks for shapes only; the same layer then computes it."""

    class Slope(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.tree = Tree()

        def call(self, trees: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                total = tf.reduce_sum(self.tree(trees))
            (slope,) = tape.gradient(total, [self.tree.dense.bias.value])
            return tf.shape(trees)[0] * tf.ones([], tf.int32), slope + 0.0

    inputs = keras.Input([3, 3], dtype="int32")
    layer = Slope()
    layer.tree(TREES)
    _, slope = layer(inputs)
    assert slope.shape == (4,)
    _, slope = layer(tf.constant(TREES))
    assert np.abs(slope.numpy()).max() > 0


def test_a_function_that_is_traced_while_shapes_are_asked_for_runs_later() -> None:
    """It is kept: the same graph runs."""
    with rg.SubGraph("halve", inputs=(tf.TensorSpec([]),), outputs=tf.TensorSpec([])) as halve:
        x = halve.input()
        halve.output(tf.cond(x < 1.0, lambda: x, lambda: halve(x / 2.0)))

    class Halving(keras.layers.Layer):
        @tf.function(reduce_retracing=True)
        def halved(self, x: tf.Tensor) -> tf.Tensor:
            return halve.map(x)

        def call(self, x: tf.Tensor) -> tf.Tensor:
            return self.halved(x) + halve.map(x)

    inputs = keras.Input([])
    model = keras.Model(inputs, Halving()(inputs))
    np.testing.assert_allclose(model.predict(np.array([4.0, 0.5, 3.0]), verbose=0), [1.0, 1.0, 1.5])


def test_what_was_replaced_is_used() -> None:
    """Weights at once; an attribute after `compile`, as in every layer of Keras's."""
    model, tree = _model()
    _fit(model)
    before = model.predict(TREES, verbose=0)
    tree.dense.set_weights([np.ones_like(weight) for weight in tree.dense.get_weights()])
    changed = model.predict(TREES, verbose=0)
    assert np.abs(changed - before).max() > 1e-3
    tree.scale = 0.0
    model.compile("sgd", "mse")
    bias = model.layers[1].bias.numpy()
    np.testing.assert_allclose(model.predict(TREES, verbose=0), np.broadcast_to(bias, [2, 1]), atol=1e-6)


def test_what_is_not_trainable_stays() -> None:
    """Set after a first step."""
    model, tree = _model()
    _fit(model)
    tree.dense.trainable = False
    model.compile("sgd", "mse")
    frozen, free = tree.dense.get_weights(), tree.embedding.get_weights()
    _fit(model)
    for before, after in zip(frozen, tree.dense.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    assert np.abs(free[0] - tree.embedding.get_weights()[0]).max() > 0


def test_dropout_is_for_training_only(finished: list[Any]) -> None:
    """The two are written differently."""
    model, _ = _model(rate=0.9)
    losses = {_fit(model) for _ in range(3)}
    assert len(losses) == 3
    predicted = [model.predict(TREES, verbose=0) for _ in range(2)]
    np.testing.assert_array_equal(*predicted)
    assert len(finished) == 2


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float64"])
def test_a_policy_is_kept_apart(policy: str, finished: list[Any]) -> None:
    """A layer of another policy has a program of its own."""
    _fit(_model()[0])
    model, tree = _model(dtype=policy)
    _fit(model)
    assert len(finished) == 2
    assert tree(TREES).dtype == tree.compute_dtype


def test_nothing_is_left_of_a_deleted_layer() -> None:
    """Neither its graphs nor its variables."""
    model, tree = _model()
    _fit(model)
    found = [weakref.ref(tree), weakref.ref(tree.recgraph_subgraph().finished_body()), weakref.ref(tree.dense)]
    del model, tree
    keras.backend.clear_session()
    gc.collect()
    assert [ref() for ref in found] == [None] * len(found)
