"""MelGAN (Kumar et al., 2019): sound of spectrograms, by spectra alone at first, then against three judges."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from recgraph.models.zoo import generated
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer

SIZES = tf.keras.losses.MeanAbsoluteError()
SLOPE = 0.2


class Residual(tf.keras.layers.Layer):
    """Dilated convolutions, each added to its input."""

    def __init__(self, width: int, depth: int):
        """Args: channels, and how many; their dilations are the powers of 3."""
        super().__init__()
        self.dilated = [tf.keras.layers.Conv1D(width, 3, dilation_rate=3**i, padding="same") for i in range(depth)]
        self.mixed = [tf.keras.layers.Conv1D(width, 1) for _ in range(depth)]

    def call(self, sound: tf.Tensor) -> tf.Tensor:
        """float32 `[B, T, width]`, and so is the result."""
        for dilate, mix in zip(self.dilated, self.mixed, strict=True):
            sound = sound + mix(tf.nn.leaky_relu(dilate(tf.nn.leaky_relu(sound, SLOPE)), SLOPE))
        return sound


def generator(width: int, scales: tuple[int, ...], depth: int) -> tf.keras.Model:
    """Of sound, float32 `[B, frames * prod(scales), 1]`, of spectrograms, float32 `[B, frames, bands]`."""
    layers = [tf.keras.layers.Conv1D(width, 7, padding="same")]
    for i, scale in enumerate(scales):
        channels = width // 2 ** (i + 1)
        layers += [
            tf.keras.layers.LeakyReLU(SLOPE),
            tf.keras.layers.Conv1DTranspose(channels, 2 * scale, scale, padding="same"),
            Residual(channels, depth),
        ]
    layers += [tf.keras.layers.LeakyReLU(SLOPE), tf.keras.layers.Conv1D(1, 7, padding="same", activation="tanh")]
    return tf.keras.Sequential(layers)


class Judges(tf.keras.Model):
    """The same network, with weights of its own, for the sound, for half of its rate, and for a quarter."""

    def __init__(self, width: int, count: int = 3):
        """Args: channels of the first layer, and how many."""
        super().__init__()
        self.layers_by_scale = [
            [
                tf.keras.layers.Conv1D(width, 15, padding="same"),
                tf.keras.layers.Conv1D(4 * width, 21, 4, padding="same"),
                tf.keras.layers.Conv1D(1, 3, padding="same"),
            ]
            for _ in range(count)
        ]
        self.halve = tf.keras.layers.AveragePooling1D(4, 2, padding="same")

    def call(self, sound: tf.Tensor) -> list[list[tf.Tensor]]:
        """What each layer of each judge makes of sound, float32 `[B, T, 1]`; the last are scores."""
        found = []
        for layers in self.layers_by_scale:
            state, maps = sound, []
            for layer in layers:
                state = layer(state)
                maps.append(state)
                state = tf.nn.leaky_relu(state, SLOPE)
            found.append(maps)
            sound = self.halve(sound)
        return found


def loudness(sound: tf.Tensor, frame: int) -> tf.Tensor:
    """The size of each frequency in each frame, float32 `[B, frames, frame / 2 + 1]`, of sound, `[B, T, 1]`."""
    spectra = tf.signal.stft(sound[:, :, 0], frame, frame // 4)
    return tf.sqrt(tf.maximum(tf.square(tf.math.real(spectra)) + tf.square(tf.math.imag(spectra)), 1e-7))


class MelGAN(Trainer):
    """Generator and judges with their training.

    Attributes:
      steps: how many there have been.
    """

    def __init__(
        self,
        width: int = 64,
        scales: tuple[int, ...] = (8, 4),
        depth: int = 3,
        bands: int = 40,
        frames: int = 32,
        judged_from: int = 20,
    ):
        """Args: sizes, the height and length of a spectrogram, and the step from which on judges take part."""
        tf.keras.utils.set_random_seed(0)
        self.generator, self.judges = generator(width, scales, depth), Judges(max(4, width // 4))
        self.judges(self.generator(tf.zeros([1, frames, bands])))
        super().__init__(
            (self.generator, tf.keras.optimizers.Adam(1e-4, beta_1=0.5)),
            (self.judges, tf.keras.optimizers.Adam(1e-4, beta_1=0.5)),
        )
        self.judged_from, self.steps = judged_from, 0

    def train_step(self, spectrograms: tf.Tensor, sound: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """One step of the generator and, from a step on, of the judges.

        Args:
          spectrograms: float32 `[B, frames, bands]`.
          sound: what they are of, float32 `[B, frames * prod(scales), 1]` in -1 .. 1.

        Returns:
          The losses of generator and judges before it, float32 scalars; the second is 0 until judges take part.
        """
        self.steps += 1
        is_judged = self.steps >= self.judged_from
        with tf.GradientTape() as tape:
            made = self.generator(spectrograms, training=True)
            loss = sum(SIZES(loudness(sound, frame), loudness(made, frame)) for frame in (16, 32))
            if is_judged:
                loss += self.disliked(sound, made)
        self.learn(tape, loss, 0)
        return loss, self.train_judges(sound, made) if is_judged else tf.zeros([])

    def disliked(self, sound: tf.Tensor, made: tf.Tensor) -> tf.Tensor:
        """How little the judges like what was made, and how far they see it from the sound; float32 scalar."""
        loss = 0.0
        for right, wrong in zip(self.judges(sound), self.judges(made), strict=True):
            loss -= tf.reduce_mean(wrong[-1])
            loss += 10.0 * sum(SIZES(one, other) for one, other in zip(right[:-1], wrong[:-1], strict=True))
        return loss

    def train_judges(self, sound: tf.Tensor, made: tf.Tensor) -> tf.Tensor:
        """A step of the judges; the loss."""
        with tf.GradientTape() as tape:
            loss = 0.0
            for right, wrong in zip(self.judges(sound), self.judges(made), strict=True):
                loss += tf.reduce_mean(tf.nn.relu(1.0 - right[-1])) + tf.reduce_mean(tf.nn.relu(1.0 + wrong[-1]))
        self.learn(tape, loss, 1)
        return loss


def recordings(count: int, frames: int, bands: int, hop: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Tones that rise and fall, and for each frame how near each band is to its tone; see `MelGAN.train_step`."""
    random = np.random.default_rng(seed)
    steps = random.normal(0.0, 0.5, (count, frames)).cumsum(1) + random.uniform(0.0, bands, (count, 1))
    pitch = np.abs((steps + bands) % (2 * bands) - bands)
    spectrograms = np.exp(-np.square(np.arange(bands) - pitch[:, :, None]))
    phase = np.repeat(0.02 + 0.4 * pitch / bands, hop, 1).cumsum(1) * np.pi
    return spectrograms.astype(np.float32), 0.8 * np.sin(phase)[:, :, None].astype(np.float32)


def _make(small: bool) -> MelGAN:
    return MelGAN(8, (4, 2), 1, 6, 8, 8) if small else MelGAN()


def _steps(batch_size: int, small: bool) -> list[Step]:
    frames, bands, hop = (8, 6, 8) if small else (32, 40, 32)
    return generated.batches(recordings(10 * batch_size, frames, bands, hop), batch_size)


MELGAN = Program("MelGAN", _make, _steps, 8, 2, "recordings", lambda step: len(step[0]), "LJSpeech")
