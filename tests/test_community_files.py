"""What the project's pages for strangers claim: how to cite it, what a report has, what is loaded and what is not."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[1]
TEMPLATES = sorted((REPOSITORY / ".github/ISSUE_TEMPLATE").glob("*.yml"))
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Modules whose files may run any program when they are read.
RUN_PROGRAMS = {"pickle", "cPickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}


def read(path: Path) -> Any:
    """A file of YAML."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_citation_is_of_this_release() -> None:
    citation = read(REPOSITORY / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert {"message", "title", "authors", "references"} <= citation.keys()
    assert all(reference["doi"] for reference in citation["references"])


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_is_a_form(path: Path) -> None:
    """As GitHub reads it: with a name, and fields that have identifiers of their own."""
    form = read(path)
    if path.name == "config.yml":
        assert form == {"blank_issues_enabled": True}
        return
    assert form["name"]
    assert form["description"]
    names = [field["id"] for field in form["body"]]
    assert len(names) == len(set(names)) > 1
    assert all(field["type"] in ("textarea", "input") and field["attributes"]["label"] for field in form["body"])


def test_a_report_asks_for_what_the_command_says() -> None:
    """A command that is renamed is renamed in the form, too."""
    from recgraph_command import main

    fields = {field["id"]: field for field in read(REPOSITORY / ".github/ISSUE_TEMPLATE/defect.yml")["body"]}
    assert fields["versions"]["attributes"]["label"] == "What `recgraph doctor` prints"
    assert "doctor" in main.commands


def imported(path: Path) -> set[str]:
    """The modules that a file imports anywhere."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return {name.split(".")[0] for name in names + [n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)]}


def test_nothing_is_loaded_that_runs_programs() -> None:
    """SECURITY.md says so: only the generator of substitutions has pickles, its own."""
    folders = ("recgraph", "models", "data")
    files = [*REPOSITORY.glob("*.py"), *(path for folder in folders for path in (REPOSITORY / folder).rglob("*.py"))]
    found = {str(path.relative_to(REPOSITORY)) for path in files if imported(path) & RUN_PROGRAMS}
    assert found == {"recgraph/optimize/generator.py"}
    text = (REPOSITORY / "SECURITY.md").read_text(encoding="utf-8")
    assert "`recgraph.optimize.generator`" in text
    assert not any("allow_pickle" in path.read_text(encoding="utf-8") for path in files)


def test_tests_that_the_pages_name_are_there() -> None:
    """A claim is as good as its test."""
    text = (REPOSITORY / "SECURITY.md").read_text(encoding="utf-8")
    named = [word for word in text.split("`") if word.startswith("tests/")]
    assert len(named) >= 3
    assert [name for name in named if not (REPOSITORY / name).exists()] == []
