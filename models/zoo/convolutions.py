"""Layers of the larger networks on images: convolutions with batch normalisation that asks the network if it trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recgraph.models.imperative.weights import Weights


class Normalisation:
    """Batch normalisation (Ioffe and Szegedy, 2015): by the batch in training, by running statistics else."""

    def __init__(self, owner: Any, channels: int, decay: float = 0.9):
        """Args: the network, with `weights`, `statistics` and `training`; the channels; how slowly statistics move."""
        self.owner, self.decay = owner, decay
        self.scale = owner.weights.constant([channels], 1.0)
        self.offset = owner.weights.constant([channels])
        self.mean = tf.Variable(tf.zeros([channels]), trainable=False)
        self.variance = tf.Variable(tf.ones([channels]), trainable=False)
        owner.statistics += [self.mean, self.variance]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, channels]`, and so is the result."""
        if self.owner.training:
            mean, variance = tf.nn.moments(images, [0, 1, 2])
            self.mean.assign(self.decay * self.mean + (1.0 - self.decay) * mean)
            self.variance.assign(self.decay * self.variance + (1.0 - self.decay) * variance)
        else:
            mean, variance = self.mean, self.variance
        return tf.nn.batch_normalization(images, mean, variance, self.offset, self.scale, 1e-5)


class Convolution:
    """A convolution with batch normalisation and, if there is one, an activation."""

    def __init__(
        self,
        owner: Any,
        channels: tuple[int, int],
        size: int | tuple[int, int] = 3,
        stride: int = 1,
        activation: Callable[[tf.Tensor], tf.Tensor] | None = tf.nn.relu,
    ):
        """Args: the network, channels of its input and output, height and width of the kernel, stride, activation."""
        height, width = (size, size) if isinstance(size, int) else size
        self.kernel = owner.weights.uniform([height, width, *channels])
        self.normalisation = Normalisation(owner, channels[1])
        self.stride, self.activation = stride, activation

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, channels[0]]` to `[B, h / stride, w / stride, channels[1]]`."""
        made = self.normalisation(tf.nn.conv2d(images, self.kernel, self.stride, "SAME"))
        return made if self.activation is None else self.activation(made)


class Classifier:
    """What networks on images share: a training flag, the step, and evaluation.

    Attributes:
      training: whether it trains; a plain attribute, which `train_step` and whoever evaluates set.
      weights: makes and keeps what is trained.
      statistics: the running ones of all normalisations.
    """

    def __init__(self, optimizer: Callable[[list[tf.Variable]], Any], seed: int = 0):
        """Args: what makes the optimizer for given variables, and the seed of the weights."""
        self.training = True
        self.weights, self.statistics = Weights(seed), []
        self.build()
        self.optimizer = optimizer(self.weights.all)

    def build(self) -> None:
        """Makes the layers."""
        raise NotImplementedError

    def scores(self, images: tf.Tensor) -> list[tf.Tensor]:
        """float32 `[B, classes]` of each head, the main one first, of images, float32 `[B, h, w, 3]`."""
        raise NotImplementedError

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*self.weights.all, *self.statistics, *self.optimizer.velocities]

    def loss(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The mean loss, float32 scalar; other heads than the main one count 0.3."""
        total = 0.0
        for i, logits in enumerate(self.scores(images)):
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            total += tf.reduce_mean(losses) * (1.0 if i == 0 else 0.3)
        return total

    def evaluate(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The mean loss, float32 scalar, by the running statistics; nothing is learned."""
        self.training = False
        return self.loss(images, labels)

    def train_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """One step with momentum.

        Args:
          images: float32 `[B, h, w, 3]`.
          labels: int32 `[B]`.

        Returns:
          The mean loss before it, float32 scalar.
        """
        self.training = True
        return self.step(images, labels)

    def step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """A step if it trains, and the loss only if it does not. See `train_step`."""
        if not self.training:
            return self.loss(images, labels)
        with tf.GradientTape() as tape:
            loss = self.loss(images, labels)
        gradients = tape.gradient(loss, self.weights.all)
        self.optimizer.apply(gradients, self.weights.all)
        return loss
