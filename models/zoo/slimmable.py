"""Slimmable networks (Yu et al., 2019): one network that runs at several widths, trained at all of them at once."""

from __future__ import annotations

import random
from typing import Any

import tensorflow as tf

from recgraph.models.zoo import generated
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer


class Slimmable(tf.keras.layers.Layer):
    """A convolution of which the first channels are used, normalised for each width by itself.

    Attributes:
      width: what part of the channels is used; whoever trains sets it.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, widths: tuple[float, ...]):
        """Args: channels, stride, and the widths that there are, the largest last."""
        super().__init__()
        self.outputs, self.stride = outputs, stride
        self.kernel = self.add_weight(shape=(3, 3, inputs, outputs), initializer="he_normal", name="kernel")
        self.norms = [tf.keras.layers.BatchNormalization(momentum=0.9) for _ in widths]
        for width, norm in zip(widths, self.norms, strict=True):
            norm.build([None, None, None, int(outputs * width)])
        self.places = {width: place for place, width in enumerate(widths)}
        self.width = widths[-1]

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, inputs * width]` to `[B, h / stride, w / stride, outputs * width]`."""
        kernel = self.kernel[:, :, : images.shape[3], : int(self.outputs * self.width)]
        made = tf.nn.conv2d(images, kernel, self.stride, "SAME")
        return tf.nn.relu(self.norms[self.places[self.width]](made))


class Network(tf.keras.Model):
    """Convolutions of which each halves the map, and a matrix of which the first rows are used."""

    def __init__(self, channels: tuple[int, ...], classes: int, widths: tuple[float, ...]):
        """Args: channels of each layer, the number of classes, and the widths that there are, the largest last."""
        super().__init__()
        self.convolutions = [
            Slimmable(inputs, outputs, 2, widths) for inputs, outputs in zip((3, *channels), channels, strict=False)
        ]
        self.kernel = self.add_weight(shape=(channels[-1], classes), name="kernel")
        self.bias = self.add_weight(shape=(classes,), initializer="zeros", name="bias")

    def slim(self, width: float) -> None:
        """Sets the width of every layer."""
        for convolution in self.convolutions:
            convolution.width = width

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Scores, float32 `[B, classes]`, of images, float32 `[B, h, w, 3]`."""
        state = images
        for convolution in self.convolutions:
            state = convolution(state)
        means = tf.reduce_mean(state, [1, 2])
        return tf.matmul(means, self.kernel[: means.shape[1]]) + self.bias


class SlimmableTraining(Trainer):
    """The network with its training: at the largest width, the smallest, and one that is drawn.

    Attributes:
      drawn: the one of the last step.
    """

    def __init__(
        self,
        size: int = 32,
        channels: tuple[int, ...] = (64, 128, 256),
        classes: int = 100,
        widths: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0),
    ):
        """Args: height and width of an image, sizes, and the widths that there are, the largest last."""
        tf.keras.utils.set_random_seed(0)
        self.network, self.widths = Network(channels, classes, widths), widths
        self.network(tf.zeros([1, size, size, 3]))
        super().__init__((self.network, tf.keras.optimizers.SGD(0.05, momentum=0.9)))
        self.random, self.drawn = random.Random(0), 0.0

    def train_step(self, images: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        """One step with momentum, of the sum of the gradients of three widths.

        Args:
          images: float32 `[B, size, size, 3]`.
          labels: int32 `[B]`.

        Returns:
          The mean loss of each before it, float32 scalars.
        """
        self.drawn = self.random.choice(self.widths[1:-1])
        losses, totals = [], [0.0] * len(self.network.trainable_variables)
        for width in (self.widths[-1], self.widths[0], self.drawn):
            self.network.slim(width)
            loss, gradients = self.gradients(images, labels)
            losses.append(loss)
            totals = [t if g is None else t + g for t, g in zip(totals, gradients, strict=True)]
        pairs = zip(totals, self.network.trainable_variables, strict=True)
        self.pairs[0][1].apply_gradients([(total, variable) for total, variable in pairs if tf.is_tensor(total)])
        return losses

    def gradients(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[Any]]:
        """The loss at the present width, and its gradients, None of what is not used."""
        with tf.GradientTape() as tape:
            scores = self.network(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
            loss = tf.reduce_mean(losses)
        return loss, tape.gradient(loss, self.network.trainable_variables)


def _make(small: bool) -> SlimmableTraining:
    return SlimmableTraining(8, (4, 8), 5) if small else SlimmableTraining()


def _steps(batch_size: int, small: bool) -> list[Step]:
    size, classes = (8, 5) if small else (32, 100)
    return generated.batches(generated.images(15 * batch_size // 2, size, 3, classes), batch_size)


SLIMMABLE = Program("SlimmableNet", _make, _steps, 24, 4, "images", lambda step: len(step[0]), "ImageNet")
