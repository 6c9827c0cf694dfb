"""Small data of the form that the programs read: images of classes, text, recorded episodes."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def images(count: int, size: int, channels: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noise over a pattern for each class.

    Returns:
      Images, float32 `[count, size, size, channels]` about 0, and their classes, int32 `[count]`.
    """
    random = np.random.default_rng(seed)
    patterns = random.normal(0.0, 1.0, (classes, size, size, channels))
    labels = random.integers(0, classes, count)
    noise = random.normal(0.0, 0.5, (count, size, size, channels))
    return (patterns[labels] + noise).astype(np.float32), labels.astype(np.int32)


def facades(count: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Walls with windows: the plan as one colour a part, and the picture that belongs to it.

    Returns:
      Plans and pictures, each float32 `[count, size, size, 3]` in -1 .. 1.
    """
    random = np.random.default_rng(seed)
    plans = np.full((count, size, size, 3), -0.5, np.float32)
    for plan in plans:
        for row, column in random.integers(0, size - size // 4, (4, 2)):
            plan[row : row + size // 4, column : column + size // 4] = (0.5, 0.5, -1.0)
    light = random.uniform(0.5, 1.0, (count, 1, 1, 3))
    pictures = np.clip(light * plans + random.normal(0.0, 0.05, plans.shape), -1.0, 1.0)
    return plans, pictures.astype(np.float32)


def text(length: int, vocabulary: int, seed: int = 0) -> np.ndarray:
    """Words where each mostly decides the next, and low numbers are frequent, int32 `[length]`."""
    random = np.random.default_rng(seed)
    following = random.permutation(vocabulary)
    drawn = np.minimum(random.zipf(1.3, length) - 1, vocabulary - 1)
    words = [0]
    for i in range(1, length):
        words.append(int(following[words[-1]]) if random.random() < 0.7 else int(drawn[i]))
    return np.array(words, np.int32)


def batches(arrays: tuple[np.ndarray, ...], batch_size: int) -> list[tuple[tf.Tensor, ...]]:
    """The arrays cut along their first axis; the last batch is what is left."""
    starts = range(0, len(arrays[0]), batch_size)
    return [tuple(tf.constant(array[start : start + batch_size]) for array in arrays) for start in starts]


def sequences(words: np.ndarray, batch_size: int, length: int) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """A text as parallel streams that go on from batch to batch: words and the words after them.

    Returns:
      Pairs of int32 `[batch_size, length]`.
    """
    columns = (len(words) - 1) // batch_size
    inputs = words[: batch_size * columns].reshape(batch_size, columns)
    targets = words[1 : batch_size * columns + 1].reshape(batch_size, columns)
    starts = range(0, columns - length + 1, length)
    return [(tf.constant(inputs[:, s : s + length]), tf.constant(targets[:, s : s + length])) for s in starts]
