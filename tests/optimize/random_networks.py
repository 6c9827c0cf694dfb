"""Random graphs of rows and weights, for tests of what rewrites graphs."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

SIZE = 5


class RandomNetwork(tf.Module):
    """Weights, and a random graph over them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        random = np.random.default_rng(seed)

        def weight(*shape: int) -> tf.Variable:
            return tf.Variable(random.normal(0, 0.4, shape).astype(np.float32))

        self.matrices = [weight(SIZE, SIZE) for _ in range(4)]
        self.vectors = [weight(SIZE) for _ in range(2)]
        self.constant = tf.constant(random.normal(0, 0.4, (SIZE, SIZE)).astype(np.float32))
        self.choices = tuple(random.integers(1 << 20, size=80).tolist())

    def cell(self, *inputs: tf.Tensor) -> tf.Tensor:
        """A random graph; the same for the same inputs."""
        choices, rows = iter(self.choices), list(inputs)

        def chosen(count: int) -> int:
            return next(choices) % count

        def some() -> tf.Tensor:
            return rows[chosen(len(rows))]

        for _ in range(12):
            match chosen(9):
                case 0 | 1 | 2:
                    weight = [*self.matrices, self.constant][chosen(5)]
                    made = tf.matmul(some(), weight, transpose_b=bool(chosen(2)))
                case 3:
                    weights = [self.matrices[chosen(4)] for _ in range(2)]
                    made = some() @ weights[0] + some() @ weights[1]
                case 4:
                    vector = self.vectors[chosen(2)]
                    made = some() + vector if chosen(2) else tf.nn.bias_add(some(), vector)
                case 5:
                    made = [tf.sigmoid, tf.tanh, tf.nn.relu, tf.negative][chosen(4)](some())
                case 6:
                    made = [tf.add, tf.multiply, tf.subtract, tf.maximum][chosen(4)](some(), some())
                case 7:
                    made = tf.split(tf.concat([some(), some()], 1), [SIZE, SIZE], 1)[chosen(2)]
                case _:
                    made = some() * self.vectors[chosen(2)]
            rows.append(made)
        return tf.tanh(tf.add_n(rows[-3:]))


def assert_close(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Equal to rounding."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
