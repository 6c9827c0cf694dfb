"""Large steps, forward and backward: many trees at once, one tree of very many leaves; with the peak of memory."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from recgraph.benchmarks import measure, report
from recgraph.benchmarks.depth import peak
from recgraph.benchmarks.options import Several

WORDS = 50
# Model, trees, leaves of each, embedding and hidden size.
CASES = {"trees": ("tree_lstm", 4096, 20, 300, 150), "leaves": ("tree_rnn", 1, 100_000, 30, 30)}


def random_batch(trees: int, leaves: int) -> Any:
    """A `TreeBatch` of random binary trees with random labels."""
    import tensorflow as tf

    from recgraph.data import TreeBatch
    from recgraph.testing import random_tree

    rng = np.random.default_rng(0)
    made = [random_tree(leaves, rng, WORDS) for _ in range(trees)]
    size = 2 * leaves - 1
    offsets = np.arange(trees + 1) * size
    words = np.concatenate([tree[0] for tree in made])
    left, right = (
        np.concatenate(
            [np.where(tree[side] < 0, -1, tree[side] + start) for tree, start in zip(made, offsets[:-1], strict=True)]
        )
        for side in (1, 2)
    )
    fields = {"words": words, "left": left, "right": right, "labels": rng.integers(0, 5, len(words))}
    fields |= {"roots": offsets[1:] - 1, "offsets": offsets}
    return TreeBatch(**{name: tf.constant(values, tf.int32) for name, values in fields.items()})


def step(case: str, engine: str) -> dict[str, Any]:
    """Seconds of the second step, loss and all gradients, and the most memory that this process held."""
    import tensorflow as tf

    from recgraph.models import MODELS, Hyper

    name, trees, leaves, embedding, hidden = CASES[case]
    batch = random_batch(trees, leaves)
    model = MODELS[name](WORDS, Hyper(embedding=embedding, hidden=hidden), seed=1)
    model.engine = engine

    @tf.function(autograph=False)
    def run(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss, _ = model.loss(batch)
        return loss, tape.gradient(loss, model.weights)

    run(batch)
    start = time.perf_counter()
    loss = float(run(batch)[0])
    seconds = time.perf_counter() - start
    return {"case": case, "engine": engine, "nodes": len(batch.words), "seconds": seconds, "peak": peak(), "loss": loss}


@click.command()
@click.option("--engines", type=Several(("batched", "parallel")), default="batched,parallel", show_default=True)
@report.out_option
@click.option("--one", nargs=2, hidden=True, help="Case and engine: measure in this process.")
def main(engines: list[str], out: Path | None, one: tuple[str, str] | None) -> None:
    """Measure each case by each engine in a process of its own."""
    if one is not None:
        click.echo(json.dumps(step(*one)))
        return
    jobs = [(case, engine) for case in CASES for engine in engines]
    results = [measure.in_child("recgraph.benchmarks.large", ["--one", *job]) for job in jobs]
    header = ["step", "engine", "nodes", "seconds", "peak of memory, GB", "loss"]
    report.leave("large", results, report.markdown(header, [_row(result) for result in results]), out)


def _row(result: dict[str, Any]) -> list[str]:
    name, trees, leaves, *_ = CASES[result["case"]]
    figures = [
        f"{result['nodes']:,}",
        f"{result['seconds']:.2f}",
        f"{result['peak'] / 1e9:.2f}",
        f"{result['loss']:.0f}",
    ]
    return [f"{name}, {trees:,} of {leaves:,} leaves", result["engine"], *figures]


if __name__ == "__main__":
    main()
