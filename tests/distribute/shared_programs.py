"""Training steps as users write them, for one machine: workers share them in a scope with no change to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.distribute import Cluster


@dataclasses.dataclass
class Program:
    """One program.

    Attributes:
      step: what may be put under `@rg.function`.
      arguments: of a call, by its number and the worker; every worker has its own data.
      look: what the program has learned and remembered.
    """

    step: Callable[..., Any]
    arguments: Callable[[int, int], tuple[Any, ...]]
    look: Callable[[], list[Any]]


def _numbers(call: int, worker: int, *shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng([call, worker]).normal(size=shape), tf.float32)


def classifier(cluster: Cluster) -> Program:
    """A Keras model, Adam with a clipped norm, and a list that remembers losses."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3)])
    optimizer = keras.optimizers.Adam(0.01, global_clipnorm=1.0)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses: list[float] = []

    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        losses.append(float(loss))
        return loss

    def arguments(call: int, worker: int) -> tuple[Any, ...]:
        return _numbers(call, worker, 5, 4), tf.constant((np.arange(5) + call) % 3)

    return Program(step, arguments, lambda: [*(v.numpy() for v in model.variables), losses])


def hard_examples(cluster: Cluster) -> Program:
    """The data of a worker decide about its loss, in Python; a counter counts on each worker for itself."""
    weight = tf.Variable(tf.ones([3]))
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    counts = {"hard": 0}

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            error = tf.reduce_sum(x * weight)
            loss = error**2
            if tf.abs(error) > 2.5:
                counts["hard"] += 1
                loss = 2.0 * tf.abs(error)
        optimizer.apply([tape.gradient(loss, weight)], [weight])
        return loss

    return Program(step, lambda call, worker: (_numbers(call, worker, 3),), lambda: [weight.numpy(), dict(counts)])


def adversaries(cluster: Cluster) -> Program:
    """Two networks with an optimizer each: two sums in a step, of which the second needs what the first has updated."""
    keras.utils.set_random_seed(2)
    judge, maker = (keras.Sequential([keras.Input([2]), keras.layers.Dense(n)]) for n in (1, 2))
    optimizers = keras.optimizers.Adam(0.02), keras.optimizers.RMSprop(0.01)

    def step(real: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(judge(maker(noise)) - judge(real)) + tf.reduce_mean(judge(real) ** 2)
        weights = judge.trainable_variables
        optimizers[0].apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        with tf.GradientTape() as tape:
            other = -tf.reduce_mean(judge(maker(noise)))
        weights = maker.trainable_variables
        optimizers[1].apply_gradients(zip(tape.gradient(other, weights), weights, strict=True))
        return loss, other

    return Program(
        step,
        lambda call, worker: (_numbers(call, worker, 6, 2), _numbers(call + 1000, worker, 6, 2)),
        lambda: [v.numpy() for model in (judge, maker) for v in model.variables],
    )


def words(cluster: Cluster) -> Program:
    """Rows of a table, as many as a worker's sentence has words, which differ in number; and a SubGraph over them."""
    table = tf.Variable(tf.reshape(tf.range(40.0) / 20.0 - 1.0, [20, 2]))
    cell = tf.Variable(tf.constant([[0.3, -0.2], [0.1, 0.4]]))
    optimizer = keras.optimizers.SGD(0.1)

    def step(ids: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            state = tf.zeros([1, 2])
            for row in tf.gather(table, ids):
                state = tf.tanh(state @ cell + row)
            loss = tf.reduce_sum((state - 0.5) ** 2)
        optimizer.apply(tape.gradient(loss, [table, cell]), [table, cell])
        return loss

    def arguments(call: int, worker: int) -> tuple[Any, ...]:
        return (tf.constant([(3 * call + 7 * worker + i) % 20 for i in range(2 + (call + worker) % 3)], tf.int32),)

    return Program(step, arguments, lambda: [table.numpy(), cell.numpy()])


def uneven(cluster: Cluster) -> Program:
    """A sum over unequal parts by `cluster.mean`, a recursion, and no optimizer."""
    weight = tf.Variable([[0.5]])
    with rg.SubGraph("power", tf.TensorSpec([], tf.int32), tf.TensorSpec([1, 1])) as power:
        n = power.input(tf.int32, name="n")
        power.output(tf.cond(n == 0, lambda: tf.ones([1, 1]), lambda: power(n - 1) @ weight))

    def step(depths: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(power.map(depths))
        (gradient,), mean = cluster.mean([tape.gradient(loss, weight)], [weight], loss, tf.size(depths))
        weight.assign_sub(0.01 * gradient)
        return mean

    return Program(
        step,
        lambda call, worker: (tf.range(1 + (call + worker) % 3),),
        lambda: [weight.numpy()],
    )


PROGRAMS = (classifier, hard_examples, adversaries, words, uneven)
