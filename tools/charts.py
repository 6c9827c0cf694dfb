"""Draws the pictures of the README from the tables of docs/benchmarks.md and docs/accuracy.md.

    python tools/charts.py

A picture has the rows that it shows as its description, so that `tests/test_readme.py` sees whether it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from recgraph.benchmarks.pictures import Bars, Style, bars

REPOSITORY = Path(__file__).parents[1]
IMAGES = REPOSITORY / "docs/images"
BLUE, ORANGE, GREY, LIGHT = "#3b6ea8", "#d9822b", "#9aa3ad", "#a9c3de"
Rows = Sequence[Sequence[str]]


def first_table(page: str) -> Rows:
    """The rows of a page's first table, its header among them."""
    rows: list[list[str]] = []
    for line in (REPOSITORY / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and set(line) - set("|-: "):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows and not line.startswith("|"):
            break
    return rows


def number(text: str) -> float:
    """Such as 2,330."""
    return float(text.replace(",", ""))


def speed(rows: Rows) -> Figure:
    """Trees a second: training and inference, a bar for each library."""
    header, *lines = rows
    styles = {name: Style(name, color) for name, color in zip(header[1:], (BLUE, ORANGE, GREY), strict=True)}
    panels = []
    for phase in ("training", "inference"):
        cases = [line for line in lines if line[0].startswith(phase)]
        groups = [line[0].split(", ")[1] for line in cases]
        values = {name: [number(line[at]) for line in cases] for at, name in enumerate(header[1:], 1)}
        panels.append(Bars(phase, groups, values))
    return bars([panels], styles, "", "trees a second")


def accuracy(rows: Rows) -> Figure:
    """A group for each network, a bar for each task."""
    header, *lines = rows
    styles = {name: Style(name, color) for name, color in zip(header[2:], (LIGHT, BLUE), strict=True)}
    groups = [f"{model}\n{vectors.split(',')[0]} vectors" for model, vectors, *_ in lines]
    values = {name: [number(line[at]) for line in lines] for at, name in enumerate(header[2:], 2)}
    return bars([[Bars("Stanford Sentiment Treebank", groups, values)]], styles, "", "right, %")


# By the name of the picture, the page whose first table it shows, and how.
PICTURES = {"speed": ("docs/benchmarks.md", speed), "accuracy": ("docs/accuracy.md", accuracy)}


def described(rows: Rows) -> str:
    """The rows as a picture's description."""
    return "; ".join(" | ".join(row) for row in rows)


def main(names: Sequence[str]) -> None:
    """Writes the named pictures, or all."""
    for name, (page, draw) in PICTURES.items():
        if not names or name in names:
            rows = first_table(page)
            draw(rows).savefig(IMAGES / f"{name}.png", dpi=110, metadata={"Description": described(rows)})


if __name__ == "__main__":
    main(sys.argv[1:])
