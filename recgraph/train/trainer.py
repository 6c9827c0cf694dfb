"""The training loop: epochs, early stop, and continuing exactly where a killed run had its last checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.errors import RecgraphError
from recgraph.train import treebank
from recgraph.train.checkpoints import Checkpoints
from recgraph.train.history import History, Record, draw_curve
from recgraph.train.run import KEPT, Run
from recgraph.train.steps import NotFiniteError, TrainingSteps
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
    """Trains a run. All state is in variables that a checkpoint holds, or follows from the seed and the epoch."""

    def __init__(self, run: Run):
        """Restores the last checkpoint of the run, if there is one."""
        self.run = run
        self.task = TASKS[run.settings.task]
        self.progress = Progress()
        self._steps = TrainingSteps(run.model, run.settings.implementation, run.settings.seed, self.task)
        state = tf.train.Checkpoint(
            model=run.model, optimizer=self._steps.optimizer, step=self._steps.step, progress=self.progress
        )
        self._checkpoints = Checkpoints(state, run.folder / "checkpoints", KEPT)
        self._best = run.best()
        self.continued_after = self._checkpoints.restore() or 0

    def fit(self, report: Report, finished: Callable[[Record], None]) -> list[Record]:
        """Trains until the last epoch or until dev gets no better.

        Args:
          report: called every now and then.
          finished: called with the record of every epoch.

        Returns:
          The records of all epochs, those of an earlier process included.
        """
        history = History(self.run.folder, self.continued_after)
        epochs = range(self.continued_after + 1, self.run.settings.epochs + 1)
        if not self.progress.exhausted(self.run.settings.patience) and epochs:
            self._epochs(epochs, history, report, finished)
        history.close()
        return history.records

    def _epochs(self, epochs: range, history: History, report: Report, finished: Callable[[Record], None]) -> None:
        run = self.run
        bank = treebank.load(run.settings)
        size = run.model.hyper.batch_size
        train = self.task.dataset(
            bank.train,
            run.vocabulary,
            size,
            shuffle_seed=run.settings.seed,
            first_epoch=epochs[0],
            epochs=len(epochs),
        )
        dev = self.task.dataset(bank.dev, run.vocabulary, size)
        steps, batches = int(train.cardinality()) // len(epochs), iter(train)
        for epoch in epochs:
            try:
                sums = self._pass(epoch, batches, steps, report)
            except NotFiniteError as error:
                raise self._diverged(epoch, error.step, bank.train) from error
            record = self._epoch(epoch, sums, dev)
            history.add(record)
            draw_curve(history.records, run.folder / "curve.png")
            finished(record)
            if self.progress.exhausted(run.settings.patience):
                break

    def _pass(self, epoch: int, batches: Iterator[Any], steps: int, report: Report) -> Sums:
        sums = Sums(epoch)
        chunk = max(1, EXAMPLES_A_REPORT // self.run.model.hyper.batch_size)
        for start in range(0, steps, chunk):
            try:
                sums.add(self._steps.train(batches, min(chunk, steps - start)))
            except NotFiniteError as error:
                raise NotFiniteError(start + error.step) from None
            report(sums)
        if not all(bool(tf.reduce_all(tf.math.is_finite(weight))) for weight in self._weights()):
            raise NotFiniteError(steps - 1)  # its loss was finite, and its update was not
        return sums

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
        if best:
            self._best.save(epoch)
        self._checkpoints.save(epoch)
        return {"epoch": epoch, **training, "dev": figures, "best": best}


def evaluate(steps: TrainingSteps, dataset: tf.data.Dataset) -> dict[str, float]:
    """The figures of the task over a data set."""
    return steps.task.figures(steps.evaluate(iter(dataset), int(dataset.cardinality())))
