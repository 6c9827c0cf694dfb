"""Dynamic programming: plain recursion beside loops that are written by hand, and TensorFlow's own.

- `soft-DTW`: its value, and value and gradient, over a table of costs;
- `edit distance`: of two sequences of integers;
- `CTC`: value and gradient, of labels a tenth as long as the frames.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.benchmarks import measure, report
from recgraph.benchmarks.hand_written import tables
from recgraph.benchmarks.options import COUNTS
from recgraph.benchmarks.pictures import Style

SYMBOLS = 30
SMOOTHING = 0.5
STYLES = {
    "recursion": Style("recursion", "C0"),
    "diagonals": Style("diagonals by hand", "C1"),
    "cells": Style("cell by cell", "C2"),
    "ctc_loss": Style("tf.nn.ctc_loss", "C3"),
}
Run = Callable[[], Sequence[tf.Tensor]]


@tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([])])
def soft_dtw(costs: tf.Tensor, smoothing: tf.Tensor) -> tf.Tensor:
    """The soft minimum over all ways to warp (Cuturi and Blondel, ICML 2017)."""
    rows, columns = tf.shape(costs)[0], tf.shape(costs)[1]
    flat = tf.reshape(costs, [-1])

    @rg.subgraph(outputs=tf.TensorSpec([]))
    def cheapest(i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
        if (i == 0) & (j == 0):
            return 0.0
        if (i == 0) | (j == 0):
            return tables.FAR
        around = tf.stack([cheapest(i - 1, j - 1), cheapest(i - 1, j), cheapest(i, j - 1)])
        return tf.gather(flat, (i - 1) * columns + j - 1) - smoothing * tf.reduce_logsumexp(-around / smoothing)

    return cheapest(rows, columns)


@tf.function(input_signature=[tf.TensorSpec([None], tf.int32)] * 2)
def edit_distance(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """How many edits make one sequence of the other (Levenshtein, 1966)."""

    @rg.subgraph(outputs=tf.TensorSpec([], tf.int32))
    def distance(i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
        if (i == 0) | (j == 0):
            return i + j
        replaced = distance(i - 1, j - 1) + tf.cast(tf.gather(a, i - 1) != tf.gather(b, j - 1), tf.int32)
        return tf.minimum(replaced, tf.minimum(distance(i - 1, j), distance(i, j - 1)) + 1)

    return distance(tf.size(a), tf.size(b))


@tf.function(input_signature=[tf.TensorSpec([None, SYMBOLS]), tf.TensorSpec([None], tf.int32)])
def ctc(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Minus the logarithm of the probability of all ways to spell labels, symbol 0 blank (Graves et al., ICML 2006)."""
    frames, length = tf.shape(logits)[0], 2 * tf.size(labels) + 1
    flat = tf.reshape(tf.nn.log_softmax(logits), [-1])
    spelled = tf.concat([tf.reshape(tf.stack([tf.zeros_like(labels), labels], 1), [-1]), [0]], 0)
    may_skip = tf.concat([[False, False], (spelled[2:] != spelled[:-2]) & (spelled[2:] != 0)], 0)

    @rg.subgraph(outputs=tf.TensorSpec([]))
    def forward(t: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        if (s < 0) | ((t == 0) & (s > 1)):
            return -tables.FAR
        now = tf.gather(flat, t * SYMBOLS + tf.gather(spelled, s))
        if t == 0:
            return now
        if tf.gather(may_skip, s):
            before = tf.stack([forward(t - 1, s), forward(t - 1, s - 1), forward(t - 1, s - 2)])
        else:
            before = tf.stack([forward(t - 1, s), forward(t - 1, s - 1), -tables.FAR])
        return now + tf.reduce_logsumexp(before)

    return -tf.reduce_logsumexp(tf.stack([forward(frames - 1, length - 1), forward(frames - 1, length - 2)]))


@tf.function(input_signature=[tf.TensorSpec([None, SYMBOLS]), tf.TensorSpec([None], tf.int32)])
def tensorflow_ctc(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """TensorFlow's own, of one example."""
    sizes = {"label_length": tf.size(labels)[None], "logit_length": tf.shape(logits)[:1]}
    return tf.nn.ctc_loss(labels[None], logits[None], **sizes, logits_time_major=False, blank_index=0)[0]


def _with_gradient(function: Callable[..., tf.Tensor], first: tf.Tensor, *others: Any) -> Sequence[tf.Tensor]:
    with tf.GradientTape() as tape:
        tape.watch(first)
        value = function(first, *others)
    return [value, tf.convert_to_tensor(tape.gradient(value, first))]


def tasks(size: int, cells: bool) -> dict[str, dict[str, Run]]:
    """What is run at one size, by task and contender; `cells` for the slow ones, too."""
    random = np.random.default_rng(size)
    costs = tf.constant(random.random((size, size)), tf.float32)
    words = [tf.constant(random.integers(0, 4, size), tf.int32) for _ in range(2)]
    logits = tf.constant(random.normal(size=(size, SYMBOLS)), tf.float32)
    labels = tf.constant(random.integers(1, SYMBOLS, max(1, size // 10)), tf.int32)
    warping = {"recursion": soft_dtw, "diagonals": tables.soft_dtw_by_diagonals}
    if cells:
        warping["cells"] = tables.soft_dtw_by_cells
    distances = {"recursion": edit_distance, "diagonals": tables.edit_distance_by_diagonals}
    losses = {"recursion": ctc, "ctc_loss": tensorflow_ctc}
    partial = functools.partial
    return {
        "soft-DTW": {name: partial(lambda f: [f(costs, SMOOTHING)], f) for name, f in warping.items()},
        "soft-DTW and gradient": {name: partial(_with_gradient, f, costs, SMOOTHING) for name, f in warping.items()},
        "edit distance": {name: partial(lambda f: [f(*words)], f) for name, f in distances.items()},
        "CTC and gradient": {name: partial(_with_gradient, f, logits, labels) for name, f in losses.items()},
    }


@click.command()
@click.option("--sizes", type=COUNTS, default="50,200,500", show_default=True, help="Rows and columns; frames.")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="After one to warm up.")
@click.option("--largest-by-cells", type=click.IntRange(0), default=50, show_default=True, help="Above, nobody waits.")
@report.out_option
def main(sizes: list[int], rounds: int, largest_by_cells: int, out: Path | None) -> None:
    """Run all in turn, once they were found to agree."""
    results = []
    for size in sizes:
        for task, runs in tasks(size, size <= largest_by_cells).items():
            _require_equal(task, runs)
            work = {name: functools.partial(measure.speed, 60.0, lambda run=run: [t.numpy() for t in run()])
                    for name, run in runs.items()}  # fmt: skip
            results.append({"task": task, "size": size, "series": measure.interleave(work, rounds)})
    report.leave("dynamic_programming", results, table(results), out)


def _require_equal(task: str, runs: Mapping[str, Run]) -> None:
    first, *others = ([tensor.numpy() for tensor in run()] for run in runs.values())
    for other in others:
        if not all(np.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(first, other, strict=True)):
            raise RuntimeError(f"the contenders disagree on {task}: {first} and {other}")


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """In tables a minute."""
    return report.speeds("a minute", [(f"{r['task']}, {r['size']}", r["series"]) for r in results], STYLES)
