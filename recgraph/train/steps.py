"""One training step and one evaluation step, in loops that are traced once, for batches of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from recgraph.data import TreeBatch
from recgraph.models import TreeModel
from recgraph.models.baselines import Iterative
from recgraph.train.optimizer import TreeOptimizer
from recgraph.train.tasks import TASKS, Task


class NotFiniteError(Exception):
    """The loss of a step is not finite.

    Attributes:
      step: its place among the steps that were asked for, from 0.
    """

    def __init__(self, step: int):
        """Names the step.

        Args:
          step: its place, from 0.
        """
        super().__init__(f"the loss of step {step} is not finite")
        self.step = step


class Network(Protocol):
    """What a step needs of a model, or of a baseline that shares its weights."""

    def loss(self, batch: Any, dropout_seed: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """As `TreeModel.loss`."""

    def predict(self, batch: Any) -> tf.Tensor:
        """As `TreeModel.predict`."""


def network(model: Any, implementation: str) -> Network:
    """The model itself, or its iterative twin.

    Raises:
      ValueError: it has none.
    """
    if implementation != "iterative":
        return model
    if not isinstance(model, TreeModel):
        raise ValueError(f"{type(model).__name__} has no iterative implementation; leave out --implementation")
    return Iterative(model)


def batch_signature() -> TreeBatch:
    """The type of a batch of any size: with it a step is traced once."""
    return TASKS["fine"].signature


class TrainingSteps(tf.Module):
    """The steps of one run. Many steps are one loop in a graph: calling a graph from Python costs 0.3 ms."""

    def __init__(self, model: Any, implementation: str = "recursive", seed: int = 0, task: Task = TASKS["fine"]):
        """Creates the optimizer and the loops.

        Args:
          model: the model to train.
          implementation: "recursive" or "iterative".
          seed: of dropout.
          task: what is learned.
        """
        super().__init__(name="steps")
        self.model = model
        self.optimizer = TreeOptimizer(model)
        self.step = tf.Variable(0, dtype=tf.int32, trainable=False, name="step")
        self._network = network(model, implementation)
        self.task, self._seed = task, seed
        self._train_loop = tf.function(self._train_many, autograph=False)
        self._evaluate_loop = tf.function(lambda it, n: _loop(self._evaluate, it, n, task.nothing)[0], autograph=False)

    def train(self, batches: Iterator[Any], steps: int) -> np.ndarray:
        """Trains on the next batches of a `tf.data` iterator.

        Returns:
          Sums, float32 `[4]`: loss, the task's hits and what to divide them by, examples.

        Raises:
          NotFiniteError: a loss is infinite or no number; no later step was done, and the weights are of no more use.
        """
        sums, done = self._train_loop(batches, tf.constant(steps))
        if not np.isfinite(sums[0]):
            raise NotFiniteError(int(done) - 1)
        return sums.numpy()

    def evaluate(self, batches: Iterator[Any], steps: int) -> np.ndarray:
        """The task's tally of the next batches of a `tf.data` iterator."""
        return self._evaluate_loop(batches, tf.constant(steps)).numpy()

    def _train_many(self, batches: Iterator[Any], steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Sums over steps, up to the first whose loss is not finite, and how many steps were done."""
        return _loop(self._train, batches, steps, tf.zeros([4]), lambda sums: tf.math.is_finite(sums[0]))

    def _train(self, sums: tf.Tensor, batch: Any) -> tf.Tensor:
        model = self.model
        sources = [*model.weights, model.embedding]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            loss, output = self._network.loss(batch, tf.stack([self._seed, self.step]))
            examples = tf.cast(self.task.size(batch), tf.float32)
            objective = loss / tf.maximum(examples, 1.0)
        *weights, embedding = tape.gradient(objective, sources)
        self.optimizer.apply(model, weights, embedding)
        self.step.assign_add(1)
        return sums + tf.concat([loss[None], self.task.hits(batch, output), examples[None]], 0)

    def _evaluate(self, tally: tf.Tensor, batch: Any) -> tf.Tensor:
        return self.task.tally(tally, batch, self._network.predict(batch))


def _loop(
    step: Callable[[tf.Tensor, Any], tf.Tensor],
    batches: Any,
    steps: tf.Tensor,
    start: tf.Tensor,
    may_go_on: Callable[[tf.Tensor], tf.Tensor] = lambda value: tf.constant(True),
) -> tuple[tf.Tensor, tf.Tensor]:
    """Runs a step on so many batches, strictly one after the other; it makes a new value of the last one.

    Returns:
      The last value, and how many steps were done: fewer where a value is one after which no step may follow.
    """
    done, value = tf.while_loop(
        lambda done, value: tf.logical_and(done < steps, may_go_on(value)),
        lambda done, value: (done + 1, step(value, batches.get_next())),
        (0, start),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, *start.shape[1:]])),
        parallel_iterations=1,  # a step reads the weights that the step before has written
    )
    return value, done
