"""Objects die as soon as the program lets go of them: a graph that was made for one does not keep it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf

import recgraph as rg


def sequential() -> Any:
    return keras.Sequential([keras.Input([4]), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])


def functional() -> Any:
    given = keras.Input([4])
    return keras.Model(given, keras.layers.Dense(1)(keras.layers.Dense(4)(given)))


def part_of_another() -> Any:
    """A model that is an operation of another one, and so in its nodes."""
    model, given = functional(), keras.Input([4])
    keras.Model(given, keras.layers.Dropout(0.0)(model(given)))
    return model


class Owner:
    """Knows an object, without that Keras or TensorFlow would look for variables there."""

    def __init__(self, owned: Any) -> None:
        self.owned = owned


class OfItself(keras.Model):
    """Has a method of its own as an attribute, and layers that know it."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.dense.owner = [Owner(self)]
        self.steps = [self.apply_dense]

    def apply_dense(self, x: tf.Tensor) -> tf.Tensor:
        return self.dense(x)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.steps[0](x)


class Child(tf.Module):
    def __init__(self, parent: Any) -> None:
        super().__init__()
        self.parent, self.weight = Owner(parent), tf.Variable(tf.ones([4, 1]))


class Parent(tf.Module):
    """Its parts know it."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = [Child(self), Child(self)]
        self.apply = self.multiply

    def multiply(self, x: tf.Tensor) -> tf.Tensor:
        return tf.add_n([x @ child.weight for child in self.parts])

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return self.apply(x)


class Plain:
    """An object of no library's, in a circle."""

    def __init__(self) -> None:
        self.parts = {"weight": tf.Variable(tf.ones([4, 1])), "whole": self}

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return x @ self.parts["weight"]


class Layers(keras.layers.Layer):
    """Layers in plain and nested containers."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs = [(keras.layers.Dense(4), keras.layers.ReLU()), (keras.layers.Dense(1), keras.layers.ReLU())]
        self.named = {"last": self.pairs[-1][0]}
        self.back = (Owner(self),)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        for dense, activation in self.pairs:
            x = activation(dense(x))
        return x


def predict(model: Any, x: tf.Tensor) -> tf.Tensor:
    return model(x)


def train(model: Any, x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(x))
        variables = getattr(model, "trainable_variables", None) or [model.parts["weight"]]
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        variable.assign(variable - 0.1 * gradient)
    return loss


def use(step: Callable[..., Any], make: Callable[[], Any], count: int) -> list[weakref.ref[Any]]:
    """Calls a step with objects that are made one after another; gives weak references to them."""
    made = []
    for _ in range(count):
        model = make()
        for _ in range(6):
            step(model, tf.ones([3, 4]))
        made.append(weakref.ref(model))
    return made


MAKERS = pytest.mark.parametrize("make", [sequential, functional, part_of_another, OfItself, Parent, Plain, Layers])


@MAKERS
@pytest.mark.parametrize("step", [predict, train])
@pytest.mark.parametrize("mode", ["coexec", "auto"])
def test_no_mode_keeps_objects(make: Callable[[], Any], step: Callable[..., Any], mode: str) -> None:
    """What runs beside Python, and what is tried."""
    made = use(rg.function(step, mode=mode), make, 2)
    gc.collect()
    assert [reference() for reference in made] == [None, None]


@MAKERS
@pytest.mark.parametrize("step", [predict, train])
def test_no_graph_keeps_its_object(make: Callable[[], Any], step: Callable[..., Any]) -> None:
    """A decorated function, which lives as long as the program."""
    as_graph = rg.function(step, mode="speculate")
    made = use(as_graph, make, 2)
    assert as_graph.calls["graph"] >= 4, as_graph.explain()
    gc.collect()
    assert [reference() for reference in made] == [None, None]
    assert not as_graph.has_graphs


@MAKERS
def test_no_graph_keeps_its_object_in_a_scope(make: Callable[[], Any]) -> None:
    """Functions that are discovered, Keras's own calls among them."""
    with rg.speculation():
        made = use(predict, make, 2)
        made += use(lambda model, x: model(x), make, 2)
        gc.collect()
        assert [reference() for reference in made] == [None] * 4
