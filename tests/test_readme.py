"""The README: one screen, with figures and pictures that are those of its pages, and the way to every page."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
RESULTS = (REPOSITORY / "benchmarks/RESULTS.md").read_text(encoding="utf-8")


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tool that draws the pictures, as a module."""
    monkeypatch.syspath_prepend(REPOSITORY / "tools")
    return importlib.import_module("charts")


def cells_of(row: str) -> list[str]:
    """The numbers of a row of the results, without their spread."""
    (line,) = [line for line in RESULTS.splitlines() if line.startswith(f"| {row} |")][:1]
    return [cell.split()[0] for cell in line.strip("|").split("|")[1:] if cell.strip()]


def test_it_is_one_screen_and_has_the_commands() -> None:
    """Whoever sets a machine up for the project reads these two here."""
    assert len(README.splitlines()) <= 120
    assert "`make test`" in README
    assert "    make demo\n" in README


def test_it_leads_to_every_page() -> None:
    """A page that nothing leads to is not read."""
    linked = re.findall(r"\]\(([^)#:]+)", README)
    pages = [
        path for folder in (".", "docs") for path in (REPOSITORY / folder).glob("*.md") if path.name != "README.md"
    ]
    assert [path.name for path in pages if str(path.relative_to(REPOSITORY)) not in linked] == []


def test_the_speeds_are_those_that_were_measured(charts: Any) -> None:
    """The table's, and what the README says of them."""
    ratios = []
    for case, *speeds in charts.first_table("docs/benchmarks.md")[1:]:
        name = case.replace("training", "train").replace("inference", "infer")
        ours, dynet, folded, _, to_dynet, to_folded, _ = cells_of(f"TreeLSTM, {name}")
        assert speeds == [ours, folded, dynet]
        ratios += [to_dynet, to_folded] if name.startswith("train") else []
    low, high = min(map(float, ratios)), max(map(float, ratios))
    assert f"trains {low:.1f} to {high:.1f} times as fast" in README


def test_the_accuracies_are_those_that_were_measured(charts: Any) -> None:
    """The table's, and what the README says of them."""
    for model, vectors, fine, binary in charts.first_table("docs/accuracy.md")[1:]:
        (line,) = [
            line
            for line in RESULTS.split("## Accuracy on the SST test set")[1].split("\n## ")[0].splitlines()
            if line.startswith(f"| {model} |") and ("random" in line) == (vectors == "random")
        ]
        assert re.findall(r" ([0-9.]+) \(", line) == [fine, binary]
    assert f"{binary} % of the test sentences" in README


@pytest.mark.parametrize("name", ["speed", "accuracy"])
def test_the_pictures_show_the_tables_as_they_are(charts: Any, name: str) -> None:
    """A table that was changed needs `python tools/charts.py`."""
    page, draw = charts.PICTURES[name]
    rows = charts.first_table(page)
    with PIL.Image.open(REPOSITORY / f"docs/images/{name}.png") as picture:
        assert picture.text["Description"] == charts.described(rows)
    drawn = [bar.get_height() for axes in draw(rows).axes for bar in axes.patches]
    numbers = [charts.number(cell) for row in rows[1:] for cell in row if re.fullmatch(r"[0-9,.]+", cell)]
    assert sorted(drawn) == sorted(numbers)
    assert f"docs/images/{name}.png" in README
