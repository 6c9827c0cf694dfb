"""One training step and one evaluation step, in loops that are traced once, for batches of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from recgraph.data import Share, TreeBatch
from recgraph.distribute import Cluster
from recgraph.distribute.measuring import stays_sparse
from recgraph.distribute.reduction import Reduction
from recgraph.distribute.shards import SHARDS, ShardedReduction, shards_of
from recgraph.models import TreeModel
from recgraph.models.baselines import Iterative
from recgraph.models.losses import Draws
from recgraph.train.optimizer import TreeOptimizer
from recgraph.train.tasks import TASKS, Task


class DivergedError(Exception):
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


class Ways:
    """How the workers of a cluster divide a batch, and how they add up what they get.

    Attributes:
      cluster: the workers.
      share: the parts that this one has, or None: it is alone and has all.
    """

    def __init__(self, cluster: Cluster, is_deterministic: bool = False, sparse: bool = True):
        """Chooses.

        Args:
          cluster: the workers.
          is_deterministic: whether the sums are not to depend on their number.
          sparse: whether the embedding's gradient stays rows.
        """
        self.cluster, self._is_sparse, self._is_deterministic = cluster, sparse, is_deterministic
        if is_deterministic:
            self.share: Share | None = Share(SHARDS, *shards_of(cluster.collectives))
        else:
            self.share = Share(cluster.size, cluster.index, 1) if cluster.size > 1 else None

    @property
    def parts(self) -> int:
        """How many parts of a batch this worker has."""
        return 1 if self.share is None else self.share.count

    def sum(
        self, part: Callable[[tf.Tensor], tuple[list[Any], tf.Tensor]], variables: list[tf.Variable]
    ) -> tuple[list[Any], tf.Tensor]:
        """The sums over all parts of a batch.

        Args:
          part: computes the next part of this worker: gradients, and figures as `train` has them.
          variables: the last of them is the embedding.
        """
        if self.share is None:
            return part(tf.constant(0))
        sparse = [len(variables) - 1] if self._is_sparse else []
        if self._is_deterministic:
            return ShardedReduction(self.cluster.collectives, variables, sparse, 4)(part)
        return Reduction(self.cluster.collectives, variables, sparse, 4)(*part(tf.constant(0)))


def chosen_ways(cluster: Cluster, is_deterministic: bool, model: Any, batches: Callable[[Share], Any]) -> Ways:
    """`Ways` with the cheaper form of the embedding's gradient, which is measured where it changes nothing else.

    Args:
      cluster: the workers.
      is_deterministic: as in `Ways`; rows then.
      model: has the embedding.
      batches: makes the dataset of a share.
    """
    ways = Ways(cluster, is_deterministic)
    if ways.share is None or is_deterministic:
        return ways
    batch, _ = next(iter(batches(ways.share)))
    words = int(tf.size(tf.unique(batch.words).y))
    return Ways(cluster, sparse=stays_sparse(cluster, tuple(model.embedding.shape), words))


class TrainingSteps(tf.Module):
    """The steps of one run. Many steps are one loop in a graph: calling a graph from Python costs 0.3 ms."""

    def __init__(
        self,
        model: Any,
        implementation: str = "recursive",
        seed: int = 0,
        task: Task = TASKS["fine"],
        ways: Ways | None = None,
    ):
        """Creates the optimizer and the loops.

        Args:
          model: the model to train.
          implementation: "recursive" or "iterative".
          seed: of dropout.
          task: what is learned.
          ways: how workers add up; by default there is only this one.
        """
        super().__init__(name="steps")
        self.model = model
        self.optimizer = TreeOptimizer(model)
        self.step = tf.Variable(0, dtype=tf.int32, trainable=False, name="step")
        self.ways = ways or Ways(Cluster.alone())
        if self.ways.share is not None and model.engine == "auto":
            model.engine = "batched"  # each worker would try the engines for itself, and all others wait
        self._network = network(model, implementation)
        self.task, self._seed = task, seed
        self._sources = [*model.weights, model.embedding]
        self._train_loop = tf.function(self._train_many, autograph=False)
        self._evaluate_loop = tf.function(lambda it, n: _loop(self._evaluate, it, n, task.nothing)[0], autograph=False)

    def train(self, batches: Iterator[Any], steps: int) -> np.ndarray:
        """Trains on the next batches of a `tf.data` iterator.

        Returns:
          Sums over all workers, float32 `[4]`: loss, the task's hits and what to divide them by, examples.

        Raises:
          DivergedError: a loss is infinite or no number; no later step was done, and the weights are of no more use.
          WorkerLostError: another worker has failed.
        """
        with self.ways.cluster.watched(self.step):
            sums, done = self._train_loop(batches, tf.constant(steps))
            sums = sums.numpy()
        if not np.isfinite(sums[0]):
            raise DivergedError(int(done) - 1)
        return sums

    def prepare(self, batches: Iterator[Any]) -> None:
        """Traces the training loop, so that nobody waits in a step for a worker that needs longer for it."""
        self._train_loop.get_concrete_function(batches, tf.constant(0))

    def evaluate(self, batches: Iterator[Any], steps: int) -> np.ndarray:
        """The task's tally of the next batches of a `tf.data` iterator."""
        return self._evaluate_loop(batches, tf.constant(steps)).numpy()

    def _train_many(self, batches: Iterator[Any], steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Sums over steps, up to the first whose loss is not finite, and how many steps were done."""
        return _loop(self._train, batches, steps, tf.zeros([4]), lambda sums: tf.math.is_finite(sums[0]))

    def _train(self, sums: tf.Tensor, batches: Iterator[Any]) -> tf.Tensor:
        gradients, figures = self.ways.sum(lambda number: self._gradients(_next(batches)), self._sources)
        *weights, embedding = gradients
        self.optimizer.apply(self.model, weights, embedding)
        self.step.assign_add(1)
        return sums + figures

    def _gradients(self, element: Any) -> tuple[list[Any], tf.Tensor]:
        """Of a part of a batch: gradients of what it adds to the mean loss, and its figures as `train` returns them."""
        seed = tf.stack([self._seed, self.step])
        batch, place = element if self.ways.share is not None else (element, None)
        draws = seed if place is None else Draws(seed, place)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._sources)
            loss, output = self._network.loss(batch, draws)
            examples = tf.cast(self.task.size(batch), tf.float32)
            # The size of the whole batch is known beforehand: a pass over all gradients would cost more.
            whole = examples if place is None else tf.cast(place.all_trees, tf.float32)
            objective = loss / tf.maximum(whole, 1.0)
        figures = tf.concat([loss[None], self.task.hits(batch, output), examples[None]], 0)
        return tape.gradient(objective, self._sources), figures

    def _evaluate(self, tally: tf.Tensor, batches: Iterator[Any]) -> tf.Tensor:
        batch = _next(batches)
        return self.task.tally(tally, batch, self._network.predict(batch))


def _next(batches: Any) -> Any:
    """The next element, in a graph, where Python's `next` would be that of the time of tracing."""
    return batches.get_next()


def _loop(
    step: Callable[[tf.Tensor, Any], tf.Tensor],
    batches: Any,
    steps: tf.Tensor,
    start: tf.Tensor,
    may_go_on: Callable[[tf.Tensor], tf.Tensor] = lambda value: tf.constant(True),
) -> tuple[tf.Tensor, tf.Tensor]:
    """Runs so many steps, strictly one after the other; each takes what it needs and makes a new value of the last one.

    Returns:
      The last value, and how many steps were done: fewer where a value is one after which no step may follow.
    """
    done, value = tf.while_loop(
        lambda done, value: tf.logical_and(done < steps, may_go_on(value)),
        lambda done, value: (done + 1, step(value, batches)),
        (0, start),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, *start.shape[1:]])),
        parallel_iterations=1,  # a step reads the weights that the step before has written
    )
    return value, done
