"""DCGAN (Radford et al., 2016): images out of noise by transposed convolutions, against a network that judges."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.zoo import generated
from recgraph.models.zoo.layers import ConvolutionBlock
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer

CROSS_ENTROPY = tf.keras.losses.BinaryCrossentropy(from_logits=True)


def generator(size: int, width: int, channels: int) -> tf.keras.Model:
    """Of images, float32 `[B, size, size, channels]` in -1 .. 1, out of noise, float32 `[B, noise]`."""
    transposed = tf.keras.layers.Conv2DTranspose
    return tf.keras.Sequential(
        [
            tf.keras.layers.Dense((size // 4) ** 2 * 2 * width, use_bias=False),
            tf.keras.layers.Reshape((size // 4, size // 4, 2 * width)),
            ConvolutionBlock(2 * width, 5, 1, "leaky_relu", transposed),
            ConvolutionBlock(width, 5, 2, "leaky_relu", transposed),
            transposed(channels, 5, 2, padding="same", activation="tanh"),
        ]
    )


def judge(width: int) -> tf.keras.Model:
    """Of scores, float32 `[B, 1]`, of images, float32 `[B, size, size, channels]`."""
    layers = []
    for filters in (width, 2 * width):
        layers += [
            tf.keras.layers.Conv2D(filters, 5, 2, padding="same"),
            tf.keras.layers.LeakyReLU(),
            tf.keras.layers.Dropout(0.3),
        ]
    return tf.keras.Sequential([*layers, tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])


class DCGAN(Trainer):
    """Both networks with their training."""

    def __init__(self, size: int = 28, width: int = 32, noise: int = 100, channels: int = 1):
        """Args: height and width of an image, channels of the outer maps, numbers of a noise, and channels."""
        tf.keras.utils.set_random_seed(0)
        self.noise = noise
        self.random = tf.random.Generator.from_seed(0)
        self.generator, self.judge = generator(size, width, channels), judge(width)
        self.generator.build([None, noise])
        self.judge.build([None, size, size, channels])
        super().__init__((self.generator, tf.keras.optimizers.Adam(1e-4)), (self.judge, tf.keras.optimizers.Adam(1e-4)))

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*super().variables, self.random.state]

    def train_step(self, images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """One step of both.

        Args:
          images: float32 `[B, size, size, channels]` in -1 .. 1.

        Returns:
          The losses of generator and judge before it, float32 scalars.
        """
        noise = self.random.normal([images.shape[0], self.noise])
        with tf.GradientTape() as for_generator, tf.GradientTape() as for_judge:
            made = self.generator(noise, training=True)
            real, false = self.judge(images, training=True), self.judge(made, training=True)
            generator_loss = CROSS_ENTROPY(tf.ones_like(false), false)
            judge_loss = CROSS_ENTROPY(tf.ones_like(real), real) + CROSS_ENTROPY(tf.zeros_like(false), false)
        self.learn(for_generator, generator_loss, 0)
        self.learn(for_judge, judge_loss, 1)
        return generator_loss, judge_loss


def _make(small: bool) -> DCGAN:
    return DCGAN(8, 4, 5) if small else DCGAN()


def _steps(batch_size: int, small: bool) -> list[Step]:
    pictures, _ = generated.images(15 * batch_size // 2, 8 if small else 28, 1, 10)
    return generated.batches((pictures.clip(-1.0, 1.0),), batch_size)


DCGAN_MNIST = Program("DCGAN", _make, _steps, 32, 4, "images", lambda step: len(step[0]), "MNIST")
