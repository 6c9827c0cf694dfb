"""A speculated method of many objects: graphs belong to objects, live as long, and are made where they pay."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.speculate import Speculated
from recgraph.speculate.run import function, graphs


def _model_class() -> Any:
    class Model:
        def __init__(self, w: float) -> None:
            self.w, self.n = tf.Variable(w), 0

        @rg.function(mode="speculate")
        def step(self, x: tf.Tensor) -> tf.Tensor:
            self.n += 1
            return x * self.w

    return Model


def test_forty_objects_each_have_their_graphs() -> None:
    """No limit is shared, none is given up, and each call tries its own first."""
    kind = _model_class()
    models = [kind(float(i)) for i in range(40)]
    for _ in range(6):
        for i, model in enumerate(models):
            assert float(model.step(tf.constant(2.0))) == 2.0 * i
    step = kind.step
    assert not step.given_up
    assert step.calls["fallback"] == 1, step.explain()  # `n` varies: no object has to find that out again
    assert len(step._graphs) == 40
    assert all(graph.runs >= 3 for graph in step._graphs)
    assert [model.n for model in models] == [6] * 40


def test_forty_layers_of_keras_each_have_their_graphs() -> None:
    """Which know their weights by identity."""

    class Scaled(keras.Layer):
        def __init__(self, w: float) -> None:
            super().__init__()
            self.w = tf.Variable(w)

        @rg.function(mode="speculate")
        def call(self, x: tf.Tensor) -> tf.Tensor:
            return x * self.w

    layers = [Scaled(float(i)) for i in range(20)]
    for _ in range(5):
        for i, layer in enumerate(layers):
            np.testing.assert_array_equal(layer(tf.ones([2])), [i, i])
    assert Scaled.call.calls["fallback"] == 0
    assert len(Scaled.call._graphs) == 20


def test_objects_that_hold_data_share_one_graph() -> None:
    """What is in them is an input: a thousand of them need no more."""

    class Item:
        def __init__(self, x: float) -> None:
            self.x = tf.constant(x)

    step = Speculated(lambda item: item.x * 2.0)
    for i in range(60):
        assert float(step(Item(float(i)))) == 2.0 * i
    assert len(step._graphs) == 1
    assert step.calls == {"eager": 3, "graph": 57, "fallback": 0}


def test_a_new_holder_of_the_same_variables_uses_the_graph_that_is_there() -> None:
    """The graph belonged to the first holder, and turns out to fit all."""
    w = tf.Variable(3.0)

    class Holder:
        def __init__(self) -> None:
            self.w = w

    step = Speculated(lambda holder, x: x * holder.w)
    first = Holder()
    for _ in range(5):
        step(first, tf.constant(1.0))
    others = [Holder() for _ in range(30)]
    for other in others:
        assert float(step(other, tf.constant(2.0))) == 6.0
    assert len(step._graphs) == 1
    assert step.calls["graph"] == 32


def test_nothing_is_left_of_an_object_that_died() -> None:
    """Neither the object nor its variables nor its graphs."""
    kind = _model_class()
    models = [kind(float(i)) for i in range(8)]
    for _ in range(5):
        for model in models:
            model.step(tf.constant(1.0))
    step = kind.step
    assert len(step._graphs) == 8
    concrete = [weakref.ref(graph) for graph in step._graphs]
    dead = [weakref.ref(thing) for model in models[1:] for thing in (model, model.w)]
    del models[1:], model
    gc.collect()
    assert [reference() for reference in dead] == [None] * 14
    assert len(step._graphs) == 1
    assert sum(reference() is not None for reference in concrete) == 1
    assert float(models[0].step(tf.constant(1.0))) == 0.0


@pytest.mark.long
def test_objects_that_die_young_cost_no_conversion_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while only objects that live long get a graph; they do get one."""
    made: list[int] = []
    convert = function.convert
    monkeypatch.setattr(function, "convert", lambda *arguments: made.append(1) or convert(*arguments))
    monkeypatch.setattr(graphs, "MAX_UNPAID", 4)
    monkeypatch.setattr(graphs, "CALLS_BEFORE", 6)
    kind = _model_class()
    for i in range(40):
        model = kind(float(i))
        for _ in range(3):
            assert float(model.step(tf.constant(2.0))) == 2.0 * i
        del model
        gc.collect()
    assert len(made) <= 6
    lasting = kind(5.0)
    before = kind.step.calls["graph"]
    for _ in range(12):
        assert float(lasting.step(tf.constant(2.0))) == 10.0
    assert kind.step.calls["graph"] >= before + 3, kind.step.explain()
    assert not kind.step.given_up


@pytest.mark.parametrize("keeps_models", [True, False])
def test_a_sweep_over_settings_stops_paying_for_conversions(
    keeps_models: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model and an optimizer for a dozen steps, again and again: graphs die with either of them."""
    made: list[int] = []
    convert = function.convert
    monkeypatch.setattr(function, "convert", lambda *arguments: made.append(1) or convert(*arguments))

    class Part:
        def __init__(self, value: float) -> None:
            self.value = tf.Variable(value)

    def train(model: Any, optimizer: Any, x: tf.Tensor) -> tf.Tensor:
        model.value.assign_sub(optimizer.value * x)
        return model.value.read_value()

    step, models = Speculated(train), []
    for i in range(10):
        model, optimizer = Part(float(i)), Part(0.5)
        for j in range(12):
            assert float(step(model, optimizer, tf.constant(1.0))) == i - 0.5 * (j + 1)
        models += [model] * keeps_models
        del model, optimizer
        gc.collect()
    assert len(made) <= graphs.MAX_UNPAID
    model, optimizer = Part(1.0), Part(0.0)
    before = step.calls["graph"]
    for _ in range(graphs.CALLS_BEFORE + 40):
        assert float(step(model, optimizer, tf.constant(1.0))) == 1.0
    assert step.calls["graph"] >= before + graphs.RUNS_THAT_PAY, step.explain()
    del model, optimizer
    gc.collect()
    model, optimizer = Part(1.0), Part(0.0)
    for _ in range(4):  # the last one has paid
        step(model, optimizer, tf.constant(1.0))
    assert len(step._graphs) == 1


def test_the_graph_that_was_used_last_is_tried_first() -> None:
    """Of several for one object."""
    step = Speculated(lambda x, flag: x * 2.0 if flag else x)
    for flag in [True, False] * 6:
        step(tf.ones([2]), flag)
    first, second = step._graphs
    for flag in (True, True, False, False):
        step(tf.ones([2]), flag)
        tried = step._cache.of((tf.ones([2]), flag))
        step(tf.ones([2]), flag)
        assert tried[0] is step._cache.of((tf.ones([2]), flag))[0]
    assert {id(first), id(second)} == {id(graph) for graph in step._graphs}


def test_the_limit_of_graphs_is_an_objects_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One object that needs many takes none from the others."""
    monkeypatch.setattr(function, "MAX_GRAPHS", 2)

    class Model:
        def __init__(self) -> None:
            self.w = tf.Variable(1.0)

        @rg.function(mode="speculate")
        def step(self, x: tf.Tensor, n: int) -> tf.Tensor:
            for _ in range(n):
                x = x + self.w
            return x

    greedy, modest = Model(), Model()
    for i in range(30):
        assert float(greedy.step(tf.constant(0.0), i % 5)) == i % 5
    before = Model.step.calls["graph"]
    for _ in range(4):
        assert float(modest.step(tf.constant(0.0), 1)) == 1.0
    assert Model.step.calls["graph"] >= before + 2, Model.step.explain()


def test_an_object_whose_parts_are_not_built_yet_is_observed_first() -> None:
    """A conversion that begins to build an optimizer could not end it."""

    class Trainer:
        def __init__(self, w: float) -> None:
            self.w, self.optimizer = tf.Variable(w), keras.optimizers.SGD(0.1, momentum=0.9)

        def step(self, x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = (self.w * x) ** 2
            self.optimizer.apply_gradients([(tape.gradient(loss, self.w), self.w)])
            return loss

    def program(step: Any) -> list[float]:
        trainers = [Trainer(float(i)) for i in range(6)]
        seen = [float(step(trainer, tf.constant(1.0))) for _ in range(4) for trainer in trainers]
        trainers[1].optimizer = keras.optimizers.SGD(0.2, momentum=0.5)
        return [*seen, *(float(step(trainers[i % 3], tf.constant(1.0))) for i in range(12))]

    step = Speculated(Trainer.step)
    np.testing.assert_allclose(program(step), program(Trainer.step), rtol=1e-5)
    assert step.calls["graph"] >= 18, step.explain()
    assert not step.given_up
