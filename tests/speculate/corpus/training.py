"""Training with every optimizer of Keras's, and what changes inside of its objects between steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.keras_programs import _Values

_OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "nadam": lambda: keras.optimizers.Nadam(0.01),
    "ftrl": lambda: keras.optimizers.Ftrl(0.1),
    "lion": lambda: keras.optimizers.Lion(0.01),
    "averages": lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=4),
    "accumulation": lambda: keras.optimizers.Adam(0.1, gradient_accumulation_steps=3),
    "cosine": lambda: keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 10)),
    "norm": lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.5),
    "loss_scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1)),
}


def _with_optimizer(name: str, make: Callable[[], Any]) -> None:
    def make_program() -> Any:
        model, optimizer = keras.Sequential([keras.layers.Dense(2, "tanh"), keras.layers.Dense(1)]), make()
        for layer, shape in zip(model.layers, ([4, 3], [4, 2]), strict=True):
            layer.build(shape)
            layer.kernel.assign(tf.random.stateless_normal(layer.kernel.shape, [1, 2]))

        def step(x: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - 1.0) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return step, with_tensor, _Values(model, optimizer)

    make_program.__name__ = f"optimizer_{name}"
    program(make_program)


for _name, _make in _OPTIMIZERS.items():
    _with_optimizer(_name, _make)


def _changed_at_8(change: Callable[[], Any]) -> Callable[[int], tuple[tf.Tensor]]:
    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 8:
            change()
        return (tensor(i),)

    return arguments


@program
def a_regularizer_changed() -> Any:
    keras.utils.set_random_seed(1)
    layer = keras.layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.1))

    def step(x: tf.Tensor) -> Any:
        return layer(x), sum(layer.losses)

    return step, _changed_at_8(lambda: setattr(layer.kernel_regularizer, "l2", 0.5)), _Values(layer)


@program
def cells_in_another_order() -> Any:
    keras.utils.set_random_seed(1)
    layer = keras.layers.StackedRNNCells([keras.layers.SimpleRNNCell(3), keras.layers.SimpleRNNCell(3)])
    layer.build((4, 3))
    first = [tf.zeros([4, 3]), tf.zeros([4, 3])]

    def step(x: tf.Tensor) -> Any:
        return layer(x, first)[0]

    return step, _changed_at_8(lambda: layer.cells.reverse()), _Values(layer)


@program
def a_schedule_changed() -> Any:
    w = tf.Variable(tf.ones([3]))
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    optimizer = keras.optimizers.SGD(schedule)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * w)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return w + 0.0

    return step, _changed_at_8(lambda: setattr(schedule, "initial_learning_rate", 1.0)), _Values(optimizer)


@program
def a_layer_removed() -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(3)])

    def step(x: tf.Tensor) -> Any:
        return model(x)

    return step, _changed_at_8(model.pop), None


@program
def a_list_of_a_layer_grows() -> Any:
    class Scaled(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.scales = [1.0, 2.0]

        def call(self, x: tf.Tensor) -> tf.Tensor:
            for scale in self.scales:
                x = x * scale
            return x

    layer = Scaled()

    def step(x: tf.Tensor) -> Any:
        return layer(x)

    return step, _changed_at_8(lambda: layer.scales.append(3.0)), None


@program
def short_sequences_of_a_recurrent_layer() -> Any:
    """Of one word: the recurrent weights have a gradient that is zero, and not none."""
    keras.utils.set_random_seed(1)
    layer, optimizer = keras.layers.LSTM(2), keras.optimizers.Adam(0.1)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(layer(x[None, :1]) ** 2)
        optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables)
        return loss

    return step, with_tensor, _Values(layer, optimizer)
