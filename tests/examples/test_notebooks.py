"""The notebooks run from top to bottom, and need nothing but recgraph and what it needs."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))
HAD = {*sys.stdlib_module_names, "recgraph", "keras", "tensorflow", "numpy"}


def read(path: Path) -> Any:
    """A notebook."""
    return nbformat.read(path, as_version=4)


def codes(book: Any) -> list[str]:
    """The Python of its cells, without commands of the notebook's own."""
    return [re.sub(r"^(\s*)%.*", r"\1pass", c.source, flags=re.MULTILINE) for c in book.cells if c.cell_type == "code"]


def test_there_is_one() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_needs_nothing_else(path: Path) -> None:
    """In Colab, for instance, whose Python may be any that recgraph supports; results are not kept in the file."""
    book = read(path)
    nbformat.validate(book)
    nodes = [node for code in codes(book) for node in ast.walk(ast.parse(code, feature_version=(3, 11)))]
    names = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {(node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    assert names <= HAD
    assert "recgraph" in names
    assert [cell for cell in book.cells if cell.get("outputs") or cell.get("execution_count")] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    """Every cell, in a kernel of Jupyter's, and no warning is shown."""
    book = read(path)
    nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    printed = "".join(output.get("text", "") for output in outputs)
    assert "Warning" not in printed
    assert any("image/png" in output.get("data", {}) for output in outputs)
    error = float(re.search(r"records that it has not seen: ([0-9.]+)", printed)[1])
    assert error < 0.1
