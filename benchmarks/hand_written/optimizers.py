"""The optimizers of the zoo in graphs: the same formulas, and the number of steps in a variable."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from recgraph.models.imperative.weights import Adam, Momentum


class AdamInGraph:
    """Adam with the moments of the program's."""

    def __init__(self, optimizer: Adam):
        """Args: the program's, whose moments are taken."""
        self.optimizer = optimizer
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    def apply(self, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
        """One step."""
        adam = self.optimizer
        one, two = adam.decay
        count = tf.cast(self.steps.assign_add(1), tf.float64)
        rate = tf.cast(adam.rate * tf.sqrt(1.0 - two**count) / (1.0 - one**count), tf.float32)
        for first, second, gradient, variable in zip(adam.first, adam.second, gradients, variables, strict=True):
            mean = first.assign(one * first + (1.0 - one) * gradient)
            square = second.assign(two * second + (1.0 - two) * gradient * gradient)
            variable.assign_sub(rate * mean / (tf.sqrt(square) + 1e-8))


def momentum(optimizer: Momentum, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
    """A step with momentum; a variable without a gradient is left alone."""
    for velocity, gradient, variable in zip(optimizer.velocities, gradients, variables, strict=True):
        if gradient is not None:
            moved = velocity.assign(optimizer.momentum * velocity + gradient)
            variable.assign_sub(optimizer.rate * moved)
