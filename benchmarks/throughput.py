"""Trees a second: both engines beside loops, other libraries, and the matrix products alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import contest, measure, pictures, report
from recgraph.benchmarks.contenders import Task
from recgraph.benchmarks.options import COUNTS, PHASES, Several
from recgraph.benchmarks.trees import model_name, read, trees_option
from recgraph.models import MODELS

Result = dict[str, Any]


@click.command("sst")
@trees_option()
@click.option("--models", type=Several(MODELS), default="tree_lstm,rntn,tree_rnn", show_default=True)
@click.option("--batch-sizes", type=COUNTS, default="1,10,25,64,256", show_default=True)
@click.option("--phases", type=PHASES, default="train,infer", show_default=True)
@click.option("--contenders", "names", type=contest.CONTENDERS, default=",".join(contest.ENTRIES), show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="After one to warm up.")
@click.option("--seconds", type=float, default=0.5, show_default=True, help="Of one measurement, about.")
@click.option("--count", type=int, default=2000, show_default=True, help="First trees of the file.")
@contest.python_options
@report.out_option
def main(trees: Path | None, count: int, out: Path | None, **options: Any) -> None:
    """Measure training, with the optimizer, and inference on a treebank."""
    results: list[Result] = []
    for result in _results(read(trees, count), options):
        results.append(result)
        click.echo(_line(result))
        report.save("sst", results, out)
    report.leave("sst", results, table(results), out, {"": lambda: picture(results)})


def _results(trees: Any, options: Mapping[str, Any]) -> Any:
    """One after the other, each when it is known."""
    sizes, phases = options["batch_sizes"], options["phases"]
    for model in options["models"]:
        task = Task(model, *trees)
        names = contest.chosen(options["names"], model, options)
        with contest.taking_part(task, names, options) as runners:
            contest.require_agreement(runners, sizes, "train" in phases)
            for phase, size in itertools.product(phases, sizes):
                paces = {
                    name: contest.Pace(runner, phase, size, options["seconds"]) for name, runner in runners.items()
                }
                series = measure.interleave(paces, options["rounds"])
                yield {"model": model, "phase": phase, "batch_size": size, "series": series}


def _title(result: Result) -> str:
    return f"{model_name(result['model'])}, {result['phase']}, batch {result['batch_size']}"


def _line(result: Result) -> str:
    parts = [f"{name} {series.median:,.0f} (±{series.spread / 2:.0%})" for name, series in result["series"].items()]
    return f"{_title(result)}: " + ", ".join(parts)


def table(results: Sequence[Result]) -> str:
    """In trees a second."""
    return report.speeds("trees a second", [(_title(r), r["series"]) for r in results], contest.styles())


def picture(results: Sequence[Result]) -> Any:
    """Bars by batch size, a row of panels for each model."""
    rows = []
    for model, of_model in itertools.groupby(results, lambda result: result["model"]):
        panels = []
        for phase, group in itertools.groupby(of_model, lambda result: result["phase"]):
            cases = list(group)
            values = {name: [case["series"][name].median for case in cases] for name in cases[0]["series"]}
            title = f"{model_name(model)}, {phase}"
            panels.append(pictures.Bars(title, [str(case["batch_size"]) for case in cases], values))
        rows.append(panels)
    return pictures.bars(rows, contest.styles(), "batch size", "trees a second", log=True)
