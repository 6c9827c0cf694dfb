"""Files that we write: whole or not at all, and by one function."""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from recgraph import files
from recgraph.coexec import profile
from recgraph.optimize import generator, remembering, store
from recgraph.optimize.costs import Costs

REPOSITORY = Path(__file__).parents[1]
OLD = b"what was there before"


class Interrupted(BaseException):
    """As Ctrl-C, when all is written and the old file is still there."""


def interrupt(*_: object) -> None:
    raise Interrupted


WRITERS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: files.write_text(path, "new"),
    "substitutions": lambda path: store.write(path, ["made by a test"], store.read(store.SHIPPED)[:3]),
    "costs": lambda path: Costs({"add": 1.0}).write(path),
    "verdicts": lambda path: remembering.remember("key", remembering.GraphTiming(True, 2.0, 1.0), path),
    "graphs": lambda path: generator._write(path, [1, 2, 3]),
    "picture": lambda path: profile.draw([profile.StepProfile("step", [profile.StepTimes(0.01, {})])], path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_an_interrupted_write_leaves_the_old_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "written.png"
    path.write_bytes(OLD)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupt)
        with pytest.raises(Interrupted):
            WRITERS[name](path)
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]
    WRITERS[name](path)
    assert path.read_bytes() != OLD
    assert list(tmp_path.iterdir()) == [path]


def test_an_interruption_in_the_midst_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "written"
    path.write_bytes(OLD)
    with pytest.raises(Interrupted), files.replacing(path) as stream:
        interrupt(stream.write(b"a half" * 10_000))
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """As it does where a program opens it to write."""
    path, link = tmp_path / "folder" / "file", tmp_path / "link"
    path.parent.mkdir()
    link.symlink_to(path)
    for text in ("first", "second"):
        files.write_text(link, text)
        assert link.is_symlink()
        assert path.read_text(encoding="utf-8") == text
        assert list(path.parent.iterdir()) == [path]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    """Such as the pipe to another program, or `/dev/null`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    files.write_text(pipe, "passed on")
    reader.join(30)
    assert read == ["passed on"]
    assert pipe.is_fifo()
    with pytest.raises(IsADirectoryError):
        files.write_text(tmp_path, "no text")


# What writes otherwise, and why.
OTHERWISE = {
    "recgraph/files.py": "it is the one that does it",
    "data/fetch.py": "parts of a download, which goes on where it was broken off; the whole is renamed",
    "recgraph/distribute/ports.py": "a secret, which must not replace that of another worker",
    "recgraph_command.py": "the stream for errors, by its number",
}


def written(source: str) -> list[int]:
    """The lines on which a file is opened to write, or written as a whole, without `files`."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = getattr(node.func.value, "id", "") if isinstance(node.func, ast.Attribute) else "files"
        modes = [
            one.value for one in [*node.args, *(key.value for key in node.keywords)] if isinstance(one, ast.Constant)
        ]
        is_opened = name in ("open", "fdopen") and any(mode in ("w", "wb", "a", "ab", "x", "xb") for mode in modes)
        if is_opened or (name in ("write_text", "write_bytes") and owner != "files"):
            lines.append(node.lineno)
    return lines


def test_files_are_written_by_one_function() -> None:
    """Who reads a file that is being written, or was when the machine stopped, gets a half otherwise."""
    paths = [path for room in ("recgraph", "data", "models") for path in sorted((REPOSITORY / room).rglob("*.py"))]
    found = {
        str(path.relative_to(REPOSITORY)): lines
        for path in [*paths, REPOSITORY / "recgraph_command.py", REPOSITORY / "recgraph_launch.py"]
        if (lines := written(path.read_text(encoding="utf-8")))
    }
    assert set(found) == set(OTHERWISE), found


def test_the_search_finds_what_it_looks_for() -> None:
    """A search that finds nothing would agree with anything."""
    assert written('files.write_text(p, "w")\nopen(p)\nopen(p, "rb")\nwrite_text(p, t)') == []
    assert written('p.write_text(t)\nopen(p, "w")\np.open(mode="ab")\nos.fdopen(h, "wb")\np.write_bytes(b)') == [
        *range(1, 6)
    ]
