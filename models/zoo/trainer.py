"""What programs of Keras networks share: the variables that a step changes, and the step of an optimizer."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

Pair = tuple[tf.keras.Model, tf.keras.optimizers.Optimizer]


class Trainer:
    """Networks, each with the optimizer that trains it.

    Attributes:
      pairs: networks, which are built, and their optimizers.
    """

    def __init__(self, *pairs: Pair):
        """Args: networks and optimizers; the variables of the optimizers are made here."""
        self.pairs = pairs
        for network, optimizer in pairs:
            optimizer.build(network.trainable_variables)

    @property
    def variables(self) -> list[Any]:
        """All that a step changes: weights, running statistics, states of random generators, optimizers."""
        networks = [variable for network, _ in self.pairs for variable in network.variables]
        return [*networks, *(variable for _, optimizer in self.pairs for variable in optimizer.variables)]

    def learn(self, tape: tf.GradientTape, loss: tf.Tensor, which: int = 0, max_norm: float | None = None) -> None:
        """A step of the optimizer of a pair on its network.

        Args:
          tape: has seen how the loss was computed.
          loss: float32 scalar.
          which: the number of the pair.
          max_norm: what all gradients together are clipped to, if anything.
        """
        network, optimizer = self.pairs[which]
        gradients = tape.gradient(loss, network.trainable_variables)
        if max_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, max_norm)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
