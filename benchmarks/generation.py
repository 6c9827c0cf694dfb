"""Trees a second that a top-down TreeLSTM makes below given roots, recursive and iterative (thesis, table 5.3)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import measure, report
from recgraph.data import DependencyTree, TopDownBatch, Vocabulary, generate_dependencies, top_down_batch

TREES = 256  # of one measurement
TRAINED_ON = 960


@click.command()
@click.option("--batch-sizes", default="1,64", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True)
@click.option("--hidden", type=click.IntRange(1), default=300, show_default=True)
@click.option("--engine", default="auto", show_default=True, help="Of the recursive contender.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write the figures as JSON.")
def main(batch_sizes: str, rounds: int, hidden: int, engine: str, out: str | None) -> None:
    """Measure making trees, words and edges drawn, after a short training: an untrained model makes no sentences."""
    trees = generate_dependencies(TRAINED_ON)
    vocabulary = Vocabulary.build(trees)
    model = _trained(trees, vocabulary, hidden, engine)
    roots = [vocabulary.id(tree.words[tree.root]) for tree in trees[:TREES]]
    results = []
    for size in map(int, batch_sizes.split(",")):
        series = measure.interleave(_contenders(model, roots, size), rounds)
        results.append({"batch_size": size, "series": series})
    rows = [
        [str(r["batch_size"]), *(f"{s.median:,.0f} ±{s.spread / 2:.0%}" for s in r["series"].values()), _ratio(r)]
        for r in results
    ]
    click.echo(report.markdown(["batch", "recursive", "iterative", "recursive / iterative"], rows))
    if out is not None:
        plain = [{**r, "series": {name: s.as_json() for name, s in r["series"].items()}} for r in results]
        Path(out).write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


def _ratio(result: dict[str, Any]) -> str:
    return f"{result['series']['recursive'].over(result['series']['iterative']):.2f}"


def _trained(trees: list[DependencyTree], vocabulary: Vocabulary, hidden: int, engine: str) -> Any:
    """A model that has seen the trees three times."""
    import tensorflow as tf

    from recgraph.models import Hyper, TopDownTreeLSTM
    from recgraph.train.optimizer import TreeOptimizer

    model = TopDownTreeLSTM(len(vocabulary), Hyper(embedding=hidden // 2, hidden=hidden, batch_size=64))
    model.engine = engine
    optimizer = TreeOptimizer(model)

    @tf.function(input_signature=[TopDownBatch(*[tf.TensorSpec([None], tf.int32)] * 5)])
    def step(batch: TopDownBatch) -> None:
        with tf.GradientTape() as tape:
            loss = model.loss(batch)[0] / tf.cast(tf.size(batch.roots), tf.float32)
        *weights, embedding = tape.gradient(loss, [*model.weights, model.embedding])
        optimizer.apply(model, weights, embedding)

    for start in 3 * list(range(0, len(trees), 64)):
        step(TopDownBatch(*map(tf.constant, top_down_batch(trees[start : start + 64], vocabulary))))
    return model


def _contenders(model: Any, roots: list[int], size: int) -> dict[str, Callable[[], float]]:
    """Both make the same trees, which is checked first."""
    import tensorflow as tf

    from recgraph.models.baselines import IterativeTopDown
    from recgraph.models.baselines.top_down import in_order

    signature = [tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 2], tf.int32)]
    made = {
        "recursive": tf.function(model.generate, input_signature=signature),
        "iterative": tf.function(IterativeTopDown(model).generate, input_signature=signature),
    }
    batches = [
        (
            tf.constant(roots[start : start + size]),
            tf.stack([tf.range(start, start + size), tf.zeros(size, tf.int32)], 1),
        )
        for start in range(0, TREES, size)
    ]
    words, heads = made["recursive"](*batches[0])
    nodes = made["iterative"](*batches[0])
    for mine, theirs in zip(zip(words.to_list(), heads.to_list(), strict=True), nodes, strict=True):
        if mine != in_order(theirs.numpy()):
            raise RuntimeError(f"the contenders make other trees: {mine} and {in_order(theirs.numpy())}")

    def run(generate: Callable[..., Any]) -> float:
        return measure.speed(TREES, lambda: [generate(*batch) for batch in batches])

    return {name: lambda generate=generate: run(generate) for name, generate in made.items()}


if __name__ == "__main__":
    main()
