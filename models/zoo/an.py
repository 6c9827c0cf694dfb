"""The adversarial network of Goodfellow et al. (2014) on digits: two networks, two tapes, two optimizers."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.zoo import generated
from recgraph.models.zoo.program import Program, Step


def _dense(units: int, seed: int, activation: str | None = None) -> tf.keras.layers.Dense:
    first = tf.keras.initializers.GlorotUniform(seed=seed)
    return tf.keras.layers.Dense(units, activation=activation, kernel_initializer=first)


class AN:
    """A generator of images and a discriminator, each of dense layers, with what happened in training so far."""

    def __init__(self, pixels: int = 784, noise: int = 100, hidden: int = 128, rate: float = 1e-3):
        """Args: sizes, and Adam's learning rate."""
        self.noise = noise
        self.random = tf.random.Generator.from_seed(0)
        self.generator = tf.keras.Sequential([_dense(hidden, 0, "relu"), _dense(pixels, 1, "tanh")])
        self.discriminator = tf.keras.Sequential([_dense(hidden, 2, "relu"), _dense(1, 3)])
        self.generator.build([None, noise])
        self.discriminator.build([None, pixels])
        self.optimizers = [tf.keras.optimizers.Adam(rate, beta_1=0.5) for _ in range(2)]
        for optimizer, network in zip(self.optimizers, (self.discriminator, self.generator), strict=True):
            optimizer.build(network.trainable_variables)
        self.history: list[tf.Tensor] = []

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        networks = (self.generator, self.discriminator)
        variables = [variable for network in networks for variable in network.trainable_variables]
        return [*variables, *(v for optimizer in self.optimizers for v in optimizer.variables), self.random.state]

    def judge(self, images: tf.Tensor, is_real: bool) -> tf.Tensor:
        """The discriminator's loss, float32 scalar, where it should find images, `[B, pixels]`, real or not."""
        scores = self.discriminator(images)
        wanted = tf.ones_like(scores) if is_real else tf.zeros_like(scores)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted, logits=scores))

    def train_step(self, images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """One step of both.

        Args:
          images: real ones, float32 `[B, pixels]` in -1 .. 1.

        Returns:
          The losses of discriminator and generator before it, float32 scalars.
        """
        noise = self.random.normal([images.shape[0], self.noise])
        with tf.GradientTape() as for_judge, tf.GradientTape() as for_generator:
            made = self.generator(noise)
            judge_loss = self.judge(images, is_real=True) + self.judge(made, is_real=False)
            generator_loss = self.judge(made, is_real=True)
        self.learn(0, self.discriminator, for_judge, judge_loss)
        self.learn(1, self.generator, for_generator, generator_loss)
        self.history.append(judge_loss)
        return judge_loss, generator_loss

    def learn(self, which: int, network: tf.keras.Model, tape: tf.GradientTape, loss: tf.Tensor) -> None:
        """A step of one of the optimizers on its network."""
        gradients = tape.gradient(loss, network.trainable_variables)
        self.optimizers[which].apply_gradients(zip(gradients, network.trainable_variables, strict=True))


def _make(small: bool) -> AN:
    return AN(36, 5, 8) if small else AN()


def _steps(batch_size: int, small: bool) -> list[Step]:
    size = 6 if small else 28
    pictures, _ = generated.images(7 * batch_size // 2, size, 1, 10)
    return generated.batches((pictures.clip(-1.0, 1.0).reshape(-1, size * size),), batch_size)


AN_MNIST = Program("AN", _make, _steps, 128, 4, "images", lambda step: len(step[0]), "MNIST")
