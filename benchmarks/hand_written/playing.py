"""A3C and PPO by hand: returns by one product, passes unrolled, the course of the training in variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.benchmarks.hand_written.optimizers import AdamInGraph
from recgraph.models.zoo.a3c import A3C
from recgraph.models.zoo.actor_critic import chosen
from recgraph.models.zoo.ppo import PPO

# Rollouts of A3C are at most so long.
LONGEST = 512
NUMBERS, ACTIONS = tf.TensorSpec([None]), tf.TensorSpec([None], tf.int32)


def a3c(made: A3C) -> Any:
    """Discounted sums are a product with a triangle of powers, so that rollouts of all lengths have one graph."""
    weights, optimizer = made.network.weights.all, AdamInGraph(made.optimizer)
    states_of = made.network.kernel.shape[0]
    distances = np.arange(LONGEST)[np.newaxis, :] - np.arange(LONGEST)[:, np.newaxis]
    powers = tf.constant(np.where(distances >= 0, made.discount ** np.maximum(distances, 0), 0.0), tf.float32)
    reward = tf.Variable(0.0)

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None, states_of]), ACTIONS, NUMBERS, tf.TensorSpec([states_of]), tf.TensorSpec([], tf.bool)
        ],
    )  # fmt: skip
    def graph(
        states: tf.Tensor, actions: tf.Tensor, rewards: tf.Tensor, last: tf.Tensor, is_over: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        count = tf.size(rewards)
        following = tf.where(is_over, 0.0, made.network(last[tf.newaxis])[1][0])
        returns = tf.linalg.matvec(powers[:count, :count], rewards)
        returns += made.discount * tf.reverse(powers[0, :count], [0]) * following
        with tf.GradientTape() as tape:
            scores, values = made.network(states)
            advantages = tf.stop_gradient(returns - values)
            entropy = -tf.reduce_sum(tf.exp(scores) * scores, 1)
            actor = -chosen(scores, actions) * advantages - made.exploring * entropy
            loss = tf.reduce_mean(actor + 0.5 * tf.square(returns - values))
        optimizer.apply(tape.gradient(loss, weights), weights)
        total = reward + tf.reduce_sum(rewards)
        reward.assign(tf.where(is_over, 0.0, total))
        return loss, total

    def step(*arguments: Any) -> tf.Tensor:
        loss, total = graph(*arguments)
        if arguments[-1]:
            made.episodes.append(total)
        return loss

    return step


def ppo(made: PPO) -> Any:
    """All passes in one graph."""
    weights, optimizer = made.network.weights.all, AdamInGraph(made.optimizer)

    @tf.function(
        autograph=False,
        input_signature=[tf.TensorSpec([None, made.network.kernel.shape[0]]), ACTIONS, NUMBERS, NUMBERS, NUMBERS],
    )
    def graph(*arguments: tf.Tensor) -> list[tf.Tensor]:
        losses = []
        for _ in range(made.passes):
            with tf.GradientTape() as tape:
                losses.append(made.loss(*arguments))
            optimizer.apply(tape.gradient(losses[-1], weights), weights)
        return losses

    def step(*arguments: tf.Tensor) -> tf.Tensor:
        losses = graph(*arguments)
        made.history.extend(losses)
        return losses[-1]

    return step
