"""The documentation runs: the Python of the README and the tour, the examples in docstrings, the options it names."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import linecache
import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from tests import spacy_stand_in

REPOSITORY = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "docs/tour.md",
    "docs/dynamic_programming.md",
    "docs/keras.md",
    "docs/trees.md",
    "docs/speculation.md",
    "docs/coexecution.md",
    "docs/substitution.md",
    "data/README.md",
)
FOLDERS = ("recgraph", "data", "models", "benchmarks")


def modules_with_examples() -> list[str]:
    """The modules of the package that have `>>>` in a docstring, as they are imported."""
    paths = [path for folder in FOLDERS for path in sorted((REPOSITORY / folder).rglob("*.py"))]
    with_examples = [path.relative_to(REPOSITORY) for path in paths if ">>> " in path.read_text(encoding="utf-8")]
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in with_examples]
    return [name if name.startswith("recgraph") else f"recgraph.{name}" for name in names]


def documentation() -> list[Path]:
    """All pages for readers."""
    rooms = (REPOSITORY / name for name in ("", "docs", "data", "models", "benchmarks", "cc", "recgraph/core"))
    return sorted(path for room in rooms for path in room.glob("*.md"))


class Block(NamedTuple):
    """A fenced block of a page: its language, its first line's number from 1, its lines."""

    language: str
    line: int
    lines: list[str]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
            if inside:
                found.append(Block(line[3:].strip(), number + 1, []))
        elif inside:
            found[-1].lines.append(line)
    return found


def code_of(text: str) -> list[str]:
    """The lines of a page, empty outside of its Python: what tools see that parse a function's file."""
    lines = ["\n"] * len(text.splitlines())
    for block in blocks(text):
        if block.language == "python":
            lines[block.line - 1 : block.line - 1 + len(block.lines)] = [f"{line}\n" for line in block.lines]
    return lines


def run_page(path: Path, namespace: dict[str, object]) -> list[str]:
    """Runs the Python blocks of a page in one namespace; says where a printed text is not the block `text` below.

    Tracebacks, call labels and `inspect` see the page's code as the source file.
    """
    wrong: list[str] = []
    printed = ""
    text = path.read_text(encoding="utf-8")
    linecache.cache[str(path)] = len(text), None, code_of(text), str(path)
    for block in blocks(text):
        if block.language == "python":
            source = "\n" * (block.line - 1) + "\n".join(block.lines)
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(source, str(path), "exec"), namespace)
            printed = output.getvalue().rstrip("\n")
        elif block.language == "text" and printed != "\n".join(block.lines):
            wrong.append(f"{path.name}:{block.line}: printed {printed!r}")
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_shows(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one namespace, with the output that is printed below a block."""
    monkeypatch.chdir(tmp_path)
    for name, module in spacy_stand_in.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    assert run_page(REPOSITORY / page, {"__name__": "page"}) == []


def test_a_page_that_shows_something_else_is_caught(tmp_path: Path) -> None:
    """The check above can fail."""
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx = 1\nprint(x)\n```\n\n```text\n2\n```\n", encoding="utf-8")
    assert run_page(page, {}) == ["page.md:9: printed '1'"]


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_in_docstrings_run(name: str) -> None:
    """As `python -m doctest` would."""
    result = doctest.testmod(
        importlib.import_module(name), extraglobs={"__name__": "__main__"}, optionflags=doctest.ELLIPSIS
    )
    assert result.failed == 0
    assert result.attempted > 0


def commands_of(page: str) -> list[list[str]]:
    """The `recgraph` commands in the shell blocks of a page, a word a list entry."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    shell = "\n".join("\n".join(block.lines) for block in blocks(text) if block.language == "sh")
    lines = [line.strip() for line in shell.replace("\\\n", " ").splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("recgraph ")]


def test_the_commands_of_the_readme_exist_with_their_options() -> None:
    """A renamed option is renamed in the README too."""
    from recgraph_command import main

    commands = commands_of("README.md")
    assert len(commands) >= 5
    for words in commands:
        command: click.Command = main
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        known = {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]}
        assert {word for word in words if word.startswith("--")} <= known, words


@pytest.mark.parametrize(
    "page",
    [
        *PAGES,
        "docs/architecture.md",
        "docs/distribution.md",
        "docs/substitution.md",
        "docs/graph_optimizer.md",
        "docs/glossary.md",
        "cc/README.md",
        "recgraph/core/README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/gallery.md",
    ],
)
def test_links_lead_somewhere(page: str) -> None:
    """Files and pictures that a page refers to are in the repository."""
    path = REPOSITORY / page
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (path.parent / target).exists()]
    assert missing == []
