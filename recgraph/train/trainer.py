"""The training loop: epochs, early stop, and continuing exactly where a killed run had its last checkpoint."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.data import Share
from recgraph.distribute import Cluster
from recgraph.errors import RecgraphError
from recgraph.train import treebank
from recgraph.train.checkpoints import Checkpoints
from recgraph.train.history import History, Record, draw_curve
from recgraph.train.run import KEPT, Run
from recgraph.train.steps import DivergedError, TrainingSteps, Ways, chosen_ways
from recgraph.train.tasks import TASKS


class TrainingError(RecgraphError):
    """Training cannot go on."""

    id = "training"


class Sums:
    """The figures of an epoch so far."""

    def __init__(self, epoch: int):
        """At the beginning of an epoch; the clock starts."""
        self.epoch = epoch
        self.examples = 0
        self._sums = np.zeros(4)
        self._start = time.perf_counter()

    def add(self, figures: np.ndarray) -> None:
        """Adds what `Steps.train` returned."""
        self._sums += figures
        self.examples = int(self._sums[3])

    @property
    def loss(self) -> float:
        """Mean loss of an example."""
        return float(self._sums[0] / max(self.examples, 1))

    @property
    def hits(self) -> float:
        """The task's figure of training: the share of the labelled roots that were right, or the squared error."""
        return float(self._sums[1] / max(self._sums[2], 1))

    @property
    def speed(self) -> float:
        """Examples a second."""
        return self.examples / (time.perf_counter() - self._start)


Report = Callable[[Sums], None]


EXAMPLES_A_REPORT = 250


class Progress(tf.Module):
    """Where the training is; saved with the weights."""

    def __init__(self) -> None:
        """At the beginning."""
        super().__init__(name="progress")
        self.epoch = tf.Variable(0, trainable=False, name="epoch")
        self.best_epoch = tf.Variable(0, trainable=False, name="best_epoch")
        self.best = tf.Variable(-1.0, trainable=False, dtype=tf.float64, name="best")

    def record(self, epoch: int, accuracy: float) -> bool:
        """Notes the accuracy of an epoch; is it the best so far?"""
        self.epoch.assign(epoch)
        if accuracy <= float(self.best):
            return False
        self.best.assign(accuracy)
        self.best_epoch.assign(epoch)
        return True

    def exhausted(self, patience: int) -> bool:
        """Has the best epoch been too long ago?"""
        return int(self.epoch) - int(self.best_epoch) >= patience


class Trainer:
    """Trains a run. All state is in variables that a checkpoint holds, or follows from the seed and the epoch.

    Of several workers the first, the chief, reads and writes the folder of the run. The others get its state, and do
    the same steps.
    """

    def __init__(self, run: Run, cluster: Cluster | None = None):
        """Restores the last checkpoint of the run, if there is one.

        Args:
          run: what to train.
          cluster: the workers that do; by default there is only this one.
        """
        self.run = run
        self.cluster = cluster or Cluster.alone()
        self.task = TASKS[run.settings.task]
        self.progress = Progress()
        ways = Ways(self.cluster, run.settings.deterministic)
        self._steps = TrainingSteps(run.model, run.settings.implementation, run.settings.seed, self.task, ways)
        state = tf.train.Checkpoint(
            model=run.model, optimizer=self._steps.optimizer, step=self._steps.step, progress=self.progress
        )
        self._checkpoints = Checkpoints(state, run.folder / "checkpoints", KEPT)
        self._best = run.best()
        self.cluster.on_chief(self._checkpoints.restore)
        self.cluster.broadcast([*run.model.variables, *self._steps.optimizer.accumulators, self._steps.step])
        self.cluster.broadcast(self.progress.variables)
        self.continued_after = int(self.progress.epoch)

    def fit(self, report: Report, finished: Callable[[Record], None]) -> list[Record]:
        """Trains until the last epoch or until dev gets no better.

        Args:
          report: called every now and then.
          finished: called with the record of every epoch.

        Returns:
          The records of all epochs, those of an earlier process included; none where this is not the chief.
        """
        history = self.cluster.on_chief(lambda: History(self.run.folder, self.continued_after))
        epochs = range(self.continued_after + 1, self.run.settings.epochs + 1)
        if not self.progress.exhausted(self.run.settings.patience) and epochs:
            self._epochs(epochs, history, report, finished)
        self.cluster.leave()
        if history is None:
            return []
        history.close()
        return history.records

    def _epochs(
        self, epochs: range, history: History | None, report: Report, finished: Callable[[Record], None]
    ) -> None:
        run = self.run
        bank = treebank.load(run.settings)
        self.cluster.agree(self._facts(bank))
        size = run.model.hyper.batch_size
        order = {"shuffle_seed": run.settings.seed, "first_epoch": epochs[0], "epochs": len(epochs)}

        def training(share: Share | None) -> tf.data.Dataset:
            return self.task.dataset(bank.train, run.vocabulary, size, share=share, **order)

        self._steps.ways = chosen_ways(self.cluster, run.settings.deterministic, run.model, training)
        train = training(self._steps.ways.share)
        steps, batches = int(train.cardinality()) // len(epochs) // self._steps.ways.parts, iter(train)
        dev = self.task.dataset(bank.dev, run.vocabulary, size)
        own_dev = dev.shard(self.cluster.size, self.cluster.index)
        if self.cluster.size > 1:
            self._steps.prepare(batches)
            self.cluster.barrier()
        for epoch in epochs:
            try:
                sums = self._pass(epoch, batches, steps, report)
            except DivergedError as error:
                raise self._diverged(epoch, error.step, bank.train) from error
            record = self._epoch(epoch, sums, own_dev)
            self.cluster.on_chief(functools.partial(self._note, history, record))
            if self.cluster.is_chief:
                finished(record)
            if self.progress.exhausted(run.settings.patience):
                break

    def _pass(self, epoch: int, batches: Iterator[Any], steps: int, report: Report) -> Sums:
        sums = Sums(epoch)
        chunk = max(1, EXAMPLES_A_REPORT // self.run.model.hyper.batch_size)
        for start in range(0, steps, chunk):
            try:
                sums.add(self._steps.train(batches, min(chunk, steps - start)))
            except DivergedError as error:
                raise DivergedError(start + error.step) from None
            report(sums)
        if not all(bool(tf.reduce_all(tf.math.is_finite(weight))) for weight in self._weights()):
            raise DivergedError(steps - 1)  # its loss was finite, and its update was not
        return sums

    def _note(self, history: History | None, record: Record) -> None:
        """Writes what an epoch leaves to look at; the chief has a history."""
        assert history is not None
        history.add(record)
        draw_curve(history.records, self.run.folder / "curve.png")

    def _facts(self, bank: Any) -> dict[str, str]:
        """What all workers must have in common. Paths may differ, and the weights are the chief's."""
        settings = dataclasses.asdict(self.run.settings) | {
            "data": "",
            "vectors": self.run.settings.vectors is not None,
        }
        return {
            "version of recgraph": importlib.metadata.version("recgraph"),
            "version of TensorFlow": tf.__version__,
            "settings": json.dumps(settings, sort_keys=True),
            "training data": _hash(bank.train),
            "dev data": _hash(bank.dev),
            "vocabulary": _hash(self.run.vocabulary.words),
        }

    def _weights(self) -> list[tf.Variable]:
        return [*self.run.model.weights, self.run.model.embedding]

    def _diverged(self, epoch: int, step: int, examples: Any) -> TrainingError:
        """What is said of a step after which training cannot go on."""
        run = self.run
        order = {"shuffle_seed": run.settings.seed, "first_epoch": epoch, "epochs": 1}
        dataset = self.task.dataset(examples, run.vocabulary, run.model.hyper.batch_size, **order)
        batch = next(iter(dataset.skip(step)))
        kept = [f"the last checkpoint, of epoch {number}, is kept; " for number in self._checkpoints.epochs()[-1:]]
        return TrainingError(
            f"the loss is not finite in epoch {epoch}, step {step + 1}",
            where=str(run.folder),
            found=f"trees like: {self.task.described(batch, run.vocabulary)}",
            expected="a finite loss",
            next_step="".join(kept) + "try a lower --learning-rate and --embedding-rate, with --fresh or another --out",
        )

    def _epoch(self, epoch: int, sums: Sums, dev: tf.data.Dataset) -> Record:
        """Evaluation after a pass, and its checkpoint: best weights first, so that a restart never lacks them."""
        training = {"loss": sums.loss, self.task.hit: sums.hits, f"{self.task.unit}_per_second": sums.speed}
        figures = evaluate(self._steps, dev)
        best = self.progress.record(epoch, figures[self.task.target])

        def save() -> None:
            if best:
                self._best.save(epoch)
            self._checkpoints.save(epoch)

        self.cluster.on_chief(save)
        return {"epoch": epoch, **training, "dev": figures, "best": best}


def evaluate(steps: TrainingSteps, dataset: tf.data.Dataset) -> dict[str, float]:
    """The figures of the task over a data set, of which each worker has a part."""
    tally = steps.evaluate(iter(dataset), int(dataset.cardinality()))
    return steps.task.figures(steps.task.together(steps.ways.cluster.exchange_rows(tally)))


def _hash(examples: Iterable[Any]) -> str:
    """A short hash of what the examples say."""
    found = hashlib.sha256()
    for example in examples:
        found.update(repr(example).encode())
    return found.hexdigest()[:16]
