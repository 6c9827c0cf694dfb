"""Trees a second on a treebank: both engines, iterative, PyTorch by hand, and the matrix products alone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import contenders, measure
from recgraph.data import Vocabulary, load_sst

NAMES = ("batched", "parallel", "iterative", "pytorch", "pytorch_folded", "limit")
# Of one measurement. The slow ones do fewer trees, so that a round takes about as long for everyone.
TREES = {"batched": 800, "parallel": 400, "iterative": 100, "pytorch": 200, "pytorch_folded": 800, "limit": 2000}


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False), envvar="RECGRAPH_DATA", help="Treebank.")
@click.option("--models", default="tree_lstm,rntn,tree_rnn", show_default=True)
@click.option("--batch-sizes", default="1,10,25", show_default=True)
@click.option("--phases", default="train,infer", show_default=True)
@click.option("--contenders", "names", default=",".join(NAMES), show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True)
@click.option("--scale", type=float, default=1.0, show_default=True, help="Times as many trees a measurement.")
@click.option("--trees", "count", type=int, default=2000, show_default=True, help="First trees of train.txt.")
@click.option("--torch-python", default=None, help="An interpreter with torch, if it is not this one.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write the figures as JSON.")
def main(models: str, batch_sizes: str, phases: str, out: str | None, **options: Any) -> None:
    """Measure training (with input pipeline and optimizer) and inference, every node with its loss or class."""
    trees = load_sst(options["data"]).train[: options["count"]]
    vocabulary = Vocabulary.build(trees, lowercase=True)
    results = []
    for model, phase, size in itertools.product(models.split(","), phases.split(","), map(int, batch_sizes.split(","))):
        task = contenders.Task(model, trees, vocabulary, size, phase == "train")
        series = _measure(task, options)
        results.append({"model": model, "phase": phase, "batch_size": size, "series": series})
        click.echo(_row_text(results[-1]))
        if out is not None:
            _write(results, Path(out))
    click.echo("\n" + table(results))


def _measure(task: contenders.Task, options: dict[str, Any]) -> dict[str, measure.Series]:
    makers: dict[str, Callable[[], contenders.Contender]] = {
        "batched": lambda: contenders.TensorFlow(task, "recursive", "batched"),
        "parallel": lambda: contenders.TensorFlow(task, "recursive", "parallel"),
        "iterative": lambda: contenders.TensorFlow(task, "iterative"),
        "pytorch": lambda: contenders.PyTorch(task, False, **_python(options["torch_python"])),
        "pytorch_folded": lambda: contenders.PyTorch(task, True, **_python(options["torch_python"])),
        "limit": lambda: contenders.Limit(task),
    }
    chosen = {name: makers[name]() for name in options["names"].split(",")}
    try:
        _require_equal_losses(chosen)
        work = {name: _runner(chosen[name], int(TREES[name] * options["scale"])) for name in chosen}
        return measure.interleave(work, options["rounds"])
    finally:
        for contender in chosen.values():
            contender.close()


def _runner(contender: contenders.Contender, trees: int) -> Callable[[], float]:
    return lambda: contender.run(trees)


def _python(path: str | None) -> dict[str, str]:
    return {} if path is None else {"python": path}


def _require_equal_losses(chosen: dict[str, contenders.Contender]) -> None:
    """Speeds are worth comparing only if all compute the same."""
    losses = {name: contender.first_loss() for name, contender in chosen.items() if name != "limit"}
    if losses and max(losses.values()) - min(losses.values()) > 1e-4 * abs(max(losses.values())):
        raise RuntimeError(f"the contenders disagree on the loss of the first batch: {losses}")


def _row_text(result: dict[str, Any]) -> str:
    parts = [f"{name} {series.median:.0f} (±{series.spread / 2:.0%})" for name, series in result["series"].items()]
    return f"{result['model']} {result['phase']} batch {result['batch_size']}: " + ", ".join(parts)


def table(results: list[dict[str, Any]]) -> str:
    """Medians in trees a second, and how many times faster the first contender is: medians of ratios by round."""
    first, *others = results[0]["series"]
    names = [first, *others]
    header = ["", *names, *(f"{first} / {name}" for name in others)]
    rows = []
    for result in results:
        series = result["series"]
        figures = [f"{series[name].median:,.0f} ±{series[name].spread / 2:.0%}" for name in names]
        ratios = [f"{series[first].over(series[name]):.2f}" for name in others]
        rows.append([f"{result['model']}, {result['phase']}, batch {result['batch_size']}", *figures, *ratios])
    return measure.markdown(header, rows)


def _write(results: list[dict[str, Any]], path: Path) -> None:
    plain = [{**r, "series": {name: s.as_json() for name, s in r["series"].items()}} for r in results]
    path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
