"""One training step and one evaluation step, in loops that are traced once, for batches of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from recgraph.data import TreeBatch
from recgraph.models import TreeModel
from recgraph.models.baselines import Iterative
from recgraph.train import metrics
from recgraph.train.optimizer import TreeOptimizer


class Network(Protocol):
    """What a step needs of a model, or of a baseline that shares its weights."""

    def loss(self, batch: Any, dropout_seed: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """As `TreeModel.loss`."""

    def predict(self, batch: Any) -> tf.Tensor:
        """As `TreeModel.predict`."""


def network(model: TreeModel, implementation: str) -> Network:
    """The model itself, or its iterative twin."""
    return Iterative(model) if implementation == "iterative" else model


def batch_signature() -> TreeBatch:
    """The type of a batch of any size: with it a step is traced once."""
    return TreeBatch(*[tf.TensorSpec([None], tf.int32, name=field) for field in TreeBatch._fields])


class Steps(tf.Module):
    """The steps of one run. Many steps are one loop in a graph: calling a graph from Python costs 0.3 ms."""

    def __init__(self, model: TreeModel, implementation: str = "recursive", seed: int = 0):
        """Args: the model to train, how to run it, and the seed of the dropout."""
        super().__init__(name="steps")
        self.model = model
        self.optimizer = TreeOptimizer(model)
        self.step = tf.Variable(0, dtype=tf.int32, trainable=False, name="step")
        self._network = network(model, implementation)
        self._seed = seed
        self._train_loop = tf.function(lambda it, n: _loop(self._train, it, n, [4]), autograph=False)
        self._evaluate_loop = tf.function(lambda it, n: _loop(self._evaluate, it, n, [4, 2]), autograph=False)

    def train(self, batches: Iterator[TreeBatch], steps: int) -> np.ndarray:
        """Trains on the next batches of a `tf.data` iterator.

        Returns:
          Sums, float32 `[4]`: loss of all nodes, roots that are right, roots with a label, trees.
        """
        return self._train_loop(batches, tf.constant(steps)).numpy()

    def evaluate(self, batches: Iterator[TreeBatch], steps: int) -> np.ndarray:
        """Classifies the next batches of a `tf.data` iterator; the sums of `metrics.count`, float32 `[4, 2]`."""
        return self._evaluate_loop(batches, tf.constant(steps)).numpy()

    def _train(self, batch: TreeBatch) -> tf.Tensor:
        model = self.model
        sources = [*model.weights, model.embedding]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            loss, logits = self._network.loss(batch, tf.stack([self._seed, self.step]))
            trees = tf.cast(tf.size(batch.roots), tf.float32)
            objective = loss / tf.maximum(trees, 1.0)
        *weights, embedding = tape.gradient(objective, sources)
        self.optimizer.apply(model, weights, embedding)
        self.step.assign_add(1)
        labels = tf.gather(batch.labels, batch.roots)
        right = tf.math.count_nonzero(tf.argmax(logits, 1, tf.int32) == labels, dtype=tf.float32)
        return tf.stack([loss, right, tf.math.count_nonzero(labels >= 0, dtype=tf.float32), trees])

    def _evaluate(self, batch: TreeBatch) -> tf.Tensor:
        return metrics.count(batch, self._network.predict(batch))


def _loop(step: Callable[[TreeBatch], tf.Tensor], batches: Any, steps: tf.Tensor, shape: list[int]) -> tf.Tensor:
    """Runs a step on so many batches, strictly one after the other, and adds up what it returns."""
    _, sums = tf.while_loop(
        lambda done, _: done < steps,
        lambda done, sums: (done + 1, sums + step(batches.get_next())),
        (0, tf.zeros(shape)),
        parallel_iterations=1,  # a step reads the weights that the step before has written
    )
    return sums
