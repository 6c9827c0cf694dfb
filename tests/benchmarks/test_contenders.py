"""The contenders of the benchmarks compute the same: losses, gradients, and the steps of the optimizers."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from recgraph.benchmarks.contenders import Limit, Task, TensorFlow
from recgraph.benchmarks.contest import ENTRIES, MODELS_OF_PEERS, Runner, require_agreement, taking_part
from recgraph.data import Tree, Vocabulary, moderate
from recgraph.models import Hyper
from tests import sampling

LIBRARIES = {"pytorch": "torch", "pytorch_folded": "torch", "dynet": "dynet", "dgl": "dgl"}
# Large, so that a wrong rate or a forgotten L2 shows after three steps.
HYPER = Hyper(embedding=6, hidden=6, learning_rate=0.1, embedding_rate=0.2, l2=0.01)


@functools.cache
def interpreter(library: str) -> str | None:
    """The Python that has a library, named as for the benchmarks, or None."""
    python = os.environ.get(f"RECGRAPH_{library.upper()}_PYTHON", sys.executable)
    done = subprocess.run([python, "-c", f"import {library}"], capture_output=True, check=False)
    return python if done.returncode == 0 else None


def trees(count: int) -> list[Tree]:
    """Random trees of 1 to 12 words, with a label or none at every node."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(count):
        words = [f"w{number}" for number in rng.integers(20, size=rng.integers(1, 13))]
        tree = moderate(words, rng)
        made.append(tree.with_labels(rng.integers(-1, 5, len(tree)).tolist()))
    return made


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models that learn fast."""
    monkeypatch.setattr(Task, "hyper", HYPER)


def task(model: str, count: int = 14) -> Task:
    """A task on random trees."""
    some = trees(count)
    return Task(model, some, Vocabulary.build(some))


@pytest.mark.parametrize("other", ["parallel", *(["iterative"] if sampling.ALL else []), *LIBRARIES])
@pytest.mark.parametrize("model", MODELS_OF_PEERS)
def test_all_compute_the_same_as_the_batched_engine(model: str, other: str) -> None:
    """Loss and gradients of the first minibatch, one tree and four, and the losses of three steps."""
    at: dict[str, Any] = {f"{library}_python": interpreter(library) for library in {LIBRARIES.get(other)} if library}
    if None in at.values():
        pytest.skip(f"no interpreter that has {LIBRARIES[other]}; benchmarks/README.md says how to get one")
    with taking_part(task(model), ["batched", other], at) as runners:
        require_agreement(runners, [1, 4], training=True)
        for runner in runners.values():
            runner.tune("infer", 4, 0.01)
            assert runner.run("infer", 4, 5).seconds > 0


class Wrong(TensorFlow):
    """Adds a little to a gradient, or learns faster."""

    def __init__(self, task: Task, weight: str | None):
        """Args: the task, and which gradient is wrong; None for the rate."""
        super().__init__(task, "iterative")
        self._weight = weight
        if weight is None:
            self._model.hyper = Hyper(**{**vars(HYPER), "embedding_rate": 1.0})

    def first(self, size: int) -> dict[str, np.ndarray]:
        """See `Contender`."""
        values = super().first(size)
        return {name: value * 1.001 if name == self._weight else value for name, value in values.items()}


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("loss", "the loss on a first minibatch of 1: relative difference 1.0e-03"),
        ("embedding", "the gradient of embedding on a first minibatch of 1: relative difference 1.0e-03"),
        (None, "the loss after three steps: relative difference"),
    ],
)
def test_a_contender_that_computes_something_else_is_caught(weight: str | None, message: str) -> None:
    """The check above can fail."""
    some = task("tree_rnn")
    runners = {"right": Runner(TensorFlow(some, "iterative"), some), "wrong": Runner(Wrong(some, weight), some)}
    with pytest.raises(RuntimeError, match=f"right and wrong disagree on {message}"):
        require_agreement(runners, [1, 4], training=True)


def test_a_worker_whose_library_is_missing_says_what_to_do() -> None:
    """And what the interpreter said."""
    with (
        pytest.raises(RuntimeError, match=r"(?s)benchmarks/README.md says what to install.*No module named"),
        taking_part(task("tree_rnn"), ["dynet"], {"dynet_python": sys.executable}),
    ):
        pass


class Counting(Limit):
    """Does nothing, and notes what it was asked for."""

    asked: list[int]

    def run(self, phase: str, size: int, steps: int) -> tuple[float, float]:
        """See `Contender`."""
        self.asked = [*getattr(self, "asked", []), steps]
        return 1.0, np.nan


def test_a_runner_counts_trees_by_their_nodes() -> None:
    """Whoever gets through a few trees only may meet small ones."""
    some = task("tree_rnn")
    contender = Counting(some)
    runner = Runner(contender, some)
    mean = sum(map(len, some.trees)) / len(some.trees)
    assert runner.run("infer", 4, 2).trees == pytest.approx(sum(map(len, some.trees[:8])) / mean)
    assert runner.run("infer", 4, 2).trees == pytest.approx(sum(map(len, some.trees[8:12] + some.trees[:4])) / mean)
    runner.finish_round("infer", 4)
    runner.finish_round("infer", 4)
    assert contender.asked == [2, 2, 2, 3]
    assert runner.run("train", 1, 14).trees == pytest.approx(14)


def test_a_batch_that_is_larger_than_all_trees_is_refused() -> None:
    """In place of no batch, forever."""
    with pytest.raises(ValueError, match="a batch of 20 trees cannot be made of 14"):
        task("tree_rnn").minibatches(20)


def test_every_contender_has_a_color_of_its_own() -> None:
    """Else a picture is no use."""
    colors = [entry.style.color for entry in ENTRIES.values()]
    assert len(set(colors)) == len(colors)
