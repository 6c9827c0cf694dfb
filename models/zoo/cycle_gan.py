"""CycleGAN (Zhu et al., 2017): pictures of one kind made into another and back, judged among older ones."""

from __future__ import annotations

import random

import tensorflow as tf

from recgraph.models.zoo import generated
from recgraph.models.zoo.layers import ConvolutionBlock
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer

SQUARES = tf.keras.losses.MeanSquaredError()
SIZES = tf.keras.losses.MeanAbsoluteError()


def generator(width: int, residuals: int) -> tf.keras.Model:
    """Of pictures, float32 `[B, size, size, 3]` in -1 .. 1, out of pictures."""
    images = tf.keras.Input([None, None, 3])
    state = ConvolutionBlock(2 * width, stride=2)(ConvolutionBlock(width, 7)(images))
    for _ in range(residuals):
        inner = ConvolutionBlock(2 * width, activation=None)(ConvolutionBlock(2 * width)(state))
        state = tf.keras.layers.Add()([state, inner])
    state = ConvolutionBlock(width, stride=2, kind=tf.keras.layers.Conv2DTranspose)(state)
    return tf.keras.Model(images, tf.keras.layers.Conv2D(3, 7, padding="same", activation="tanh")(state))


def judge(width: int) -> tf.keras.Model:
    """Of scores of patches, float32 `[B, size / 4, size / 4, 1]`, of pictures, float32 `[B, size, size, 3]`."""
    images = tf.keras.Input([None, None, 3])
    state = tf.keras.layers.Conv2D(width, 4, 2, padding="same", activation="leaky_relu")(images)
    state = ConvolutionBlock(2 * width, 4, 2, "leaky_relu")(state)
    return tf.keras.Model(images, tf.keras.layers.Conv2D(1, 4, padding="same")(state))


class Pool:
    """Pictures made in earlier steps, so that a judge does not forget them.

    Attributes:
      kept: float32 tensors `[1, size, size, 3]`.
    """

    def __init__(self, size: int, seed: int):
        """Args: how many are kept, and the seed of the dice."""
        self.size, self.random = size, random.Random(seed)
        self.kept: list[tf.Tensor] = []

    def exchanged(self, images: tf.Tensor) -> tf.Tensor:
        """The same number of pictures, float32 `[B, size, size, 3]`, of which half are older; puts the others in."""
        found = []
        for image in tf.split(images, images.shape[0]):
            if len(self.kept) < self.size:
                self.kept.append(image)
            elif self.random.random() < 0.5:
                place = self.random.randrange(self.size)
                self.kept[place], image = image, self.kept[place]
            found.append(image)
        return tf.concat(found, 0)


class CycleGAN(Trainer):
    """Two generators and two judges with their training."""

    def __init__(self, size: int = 32, width: int = 16, residuals: int = 2, pool: int = 20, cycle: float = 10.0):
        """Args: height and width of a picture, sizes, pictures that are kept, and what it weighs to come back."""
        tf.keras.utils.set_random_seed(0)
        self.generators = [generator(width, residuals) for _ in range(2)]
        self.judges = [judge(width) for _ in range(2)]
        self.pools = [Pool(pool, seed) for seed in range(2)]
        self.cycle = cycle
        networks = [*self.generators, *self.judges]
        super().__init__(*((network, tf.keras.optimizers.Adam(2e-4, beta_1=0.5)) for network in networks))

    def train_step(self, first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """One step of the generators, then one of the judges.

        Args:
          first: pictures of one kind, float32 `[B, size, size, 3]` in -1 .. 1.
          second: of the other kind, which do not belong to them.

        Returns:
          The losses of generators and of judges before it, float32 scalars.
        """
        loss, made = self.train_generators([first, second])
        older = [pool.exchanged(images) for pool, images in zip(self.pools, made, strict=True)]
        return loss, self.train_judges([second, first], older)

    def train_generators(self, real: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Makes pictures of each kind out of the other kind; the loss, and what was made."""
        with tf.GradientTape(persistent=True) as tape:
            made = [make(images, training=True) for make, images in zip(self.generators, real, strict=True)]
            back = [make(images, training=True) for make, images in zip(self.generators[::-1], made, strict=True)]
            loss = 0.0
            for judge, images, returned, wanted in zip(self.judges, made, back, real, strict=True):
                scores = judge(images, training=True)
                loss += SQUARES(tf.ones_like(scores), scores) + self.cycle * SIZES(wanted, returned)
            for make, images in zip(self.generators, real[::-1], strict=True):
                loss += 0.5 * self.cycle * SIZES(images, make(images, training=True))  # those of its own kind stay
        for which in range(2):
            self.learn(tape, loss, which)
        return loss, made

    def train_judges(self, real: list[tf.Tensor], made: list[tf.Tensor]) -> tf.Tensor:
        """Tells pictures of each kind from those that were made; the loss."""
        total = 0.0
        for which, (judge, good, bad) in enumerate(zip(self.judges, real, made, strict=True)):
            with tf.GradientTape() as tape:
                right, wrong = judge(good, training=True), judge(bad, training=True)
                loss = SQUARES(tf.ones_like(right), right) + SQUARES(tf.zeros_like(wrong), wrong)
            self.learn(tape, loss, 2 + which)
            total += loss
        return total


def _make(small: bool) -> CycleGAN:
    return CycleGAN(16, 2, 1, 3) if small else CycleGAN()


def _steps(batch_size: int, small: bool) -> list[Step]:
    plans, pictures = generated.facades(10 * batch_size, 16 if small else 32)
    return generated.batches((plans, pictures[::-1].copy()), batch_size)


CYCLE_GAN = Program("CycleGAN", _make, _steps, 1, 1, "pictures", lambda step: len(step[0]), "horse2zebra")
