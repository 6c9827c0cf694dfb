"""Loops over datasets, whole epochs in one call: not converted as a whole, but their rounds are (`tests/auto`)."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import keras
import tensorflow as tf

from tests.speculate.corpus import program

_epoch = functools.partial(program, eager="a loop goes through a dataset", feature="DATASET")


def rows(count: int = 12, batch: int = 2) -> tf.data.Dataset:
    """Batches of numbers between -1 and 1, and their numbers."""
    data = tf.sin(tf.reshape(tf.range(3.0 * count), [count, 3]))
    return tf.data.Dataset.from_tensor_slices((data, tf.range(count))).batch(batch)


def scaled(i: int) -> tuple[tf.Tensor]:
    return (tf.constant(0.5 + i),)


@_epoch(line="for x, y in dataset:")
def trains_an_epoch() -> Any:
    dataset, w, losses = rows(), tf.Variable(tf.ones([3, 1])), []

    def step(scale: tf.Tensor) -> Any:
        total = 0.0
        for x, y in dataset:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((tf.tanh(x @ w) - tf.cast(y[:, None], tf.float32) * scale) ** 2)
            w.assign_sub(0.01 * tape.gradient(loss, w))
            total += loss
            losses.append(float(loss))
        return total, loss

    return step, scaled, (w, losses)


@_epoch(line="for i, (x, y) in enumerate(dataset):")
def counts_rounds_and_leaves_early() -> Any:
    dataset, state = rows(), {"seen": 0, "x": None}

    def step(scale: tf.Tensor) -> Any:
        total, last = tf.zeros([3]), None
        for i, (x, y) in enumerate(dataset):
            if i == 1:
                continue
            total = total + tf.reduce_sum(tf.exp(x) * scale, 0) / 2.0
            state["seen"] += 1
            if i == 3:
                break
            last = y
        state["x"] = total
        return total, last, i, x

    return step, scaled, state


@_epoch(line="for (x, y), z in zip(dataset.take(5), other):")
def leaves_when_a_tensor_says_so() -> Any:
    dataset, other, w = rows(), tf.data.Dataset.range(100, 200), tf.Variable(0.0)

    def step(scale: tf.Tensor) -> Any:
        for (x, y), z in zip(dataset.take(5), other):
            loss = tf.reduce_sum(x * x) * scale
            w.assign_add(tf.abs(loss) / 10.0)
            if loss > 8.0:
                break
            if tf.reduce_mean(x) > 0.0:
                continue
            w.assign_sub(tf.sqrt(tf.cast(z, tf.float32)))
        return w.read_value(), loss, y

    return step, scaled, w


@_epoch(line="for x, y in dataset:")
def returns_out_of_the_loop() -> Any:
    dataset = rows()

    def step(scale: tf.Tensor) -> Any:
        for x, y in dataset:
            found = tf.reduce_max(x) * scale + tf.reduce_sum(tf.exp(x))
            if found > 9.0:
                return "found", found, y
        return "none", found, None

    return step, scaled, None


@_epoch(line="for x, y in self.data:")
def an_object_with_metrics() -> Any:
    class Trainer:
        def __init__(self) -> None:
            self.data, self.__rate, self.epochs = rows(), 0.1, 0
            self.layer = keras.layers.Dense(1, kernel_initializer="ones")
            self.layer.build([None, 3])
            self.mean = keras.metrics.Mean()
            self.optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
            self.optimizer.build(self.layer.trainable_variables)
            self.history: list[dict[str, float]] = []

        def epoch(self, scale: tf.Tensor) -> Any:
            self.mean.reset_state()
            for x, y in self.data:
                with tf.GradientTape() as tape:
                    out = self.layer(x) * self.__rate
                    loss = tf.reduce_mean((out - tf.cast(y[:, None], tf.float32)) ** 2) * scale
                variables = self.layer.trainable_variables
                self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
                self.mean.update_state(loss)
            self.epochs += 1
            self.history.append({"loss": float(self.mean.result()), "epoch": self.epochs})
            return self.mean.result()

    trainer = Trainer()

    class State:
        def __init__(self) -> None:
            self.history, self.weights = trainer.history, trainer.layer.kernel.value

    return trainer.epoch, scaled, State()


@_epoch(line="for x, y in dataset:")
def fails_in_the_middle() -> Any:
    dataset, w, log = rows(), tf.Variable(1.0), []

    def step(limit: tf.Tensor) -> Any:
        reached = None
        try:
            for x, y in dataset:
                reached = tf.reduce_sum(tf.abs(x)) * w
                w.assign_add(tf.exp(-reached))
                tf.debugging.assert_less(tf.cast(y[0], tf.float32), limit, "too far")
                log.append(int(y[0]))
        except tf.errors.InvalidArgumentError:
            log.append("failed")
        finally:
            log.append(len(log))
        return reached, w.read_value()

    return step, scaled, (w, log)


@_epoch(line="for x, y in dataset:")
def epochs_in_a_loop() -> Any:
    dataset, w = rows(), tf.Variable(tf.ones([3]))

    def step(scale: tf.Tensor) -> Any:
        history = []
        for epoch in range(2):
            total = tf.zeros([])
            for x, y in dataset:
                total += tf.reduce_sum(tf.tanh(x * w)) * scale
                w.assign(w * 0.9 + 0.01 * x[0])
            history.append((epoch, total))
        return history

    return step, scaled, w


@_epoch(line="iterator = iter(dataset)")
def what_is_left_of_an_iterator() -> Any:
    dataset = tf.data.Dataset.range(7).map(lambda i: tf.cast(i, tf.float32))

    def step(scale: tf.Tensor) -> Any:
        iterator = iter(dataset)
        total = next(iterator) * scale
        for x in iterator:
            total = total * 0.5 + tf.sin(x) * tf.exp(-x) * scale
        return total, next(iterator, None)

    return step, scaled, None


@_epoch(line="for x, y in dataset:")
def a_callee_goes_through_it() -> Any:
    w, counts = tf.Variable(tf.ones([3])), {"calls": 0}

    def train(dataset: Any, scale: tf.Tensor) -> tf.Tensor:
        total = tf.zeros([])
        for x, y in dataset:
            total += tf.reduce_sum(tf.exp(x * w)) / scale
            w.assign_add(0.01 * tf.reduce_mean(x, 0))
        return total

    def step(scale: tf.Tensor) -> Any:
        counts["calls"] += 1
        return train(rows(8), scale) + train(rows(4), scale * 2.0)

    return step, scaled, (w, counts)


@_epoch(line="for x, y in dataset:")
def functions_and_names_in_the_loop() -> Any:
    dataset, seen = rows(), []
    total = 0.0

    def step(scale: tf.Tensor) -> Any:
        nonlocal total
        held = []
        for x, y in dataset:

            def loss(v: tf.Tensor, factor: float = 2.0) -> tf.Tensor:
                return tf.reduce_sum(v * v) * factor * scale

            values = [loss(v) for v in (x, x + 1.0)]
            total = total + values[0] - values[1]
            if len(seen) % 4 == 3:
                del values
            else:
                held.append(values)
            seen.append(y)
        with contextlib.suppress(UnboundLocalError):
            return values, held, total
        return "deleted", held, total

    return step, scaled, seen


@_epoch(line="for x in dataset:")
def no_element_is_taken_twice_or_lost() -> Any:
    taken, w = [], tf.Variable(0.0)

    def numbers() -> Any:
        for i in range(9):
            taken.append(i)
            yield float(i)

    in_step = tf.data.Options()
    in_step.experimental_optimization.inject_prefetch = False
    signature = tf.TensorSpec([], tf.float32)
    dataset = tf.data.Dataset.from_generator(numbers, output_signature=signature).with_options(in_step)

    def step(scale: tf.Tensor) -> Any:
        for x in dataset:
            w.assign(tf.sin(w + x * scale) + tf.cos(x))
            if len(taken) % 13 == 0:
                break
        else:
            w.assign_add(100.0)
        return w.read_value()

    return step, scaled, (w, taken)


@_epoch(line="return [tf.reduce_sum(x) * scale for x, _ in dataset]")
def a_comprehension_of_a_dataset() -> Any:
    dataset = rows()

    def step(scale: tf.Tensor) -> Any:
        scale = tf.exp(-scale) + tf.sqrt(scale) * 2.0
        return [tf.reduce_sum(x) * scale for x, _ in dataset]

    return step, scaled, None


@_epoch(line="for row in dataset:")
def batches_of_several_shapes() -> Any:
    dataset = tf.data.Dataset.range(1, 6).map(lambda n: tf.ones([n]) * tf.cast(n, tf.float32))

    def step(scale: tf.Tensor) -> Any:
        total = tf.zeros([])
        for row in dataset:
            total += tf.reduce_sum(tf.exp(-row) * scale) ** 2
        for x in dataset.ragged_batch(2):
            total += tf.reduce_sum(x.to_tensor() * scale)
        return total

    return step, scaled, None
