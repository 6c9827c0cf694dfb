"""Who takes part in comparisons on trees: each trains and classifies the same trees with the same first weights."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from recgraph.benchmarks import products
from recgraph.data import Tree, TreeBatch, Vocabulary, encode, tree_dataset
from recgraph.models import MODELS, Hyper, TreeModel
from recgraph.train.steps import TrainingSteps, batch_signature, network
from recgraph.train.tasks import Sentiment

# As in the published comparisons: TreeLSTM as Tai et al.; 35 and 150 for the RNTN and the TreeRNN.
SIZES = {"tree_lstm": (300, 150), "tree_gru": (300, 150), "rntn": (35, 35), "tree_rnn": (150, 150), "mv_rnn": (200, 25)}


@dataclasses.dataclass(frozen=True)
class Task:
    """What all contenders do: a model and its trees, which are taken in order, again and again."""

    model: str
    trees: Sequence[Tree]
    vocabulary: Vocabulary

    @property
    def hyper(self) -> Hyper:
        """Of the model, without dropout: what is dropped would differ between libraries."""
        embedding, hidden = SIZES[self.model]
        return Hyper(embedding=embedding, hidden=hidden)

    def network(self) -> TreeModel:
        """A new model with the same weights each time."""
        return MODELS[self.model](len(self.vocabulary), self.hyper, seed=1)

    def minibatches(self, size: int) -> list[Sequence[Tree]]:
        """All full ones.

        Raises:
          ValueError: there is none.
        """
        starts = range(0, len(self.trees) - size + 1, size)
        if not starts:
            raise ValueError(f"a batch of {size} trees cannot be made of {len(self.trees)}: give more trees")
        return [self.trees[start : start + size] for start in starts]

    def batches(self, size: int) -> Iterator[TreeBatch]:
        """All full minibatches, again and again, made once: nobody's input pipeline is in the time."""
        full = self.trees[: len(self.minibatches(size)) * size]
        made = tree_dataset(full, self.vocabulary, size).cache()
        collections.deque(made, 0)
        return iter(made.repeat())


class _Classes(Sentiment):
    """What is asked of a model in inference: the class of every node."""

    @property
    def nothing(self) -> tf.Tensor:
        """See `recgraph.train.tasks.Task`."""
        return tf.zeros([])

    def tally(self, before: tf.Tensor, batch: TreeBatch, output: tf.Tensor) -> tf.Tensor:
        """See `recgraph.train.tasks.Task`."""
        return before + tf.reduce_sum(tf.cast(tf.argmax(output, 1, tf.int32), tf.float32))


class Contender(Protocol):
    """One way to run a task."""

    def first(self, size: int) -> dict[str, np.ndarray]:
        """What is computed of the first minibatch, before any training: the summed loss, `loss`, and its gradient by
        every weight, under the weight's name; nothing where nothing is learned."""

    def tune(self, phase: str, size: int, seconds: float) -> None:
        """Finds out how this is done fastest, in a few times so many seconds, where there is a choice."""

    def run(self, phase: str, size: int, steps: int) -> tuple[float, float]:
        """The next steps of a phase, "train" or "infer": seconds, and the sum of the losses, NaN in inference."""

    def close(self) -> None:
        """Ends helper processes."""


class TensorFlow:
    """The recursive model, or its iterative twin."""

    def __init__(self, task: Task, implementation: str, engine: str = "auto"):
        """Args: the task, "recursive" or "iterative", and the engine of the recursion."""
        self._task = task
        self._model = task.network()
        self._model.engine = engine
        self._runs = network(self._model, implementation)
        self._steps = TrainingSteps(self._model, implementation, task=_Classes("fine", 5, "root"))
        self._first = tf.function(self._loss_and_gradients, input_signature=[batch_signature()], autograph=False)
        self._batches = functools.cache(lambda phase, size: task.batches(size))

    def first(self, size: int) -> dict[str, np.ndarray]:
        """See `Contender`."""
        values = self._first(encode(self._task.minibatches(size)[0], self._task.vocabulary))
        return {name: value.numpy() for name, value in values.items()}

    def tune(self, phase: str, size: int, seconds: float) -> None:
        """See `Contender`."""

    def run(self, phase: str, size: int, steps: int) -> tuple[float, float]:
        """See `Contender`."""
        run = {"train": self._steps.train, "infer": self._steps.evaluate}[phase]
        batches = self._batches(phase, size)
        start = time.perf_counter()
        sums = run(batches, steps)
        return time.perf_counter() - start, float(sums[0]) if phase == "train" else np.nan

    def close(self) -> None:
        """Nothing to end."""

    def _loss_and_gradients(self, batch: TreeBatch) -> dict[str, tf.Tensor]:
        weights = variables(self._model)
        with tf.GradientTape() as tape:
            loss, _ = self._runs.loss(batch)
        gradients = tape.gradient(loss, list(weights.values()))
        return {"loss": loss, **dict(zip(weights, map(tf.convert_to_tensor, gradients), strict=True))}


class Worker:
    """Another library in a process of its own, which waits for orders and is idle while others run."""

    def __init__(self, task: Task, module: str, python: str | None = None, way: str = ""):
        """Starts the process.

        Args:
          task: the task.
          module: of `peers/`.
          python: the interpreter that has the library; this one where left out.
          way: one of several that the module knows.
        """
        self._folder = tempfile.TemporaryDirectory()
        self._module = module
        path = Path(self._folder.name, "task.npz")
        hyper = task.hyper
        rates = [hyper.learning_rate, hyper.embedding_rate, hyper.l2]
        options = {"module": module, "model": task.model, "rates": rates, "way": way}
        weights = {f"weight/{name}": value.numpy() for name, value in variables(task.network()).items()}
        trees = {f"trees/{name}": value for name, value in encode(task.trees, task.vocabulary)._asdict().items()}
        np.savez(path, options=json.dumps(options), **weights, **trees)
        command = [python or sys.executable, str(Path(__file__).with_name("peers") / "worker.py"), str(path)]
        self._complaints = Path(self._folder.name, "stderr.txt")
        with self._complaints.open("w") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        self._answer()

    def first(self, size: int) -> dict[str, np.ndarray]:
        """See `Contender`."""
        path = Path(self._folder.name, "first.npz")
        self._order(do="first", size=size, path=str(path))
        with np.load(path) as arrays:
            return dict(arrays)

    def tune(self, phase: str, size: int, seconds: float) -> None:
        """See `Contender`: one thread, or all."""
        self._order(do="tune", phase=phase, size=size, seconds=seconds)

    def run(self, phase: str, size: int, steps: int) -> tuple[float, float]:
        """See `Contender`."""
        answer = self._order(do="run", phase=phase, size=size, steps=steps)
        return answer["seconds"], np.nan if answer["loss"] is None else answer["loss"]

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=60)
        self._folder.cleanup()

    def _order(self, **order: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        wrote = self._complaints.read_text()
        self.close()
        raise RuntimeError(
            f"the process of {self._module} ended; benchmarks/README.md says what to install, and which option names "
            f"the interpreter that has it. It wrote:\n{wrote}"
        )


class Limit:
    """Nothing but the matrix products of the batches, each kind as one product over all its rows."""

    def __init__(self, task: Task):
        """Args: the task."""
        self._task = task
        self._products = functools.cache(self._graph)
        self._counts = functools.cache(lambda phase, size: itertools.cycle(self._rows(size)))

    def first(self, size: int) -> dict[str, np.ndarray]:
        """See `Contender`: there is nothing to compare."""
        return {}

    def tune(self, phase: str, size: int, seconds: float) -> None:
        """See `Contender`."""

    def run(self, phase: str, size: int, steps: int) -> tuple[float, float]:
        """See `Contender`."""
        products, counts = self._products(phase, size), list(itertools.islice(self._counts(phase, size), steps))
        start = time.perf_counter()
        for leaves, inner in counts:
            products(leaves, inner).numpy()
        return time.perf_counter() - start, np.nan

    def close(self) -> None:
        """Nothing to end."""

    def _rows(self, size: int) -> list[tuple[int, int]]:
        """Leaves and inner nodes of each minibatch."""
        leaves = [sum(len(tree.tokens) for tree in trees) for trees in self._task.minibatches(size)]
        return [(count, count - size) for count in leaves]

    def _graph(self, phase: str, size: int) -> Any:
        """A graph of all products; training has two more for each: the gradients of rows and of weights."""
        leaves, inners = np.max(self._rows(size), 0)
        most = {products.LEAF: leaves, products.INNER: inners, products.NODE: leaves + inners}
        return products.graph(products.products(self._task.model, self._task.hyper), most, phase == "train")


def variables(model: TreeModel) -> dict[str, tf.Variable]:
    """The weights of a model under the names of its attributes, which all libraries use."""
    return {name: value for name, value in vars(model).items() if isinstance(value, tf.Variable)}
