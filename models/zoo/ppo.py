"""Proximal policy optimisation (Schulman et al., 2017) on Pong, or where that is not installed and in tests on
CartPole: passes over each batch, in clipped steps.
"""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from recgraph.models.imperative.weights import Adam
from recgraph.models.zoo import cart_pole, pong
from recgraph.models.zoo.actor_critic import ActorCritic, chosen
from recgraph.models.zoo.program import Program, Step


class PPO:
    """The network, its optimizer, and the course of the training.

    Attributes:
      history: the loss of each pass, float32 scalars.
      frames: how many states it has learned from.
    """

    def __init__(
        self,
        hidden: int = 64,
        passes: int = 4,
        clip: float = 0.2,
        rate: float = 3e-4,
        states: int = 4,
        actions: int = 2,
    ):
        """Args: the size, how often a batch is gone through, how far a step may go, Adam's rate, and the game's."""
        self.network = ActorCritic(hidden, states, actions)
        self.passes, self.clip, self.exploring = passes, clip, 0.01
        self.optimizer = Adam(self.network.weights.all, rate)
        self.history: list[tf.Tensor] = []
        self.frames = 0

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*self.network.weights.all, *self.optimizer.first, *self.optimizer.second]

    def loss(
        self, states: tf.Tensor, actions: tf.Tensor, before: tf.Tensor, returns: tf.Tensor, advantages: tf.Tensor
    ) -> tf.Tensor:
        """The mean of the clipped objective, of the values' errors and of entropy, float32 scalar."""
        scores, values = self.network(states)
        ratio = tf.exp(chosen(scores, actions) - before)
        clipped = tf.clip_by_value(ratio, 1.0 - self.clip, 1.0 + self.clip)
        gain = tf.minimum(ratio * advantages, clipped * advantages)
        entropy = -tf.reduce_sum(tf.exp(scores) * scores, 1)
        return tf.reduce_mean(0.5 * tf.square(returns - values) - gain - self.exploring * entropy)

    def train_step(
        self, states: tf.Tensor, actions: tf.Tensor, before: tf.Tensor, returns: tf.Tensor, advantages: tf.Tensor
    ) -> tf.Tensor:
        """Some steps of Adam, one for each pass.

        Args:
          states: float32 `[B, states]`.
          actions: what was done there, int32 `[B]`.
          before: its log-probability then, float32 `[B]`.
          returns: what came after, float32 `[B]`.
          advantages: how much better that was than expected, float32 `[B]`.

        Returns:
          The loss in the last pass, float32 scalar.
        """
        loss = tf.constant(0.0)
        for _ in range(self.passes):
            with tf.GradientTape() as tape:
                loss = self.loss(states, actions, before, returns, advantages)
            gradients = tape.gradient(loss, self.network.weights.all)
            self.optimizer.apply(gradients, self.network.weights.all)
            self.history.append(loss)
        self.frames += len(states)
        return loss


def arguments(rollouts: list[cart_pole.Rollout], discount: float = 0.99, choices: int = 2) -> tuple[np.ndarray, ...]:
    """Rollouts of a policy that draws, one after the other as `train_step` takes them, with returns from rewards."""
    returns: list[float] = []
    for rollout in rollouts:
        following, found = 0.0, []
        for reward in reversed(rollout.rewards):
            following = reward + discount * following
            found.append(following)
        returns += reversed(found)
    states = np.concatenate([rollout.states for rollout in rollouts])
    actions = np.array([action for rollout in rollouts for action in rollout.actions], np.int32)
    gains = np.array(returns, np.float32)
    advantages = (gains - gains.mean()) / (gains.std() + 1e-6)
    return states, actions, np.full(len(states), -math.log(choices), np.float32), gains, advantages


def _make(small: bool) -> PPO:
    if small:
        return PPO(8, 2)
    return PPO(states=pong.STATES, actions=pong.ACTIONS) if pong.is_installed() else PPO()


def _steps(batch_size: int, small: bool) -> list[Step]:
    frames = 7 * batch_size // 2
    if small or not pong.is_installed():
        played = cart_pole.rollouts(cart_pole.random_policy(), batch_size // 4, cart_pole.MAX_STEPS)
        arrays = arguments(list(played))
    else:
        policy = cart_pole.random_policy(actions=pong.ACTIONS)
        played = cart_pole.rollouts(policy, 1, frames, world=pong.Pong())
        arrays = arguments(list(played), choices=pong.ACTIONS)
    starts = range(0, min(len(arrays[0]), frames), batch_size)
    return [tuple(tf.constant(array[s : min(s + batch_size, frames)]) for array in arrays) for s in starts]


PPO_PONG = Program("PPO", _make, _steps, 256, 16, "frames", lambda step: len(step[0]), "Pong")
