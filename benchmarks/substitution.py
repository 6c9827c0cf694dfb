"""What substitutions gain: cells as they are printed beside the same cells as an expert would write them."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import tensorflow as tf

from recgraph.benchmarks import measure, printed, report
from recgraph.benchmarks.options import COUNTS, PHASES, Several
from recgraph.data import TopDownBatch, TreeBatch
from recgraph.models import HMRNN, Hyper, TopDownTreeLSTM, TreeGRU, TreeLSTM
from recgraph.models.hm_rnn import MultiscaleHyper
from recgraph.testing import random_tree

WORDS = 1000
# Of a tree, as many as those of the Stanford Sentiment Treebank have in the mean.
LEAVES = 19
WAYS = ("fused", "printed", "rewritten")

Loss = Callable[[], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell in both forms.

    Attributes:
      fused: makes the model with merged matrices.
      printed: makes the model with a matrix for each gate and input; with the same seed, of the same numbers.
      batch: makes what a batch of some size runs on, of a model.
      loss: of a model and a batch, a tensor.
    """

    fused: Callable[[], Any]
    printed: Callable[[], Any]
    batch: Callable[[int], Any]
    loss: Callable[[Any, Any], tf.Tensor]


def _trees(count: int) -> Any:
    random = np.random.default_rng(0)
    words, lefts, rights, sizes = [], [], [], []
    for _ in range(count):
        word, left, right = random_tree(LEAVES, random, WORDS)
        offset = sum(sizes)
        words.append(word)
        lefts.append(np.where(left < 0, -1, left + offset))
        rights.append(np.where(right < 0, -1, right + offset))
        sizes.append(len(word))
    offsets = np.cumsum([0, *sizes]).astype(np.int32)
    labels = random.integers(0, 5, offsets[-1]).astype(np.int32)
    arrays = [np.concatenate(parts).astype(np.int32) for parts in (words, lefts, rights)]
    return TreeBatch(*arrays, labels, offsets, offsets[1:] - 1)


def _dependencies(count: int) -> Any:
    """Random dependency trees of as many words."""
    random = np.random.default_rng(0)
    left, right, after = (np.full(count * LEAVES, -1, np.int32) for _ in range(3))
    for tree in range(count):
        first = tree * LEAVES
        for node in range(first + 1, first + LEAVES):
            head = int(random.integers(first, node))
            side = left if random.integers(2) else right
            after[node], side[head] = side[head], node
    words = random.integers(0, WORDS, count * LEAVES).astype(np.int32)
    roots = np.arange(count, dtype=np.int32) * LEAVES
    return TopDownBatch(words, left, right, after, roots)


def _sequences(count: int) -> tuple[tf.Tensor, tf.Tensor]:
    random = np.random.default_rng(0)
    words = random.integers(0, WORDS, (count, 2 * LEAVES)).astype(np.int32)
    return tf.constant(words), tf.fill([count], 2 * LEAVES)


def _tree_loss(model: Any, batch: Any) -> tf.Tensor:
    return model.loss(batch)[0]


CELLS = {
    "tree_lstm": Cell(lambda: TreeLSTM(WORDS), lambda: printed.PrintedTreeLSTM(WORDS), _trees, _tree_loss),
    "tree_gru": Cell(lambda: TreeGRU(WORDS), lambda: printed.PrintedTreeGRU(WORDS), _trees, _tree_loss),
    "td_tree_lstm": Cell(
        lambda: TopDownTreeLSTM(WORDS), lambda: printed.PrintedTopDownTreeLSTM(WORDS), _dependencies, _tree_loss
    ),
    "lstm": Cell(
        lambda: printed.LSTM(WORDS, Hyper(embedding=150, hidden=150)),
        lambda: printed.PrintedLSTM(WORDS, Hyper(embedding=150, hidden=150)),
        _sequences,
        lambda model, batch: tf.reduce_sum(model.run(*batch) ** 2),
    ),
    "hm_rnn": Cell(
        lambda: HMRNN(WORDS, MultiscaleHyper(embedding=64, hidden=128)),
        lambda: printed.PrintedHMRNN(WORDS, MultiscaleHyper(embedding=64, hidden=128)),
        _sequences,
        lambda model, batch: tf.reduce_sum(model.loss(*batch)[0]),
    ),
}


@contextmanager
def _rewriting(is_on: bool) -> Iterator[None]:
    """SubGraphs that are called first in it are rewritten, or not."""
    known = os.environ.get("RECGRAPH_OPTIMIZE")
    os.environ["RECGRAPH_OPTIMIZE"] = "1" if is_on else "0"
    try:
        yield
    finally:
        if known is None:
            del os.environ["RECGRAPH_OPTIMIZE"]
        else:
            os.environ["RECGRAPH_OPTIMIZE"] = known


def step_of(model: Any, cell: Cell, batch: Any, engine: str, is_training: bool) -> Callable[[], Any]:
    """A step as a graph: the loss, and in training all of its gradients and their use."""
    model.engine = engine
    variables = [v for v in model.trainable_variables if "embedding" not in v.name]

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        if not is_training:
            return cell.loss(model, batch)
        with tf.GradientTape() as tape:
            loss = cell.loss(model, batch)
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            if gradient is not None:
                variable.assign_sub(1e-6 * tf.convert_to_tensor(gradient))
        return loss

    return step


def contenders(name: str, engine: str, is_training: bool, size: int) -> dict[str, Callable[[], Any]]:
    """The step of each way, after calls that make it."""
    cell, found, losses = CELLS[name], {}, {}
    for way in WAYS:
        model = cell.fused() if way == "fused" else cell.printed()
        step = step_of(model, cell, cell.batch(size), engine, is_training)
        with _rewriting(way == "rewritten"):
            losses[way] = float(step())
        for _ in range(3):
            step()
        found[way] = step
    np.testing.assert_allclose(list(losses.values()), losses["fused"], rtol=1e-3, err_msg=f"the losses of {name}")
    return found


def pace(step: Callable[[], Any], seconds: float) -> Callable[[], float]:
    """Measures steps a second for about some time."""
    each = 1.0 / measure.speed(1.0, step)
    count = max(1, int(seconds / each))

    def run() -> float:
        return measure.speed(count, lambda: [step() for _ in range(count)])

    return run


@click.command("substitution")
@click.option("--cells", type=Several(CELLS), default=",".join(CELLS), show_default=True)
@click.option("--engines", type=Several(("parallel", "batched")), default="parallel,batched", show_default=True)
@click.option("--batch-sizes", type=COUNTS, default="1,25", show_default=True)
@click.option("--phases", type=PHASES, default="train,infer", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="After one to warm up.")
@click.option("--seconds", type=float, default=0.15, show_default=True, help="Of one measurement, about.")
@report.out_option
def main(out: Path | None, **options: Any) -> None:
    """Measure cells as printed, with and without substitutions, beside hand-fused ones."""
    results: list[dict[str, Any]] = []
    cases = itertools.product(*(options[key] for key in ("cells", "engines", "phases", "batch_sizes")))
    for name, engine, phase, size in cases:
        steps = contenders(name, engine, phase == "train", size)
        paces = {way: pace(step, options["seconds"]) for way, step in steps.items()}
        series = measure.interleave(paces, options["rounds"])
        results.append({"cell": name, "engine": engine, "phase": phase, "batch_size": size, "series": series})
        click.echo(_line(results[-1]))
        report.save("substitution", results, out)
    report.leave("substitution", results, table(results), out, {})


def _ratios(result: dict[str, Any]) -> tuple[float, float]:
    series = result["series"]
    return series["printed"].over(series["fused"]), series["rewritten"].over(series["fused"])


def _line(result: dict[str, Any]) -> str:
    before, after = _ratios(result)
    title = f"{result['cell']}, {result['engine']}, {result['phase']}, batch {result['batch_size']}"
    return f"{title}: as printed {before:.2f}, with substitutions {after:.2f} of the hand-fused cell's speed"


def table(results: Sequence[dict[str, Any]]) -> str:
    """Speeds over that of the cell that was fused by hand."""
    rows = []
    for result in results:
        before, after = _ratios(result)
        speed = result["series"]["fused"].median
        title = f"{result['cell']}, {result['phase']}, batch {result['batch_size']}, {result['engine']}"
        rows.append([title, f"{speed:,.0f}", f"{before:.2f}", f"{after:.2f}"])
    return report.markdown(["cell", "fused by hand, steps/s", "as printed", "as printed, with substitutions"], rows)
