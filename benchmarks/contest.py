"""A comparison on trees: who takes part, whether all compute the same, and how fast they are."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import gc
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click
import numpy as np
import tensorflow as tf

from recgraph.benchmarks.contenders import Contender, Limit, Task, TensorFlow, Worker
from recgraph.benchmarks.options import Several
from recgraph.benchmarks.pictures import Style

# What `peers/` has.
MODELS_OF_PEERS = ("tree_lstm", "rntn", "tree_rnn")

TOLERANCE = 1e-4  # of losses and gradients, relative


class Runner:
    """A contender, and where in the trees it stands."""

    def __init__(self, contender: Contender, task: Task):
        """Begins at the first tree.

        Args:
          contender: who runs.
          task: the trees it runs on.
        """
        self._contender = contender
        self.first, self.tune, self.close = contender.first, contender.tune, contender.close
        mean = sum(map(len, task.trees)) / len(task.trees)
        self._work = functools.cache(lambda size: [sum(map(len, some)) / mean for some in task.minibatches(size)])
        self._done: collections.Counter[tuple[str, int]] = collections.Counter()

    def run(self, phase: str, size: int, steps: int) -> Outcome:
        """The next steps of a phase, "train" or "infer"."""
        seconds, loss = self._contender.run(phase, size, steps)
        work, done = self._work(size), self._done[phase, size]
        self._done[phase, size] += steps
        return Outcome(seconds, loss, sum(work[step % len(work)] for step in range(done, done + steps)))

    def finish_round(self, phase: str, size: int) -> None:
        """Goes on until the first minibatch is the next, and at least one step."""
        round_ = len(self._work(size))
        self.run(phase, size, round_ - self._done[phase, size] % round_)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of some steps.

    Attributes:
      seconds: how long they took.
      loss: the sum of the losses, NaN where there are none.
      trees: how many trees of mean size have as many nodes. Trees differ, and not everyone gets through all of them.
    """

    seconds: float
    loss: float
    trees: float


class Pace:
    """Trees a second of one phase at one size, measured for about as long each time, whoever it is."""

    def __init__(self, runner: Runner, phase: str, size: int, seconds: float):
        """Prepares a measurement.

        Args:
          runner: whom to measure.
          phase: "train" or "infer".
          size: trees per batch.
          seconds: how long each measurement takes, about.
        """
        self._run = functools.partial(runner.run, phase, size)
        self._tune = functools.partial(runner.tune, phase, size, seconds / 2)
        self._seconds = seconds
        self._steps = 0

    def __call__(self) -> float:
        """Runs, and gives the speed. The first time it also finds out how many steps to run, at least one."""
        if self._steps == 0:
            self._steps = self._find()
        outcome = self._run(self._steps)
        return outcome.trees / outcome.seconds

    def _find(self) -> int:
        """How many steps take the time; the first one, which builds a graph, tells nothing."""
        self._tune()
        self._run(1)
        steps, seconds = 1, self._run(1).seconds
        while seconds < self._seconds / 4:
            steps, seconds = 2 * steps, self._run(2 * steps).seconds
        return max(1, round(steps * self._seconds / seconds))


@dataclasses.dataclass(frozen=True)
class Entry:
    """A contender as it is shown, how it is made for a task with the interpreters that a command was given, and the
    library that it needs."""

    style: Style
    make: Callable[[Task, Mapping[str, Any]], Contender]
    library: str = ""


ENTRIES: dict[str, Entry] = {
    "batched": Entry(Style("batched", "tab:red"), lambda task, _: TensorFlow(task, "recursive", "batched")),
    "parallel": Entry(Style("parallel", "tab:orange"), lambda task, _: TensorFlow(task, "recursive", "parallel")),
    "iterative": Entry(Style("TensorFlow loop", "tab:gray"), lambda task, _: TensorFlow(task, "iterative")),
    "pytorch": Entry(
        Style("PyTorch node by node", "tab:cyan"),
        lambda task, at: Worker(task, "pytorch_models", at["torch_python"], "node_by_node"),
        "torch",
    ),
    "pytorch_folded": Entry(
        Style("PyTorch folded", "tab:blue"),
        lambda task, at: Worker(task, "pytorch_models", at["torch_python"], "folded"),
        "torch",
    ),
    "dynet": Entry(
        Style("DyNet", "tab:green"), lambda task, at: Worker(task, "dynet_models", at["dynet_python"]), "dynet"
    ),
    "dgl": Entry(Style("DGL", "tab:olive"), lambda task, at: Worker(task, "dgl_models", at["dgl_python"]), "dgl"),
    "limit": Entry(Style("limit", "black", mark=True), lambda task, _: Limit(task)),
}
CONTENDERS = Several(ENTRIES)


def styles() -> dict[str, Style]:
    """How each is drawn, by name."""
    return {name: entry.style for name, entry in ENTRIES.items()}


@contextlib.contextmanager
def taking_part(task: Task, names: Sequence[str], at: Mapping[str, Any]) -> Iterator[dict[str, Runner]]:
    """The named contenders, ended afterwards.

    Args:
      task: the task.
      names: of `ENTRIES`.
      at: the options of `python_options`.
    """
    tf.get_logger().setLevel("ERROR")  # that each contender has graphs of its own looks like retracing
    with contextlib.ExitStack() as stack:
        runners = {}
        for name in names:
            runners[name] = Runner(ENTRIES[name].make(task, at), task)
            stack.callback(runners[name].close)
        yield runners
    gc.collect()  # graphs refer to themselves


def chosen(names: Sequence[str], model: str, at: Mapping[str, Any]) -> list[str]:
    """The contenders of a list; those that cannot take part are left out, and it is said."""
    there = []
    for name in names:
        library = ENTRIES[name].library
        if library and model not in MODELS_OF_PEERS:
            click.echo(f"{name} is left out: it has no {model}", err=True)
        elif not _is_there(library, at):
            click.echo(f"{name} is left out: --{library}-python names no interpreter for it", err=True)
        else:
            there.append(name)
    return there


def _is_there(library: str, at: Mapping[str, Any]) -> bool:
    return not library or at[f"{library}_python"] is not None or importlib.util.find_spec(library) is not None


def python_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for the interpreters of the other libraries, `torch_python` and so on."""
    for library in ("dgl", "dynet", "torch"):
        variable = f"RECGRAPH_{library.upper()}_PYTHON"
        text = f"An interpreter that has {library}, if it is not this one; or {variable}."
        command = click.option(f"--{library}-python", envvar=variable, help=text)(command)
    return command


def seconds_by_tree(runners: Mapping[str, Runner], phase: str, trees: int, rounds: int) -> dict[str, np.ndarray]:
    """How long a step of one tree takes, called from Python each time: seconds `[rounds, trees]`, by contender.

    All take the same tree one after the other, then the next. A whole round to warm up is not counted.
    """
    for runner in runners.values():
        runner.tune(phase, 1, 0.2)
        runner.finish_round(phase, 1)
    seconds = {name: np.zeros((rounds, trees)) for name in runners}
    for place in np.ndindex(rounds, trees):
        for name, runner in runners.items():
            seconds[name][place] = runner.run(phase, 1, 1).seconds
    return seconds


def require_agreement(runners: Mapping[str, Runner], sizes: Sequence[int], training: bool) -> None:
    """Speeds are worth comparing only if all compute the same.

    Compares the loss of the first minibatch of each size and its gradients by all weights and, if they are to be
    trained, the losses of the first three steps of the last size, so that optimizers are compared, too.

    Raises:
      RuntimeError: two differ; says in what.
    """
    for size in sizes:
        firsts = {name: runner.first(size) for name, runner in runners.items()}
        _compare({name: values for name, values in firsts.items() if values}, f"on a first minibatch of {size}")
    if training:
        # Of the largest size: Adagrad's first step is the sign of the gradient, which of a few nodes may be rounding.
        losses = {name: runner.run("train", sizes[-1], 3).loss for name, runner in runners.items()}
        trained = {name: {"loss": np.float64(loss)} for name, loss in losses.items() if not np.isnan(loss)}
        _compare(trained, "after three steps")


def _compare(found: dict[str, dict[str, np.ndarray]], where: str) -> None:
    if not found:
        return
    (first, expected), *others = found.items()
    for name, values in others:
        if values.keys() != expected.keys():
            raise RuntimeError(f"{first} has the weights {sorted(expected)}, {name} {sorted(values)}")
        for weight, value in values.items():
            difference = np.linalg.norm(value - expected[weight]) / max(np.linalg.norm(expected[weight]), 1e-30)
            if not difference <= TOLERANCE:
                what = "the loss" if weight == "loss" else f"the gradient of {weight}"
                raise RuntimeError(
                    f"{first} and {name} disagree on {what} {where}: relative difference {difference:.1e}"
                )
