"""pix2pix (Isola et al., 2017): a U-Net makes pictures of plans, and a second network judges their patches."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.imperative.weights import Adam, Weights
from recgraph.models.zoo import generated
from recgraph.models.zoo.program import Program, Step


def normalised(images: tf.Tensor) -> tf.Tensor:
    """Each channel of each image with mean 0 and variance 1: batch normalisation of batches of one."""
    mean, variance = tf.nn.moments(images, [1, 2], keepdims=True)
    return (images - mean) * tf.math.rsqrt(variance + 1e-5)


class Generator:
    """A U-Net: down to one pixel and up again, with a connection on each level."""

    def __init__(self, width: int, levels: int, seed: int = 0):
        """Args: channels of the first level, the number of levels, and the seed of the weights."""
        self.weights = Weights(seed)
        channels = [3, *(width * min(2**i, 8) for i in range(levels))]
        self.downward = [self.weights.uniform([4, 4, i, o]) for i, o in zip(channels, channels[1:], strict=False)]
        self.upward = []
        for level in range(levels, 0, -1):
            inputs = channels[level] * (1 if level == levels else 2)
            self.upward.append(self.weights.uniform([4, 4, channels[level - 1], inputs]))

    def __call__(self, plans: tf.Tensor) -> tf.Tensor:
        """Pictures of plans, both float32 `[B, size, size, 3]` in -1 .. 1."""
        state, skips = plans, []
        for level, kernel in enumerate(self.downward):
            skips.append(state)
            state = tf.nn.conv2d(state, kernel, 2, "SAME")
            if 0 < level < len(self.downward) - 1:
                state = normalised(state)
            state = tf.nn.leaky_relu(state)
        for level, kernel in enumerate(self.upward):
            skip = skips.pop()
            state = tf.nn.conv2d_transpose(state, kernel, skip.shape[:3] + kernel.shape[2:3], 2, "SAME")
            if level < len(self.upward) - 1:
                state = tf.concat([tf.nn.relu(normalised(state)), skip], 3)
        return tf.tanh(state)


class Judge:
    """Scores of overlapping patches of a picture beside its plan."""

    def __init__(self, width: int, seed: int = 1):
        """Args: channels of the first level, and the seed of the weights."""
        self.weights = Weights(seed)
        channels = [6, width, 2 * width, 1]
        self.kernels = [self.weights.uniform([4, 4, i, o]) for i, o in zip(channels, channels[1:], strict=False)]

    def __call__(self, plans: tf.Tensor, pictures: tf.Tensor) -> tf.Tensor:
        """float32 `[B, size / 4, size / 4, 1]` of plans and pictures, float32 `[B, size, size, 3]`."""
        state = tf.concat([plans, pictures], 3)
        for i, kernel in enumerate(self.kernels[:-1]):
            state = tf.nn.conv2d(state, kernel, 2, "SAME")
            state = tf.nn.leaky_relu(state if i == 0 else normalised(state))
        return tf.nn.conv2d(state, self.kernels[-1], 1, "SAME")


class Pix2Pix:
    """Both networks, their optimizers, and the course of the training.

    Attributes:
      history: the generator's loss after each step.
      best: the smallest distance from the right picture so far, float32 scalar; None before the first step.
    """

    def __init__(self, width: int = 16, levels: int = 6, closeness: float = 100.0, rate: float = 2e-4):
        """Args: sizes, the weight of the distance from the right picture, and Adam's learning rate."""
        self.generator, self.judge, self.closeness = Generator(width, levels), Judge(width), closeness
        self.optimizers = [Adam(net.weights.all, rate, (0.5, 0.999)) for net in (self.generator, self.judge)]
        self.history: list[tf.Tensor] = []
        self.best: tf.Tensor | None = None

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        moments = [v for optimizer in self.optimizers for v in [*optimizer.first, *optimizer.second]]
        return [*self.generator.weights.all, *self.judge.weights.all, *moments]

    def train_step(self, plans: tf.Tensor, pictures: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """One step of both networks.

        Args:
          plans: float32 `[B, size, size, 3]` in -1 .. 1.
          pictures: what belongs to them, of the same form.

        Returns:
          The losses of generator and judge before it, float32 scalars.
        """
        with tf.GradientTape(persistent=True) as tape:
            made = self.generator(plans)
            real, false = self.judge(plans, pictures), self.judge(plans, made)
            distance = tf.reduce_mean(tf.abs(pictures - made))
            generator_loss = entropy(false, 1.0) + self.closeness * distance
            judge_loss = entropy(real, 1.0) + entropy(false, 0.0)
        for net, optimizer, loss in zip(
            (self.generator, self.judge), self.optimizers, (generator_loss, judge_loss), strict=True
        ):
            optimizer.apply(tape.gradient(loss, net.weights.all), net.weights.all)
        self.history.append(generator_loss)
        self.best = distance if self.best is None else tf.minimum(self.best, distance)
        return generator_loss, judge_loss


def entropy(scores: tf.Tensor, wanted: float) -> tf.Tensor:
    """The mean cross-entropy of scores with one answer for all, float32 scalar."""
    labels = tf.fill(tf.shape(scores), wanted)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=scores))


def _make(small: bool) -> Pix2Pix:
    return Pix2Pix(2, 3) if small else Pix2Pix()


def _steps(batch_size: int, small: bool) -> list[Step]:
    return generated.batches(generated.facades(8 * batch_size, 16 if small else 64), batch_size)


PIX2PIX = Program("pix2pix", _make, _steps, 1, 1, "images", lambda step: len(step[0]), "Facades")
