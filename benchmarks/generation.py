"""A top-down TreeLSTM that makes and learns trees, recursive and iterative (thesis, table 5.3).

Generation makes trees below given roots, words and edges drawn, so that computed values decide their shape. Training
walks given trees, whose shape is known before; there is no iterative twin of that.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import contenders, measure, pictures, report
from recgraph.data import DependencyTree, TopDownBatch, Vocabulary, generate_dependencies, top_down_batch

TRAINED_ON = 960
ENGINES = ("batched", "parallel")

Work = dict[str, Callable[[], float]]
Step = Callable[[TopDownBatch], Any]


@click.command()
@click.option("--batch-sizes", default="1,64", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="After one to warm up.")
@click.option("--hidden", type=click.IntRange(2), default=300, show_default=True)
@click.option("--trees", type=click.IntRange(1), default=256, show_default=True, help="Of one measurement.")
@click.option("--epochs", type=click.IntRange(0), default=3, show_default=True, help="Of training beforehand.")
@report.out_option
def main(batch_sizes: str, rounds: int, hidden: int, trees: int, epochs: int, out: Path | None) -> None:
    """Measure generation and training after a short training: an untrained model makes no sentences."""
    data = generate_dependencies(TRAINED_ON)
    vocabulary = Vocabulary.build(data)
    models = {engine: _model(vocabulary, hidden, engine) for engine in ENGINES}
    steps = {engine: _step(model) for engine, model in models.items()}
    _train_together(steps, epochs * _minibatches(data, vocabulary, 64))
    for target, source in zip(models["parallel"].variables, models["batched"].variables, strict=True):
        target.assign(source)
    results = []
    for phase, size in itertools.product(("generation", "training"), map(int, batch_sizes.split(","))):
        if phase == "generation":
            work = _generation(models, [vocabulary.id(tree.words[tree.root]) for tree in data[:trees]], size)
        else:
            work = _training(steps, _minibatches(data[:trees], vocabulary, size))
        series = measure.interleave(work, rounds)
        results.append({"phase": phase, "batch_size": size, "series": {n: s.as_json() for n, s in series.items()}})
    report.leave("generation", results, table(results), out, {"": lambda: picture(results)})


def _model(vocabulary: Vocabulary, hidden: int, engine: str) -> Any:
    from recgraph.models import Hyper, TopDownTreeLSTM

    model = TopDownTreeLSTM(len(vocabulary), Hyper(embedding=hidden // 2, hidden=hidden, batch_size=64))
    model.engine = engine
    return model


def _minibatches(trees: Sequence[DependencyTree], vocabulary: Vocabulary, size: int) -> list[TopDownBatch]:
    """Full ones."""
    import tensorflow as tf

    starts = range(0, len(trees) - size + 1, size)
    encoded = (top_down_batch(trees[start : start + size], vocabulary) for start in starts)
    return [TopDownBatch(*map(tf.constant, batch)) for batch in encoded]


def _step(model: Any) -> Step:
    """A training step; gives the loss."""
    import tensorflow as tf

    from recgraph.train.optimizer import TreeOptimizer

    optimizer = TreeOptimizer(model)

    @tf.function(input_signature=[TopDownBatch(*[tf.TensorSpec([None], tf.int32)] * 5)], autograph=False)
    def step(batch: TopDownBatch) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = model.loss(batch)[0] / tf.cast(tf.size(batch.roots), tf.float32)
        *weights, embedding = tape.gradient(loss, [*model.weights, model.embedding])
        optimizer.apply(model, weights, embedding)
        return loss

    return step


def _train_together(steps: Mapping[str, Step], batches: Sequence[TopDownBatch]) -> None:
    """Trains all on the same trees. What rounding does to gradients near zero adds up: it is the first steps that tell.

    Raises:
      RuntimeError: the losses of the first three steps differ.
    """
    for number, batch in enumerate(batches):
        losses = {engine: float(step(batch)) for engine, step in steps.items()}
        if number < 3 and max(losses.values()) - min(losses.values()) > contenders.TOLERANCE * max(losses.values()):
            raise RuntimeError(f"the engines disagree on the loss of step {number}: {losses}")


def _training(steps: Mapping[str, Step], batches: Sequence[TopDownBatch]) -> Work:
    """All walk the same trees."""
    count = len(batches) * len(batches[0].roots)

    def run(step: Step) -> float:
        return measure.speed(count, lambda: [step(batch).numpy() for batch in batches])

    return {engine: functools.partial(run, step) for engine, step in steps.items()}


def _generation(models: Mapping[str, Any], roots: Sequence[int], size: int) -> Work:
    """All make the same trees, which is checked first."""
    import tensorflow as tf

    from recgraph.models.baselines import IterativeTopDown
    from recgraph.models.baselines.top_down import in_order

    signature = [tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 2], tf.int32)]
    made = {engine: tf.function(model.generate, input_signature=signature) for engine, model in models.items()}
    iterative = tf.function(IterativeTopDown(models["batched"]).generate, input_signature=signature)
    seeds = tf.stack([tf.range(len(roots)), tf.zeros(len(roots), tf.int32)], 1)
    starts = range(0, len(roots) - size + 1, size)
    batches = [(tf.constant(roots[start : start + size]), seeds[start : start + size]) for start in starts]
    expected = [in_order(nodes.numpy()) for nodes in iterative(*batches[0])]
    for engine, generate in made.items():
        words, heads = generate(*batches[0])
        found = list(zip(words.to_list(), heads.to_list(), strict=True))
        if found != expected:
            raise RuntimeError(f"the loop makes {expected}, the engine {engine} makes {found}")

    def run(generate: Callable[..., Any]) -> float:
        return measure.speed(len(batches) * size, lambda: [generate(*batch) for batch in batches])

    return {name: functools.partial(run, generate) for name, generate in {**made, "iterative": iterative}.items()}


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """Medians in trees a second, and how many times as fast the first is: medians of ratios by round."""
    styles = contenders.styles()
    names = list(results[0]["series"])
    first, *others = names
    rows = []
    for result in results:
        series = {name: measure.Series(tuple(values["rounds"])) for name, values in result["series"].items()}
        figures = [f"{s.median:,.0f} ±{s.spread / 2:.0%}" if (s := series.get(name)) else "" for name in names]
        ratios = [f"{series[first].over(series[name]):.2f}" if name in series else "" for name in others]
        rows.append([f"{result['phase']}, batch {result['batch_size']}", *figures, *ratios])
    labels = [styles[name].label for name in names]
    header = ["trees a second", *labels, *(f"/ {label}" for label in labels[1:])]
    return report.markdown(header, rows)


def picture(results: Sequence[Mapping[str, Any]]) -> Any:
    """A panel for each phase."""
    panels = []
    for phase, group in itertools.groupby(results, lambda result: result["phase"]):
        cases = list(group)
        values = {name: [case["series"][name]["median"] for case in cases] for name in cases[0]["series"]}
        panels.append(pictures.Bars(f"top-down TreeLSTM, {phase}", [str(case["batch_size"]) for case in cases], values))
    return pictures.bars([panels], contenders.styles(), "batch size", "trees a second", log=True)
