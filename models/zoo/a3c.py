"""Advantage actor-critic (A3C, Mnih et al., 2016) on CartPole, one worker: a loop over each stretch of an episode."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.imperative.weights import Adam
from recgraph.models.zoo import cart_pole
from recgraph.models.zoo.actor_critic import ActorCritic, chosen
from recgraph.models.zoo.program import Program, Step


class A3C:
    """The network, its optimizer, and the course of the training.

    Attributes:
      episodes: of the episodes so far, the sum of rewards.
      reward: that of the current one, float32 scalar.
    """

    def __init__(self, hidden: int = 100, discount: float = 0.99, exploring: float = 0.01, rate: float = 1e-3):
        """Args: the size, how rewards fade, the weight of entropy, and Adam's learning rate."""
        self.network = ActorCritic(hidden)
        self.discount, self.exploring = discount, exploring
        self.optimizer = Adam(self.network.weights.all, rate)
        self.episodes: list[tf.Tensor] = []
        self.reward = tf.constant(0.0)

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*self.network.weights.all, *self.optimizer.first, *self.optimizer.second]

    def returns(self, rewards: tf.Tensor, last: tf.Tensor, is_over: bool) -> tf.Tensor:
        """What came after each step, float32 `[T]`: its reward and, discounted, what came after the next one."""
        following = tf.constant(0.0)
        if not is_over:
            following = self.network(last[tf.newaxis])[1][0]
        found = []
        for reward in tf.reverse(rewards, [0]):
            following = reward + self.discount * following
            found.append(following)
        found.reverse()
        return tf.stack(found)

    def train_step(
        self, states: tf.Tensor, actions: tf.Tensor, rewards: tf.Tensor, last: tf.Tensor, is_over: bool
    ) -> tf.Tensor:
        """One step of Adam.

        Args:
          states: float32 `[T, 4]`.
          actions, rewards: what was done and got there, int32 `[T]` and float32 `[T]`.
          last: the state after them, float32 `[4]`.
          is_over: whether the episode ended there.

        Returns:
          The mean loss before it, float32 scalar.
        """
        returns = tf.stop_gradient(self.returns(rewards, last, is_over))
        with tf.GradientTape() as tape:
            scores, values = self.network(states)
            advantages = tf.stop_gradient(returns - values)
            entropy = -tf.reduce_sum(tf.exp(scores) * scores, 1)
            actor = -chosen(scores, actions) * advantages - self.exploring * entropy
            loss = tf.reduce_mean(actor + 0.5 * tf.square(returns - values))
        gradients = tape.gradient(loss, self.network.weights.all)
        self.optimizer.apply(gradients, self.network.weights.all)
        self.reward += tf.reduce_sum(rewards)
        if is_over:
            self.episodes.append(self.reward)
            self.reward = tf.constant(0.0)
        return loss


def arguments(rollout: cart_pole.Rollout) -> Step:
    """A rollout as `train_step` takes it."""
    states, actions = tf.constant(rollout.states), tf.constant(rollout.actions, tf.int32)
    return states, actions, tf.constant(rollout.rewards), tf.constant(rollout.last), rollout.is_over


def _make(small: bool) -> A3C:
    return A3C(8) if small else A3C()


def _steps(batch_size: int, small: bool) -> list[Step]:
    count, world = (6, None) if small else (40, cart_pole.environment())
    return [arguments(r) for r in cart_pole.rollouts(cart_pole.random_policy(), count, batch_size, world=world)]


A3C_CART_POLE = Program("A3C", _make, _steps, 20, 6, "frames", lambda step: len(step[0]), "CartPole")
