"""A top-down TreeLSTM, by both engines and as loops (thesis, table 5.3).

- `generation` makes trees below given roots, words and edges drawn, so that computed values decide their shape;
- `completion` says how likely the words of given trees are, which is how a word that was taken out is found again;
- `training` is a step on given trees.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import tensorflow as tf

from recgraph.benchmarks import contest, measure, pictures, report
from recgraph.benchmarks.options import COUNTS
from recgraph.data import DependencyTree, TopDownBatch, Vocabulary, generate_dependencies, top_down_batch
from recgraph.models import Hyper, TopDownTreeLSTM
from recgraph.models.baselines import IterativeTopDown
from recgraph.models.baselines.top_down import in_order
from recgraph.train.optimizer import TreeOptimizer

TREES = 960
NAMES = ("batched", "parallel", "iterative")
PHASES = ("generation", "completion", "training")
BATCH = TopDownBatch(*[tf.TensorSpec([None], tf.int32)] * 5)
ROOTS = [tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 2], tf.int32)]


class Entrant:
    """One way to run the model, with weights of its own, which are the same at first."""

    def __init__(self, name: str, vocabulary: Vocabulary, hidden: int):
        """Args: one of `NAMES`, the words, and the size of a state."""
        self.model = TopDownTreeLSTM(len(vocabulary), Hyper(embedding=hidden // 2, hidden=hidden))
        self.model.engine = "auto" if name == "iterative" else name
        self._network: Any = IterativeTopDown(self.model) if name == "iterative" else self.model
        self._optimizer = TreeOptimizer(self.model)
        self.train = tf.function(self._train, input_signature=[BATCH], autograph=False)
        self.complete = tf.function(self._network.predict, input_signature=[BATCH])
        self.generate = tf.function(self._network.generate, input_signature=ROOTS)

    def trees(self, roots: tf.Tensor, seeds: tf.Tensor) -> list[tuple[list[int], list[int]]]:
        """Words and heads of the trees that it makes."""
        made = self.generate(roots, seeds)
        if isinstance(self._network, IterativeTopDown):
            return [in_order(nodes.numpy()) for nodes in made]
        return list(zip(*(part.to_list() for part in made), strict=True))

    def _train(self, batch: TopDownBatch) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = self._network.loss(batch)[0] / tf.cast(tf.size(batch.roots), tf.float32)
        *weights, embedding = tape.gradient(loss, [*self.model.weights, self.model.embedding])
        self._optimizer.apply(self.model, weights, embedding)
        return loss


@click.command()
@click.option("--batch-sizes", type=COUNTS, default="1,64", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="After one to warm up.")
@click.option("--hidden", type=click.IntRange(2), default=300, show_default=True)
@click.option("--trees", type=click.IntRange(1, TREES), default=128, show_default=True, help="Of one measurement.")
@click.option("--epochs", type=click.IntRange(1), default=3, show_default=True, help="Of training beforehand.")
@report.out_option
def main(batch_sizes: list[int], rounds: int, hidden: int, trees: int, epochs: int, out: Path | None) -> None:
    """Measure all after a short training: an untrained model makes no sentences."""
    data = generate_dependencies(TREES)
    vocabulary = Vocabulary.build(data)
    entrants = {name: Entrant(name, vocabulary, hidden) for name in NAMES}
    _train_together(entrants, epochs * _minibatches(data, vocabulary, 64))
    results = []
    for phase, size in itertools.product(PHASES, batch_sizes):
        batches = _minibatches(data[:trees], vocabulary, size)
        work = _generation(entrants, batches) if phase == "generation" else _walks(entrants, phase, batches)
        series = measure.interleave(work, rounds)
        results.append({"phase": phase, "batch_size": size, "series": series})
    report.leave("generation", results, table(results), out, {"": lambda: picture(results)})


def _minibatches(trees: Sequence[DependencyTree], vocabulary: Vocabulary, size: int) -> list[TopDownBatch]:
    """Full ones."""
    starts = range(0, len(trees) - size + 1, size)
    encoded = (top_down_batch(trees[start : start + size], vocabulary) for start in starts)
    return [TopDownBatch(*map(tf.constant, batch)) for batch in encoded]


def _train_together(entrants: Mapping[str, Entrant], batches: Sequence[TopDownBatch]) -> None:
    """Three steps by all, the rest by the first, whose weights all take over.

    Raises:
      RuntimeError: they disagree on a loss or, in the end, on how likely the words of a tree are.
    """
    for batch in batches[:3]:
        _require_equal("the loss of a step", {name: entrant.train(batch) for name, entrant in entrants.items()})
    first, *others = entrants.values()
    for batch in batches[3:]:
        first.train(batch)
    for other in others:
        for mine, theirs in zip(first.model.variables, other.model.variables, strict=True):
            theirs.assign(mine)
    likely = {name: entrant.complete(batches[0]) for name, entrant in entrants.items()}
    _require_equal("how likely words are", likely)


def _require_equal(what: str, values: Mapping[str, tf.Tensor]) -> None:
    first, *others = values.values()
    if not all(np.allclose(first, other, rtol=contest.TOLERANCE) for other in others):
        raise RuntimeError(f"the contenders disagree on {what}: {values}")


def _walks(
    entrants: Mapping[str, Entrant], phase: str, batches: Sequence[TopDownBatch]
) -> dict[str, Callable[[], float]]:
    """Completion or training: all walk the same trees."""
    count = len(batches) * len(batches[0].roots)

    def run(entrant: Entrant) -> float:
        step = {"completion": entrant.complete, "training": entrant.train}[phase]
        return measure.speed(count, lambda: [step(batch).numpy() for batch in batches])

    return {name: functools.partial(run, entrant) for name, entrant in entrants.items()}


def _generation(entrants: Mapping[str, Entrant], batches: Sequence[TopDownBatch]) -> dict[str, Callable[[], float]]:
    """All make trees below the same roots.

    Raises:
      RuntimeError: they make different ones.
    """
    size = len(batches[0].roots)
    arguments = [
        (tf.gather(batch.words, batch.roots), tf.stack([number * size + tf.range(size), tf.zeros(size, tf.int32)], 1))
        for number, batch in enumerate(batches)
    ]
    first, *others = (entrant.trees(*arguments[0]) for entrant in entrants.values())
    if any(other != first for other in others):
        raise RuntimeError(f"the contenders make different trees: {first} and {others}")

    def run(entrant: Entrant) -> float:
        return measure.speed(len(batches) * size, lambda: [entrant.generate(*pair) for pair in arguments])

    return {name: functools.partial(run, entrant) for name, entrant in entrants.items()}


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """In trees a second."""
    cases = [(f"{r['phase']}, batch {r['batch_size']}", r["series"]) for r in results]
    return report.speeds("trees a second", cases, contest.styles())


def picture(results: Sequence[Mapping[str, Any]]) -> Any:
    """A panel for each phase."""
    panels = []
    for phase, group in itertools.groupby(results, lambda result: result["phase"]):
        cases = list(group)
        values = {name: [case["series"][name].median for case in cases] for name in cases[0]["series"]}
        panels.append(pictures.Bars(f"top-down TreeLSTM, {phase}", [str(case["batch_size"]) for case in cases], values))
    return pictures.bars([panels], contest.styles(), "batch size", "trees a second", log=True)
