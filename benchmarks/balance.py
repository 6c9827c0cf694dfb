"""What the shape of trees costs (thesis, table 5.1): balanced, moderate and linear trees over the same sentences; and
the time for a balanced tree against its depth, which should grow with the levels, not with the nodes, until the cores
are full."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from recgraph.benchmarks import contest, measure, pictures, report
from recgraph.benchmarks.contenders import Task
from recgraph.benchmarks.options import COUNTS, PHASES
from recgraph.benchmarks.trees import model_name, read, trees_option
from recgraph.data import Tree, Vocabulary, balanced, binarize
from recgraph.models import MODELS

SHAPES = ("balanced", "moderate", "linear")


@click.command()
@trees_option()
@click.option("--model", type=click.Choice(list(MODELS)), default="tree_rnn", show_default=True)
@click.option("--batch-sizes", type=COUNTS, default="1,10,25", show_default=True)
@click.option("--phases", type=PHASES, default="train,infer", show_default=True)
@click.option("--contenders", "names", type=contest.CONTENDERS, default="batched,parallel", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="After one to warm up.")
@click.option("--seconds", type=float, default=0.5, show_default=True, help="Of one measurement, about.")
@click.option("--count", type=int, default=1000, show_default=True, help="First sentences of the file.")
@click.option("--depth", type=click.IntRange(1), default=12, show_default=True, help="Of the deepest balanced tree.")
@contest.python_options
@report.out_option
def main(trees: Path | None, count: int, out: Path | None, **options: Any) -> None:
    """Measure trees a second by shape, and the time for one balanced tree by depth."""
    options["names"] = contest.chosen(options["names"], options["model"], options)
    results = {"shapes": by_shape(*read(trees, count), options), "depths": by_depth(options)}
    tables = f"{table_of_shapes(results['shapes'])}\n\n{table_of_depths(results['depths'])}"
    drawn = {
        "shapes": lambda: picture_of_shapes(results["shapes"]),
        "depths": lambda: picture_of_depths(results["depths"]),
    }
    report.leave("balance", results, tables, out, drawn)


def reshaped(tree: Tree, shape: str, rng: np.random.Generator) -> Tree:
    """Another tree over the same sentence; its root keeps its label, and no other node has one."""
    made = binarize(tree.tokens, shape, rng)
    return made.with_labels((*made.labels[:-1], tree.label))


def by_shape(trees: Sequence[Tree], vocabulary: Vocabulary, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Trees a second of every shape, phase and batch size, shapes and contenders interleaved."""
    results = []
    with contextlib.ExitStack() as stack:
        everyone = {}
        for shape in SHAPES:
            rng = np.random.default_rng(0)
            task = Task(options["model"], [reshaped(tree, shape, rng) for tree in trees], vocabulary)
            runners = stack.enter_context(contest.taking_part(task, options["names"], options))
            contest.require_agreement(runners, options["batch_sizes"], "train" in options["phases"])
            everyone |= {(shape, name): runner for name, runner in runners.items()}
        for phase, size in itertools.product(options["phases"], options["batch_sizes"]):
            paces = {key: contest.Pace(runner, phase, size, options["seconds"]) for key, runner in everyone.items()}
            series = measure.interleave(paces, options["rounds"])
            for shape in SHAPES:
                of_shape = {name: series[shape, name] for name in options["names"]}
                results.append({"shape": shape, "phase": phase, "batch_size": size, "series": of_shape})
            click.echo(f"{model_name(options['model'])}, {phase}, batch {size} is done")
    return results


def by_depth(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Seconds for one balanced tree of `2 ** depth` words, the median of all rounds, by depth."""
    depths = range(options["depth"] + 1)
    trees = [balanced(["word"] * 2**depth) for depth in depths]
    trees = [tree.with_labels((*tree.labels[:-1], 0)) for tree in trees]
    task = Task(options["model"], trees, Vocabulary.build(trees))
    results = []
    with contest.taking_part(task, options["names"], options) as runners:
        contest.require_agreement(runners, [1], training=False)
        for phase in options["phases"]:
            taken = contest.seconds_by_tree(runners, phase, len(trees), options["rounds"])
            medians = {name: np.median(values, 0).tolist() for name, values in taken.items()}
            results.append({"phase": phase, "nodes": [len(tree) for tree in trees], "seconds": medians})
    return results


def table_of_shapes(results: Sequence[Mapping[str, Any]]) -> str:
    """In trees a second."""
    cases = [(f"{r['shape']}, {r['phase']}, batch {r['batch_size']}", r["series"]) for r in results]
    return report.speeds("trees a second", cases, contest.styles())


def table_of_depths(results: Sequence[Mapping[str, Any]]) -> str:
    """Milliseconds for a balanced tree."""
    styles = contest.styles()
    names = list(results[0]["seconds"])
    header = ["depth", "nodes", *(f"{r['phase']}, {styles[name].label}, ms" for r in results for name in names)]
    rows = []
    for depth, nodes in enumerate(results[0]["nodes"]):
        times = [f"{1e3 * r['seconds'][name][depth]:.2f}" for r in results for name in names]
        rows.append([str(depth), f"{nodes:,}", *times])
    return report.markdown(header, rows)


def picture_of_shapes(results: Sequence[Mapping[str, Any]]) -> Any:
    """A row for each phase, a panel for each batch size, the shapes side by side."""
    rows = []
    for phase, of_phase in itertools.groupby(results, lambda result: result["phase"]):
        panels = []
        for size, group in itertools.groupby(of_phase, lambda result: result["batch_size"]):
            cases = list(group)
            values = {name: [case["series"][name].median for case in cases] for name in cases[0]["series"]}
            panels.append(pictures.Bars(f"{phase}, batch {size}", [case["shape"] for case in cases], values))
        rows.append(panels)
    return pictures.bars(rows, contest.styles(), "", "trees a second")


def picture_of_depths(results: Sequence[Mapping[str, Any]]) -> Any:
    """A panel for each phase; a line from the deepest tree shows what time in proportion to the nodes would be."""
    panels = []
    for result in results:
        depths = list(range(len(result["nodes"])))
        drawn = {name: pictures.Curve(depths, [1e3 * s for s in all_]) for name, all_ in result["seconds"].items()}
        shortest, *_, longest = 1e3 * np.min(list(result["seconds"].values()), 0)
        line = longest * np.array(result["nodes"]) / result["nodes"][-1]
        seen = np.flatnonzero(line > shortest / 2)
        drawn["nodes"] = pictures.Curve(seen, line[seen])
        panels.append(pictures.Curves(f"balanced trees, {result['phase']}", drawn))
    styles = {**contest.styles(), "nodes": pictures.Style("in proportion to nodes", "black", mark=True)}
    return pictures.curves([panels], styles, "depth", "milliseconds", log=True)
