"""Training from plain Python objects, converted by `rg.function`, beside the same network as a SubGraph and eagerly.

From Python objects on, everything is in the time; the SubGraph's batches are arrays that were made beforehand.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

import recgraph as rg
from recgraph.benchmarks import contest, measure, report
from recgraph.benchmarks.contenders import SIZES, Contender, Task, TensorFlow
from recgraph.benchmarks.options import COUNTS, Several
from recgraph.benchmarks.pictures import Style
from recgraph.benchmarks.trees import model_name, read, trees_option
from recgraph.models import Hyper
from recgraph.models.imperative import NETWORKS, node_of

STYLES = {
    "converted": Style("plain Python, rg.function", "tab:red"),
    "subgraph": Style("SubGraph, batched", "tab:orange"),
    "eager": Style("plain Python, eager", "tab:gray"),
}
# Steps before the clock starts: those that are watched, the conversion, and a second one where shapes vary.
WARM_UP = 8


class Imperative:
    """A contender that trains a network over Python objects. See `contenders.Contender`."""

    def __init__(self, task: Task, size: int, wrap: Callable[[Any], Any]):
        """Args: the task, trees a step, and what makes a step of the function that takes one."""
        network = NETWORKS[task.model](len(task.vocabulary), *SIZES[task.model], Hyper.classes)
        batches = [[node_of(tree, task.vocabulary) for tree in trees] for trees in task.minibatches(size)]
        self._batches = itertools.cycle(batches)
        self.step = wrap(network.train_step)

    def first(self, size: int) -> dict[str, np.ndarray]:
        """Other first weights than the SubGraph's: nothing to compare."""
        return {}

    def tune(self, phase: str, size: int, seconds: float) -> None:
        """There is no choice."""

    def run(self, phase: str, size: int, steps: int) -> tuple[float, float]:
        """So many steps: seconds, and the last loss."""
        start = time.perf_counter()
        for batch in itertools.islice(self._batches, steps):
            loss = self.step(batch)
        value = float(loss)
        return time.perf_counter() - start, value

    def close(self) -> None:
        """Nothing to end."""


def compare(task: Task, size: int, rounds: int, seconds: float) -> dict[str, measure.Series]:
    """Trees a second trained by each, interleaved.

    Raises:
      RuntimeError: a network was not converted.
    """
    converted = Imperative(task, size, lambda step: rg.function(step, mode="speculate"))
    contenders: dict[str, Contender] = {
        "converted": converted,
        "subgraph": TensorFlow(task, "recursive", "batched"),
        "eager": Imperative(task, size, lambda step: step),
    }
    converted.run("train", size, WARM_UP)
    if not converted.step.calls["graph"]:
        raise RuntimeError(f"{task.model} was not converted: {converted.step.explain()}")
    paces = {
        name: contest.Pace(contest.Runner(contender, task), "train", size, seconds)
        for name, contender in contenders.items()
    }
    return measure.interleave(paces, rounds)


@click.command()
@trees_option()
@click.option("--models", type=Several(NETWORKS), default=",".join(NETWORKS), show_default=True)
@click.option("--batch-sizes", type=COUNTS, default="1,25", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="After one to warm up.")
@click.option("--seconds", type=float, default=1.0, show_default=True, help="Of one measurement, about.")
@click.option("--count", type=click.IntRange(1), default=500, show_default=True, help="First trees of the file.")
@report.out_option
def main(
    trees: Path | None,
    models: list[str],
    batch_sizes: list[int],
    rounds: int,
    seconds: float,
    count: int,
    out: Path | None,
) -> None:
    """Measure the training of networks written as plain Python recursion."""
    results = []
    some, vocabulary = read(trees, count)
    for model, size in itertools.product(models, batch_sizes):
        series = compare(Task(model, some, vocabulary), size, rounds, seconds)
        results.append({"model": model, "batch_size": size, "series": series})
        click.echo(f"{model_name(model)}, batch {size}: {series['converted'].median:,.0f} trees a second")
    cases = [(f"{model_name(r['model'])}, batch {r['batch_size']}", r["series"]) for r in results]
    report.leave("imperative", results, report.speeds("trees a second, trained", cases, STYLES), out)
