"""AN and pix2pix by hand: both networks of each in one graph."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from recgraph.benchmarks.hand_written.optimizers import AdamInGraph
from recgraph.models.zoo.an import AN
from recgraph.models.zoo.pix2pix import Pix2Pix, entropy


def dense(network: tf.keras.Sequential, rows: tf.Tensor, last: Any) -> tf.Tensor:
    """Two dense layers of a Keras model, without the model."""
    one, two = network.layers
    state = tf.nn.relu(tf.matmul(rows, one.kernel.value) + one.bias.value)
    return last(tf.matmul(state, two.kernel.value) + two.bias.value)


def cross_entropy(scores: tf.Tensor, wanted: tf.Tensor) -> tf.Tensor:
    """The mean, float32 scalar."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted, logits=scores))


def an(made: AN) -> Any:
    """The discriminator judges what was made once, for both losses."""
    judge, generator = (network.trainable_variables for network in (made.discriminator, made.generator))

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, made.discriminator.input_shape[-1]])])
    def graph(images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        noise = made.random.normal([tf.shape(images)[0], made.noise])
        with tf.GradientTape(persistent=True) as tape:
            scores = dense(made.discriminator, images, tf.identity)
            found = dense(made.discriminator, dense(made.generator, noise, tf.tanh), tf.identity)
            ones = tf.ones_like(found)
            judge_loss = cross_entropy(scores, tf.ones_like(scores)) + cross_entropy(found, tf.zeros_like(found))
            generator_loss = cross_entropy(found, ones)
        for optimizer, loss, weights in zip(
            made.optimizers, (judge_loss, generator_loss), (judge, generator), strict=True
        ):
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return judge_loss, generator_loss

    def step(images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        losses: tuple[tf.Tensor, tf.Tensor] = graph(images)
        made.history.append(losses[0])
        return losses

    return step


def pix2pix(made: Pix2Pix) -> Any:
    """A graph for each shape of a batch."""
    optimizers = [AdamInGraph(optimizer) for optimizer in made.optimizers]
    best = tf.Variable(float("inf"))

    def learn(plans: tf.Tensor, pictures: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape(persistent=True) as tape:
            drawn = made.generator(plans)
            real, false = made.judge(plans, pictures), made.judge(plans, drawn)
            distance = tf.reduce_mean(tf.abs(pictures - drawn))
            generator_loss = entropy(false, 1.0) + made.closeness * distance
            judge_loss = entropy(real, 1.0) + entropy(false, 0.0)
        for net, optimizer, loss in zip(
            (made.generator, made.judge), optimizers, (generator_loss, judge_loss), strict=True
        ):
            optimizer.apply(tape.gradient(loss, net.weights.all), net.weights.all)
        best.assign(tf.minimum(best, distance))
        return generator_loss, judge_loss

    graph = functools.cache(lambda *shape: tf.function(learn, [tf.TensorSpec(shape)] * 2, autograph=False))

    def step(plans: tf.Tensor, pictures: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        losses: tuple[tf.Tensor, tf.Tensor] = graph(*plans.shape)(plans, pictures)
        made.history.append(losses[0])
        return losses

    return step
