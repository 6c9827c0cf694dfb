"""What a benchmark leaves: a table on standard output, and with `--out DIR` the figures, the table and pictures."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recgraph import files
from recgraph.benchmarks.measure import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from recgraph.benchmarks.pictures import Style

FOLDER = click.Path(file_okay=False, path_type=Path)


def out_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `--out`."""
    text = "Folder for the figures as JSON, the table as Markdown, and pictures."
    return click.option("--out", type=FOLDER, help=text)(command)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and the others to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def speeds(title: str, cases: Sequence[tuple[str, Mapping[str, Series]]], styles: Mapping[str, Style]) -> str:
    """A table of speeds: medians and half their spread, and the first contender over every other, by rounds.

    Args:
      title: of the first column.
      cases: what was measured, and the contenders that took part in it.
      styles: by name of a contender.
    """
    names = list(dict.fromkeys(name for _, series in cases for name in series))
    labels = [styles[name].label for name in names]
    rows = []
    for case, series in cases:
        figures = [f"{s.median:,.0f} ±{s.spread / 2:.0%}" if (s := series.get(name)) else "" for name in names]
        ratios = [f"{series[names[0]].over(series[name]):.2f}" if name in series else "" for name in names[1:]]
        rows.append([case, *figures, *ratios])
    return markdown([title, *labels, *(f"/ {label}" for label in labels[1:])], rows)


def leave(
    name: str, results: Any, table: str, out: Path | None, pictures: Mapping[str, Callable[[], Figure]] | None = None
) -> None:
    """Prints the table and, if there is a folder, writes `NAME.json`, `NAME.md` and `NAME.png` or `NAME-part.png`.

    Args:
      name: of the benchmark.
      results: the figures, as JSON has them, or `Series`.
      table: Markdown.
      out: the folder; made where it is not there.
      pictures: what draws them, by part; "" for the only one.
    """
    click.echo("\n" + table)
    if out is None:
        return
    save(name, results, out)
    files.write_text(out / f"{name}.md", table + "\n")
    for part, draw in (pictures or {}).items():
        with files.replacing(out / f"{name}{'-' if part else ''}{part}.png") as stream:
            draw().savefig(stream, format="png", dpi=120)


def save(name: str, results: Any, out: Path | None) -> None:
    """Writes `NAME.json` if there is a folder: the figures so far, what was asked for, and the machine."""
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    context = click.get_current_context()
    asked = {
        key: value.name if isinstance(value, Path) else value
        for key, value in context.params.items()
        if not key.endswith(("out", "python", "one"))
    }
    record = {"benchmark": name, "machine": machine(), "options": asked, "results": results}
    files.write_text(out / f"{name}.json", json.dumps(record, indent=1, default=_as_json) + "\n")


def _as_json(value: Any) -> Any:
    return value.as_json() if isinstance(value, Series) else str(value)


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    import tensorflow as tf

    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("model name", 1)[-1].splitlines()[0].strip("\t :")
    return {
        "processor": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
    }
