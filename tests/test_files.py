"""Files that we write: whole or not at all, and by one function."""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from recgraph import files
from recgraph.coexec import profile
from recgraph.optimize import generator, remembering, store
from recgraph.optimize.bridge import console
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
    "recgraph/train/history.py": "records for TensorBoard, as they come: a part of them is a shorter record",
    "recgraph/distribute/ports.py": "a secret, which must not replace that of another worker",
    "recgraph/native/quiet.py": "the stream for errors, by its number",
}


# What writes to a path by itself; into a folder that is put in place as a whole it may.
BY_PATH = {"tf.saved_model.save", "np.save", "savez", "savez_compressed", "savetxt", "tofile", "to_file", "imsave"}
BY_PATH |= {"copyfile", "copytree", "copy2", "TFRecordWriter", "save_weights", "write_graph", "write_file"}


def written(source: str) -> list[int]:
    """The lines on which a file is opened to write, or written as a whole, without `files`."""
    lines, tree = [], ast.parse(source)
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.With)]
    inside = {
        inner
        for block in blocks
        if any(
            ".filling(" in ast.unparse(item.context_expr) or "TemporaryDirectory(" in ast.unparse(item.context_expr)
            for item in block.items
        )
        for inner in ast.walk(block)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = getattr(node.func.value, "id", "") if isinstance(node.func, ast.Attribute) else "files"
        if name == "save":  # there are methods of that name
            name = ast.unparse(node.func)
        modes = [
            one.value for one in [*node.args, *(key.value for key in node.keywords)] if isinstance(one, ast.Constant)
        ]
        is_opened = name in ("open", "fdopen") and any(mode in ("w", "wb", "a", "ab", "x", "xb") for mode in modes)
        if (
            is_opened
            or (name in BY_PATH and node not in inside)
            or (name in ("write_text", "write_bytes") and owner != "files")
        ):
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
    assert written("tf.saved_model.save(m, p)\nnp.save(p, a)\nself.save(p)\narray.tofile(p)") == [1, 2, 4]
    assert written(
        "with files.filling(f, 'l') as p:\n    tf.saved_model.save(m, p)\nwith o as p:\n    np.save(p, a)"
    ) == [4]


def content(folder: Path) -> dict[str, str]:
    """All files of a folder."""
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()
    }


def fill(folder: Path, text: str, before_the_end: Callable[[], None] = lambda: None) -> None:
    """Writes a folder of three files, two of which are a part."""
    with files.filling(folder, "index") as beside:
        (beside / "part").mkdir()
        for name in ("index", "part/a", "part/b"):
            (beside / name).write_text(f"{text} {name}", encoding="utf-8")
        before_the_end()


def test_an_interrupted_folder_is_what_it_was(tmp_path: Path) -> None:
    for target, old in ((tmp_path / "new", None), (tmp_path / "old", "old")):
        if old:
            fill(target, old)
            (target / "of others").write_text("mine", encoding="utf-8")
        before = content(tmp_path)
        with pytest.raises(Interrupted):
            fill(target, "half", interrupt)
        assert content(tmp_path) == before
        assert target.exists() == bool(old)
    fill(target, "whole")
    names = ("index", "part/a", "part/b")
    assert content(target) == {"of others": "mine"} | {name: f"whole {name}" for name in names}


def test_the_file_that_makes_a_folder_whole_leaves_first_and_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads meanwhile finds none, and not one beside the parts of another."""
    fill(tmp_path / "folder", "old")
    moves, move = [], os.replace

    def noted(source: Path, target: Path) -> None:
        moves.append((target.name, (tmp_path / "folder" / "index").exists()))
        move(source, target)

    monkeypatch.setattr(os, "replace", noted)
    fill(tmp_path / "folder", "new")
    assert moves == [("part", False), ("index", False)]


def test_an_optimized_model_is_written_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was in the folder stays where TensorFlow cannot finish."""
    model, out = tf.Module(), tmp_path / "out"
    model.double = tf.function(lambda x: {"y": x * 2.0}, [tf.TensorSpec([], name="x")])
    tf.saved_model.save(model, str(tmp_path / "plain"), signatures=model.double)
    console.model(tmp_path / "plain", out, 1.0, "backtracking")
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    save = tf.saved_model.save

    def interrupted(*arguments: object, **named: object) -> None:
        save(*arguments, **named)
        raise Interrupted

    monkeypatch.setattr(tf.saved_model, "save", interrupted)
    with pytest.raises(Interrupted):
        console.model(tmp_path / "plain", out, 1.0, "backtracking")
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == before
    monkeypatch.undo()
    console.model(tmp_path / "plain", out, 1.0, "backtracking")
    assert tf.saved_model.load(str(out)).signatures["serving_default"](x=tf.constant(2.0))["y"].numpy() == 4.0
