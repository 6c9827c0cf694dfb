"""SDPoint (Kuen et al., 2018): in each step the maps are made smaller at another point of the network."""

from __future__ import annotations

import random

import tensorflow as tf

from recgraph.models.zoo import generated
from recgraph.models.zoo.layers import ConvolutionBlock
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer


class Residual(tf.keras.layers.Layer):
    """Two convolutions, added to their input."""

    def __init__(self, width: int):
        """Args: channels."""
        super().__init__()
        self.first, self.second = ConvolutionBlock(width), ConvolutionBlock(width, activation=None)

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, width]`, and so is the result."""
        return tf.nn.relu(images + self.second(self.first(images)))


class Network(tf.keras.Model):
    """Residual blocks.

    Attributes:
      point: the number of the block before which maps are halved; None for nowhere.
    """

    def __init__(self, width: int, blocks: int, classes: int):
        """Args: channels, how many blocks, and the number of classes."""
        super().__init__()
        self.stem = ConvolutionBlock(width)
        self.blocks = [Residual(width) for _ in range(blocks)]
        self.pool = tf.keras.layers.AveragePooling2D(2)
        self.classify = tf.keras.layers.Dense(classes)
        self.point: int | None = None

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Scores, float32 `[B, classes]`, of images, float32 `[B, h, w, 3]`."""
        state = self.stem(images)
        for i, block in enumerate(self.blocks):
            if self.point == i:
                state = self.pool(state)
            state = block(state)
        return self.classify(tf.reduce_mean(state, [1, 2]))


class SDPoint(Trainer):
    """The network with its training, and the dice."""

    def __init__(self, size: int = 32, width: int = 32, blocks: int = 4, classes: int = 100):
        """Args: height and width of an image, and sizes."""
        tf.keras.utils.set_random_seed(0)
        self.network = Network(width, blocks, classes)
        self.network(tf.zeros([1, size, size, 3]))
        super().__init__((self.network, tf.keras.optimizers.SGD(0.05, momentum=0.9)))
        self.random = random.Random(0)
        self.points: list[int | None] = [None, *range(blocks)]

    def train_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """One step with momentum, with a point drawn by Python.

        Args:
          images: float32 `[B, size, size, 3]`.
          labels: int32 `[B]`.

        Returns:
          The mean loss before it, float32 scalar.
        """
        self.network.point = self.random.choice(self.points)
        with tf.GradientTape() as tape:
            scores = self.network(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
            loss = tf.reduce_mean(losses)
        self.learn(tape, loss)
        return loss


def _make(small: bool) -> SDPoint:
    return SDPoint(8, 4, 3, 5) if small else SDPoint()


def _steps(batch_size: int, small: bool) -> list[Step]:
    size, classes = (8, 5) if small else (32, 100)
    return generated.batches(generated.images(15 * batch_size // 2, size, 3, classes), batch_size)


SDPOINT = Program("SDPoint", _make, _steps, 12, 4, "images", lambda step: len(step[0]), "CIFAR-100")
