"""LeNet (LeCun et al., 1998) on digits, of Keras layers and with a Keras optimizer."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.zoo import generated
from recgraph.models.zoo.program import Program, Step


class Network(tf.keras.Model):
    """Two convolutions and three dense layers."""

    def __init__(self, classes: int):
        """Args: the number of classes."""
        super().__init__()
        seeds = iter(range(5))

        def first() -> tf.keras.initializers.Initializer:
            return tf.keras.initializers.GlorotUniform(seed=next(seeds))

        self.convolutions = [
            tf.keras.layers.Conv2D(filters, 5, padding="same", activation="relu", kernel_initializer=first())
            for filters in (6, 16)
        ]
        self.pool = tf.keras.layers.MaxPool2D()
        self.flatten = tf.keras.layers.Flatten()
        self.hidden = [
            tf.keras.layers.Dense(units, activation="relu", kernel_initializer=first()) for units in (120, 84)
        ]
        self.output_layer = tf.keras.layers.Dense(classes, kernel_initializer=first())

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Scores, float32 `[B, classes]`, of images, float32 `[B, size, size, 1]`."""
        state = images
        for convolution in self.convolutions:
            state = self.pool(convolution(state))
        state = self.flatten(state)
        for layer in self.hidden:
            state = layer(state)
        return self.output_layer(state)


class LeNet:
    """The network with its training."""

    def __init__(self, size: int = 28, classes: int = 10):
        """Args: height and width of an image, and the number of classes."""
        self.network = Network(classes)
        self.network(tf.zeros([1, size, size, 1]))
        self.optimizer = tf.keras.optimizers.Adam(1e-3)
        self.optimizer.build(self.network.trainable_variables)

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*self.network.trainable_variables, *self.optimizer.variables]

    def train_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """One step of Adam.

        Args:
          images: float32 `[B, size, size, 1]`.
          labels: int32 `[B]`.

        Returns:
          The mean loss before it, float32 scalar.
        """
        with tf.GradientTape() as tape:
            logits = self.network(images)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, self.network.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_variables, strict=True))
        return loss


def _make(small: bool) -> LeNet:
    return LeNet(size=12 if small else 28)


def _steps(batch_size: int, small: bool) -> list[Step]:
    size = 12 if small else 28
    return generated.batches(generated.images(7 * batch_size // 2, size, 1, 10), batch_size)


LENET = Program("LeNet", _make, _steps, 50, 6, "images", lambda step: len(step[0]), "MNIST")
