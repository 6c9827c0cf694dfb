"""Who takes part in the throughput benchmark: each trains or classifies the same trees with the same first weights."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from recgraph.benchmarks import measure, products
from recgraph.data import Tree, TreeBatch, Vocabulary, encode, tree_dataset
from recgraph.models import MODELS, Hyper, TreeModel
from recgraph.train.steps import Steps, batch_signature, network

# As in the published comparisons: TreeLSTM as Tai et al.; 35 and 150 for the RNTN and the TreeRNN.
SIZES = {"tree_lstm": (300, 150), "tree_gru": (300, 150), "rntn": (35, 35), "tree_rnn": (150, 150), "mv_rnn": (200, 25)}


@dataclasses.dataclass(frozen=True)
class Task:
    """What all contenders do: a model, its trees, and how many of them a step."""

    model: str
    trees: Sequence[Tree]
    vocabulary: Vocabulary
    batch_size: int
    training: bool

    @property
    def hyper(self) -> Hyper:
        """Of the model, without dropout: what is dropped would differ between libraries."""
        embedding, hidden = SIZES[self.model]
        return Hyper(embedding=embedding, hidden=hidden, batch_size=self.batch_size)

    def network(self) -> TreeModel:
        """A new model with the same weights each time."""
        return MODELS[self.model](len(self.vocabulary), self.hyper, seed=1)

    def batches(self) -> tf.data.Dataset:
        """The input pipeline, without an end."""
        return tree_dataset(self.trees, self.vocabulary, self.batch_size, shuffle_seed=1, epochs=1_000_000)


class Contender(Protocol):
    """One way to run a task."""

    def run(self, trees: int) -> float:
        """Runs at least so many trees; trees a second."""

    def first_loss(self) -> float:
        """The summed loss of the first batch with the first weights, to compare with the others."""

    def close(self) -> None:
        """Ends helper processes."""


class TensorFlow:
    """The recursive model, or its iterative twin; input pipeline and optimizer are in the time."""

    def __init__(self, task: Task, implementation: str, engine: str = "auto"):
        """Args: the task, "recursive" or "iterative", and the engine of the recursion."""
        self._task = task
        model = task.network()
        model.engine = engine
        runs = network(model, implementation)
        options = {"input_signature": [batch_signature()], "autograph": False}
        self._first = tf.function(runs.loss, **options)
        self._steps = Steps(model, implementation)
        self._input = iter(task.batches())

    def run(self, trees: int) -> float:
        """See `Contender`."""
        run = self._steps.train if self._task.training else self._steps.evaluate
        steps = -(-trees // self._task.batch_size)
        return measure.speed(steps * self._task.batch_size, lambda: run(self._input, steps))

    def first_loss(self) -> float:
        """See `Contender`."""
        return float(self._first(_first_batch(self._task))[0])

    def close(self) -> None:
        """Nothing to end."""


class PyTorch:
    """PyTorch in a process of its own, which waits for orders and is idle while others run."""

    def __init__(self, task: Task, folded: bool, python: str = sys.executable):
        """Args: the task, whether to fold the trees by height, and the interpreter that can import torch."""
        self._task = task
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, "task.npz")
        _write_task(task, path, folded)
        worker = str(Path(__file__).with_name("pytorch_worker.py"))
        self._process = subprocess.Popen(
            [python, worker, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._loss = float(self._read()["loss"])

    def run(self, trees: int) -> float:
        """See `Contender`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{-(-trees // self._task.batch_size)}\n")
        self._process.stdin.flush()
        return float(self._read()["speed"])

    def first_loss(self) -> float:
        """See `Contender`."""
        return self._loss

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate("0\n", timeout=60)
        self._folder.cleanup()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the PyTorch process ended; `pip install torch==2.13.0`, or name its --torch-python")
        return json.loads(line)


class Limit:
    """Nothing but the matrix products of the batches, each kind as one product over all its rows."""

    def __init__(self, task: Task):
        """Args: the task."""
        self._task = task
        batches = [encode(trees, task.vocabulary) for trees in _chunks(task.trees, task.batch_size)]
        counts = [(int((batch.words >= 0).sum()), int((batch.words < 0).sum())) for batch in batches]
        self._counts: Iterator[tuple[int, int]] = itertools.cycle(counts)

    def run(self, trees: int) -> float:
        """See `Contender`."""
        steps = -(-trees // self._task.batch_size)

        def work() -> None:
            for leaves, inner in itertools.islice(self._counts, steps):
                self._products(leaves, inner).numpy()

        return measure.speed(steps * self._task.batch_size, work)

    def first_loss(self) -> float:
        """It computes none."""
        return float("nan")

    def close(self) -> None:
        """Nothing to end."""

    @functools.cached_property
    def _products(self) -> Any:
        """A graph of all products; training has two more for each: the gradients of rows and of weights."""
        most = max(map(len, self._task.trees)) * self._task.batch_size
        return products.graph(products.products(self._task.model, self._task.hyper), most, self._task.training)


def _first_batch(task: Task) -> TreeBatch:
    return TreeBatch(*map(tf.constant, encode(task.trees[: task.batch_size], task.vocabulary)))


def _chunks(trees: Sequence[Tree], size: int) -> Iterator[Sequence[Tree]]:
    for start in range(0, len(trees) - size + 1, size):
        yield trees[start : start + size]


def _write_task(task: Task, path: Path, folded: bool) -> None:
    """For the other process: weights, trees, and what to do with them."""
    model = task.network()
    weights = {name: value.numpy() for name, value in vars(model).items() if isinstance(value, tf.Variable)}
    trees = encode(task.trees, task.vocabulary)._asdict()
    hyper = task.hyper
    options = {
        "model": task.model,
        "batch_size": task.batch_size,
        "training": task.training,
        "folded": folded,
        "rates": [hyper.learning_rate, hyper.embedding_rate, hyper.l2],
    }
    arrays = {f"weight/{k}": v for k, v in weights.items()} | {f"trees/{k}": v for k, v in trees.items()}
    np.savez(path, options=json.dumps(options), **arrays)
