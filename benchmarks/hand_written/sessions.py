"""The programs of the TensorFlow Eager paper as TensorFlow 1 has them: a graph that is built once, and its session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.benchmarks.hand_written.optimizers import momentum
from recgraph.models.zoo.l2hmc import L2HMC, Sampler
from recgraph.models.zoo.resnet50 import ResNet50

v1 = tf.compat.v1
UPDATES = ("AssignVariableOp", "AssignSubVariableOp")

# Builds a step of its arguments: the variables that have first values, and what the step gives.
Build = Callable[..., tuple[Sequence[tf.Variable], Any]]


class SessionStep:
    """A training step, whose graph is built for the shapes of its first arguments."""

    def __init__(self, build: Build, first: Sequence[tf.Variable]):
        """Args: what builds the graph, and eager variables that have the first values of those that it returns."""
        self._build, self._first = build, [variable.numpy() for variable in first]
        self._run: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """One step: NumPy arrays for tensors."""
        values = [np.asarray(value) for value in arguments]
        if self._run is None:
            self._run = self._built(values)
        return self._run(*values)

    def _built(self, values: Sequence[np.ndarray]) -> Callable[..., Any]:
        with tf.Graph().as_default():
            feeds = [v1.placeholder(value.dtype, value.shape) for value in values]
            variables, results = self._build(*feeds)
            session = v1.Session()
            initial = (variable.initializer.inputs[1] for variable in variables)
            session.run(v1.global_variables_initializer(), dict(zip(initial, self._first, strict=True)))
            return session.make_callable(results, feeds)


def resnet50(made: ResNet50) -> SessionStep:
    """The layers and the optimizer of the program, whose updates are collected."""

    def build(images: tf.Tensor, labels: tf.Tensor) -> tuple[Sequence[tf.Variable], Any]:
        network = ResNet50(made.width, made.blocks, made.classes, made.optimizer.rate)
        weights, known = network.weights.all, len(images.graph.get_operations())
        loss = network.loss(images, labels)
        momentum(network.optimizer, tf.gradients(loss, weights), weights)
        made_since = images.graph.get_operations()[known:]
        with tf.control_dependencies([op for op in made_since if op.type in UPDATES]):
            return [*weights, *network.statistics], tf.identity(loss)

    return SessionStep(build, [*made.weights.all, *made.statistics])


def l2hmc(made: L2HMC) -> SessionStep:
    """The sampler of the program, random numbers in the same order, and the optimizer of TensorFlow 1."""

    def build(positions: tf.Tensor) -> tuple[Sequence[tf.Variable], Any]:
        sampler = Sampler(type(made.sampler.energy)(), made.sampler.steps, hidden=made.sampler.hidden)
        random = tf.random.Generator.from_seed(0)
        count, size = positions.shape
        normal = random.normal([3 * count, size])
        with tf.control_dependencies([normal]):
            uniform = random.uniform([3 * count, 1])
        starts = tf.concat([positions, normal[:count]], 0)
        losses, proposed, chances = sampler.losses(starts, normal[count:], uniform[count:] < 0.5, made.scale)
        loss = tf.reduce_sum(losses) / count
        optimizer = v1.train.AdamOptimizer(made.optimizer.rate, *made.optimizer.decay)
        after = tf.where(uniform[:count] < chances[:count, None], proposed[:count], positions)
        with tf.control_dependencies([optimizer.minimize(loss, var_list=sampler.weights.all)]):
            results = tf.identity(loss), tf.reduce_mean(chances[:count]), tf.identity(after)
        return [*sampler.weights.all, random.state], results

    return SessionStep(build, [*made.sampler.weights.all, made.random.state])


SESSIONS: dict[str, Callable[[Any], SessionStep]] = {"resnet50": resnet50, "l2hmc": l2hmc}
