"""What the commands print: progress bars, tables, and JSON lines."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from recgraph.data import Tree, Vocabulary, load_sst
from recgraph.distribute import Cluster
from recgraph.train import export as exporting
from recgraph.train import parsing, pictures, predictor, run, trainer
from recgraph.train.batching import Batching
from recgraph.train.confidence import Confidence
from recgraph.train.history import Record
from recgraph.train.settings import Settings
from recgraph.train.steps import TrainingSteps
from recgraph.train.tasks import CLASSIFYING, TASKS


def echo_json(record: Any) -> None:
    """One JSON object on a line of its own."""
    click.echo(json.dumps(record, ensure_ascii=False))


def train(
    folder: Path,
    settings: Settings,
    fresh: bool,
    as_json: bool,
    cluster: Cluster | None = None,
    parser_epochs: int = 0,
) -> list[Record]:
    """Trains with a progress bar, or with a JSON line an epoch; of several workers the chief shows them.

    Args:
      folder: of the run.
      settings: what to train.
      fresh: whether to delete a run that is there.
      as_json: whether to print JSON lines.
      cluster: the workers.
      parser_epochs: of the parser that is trained beside a classifier, by one worker alone; 0 for none.
    """
    cluster = cluster or Cluster.alone()
    prepared = cluster.on_chief(lambda: run.prepare(folder, settings, fresh, lambda text: click.echo(text, err=True)))
    training = trainer.Trainer(prepared or run.follow(folder, settings), cluster)
    if not cluster.is_chief:
        return training.fit(lambda sums: None, lambda record: None)
    records = _fit(training, as_json, echo_json)
    if settings.task in CLASSIFYING:
        _bring(training.run, parser_epochs, as_json, cluster)
    return records


def _fit(training: trainer.Trainer, as_json: bool, echo: Callable[[Record], None]) -> list[Record]:
    """Trains and shows how far it is."""
    settings, folder = training.run.settings, training.run.folder
    if as_json:
        return training.fit(lambda sums: None, echo)
    if training.continued_after:
        click.echo(f"continuing {folder} after epoch {training.continued_after}")
    with _bar() as bar:
        shown = bar.add_task("", total=None, figures="")
        examples = len(training.task.load(settings.data).train)

        def report(sums: trainer.Sums) -> None:
            task_figure = f"{training.task.hit} {_figure(training.task.hit, sums.hits)}"
            figures = f"loss {sums.loss:.2f}  {task_figure}  {sums.speed:.0f} {training.task.unit}/s"
            name = f"epoch {sums.epoch}/{settings.epochs}"
            bar.update(shown, description=name, completed=sums.examples, total=examples, figures=figures)

        return training.fit(
            report, lambda record: bar.console.print(_epoch_line(record), highlight=False, soft_wrap=True)
        )


def _bring(trained: run.Run, epochs: int, as_json: bool, cluster: Cluster) -> None:
    """What a classifier needs to be asked about plain sentences: a parser, and to know how sure it may be."""
    if cluster.size > 1:
        if epochs:
            click.echo(f"of several workers none trains a parser; for plain sentences: {_how(trained)}", err=True)
        return
    folder = trained.folder / run.PARSER
    if epochs:
        if not as_json:
            click.echo(f"a parser of plain sentences, beside it: {folder}")
        _fit(trainer.Trainer(run.prepare(folder, parsing.settings_beside(trained, epochs))), as_json, lambda _: None)
    if trained.best().epochs():
        parsing.brought(run.load(trained.folder))


def _how(trained: run.Run) -> str:
    """The command that trains a parser for a classifier."""
    data, out = trained.settings.data, trained.folder / run.PARSER
    return f"recgraph train --model parser --task parsing --data {data} --out {out}"


def warning(trained: run.Run, confidence: Confidence) -> str:
    """What is said where sentences get balanced trees."""
    figures = [confidence.accuracies.get(origin) for origin in ("balanced", "given")]
    measured = (
        f"with such trees it is right about {_percent(figures[0])} of its dev sentences, with their own about "
        f"{_percent(figures[1])}, and its probabilities allow for that"
        if None not in figures
        else "how often it is right then is not known, as its dev sentences are not there, and so all classes are "
        "about as likely"
    )
    return (
        f"Warning: {trained.folder} brings no parser, so plain sentences get balanced trees, unlike those that it was "
        f"trained on: {measured}. Give --parser, or train one: {_how(trained)}"
    )


def export(folder: Path, out: Path, optimize: bool, parser: Path | None, **batching: Any) -> list[str]:
    """Saves a run as a SavedModel, with a warning where it has no parser; what was measured on the way, as lines.

    Args:
      folder: of the run.
      out: of the SavedModel.
      optimize: whether to look where substitutions pay.
      parser: the folder of a run that parses; by default the one that the run brings.
      **batching: `batch_size`, 0 for no batches, `batch_delay` and `batch_threads`, as of `Batching`.
    """
    loaded = run.load_classifier(folder)
    brought = parsing.brought(loaded, parser)
    if brought.parser is None:
        click.echo(warning(loaded, brought.confidence), err=True)
    found = (loaded.model, loaded.vocabulary)
    rewritten, lines = exporting.choose(*found, brought) if optimize else (frozenset(), [])
    exporting.save(*found, out, rewritten, brought, _batching(**batching))
    return lines


def _batching(batch_size: int, batch_delay: float, batch_threads: int) -> Batching | None:
    return Batching(batch_size, batch_delay, batch_threads) if batch_size else None


@contextlib.contextmanager
def saved_model(folder: Path, parser: Path | None, **batching: Any) -> Iterator[Path]:
    """The folder itself, if it is a SavedModel, or a new one that a run is saved in for as long as the body runs.

    Args:
      folder: of a SavedModel or of a run.
      parser: as of `export`, for a run.
      **batching: likewise.
    """
    if (folder / tf.saved_model.SAVED_MODEL_FILENAME_PB).exists():
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="recgraph-serve-") as made:
        export(folder, Path(made), False, parser, **batching)
        yield Path(made)


def evaluate(folder: Path, data: Path | None, split: str, as_json: bool) -> dict[str, float]:
    """Prints the figures of a run on a split of its own data, or of other data."""
    loaded = run.load(folder)
    task = TASKS[loaded.settings.task]
    examples = getattr(task.load(data or loaded.settings.data), split)
    dataset = task.dataset(examples, loaded.vocabulary, loaded.model.hyper.batch_size)
    figures = trainer.evaluate(TrainingSteps(loaded.model, loaded.settings.implementation, task=task), dataset)
    if as_json:
        echo_json({"split": split, task.unit: len(examples), **figures})
        return figures
    title = f"{folder}: {split}, {len(examples)} {task.unit}"
    Console().print(_accuracy_table(title, figures, task.classes) if task.hit == "root" else _table(title, figures))
    return figures


def _table(title: str, figures: dict[str, float]) -> Table:
    table = Table("", "", title=title, show_header=False)
    for name, value in figures.items():
        table.add_row(name, _figure(name, value))
    return table


def _accuracy_table(title: str, accuracies: dict[str, float], classes: int) -> Table:
    table = Table(title=title)
    table.add_column("accuracy")
    for name in ("root", "all nodes"):
        table.add_column(name, justify="right")
    for name, suffix in (("fine-grained", ""), ("binary", "_binary")):
        if name == "binary" or classes > 2:
            table.add_row(name, *(_percent(accuracies.get(place + suffix)) for place in ("root", "nodes")))
    return table


def prediction_line(prediction: predictor.Prediction, nodes: bool, as_json: bool) -> str:
    """A line for one prediction."""
    record = prediction.as_json(nodes)
    if as_json:
        return json.dumps(record, ensure_ascii=False)
    line = f"{record['sentiment']:<13} {max(record['probabilities']):4.0%}  {record['sentence']}"
    line += f"  {prediction.remark}" if prediction.remark else ""
    return f"{line}\n  {record['tree']}" if nodes else line


def predict(
    trained: run.Run, inputs: Iterable[Tree | predictor.Sentence], parser: Path | None = None
) -> Iterator[predictor.Prediction]:
    """The predictions of a run, and once a warning, where it has no way to trees like those that it was trained on."""
    brought = parsing.brought(trained, parser)
    is_warned = False
    for prediction in brought.predictor(trained)(inputs):
        if prediction.origin == "balanced" and not is_warned:
            click.echo(warning(trained, brought.confidence), err=True)
            is_warned = True
        yield prediction


def show(prediction: predictor.Prediction, out: Path, as_json: bool) -> None:
    """Draws the prediction for one tree."""
    tree = prediction.tree
    classes = prediction.probabilities.shape[1]
    pictures.draw_tree(tree, prediction.classes.tolist(), out, classes, f"predicted: {prediction.sentiment}")
    if as_json:
        echo_json({"picture": str(out), **prediction.as_json(nodes=True)})
    else:
        click.echo(f"{prediction_line(prediction, False, False)}\n{out}")


def chosen_tree(text: str | None, data: Path | str, split: str, index: int) -> Tree | predictor.Sentence:
    """The tree or sentence that was typed, or a tree of a treebank."""
    if text is not None:
        return next(predictor.read_inputs([text], "--input"))
    trees = getattr(load_sst(data), split)
    if index >= len(trees):
        raise ValueError(f"--index {index}: {split} has {len(trees)} trees; the last index is {len(trees) - 1}")
    return trees[index]


def stats(folder: Path, as_json: bool) -> None:
    """Prints figures of the three splits."""
    bank = load_sst(folder)
    columns = {name: _describe(getattr(bank, name)) for name in bank._fields}
    if as_json:
        echo_json(columns)
        return
    table = Table(title=str(folder))
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    for row in next(iter(columns.values())):
        table.add_row(row, *(str(column[row]) for column in columns.values()))
    Console().print(table)


def _describe(trees: list[Tree]) -> dict[str, Any]:
    labels = Counter(label for tree in trees for label in tree.labels)
    roots = Counter(tree.label for tree in trees)
    depths = [tree.depth for tree in trees] or [0]
    return {
        "trees": len(trees),
        "nodes": sum(map(len, trees)),
        "words": len(Vocabulary.build(trees)) - 1,
        "words in a tree, mean": round(float(np.mean([len(tree.tokens) for tree in trees] or [0])), 1),
        "depth, mean": round(float(np.mean(depths)), 1),
        "depth, max": max(depths),
        "labels of nodes": {label: labels[label] for label in sorted(labels)},
        "labels of roots": {label: roots[label] for label in sorted(roots)},
    }


@contextlib.contextmanager
def _bar() -> Iterator[Progress]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield bar


def _epoch_line(record: Record) -> str:
    dev = "  ".join(f"{name.replace('_', ' ')} {_figure(name, value)}" for name, value in record["dev"].items())
    speed = "".join(f"{record[key]:.0f} {key.split('_')[0]}/s" for key in record if key.endswith("_per_second"))
    mark = "  best so far" if record["best"] else ""
    return f"epoch {record['epoch']}: loss {record['loss']:.2f}, dev: {dev}, {speed}{mark}"


def _figure(name: str, value: float) -> str:
    """Accuracies in percent; correlations and errors as they are."""
    return f"{value:.3f}" if name in ("pearson", "spearman", "mse") else _percent(value)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
