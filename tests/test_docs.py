"""The documentation runs: the Python of the README and the tour, the examples in docstrings, the options it names."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import linecache
import re
import shlex
import sys
from collections.abc import Iterator
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


def commands_of(page: Path) -> list[list[str]]:
    """The `recgraph` commands in the shell blocks of a page, a word a list entry, without programs that they start."""
    shell = [block.lines for block in blocks(page.read_text(encoding="utf-8")) if block.language == "sh"]
    text = "\n".join("\n".join(lines) for lines in shell).replace("\\\n", " ")
    lines = [line.strip().split(" -- ")[0] for line in text.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("recgraph ")]


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


@pytest.mark.parametrize("page", [str(path.relative_to(REPOSITORY)) for path in documentation() if commands_of(path)])
def test_the_commands_of_a_page_exist_with_their_options(page: str) -> None:
    """A renamed option is renamed in the documentation too."""
    from recgraph_command import main

    for words in commands_of(REPOSITORY / page):
        command: click.Command = main
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        known = {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]}
        assert {word for word in words if word.startswith("--")} <= known, words


@pytest.mark.parametrize("page", documentation(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    """Files and pictures that a page refers to are in the repository."""
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", text) + re.findall(r'<img src="([^"]+)"', text)
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


def imported_first(code: str) -> str | None:
    """Which of recgraph and what it imports quietly a program imports first; None if it does not import both."""
    lines = [(node.lineno, alias.name.split(".")[0]) for node, alias in imports_of(ast.parse(code))]
    order = [name for _, name in lines if name in ("recgraph", "tensorflow", "keras")]
    return order[0] if "recgraph" in order and len(set(order)) > 1 else None


def imports_of(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, ast.alias]]:
    """The imports at the top of a program, in their order."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield node, ast.alias(node.module or "")
        elif isinstance(node, ast.Import):
            yield from ((node, alias) for alias in node.names)


def programs() -> Iterator[tuple[str, str]]:
    """What people copy: the programs of the gallery, and the Python of every page."""
    for path in sorted((REPOSITORY / "examples").glob("*.py")):
        yield path.name, path.read_text(encoding="utf-8")
    for path in documentation():
        for block in blocks(path.read_text(encoding="utf-8")):
            if block.language == "python":
                yield f"{path.name}:{block.line}", "\n".join(block.lines)


def test_programs_import_recgraph_first() -> None:
    """Then TensorFlow's notes about its libraries do not appear."""
    found = {name: imported_first(code) for name, code in programs()}
    assert len([first for first in found.values() if first]) > 10
    assert [name for name, first in found.items() if first not in (None, "recgraph")] == []
    assert imported_first("import tensorflow as tf\nfrom recgraph import testing") == "tensorflow"
