"""Assumptions that break in the middle of training, and functions that call each other."""

from __future__ import annotations

import types
from typing import Any

import tensorflow as tf

from recgraph.speculate import Speculated
from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


@program
def a_flag_that_alternates() -> Any:
    """Two graphs, none of which is thrown away."""

    def step(x: tf.Tensor, training: bool) -> tf.Tensor:
        return x * 2.0 if training else x - 1.0

    return step, lambda i: (tensor(i), i % 2 == 0), None


@program
def a_speculated_function_inside() -> Any:
    state = types.SimpleNamespace(n=0)

    @Speculated
    def inner(x: tf.Tensor) -> tf.Tensor:
        state.n += 1
        return x * 2.0

    def step(x: tf.Tensor) -> tf.Tensor:
        return inner(x) + inner(x * 2.0)

    return step, with_tensor, state


@program
def a_speculated_method_inside() -> Any:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale, self.n = scale, 0

        @Speculated
        def double(self, x: tf.Tensor) -> tf.Tensor:
            self.n += 1
            return x * self.scale

    models = [Model(2.0), Model(3.0)]

    def step(x: tf.Tensor) -> tf.Tensor:
        for model in models:
            x = model.double(x)
        return x

    return step, with_tensor, models


@program
def a_callee_raises_at_conversion() -> Any:
    """The fourth call, which would be converted, raises; the fifth does not."""

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        if n in (3, 4):
            raise KeyError(n)
        return x * 2.0

    return step, lambda i: (tensor(i), i if i < 6 else 6), None


@program
def an_argument_of_a_new_type() -> Any:
    class One:
        scale = 2.0

    class Two:
        scale = 3.0

    def step(x: tf.Tensor, kind: Any) -> tf.Tensor:
        return x * kind.scale

    ones = One(), Two()
    return step, lambda i: (tensor(i), ones[i > 7]), None


@program
def a_default_and_a_star() -> Any:
    def step(x: tf.Tensor, *more: tf.Tensor, **named: tf.Tensor) -> tf.Tensor:
        for m in more:
            x = x + m
        return x * named["scale"] if "scale" in named else x

    return step, lambda i: (tensor(i), *([tensor(i + 1)] * (i // 6))), None


@program
def a_closure_variable_rebound() -> Any:
    scale = 1.0

    def step(x: tf.Tensor) -> tf.Tensor:
        nonlocal scale
        scale = scale * 1.5
        return x * scale

    return step, with_tensor, None


@program
def a_wrong_shape_once() -> Any:
    w = tf.Variable(tf.ones([3, 2]))

    def step(x: tf.Tensor) -> tf.Tensor:
        w.assign_add(tf.ones([3, 2]))
        return x @ w

    return step, lambda i: (tensor(i) if i not in (4, 9) else tf.ones([4, 5]),), w


@program
def results_of_many_kinds() -> Any:
    def step(x: tf.Tensor) -> Any:
        return {"a": [x, None, 3], "b": (x * 2.0, {"c": 1.5}), "t": float(x[0, 0]) > 0.0, "s": x.shape}

    return step, with_tensor, None


@program
def a_message_of_tensorflow() -> Any:
    """Errors have the text of eager ones."""

    def step(x: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, at)

    return step, lambda i: (tensor(i), tf.constant([5, 5] if i == 8 else [6, 2])), None
