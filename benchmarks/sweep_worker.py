"""A worker of `recgraph bench sweep`: one program that makes models again and again. A process of its own."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import recgraph as rg

FEATURES, UNITS, ROWS = 16, 32, 32


class Network(tf.Module):
    """Two dense layers."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = np.random.default_rng(seed)
        self.first = tf.Variable(draw.normal(0, 0.2, [FEATURES, UNITS]), dtype=tf.float32)
        self.shift = tf.Variable(tf.zeros([UNITS]))
        self.second = tf.Variable(draw.normal(0, 0.2, [UNITS, 1]), dtype=tf.float32)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x @ self.first + self.shift) @ self.second


class Descent(tf.Module):
    """Gradient descent with momentum."""

    def __init__(self, rate: float, variables: Any) -> None:
        super().__init__()
        self.rate = tf.Variable(rate, trainable=False)
        self.moments = [tf.Variable(tf.zeros_like(variable), trainable=False) for variable in variables]

    def apply(self, gradients: Any, variables: Any) -> None:
        """One step."""
        for gradient, moment, variable in zip(gradients, self.moments, variables, strict=True):
            moment.assign(0.9 * moment + gradient)
            variable.assign_sub(self.rate * moment)


def of_variables(i: int) -> tuple[Any, Any]:
    """The i-th network and its descent."""
    network = Network(i)
    return network, Descent(0.01 + 0.001 * i, network.trainable_variables)


def of_keras(i: int) -> tuple[Any, Any]:
    """The i-th model and its optimizer, built."""
    keras.utils.set_random_seed(i)
    model = keras.Sequential([keras.layers.Dense(UNITS, activation="tanh"), keras.layers.Dense(1)])
    model.build([None, FEATURES])
    optimizer = keras.optimizers.Adam(0.001 + 0.0001 * i)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def train(model: Any, optimizer: Any, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A step; gives the loss."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    variables = model.trainable_variables
    optimizer.apply(tape.gradient(loss, variables), variables)
    return loss


MAKERS: dict[str, Callable[[int], tuple[Any, Any]]] = {"variables": of_variables, "keras": of_keras}


def run(make: Callable[[int], tuple[Any, Any]], step: Callable[..., Any], count: int, steps: int) -> float:
    """Trains models one after another; gives the sum of their last losses."""
    draw = np.random.default_rng(0)
    x = tf.constant(draw.normal(size=[ROWS, FEATURES]), tf.float32)
    y = tf.constant(draw.normal(size=[ROWS, 1]), tf.float32)
    total = 0.0
    for i in range(count):
        model, optimizer = make(i)
        for _ in range(steps):
            loss = step(model, optimizer, x, y)
        total += float(loss)
    return total


@contextlib.contextmanager
def entered(way: str) -> Iterator[Callable[..., Any]]:
    """The step in one of the ways."""
    if way == "rg.speculation":
        with rg.speculation():
            yield train
    else:
        yield {"eager": lambda f: f, "tf.function": tf.function, "rg.function": rg.function}[way](train)


def measure(model: str, way: str, count: int, steps: int) -> dict[str, float]:
    """Seconds of a whole program, but for imports and TensorFlow's first operations."""
    make = MAKERS[model]
    run(make, train, 1, 2)
    with entered(way) as step:
        began, busy = time.perf_counter(), time.process_time()
        loss = run(make, step, count, steps)
        return {"seconds": time.perf_counter() - began, "busy": time.process_time() - busy, "loss": loss}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
