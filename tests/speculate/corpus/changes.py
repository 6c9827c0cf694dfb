"""What changes in the middle of training: flags, callees, containers, ranks, dtypes."""

from __future__ import annotations

import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


@program
def a_flag_alternates() -> Any:
    def step(x: tf.Tensor, training: bool) -> Any:
        return x * 2.0 if training else x

    return step, lambda i: (tensor(i), i % 2 == 0), None


@program
def a_mode_alternates() -> Any:
    model = types.SimpleNamespace(mode="train", count=0)

    def step(x: tf.Tensor) -> Any:
        if model.mode == "train":
            model.count += 1
        return x * model.count, model.mode

    def arguments(i: int) -> Any:
        model.mode = "test" if i % 3 == 2 else "train"
        return with_tensor(i)

    return step, arguments, model


@program
def a_dict_shrinks_and_changes_its_order() -> Any:
    scales = {"a": 1.0, "b": 2.0, "c": 3.0}

    def step(x: tf.Tensor) -> Any:
        return {name: x * scale for name, scale in scales.items()}

    def arguments(i: int) -> Any:
        if i == 6:
            del scales["a"]
        if i == 9:
            scales["b"] = scales.pop("b")
        return with_tensor(i)

    return step, arguments, None


@program
def a_global_becomes_an_attribute_of_the_class() -> Any:
    class Model:
        rate = 1.0

    model = Model()

    def step(x: tf.Tensor) -> Any:
        return x * model.rate

    def arguments(i: int) -> Any:
        if i == 6:
            model.rate = 2.0
        if i == 9:
            del model.rate
            Model.rate = 5.0
        return with_tensor(i)

    return step, arguments, None


@program
def a_callee_becomes_an_object() -> Any:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        def __call__(self, x: tf.Tensor) -> tf.Tensor:
            return x * self.by

    layers: list[Any] = [lambda x: x + 1.0, Scale(2.0)]

    def step(x: tf.Tensor) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    def arguments(i: int) -> Any:
        if i == 6:
            layers[0] = Scale(3.0)
        if i == 9:
            layers[1] = tf.nn.relu
        return with_tensor(i)

    return step, arguments, None


@program
def names_stop_being_one_object() -> Any:
    shared = types.SimpleNamespace(n=0.0)
    model = types.SimpleNamespace(a=shared, b=shared)

    def step(x: tf.Tensor) -> Any:
        model.a.n += 1.0
        model.b.n *= 2.0
        return x * model.a.n

    def arguments(i: int) -> Any:
        if i == 6:
            model.b = types.SimpleNamespace(n=5.0)
        if i == 10:
            model.a = model.b
        return with_tensor(i)

    return step, arguments, model


@program
def a_dtype_changes() -> Any:
    def step(x: tf.Tensor) -> Any:
        return x * 2 + 1

    return step, lambda i: (tf.cast(tensor(i) * 9, tf.int32 if 5 < i < 9 else tf.float32),), None


@program
def a_rank_changes() -> Any:
    def step(x: tf.Tensor) -> Any:
        return x + tf.reduce_mean(x, -1, keepdims=True), len(x.shape)

    return step, lambda i: (tf.ones([3] * (1 + i // 5)) * i,), None


@program
def an_object_becomes_none() -> Any:
    model = types.SimpleNamespace(bias=types.SimpleNamespace(b=1.0))

    def step(x: tf.Tensor) -> Any:
        if model.bias is not None:
            x = x + model.bias.b
        return x

    def arguments(i: int) -> Any:
        if i == 7:
            model.bias = None
        return with_tensor(i)

    return step, arguments, None


@program
def a_number_becomes_large() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        return x * 0.5, n * n, n // 2

    return step, lambda i: (tensor(i), 10 ** (2 * i)), None


@program
def numbers_from_tensors_are_computed_with() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        n = int(s)
        half, rest, mean = n // 2, n % 3, float(s) / 4
        return x * half + rest, mean, -n, abs(n), n * 1.5, n == 2, n if n > 1 else 0

    return step, lambda i: (tensor(i), tf.constant(float(i - 7))), None


@program
def a_row_is_chosen_by_a_number() -> Any:
    def step(x: tf.Tensor, k: int, layers: list[Any]) -> Any:
        return x[k] * layers[k], layers[-1 - k]

    return step, lambda i: (tensor(i), i % 3, [1.0, 2.0, tf.constant(3.0)]), None
