"""LeNet, ResNet50 and Inception-v3 by hand: straight graphs, for batches of any size."""

from __future__ import annotations

import functools
import math
from typing import Any

import tensorflow as tf

from recgraph.benchmarks.hand_written.optimizers import momentum
from recgraph.models.zoo.convolutions import Classifier
from recgraph.models.zoo.lenet import LeNet

LABELS = tf.TensorSpec([None], tf.int32)


def lenet(made: LeNet) -> Any:
    """Of the Keras layers, in place of the Keras model that calls them."""
    network = made.network
    size = network.hidden[0].kernel.shape[0] // network.convolutions[-1].filters
    side = 4 * math.isqrt(size)  # each convolution is followed by a pooling that halves it
    variables = network.trainable_variables

    def scores(images: tf.Tensor) -> tf.Tensor:
        state = images
        for layer in network.convolutions:
            state = tf.nn.relu(tf.nn.conv2d(state, layer.kernel.value, 1, "SAME") + layer.bias.value)
            state = tf.nn.max_pool2d(state, 2, 2, "VALID")
        state = tf.reshape(state, [-1, network.hidden[0].kernel.shape[0]])
        for layer in network.hidden:
            state = tf.nn.relu(tf.matmul(state, layer.kernel.value) + layer.bias.value)
        return tf.matmul(state, network.output_layer.kernel.value) + network.output_layer.bias.value

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, side, side, 1]), LABELS])
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = mean_loss(labels, scores(images))
        made.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step


def mean_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The mean cross-entropy, float32 scalar."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def classifier(made: Classifier) -> Any:
    """The layers of the program, which Python puts into the graph once, as layers were in graphs written by hand."""
    made.training = True
    weights = made.weights.all

    @functools.cache
    def graph(height: int, width: int) -> Any:
        @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, height, width, 3]), LABELS])
        def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                main, *others = [mean_loss(labels, logits) for logits in made.scores(images)]
                loss = main + sum(0.3 * other for other in others)
            momentum(made.optimizer, tape.gradient(loss, weights), weights)
            return loss

        return step

    return lambda images, labels: graph(*images.shape[1:3])(images, labels)
