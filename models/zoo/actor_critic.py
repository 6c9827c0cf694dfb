"""The networks of A3C and PPO: what to do in a state, and what it is worth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from recgraph.models.imperative.weights import Weights


class ActorCritic:
    """A hidden layer, scores of the actions, and a value."""

    def __init__(self, hidden: int, states: int = 4, actions: int = 2, seed: int = 0):
        """Args: sizes, and the seed of the weights."""
        self.weights = Weights(seed)
        self.kernel = self.weights.uniform([states, hidden])
        self.bias = self.weights.constant([hidden])
        self.policy_kernel = self.weights.uniform([hidden, actions], 0.05)
        self.value_kernel = self.weights.uniform([hidden, 1])

    def __call__(self, states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Log-probabilities, float32 `[n, actions]`, and values, float32 `[n]`, of states, float32 `[n, states]`."""
        hidden = tf.tanh(tf.matmul(states, self.kernel) + self.bias)
        values = tf.squeeze(tf.matmul(hidden, self.value_kernel), 1)
        return tf.nn.log_softmax(tf.matmul(hidden, self.policy_kernel)), values

    def policy(self, seed: int = 0) -> Callable[[np.ndarray], int]:
        """Draws actions by their probabilities."""
        random = np.random.default_rng(seed)

        def act(state: np.ndarray) -> int:
            scores, _ = self(tf.constant(state[np.newaxis]))
            return int(random.random() < np.exp(float(scores[0, 1])))

        return act


def chosen(scores: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Of log-probabilities, float32 `[n, actions]`, those of the actions taken, int32 `[n]`: float32 `[n]`."""
    return tf.gather(scores, actions, axis=1, batch_dims=1)
