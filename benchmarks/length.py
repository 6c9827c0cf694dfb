"""Time for a sentence against its length (thesis, figure 5.11): one tree at a time, each step called from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from recgraph.benchmarks import contest, pictures, report
from recgraph.benchmarks.contenders import Task
from recgraph.benchmarks.options import PHASES
from recgraph.benchmarks.trees import model_name, read, trees_option
from recgraph.data import Tree
from recgraph.models import MODELS


@click.command()
@trees_option()
@click.option("--model", type=click.Choice(list(MODELS)), default="tree_lstm", show_default=True)
@click.option("--phases", type=PHASES, default="train,infer", show_default=True)
@click.option("--contenders", "names", type=contest.CONTENDERS, default="batched,parallel,iterative", show_default=True)
@click.option("--every", type=click.IntRange(1), default=5, show_default=True, help="Which lengths, in words.")
@click.option("--each", type=click.IntRange(1), default=8, show_default=True, help="Sentences of a length.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="After one to warm up.")
@contest.python_options
@report.out_option
def main(trees: Path | None, model: str, every: int, each: int, rounds: int, out: Path | None, **options: Any) -> None:
    """Measure sentences of every length of which there are enough: mean, least and most time."""
    found, vocabulary = read(trees)
    some = by_length(found, every, each)
    lengths = [len(tree.tokens) for tree in some]
    names = contest.chosen(options["names"], model, options)
    results = []
    task = Task(model, some, vocabulary)
    with contest.taking_part(task, names, options) as runners:
        contest.require_agreement(runners, [1], training=False)
        for phase in options["phases"]:
            seconds = contest.seconds_by_tree(runners, phase, len(some), rounds)
            medians = {name: np.median(values, 0).tolist() for name, values in seconds.items()}
            results.append({"model": model, "phase": phase, "lengths": lengths, "seconds": medians})
    report.leave("length", results, table(results), out, {"": lambda: picture(results)})


def by_length(trees: Sequence[Tree], every: int, each: int) -> list[Tree]:
    """So many sentences of each length that is a multiple of `every` and has as many, the shortest first.

    Raises:
      ValueError: no length has as many.
    """
    some: list[Tree] = []
    for length in range(every, max(len(tree.tokens) for tree in trees) + 1, every):
        fitting = [tree for tree in trees if len(tree.tokens) == length][:each]
        if len(fitting) == each:
            some += fitting
    if not some:
        raise ValueError(f"there are nowhere {each} sentences of one length that is a multiple of {every}")
    return some


def _curves(result: Mapping[str, Any]) -> dict[str, pictures.Curve]:
    """Milliseconds by length: mean, least and most."""
    lengths = np.array(result["lengths"])
    known = sorted(set(result["lengths"]))
    curves = {}
    for name, seconds in result["seconds"].items():
        groups = [1e3 * np.array(seconds)[lengths == length] for length in known]
        curves[name] = pictures.Curve(
            known, [g.mean() for g in groups], [g.min() for g in groups], [g.max() for g in groups]
        )
    return curves


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """Mean milliseconds by length, and in the last line of a phase what one more word costs, by least squares."""
    styles = contest.styles()
    names = list(results[0]["seconds"])
    rows = []
    for result in results:
        curves, phase = _curves(result), f"{model_name(result['model'])}, {result['phase']}"
        for number, length in enumerate(curves[names[0]].x):
            rows.append([f"{phase}, {length} words", *(f"{curves[name].y[number]:.2f}" for name in names)])
        if len(set(result["lengths"])) > 1:
            slopes = [1e3 * np.polyfit(result["lengths"], result["seconds"][name], 1)[0] for name in names]
            rows.append([f"{phase}, a word more", *(f"{slope:.3f}" for slope in slopes)])
    return report.markdown(["milliseconds", *(styles[name].label for name in names)], rows)


def picture(results: Sequence[Mapping[str, Any]]) -> Any:
    """A panel for each phase."""
    panels = [pictures.Curves(f"{model_name(r['model'])}, {r['phase']}", _curves(r)) for r in results]
    return pictures.curves([panels], contest.styles(), "words of the sentence", "milliseconds")
