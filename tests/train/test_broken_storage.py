"""Disks that are full and files that are damaged: a message with the place, nothing half-written, no traceback."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import resource
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from click.testing import CliRunner, Result

from recgraph.data import DataFormatError, read_trees, write_treebank
from recgraph.data.files import atomic_file
from recgraph.train import export, history, pictures
from recgraph.train.checkpoints import CheckpointError, Checkpoints
from recgraph.train.run import Run, load, prepare
from recgraph.train.settings import Settings
from recgraph.train.stored import RunError
from recgraph.train.trainer import Trainer
from recgraph_command import main


@contextlib.contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes, as on a disk that fills up; every writer, TensorFlow's too, is refused."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def command(*arguments: object, text: str | bytes = "") -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=text)


@pytest.fixture
def copied(trained: Run, tmp_path: Path) -> Path:
    """The folder of a run that may be damaged."""
    return Path(shutil.copytree(trained.folder, tmp_path / "run"))


class Weights(tf.Module):
    """More than a file may hold below."""

    def __init__(self) -> None:
        super().__init__()
        self.value = tf.Variable(tf.zeros([5000]))


@pytest.mark.parametrize("size", [0, 100, 4096])
def test_a_disk_that_fills_up_during_a_checkpoint(size: int, tmp_path: Path) -> None:
    """The last one is kept, as it was, and can be restored."""
    weights = Weights()
    checkpoints = Checkpoints(tf.train.Checkpoint(model=weights), tmp_path, keep=1)
    checkpoints.save(1)
    before = contents(tmp_path)
    weights.value.assign(tf.ones([5000]))
    with (
        files_up_to(size),
        pytest.raises(CheckpointError, match=r"epoch 2 cannot be written[\s\S]*epoch 1 is kept; make room"),
    ):
        checkpoints.save(2)
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    assert checkpoints.restore() == 1
    assert float(tf.reduce_sum(weights.value)) == 0.0
    checkpoints.save(2)
    assert checkpoints.epochs() == [2]


def test_training_goes_on_where_the_disk_was_full(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Trainer(prepare(folder, settings)).fit(lambda sums: None, lambda record: None)
    training = Trainer(prepare(folder, dataclasses.replace(settings, epochs=2)))
    before = contents(folder / "checkpoints")
    with files_up_to(2000), pytest.raises(CheckpointError, match="No space|too large|File"):
        training.fit(lambda sums: None, lambda record: None)
    assert contents(folder / "checkpoints") == before
    records = Trainer(prepare(folder, dataclasses.replace(settings, epochs=2))).fit(
        lambda sums: None, lambda record: None
    )
    assert [record["epoch"] for record in records] == [1, 2]


def test_export_to_a_full_disk_leaves_what_was_there(trained: Run, tmp_path: Path) -> None:
    """Nothing in a new folder; in an old one the model that serves."""
    new, old = tmp_path / "new", tmp_path / "old"
    export.save(trained.model, trained.vocabulary, old)
    (old / "notes.txt").write_text("the user's", encoding="utf-8")
    before = contents(old)
    for folder in (new, old):
        with files_up_to(1000), pytest.raises(export.ExportError, match="the model cannot be saved here"):
            export.save(trained.model, trained.vocabulary, folder)
    assert not new.exists()
    assert contents(old) == before
    tf.saved_model.load(str(old))
    export.save(trained.model, trained.vocabulary, old)
    assert contents(old).keys() == before.keys()


def test_the_command_says_where_it_cannot_export(trained: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = command("export", trained.folder, "--out", tmp_path / "file" / "saved")
    assert done.exit_code == 1
    assert "Error: the model cannot be saved here [export]" in done.output
    assert str(tmp_path / "file" / "saved") in done.output
    with files_up_to(1000):
        done = command("export", trained.folder, "--out", tmp_path / "saved")
    assert done.exit_code == 1
    assert "Error: the model cannot be saved here [export]" in done.output


def test_a_treebank_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """Not two splits of one treebank beside one of another."""
    write_treebank(tmp_path, (10, 2, 400), seed=0)
    before = contents(tmp_path)
    with files_up_to(8000), pytest.raises(OSError, match=r"File too large: .*test\.txt"):
        write_treebank(tmp_path, (10, 2, 400), seed=1)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures_are_written_whole_or_not_at_all(treebank: Path, tmp_path: Path, ending: str) -> None:
    tree = read_trees(treebank / "dev.txt")[0]
    with files_up_to(100), pytest.raises(OSError, match=rf"File too large: .*tree\.{ending}"):
        pictures.draw_tree(tree, [0] * len(tree), tmp_path / f"tree.{ending}")
    record = {"epoch": 1, "loss": 1.0, "dev": {"root": 0.5}, "best": True}
    with files_up_to(100), pytest.raises(OSError, match=r"File too large: .*curve\.png"):
        history.draw_curve([record], tmp_path / "curve.png")
    assert contents(tmp_path) == {}


def test_an_error_of_a_write_names_the_file(tmp_path: Path) -> None:
    with files_up_to(10), pytest.raises(OSError, match=r"File too large: '.*words\.txt'"):  # noqa: SIM117
        with atomic_file(tmp_path / "words.txt") as file:
            file.write(b"x" * 100_000)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("hyper.json", '{\n  "embedding": 8,\n  "hidden": "eight"\n}', 3, "'hidden' is \"eight\""),
        ("hyper.json", '{\n  "embedding": 8,\n  "hidden": 8.5\n}', 3, "expected:  a whole number from 0"),
        ("hyper.json", '{\n  "embedding": -8,\n  "hidden": 8\n}', 2, "'embedding' is -8"),
        ("hyper.json", '{\n  "embedding": true,\n  "hidden": 8\n}', 2, "'embedding' is true"),
        ("hyper.json", '{\n  "embedding": 8,\n  "hidden": 8,\n  "l2": NaN\n}', 4, "expected:  a finite number"),
        ("hyper.json", '{\n  "embedding": 8,\n  "hidden": 8,\n  "unheard_of": 1\n}', 4, "expected:  no such key"),
        ("hyper.json", '{\n  "embedding": 8\n}', 1, "no 'hidden'"),
        ("hyper.json", '{\n  "embedding": 8\n  "hidden": 8\n}', 3, "delimiter"),
        ("hyper.json", "[" * 100_000, 1, "expected:  JSON"),
        (
            "settings.json",
            '{\n  "model": "tree_lstm",\n  "data": "x",\n  "task": "coarse"\n}',
            4,
            "one of fine, binary",
        ),
        ("settings.json", '{\n  "model": "tree",\n  "data": "x"\n}', 2, "one of tree_rnn, "),
        ("settings.json", '{\n  "model": "tree_lstm",\n  "data": 1\n}', 3, "expected:  a string"),
        ("settings.json", '{\n  "model": "tree_lstm",\n  "data": "x",\n  "engine": "fast"\n}', 4, "one of auto, "),
        ("settings.json", '{\n  "model": "tree_lstm",\n  "data": "x",\n  "deterministic": 1\n}', 4, "true or false"),
        ("settings.json", '{\n  "model": "tree_lstm",\n  "data": "x",\n  "hyper": []\n}', 4, "a JSON object"),
        ("settings.json", '{\n  "model": "tree_lstm",\n  "data": "x",\n  "seed": -1\n}', 4, "'seed' is -1"),
    ],
)
def test_a_damaged_file_of_a_run_is_named_with_its_line(
    copied: Path, name: str, text: str, line: int, message: str
) -> None:
    (copied / name).write_text(text, encoding="utf-8")
    with pytest.raises(RunError) as caught:
        load(copied)
    assert message in str(caught.value)
    assert f"{name}:{line}\n" in str(caught.value)


@pytest.mark.parametrize("name", ["hyper.json", "settings.json"])
def test_a_file_of_a_run_that_is_not_utf8(copied: Path, name: str) -> None:
    lines = (copied / name).read_bytes().split(b"\n")
    (copied / name).write_bytes(b"\n".join([*lines[:2], b"\xff" + lines[2], *lines[3:]]))
    with pytest.raises(RunError, match=rf"{name}:3\n.*the byte 0xff\n.*UTF-8 text"):
        load(copied)


@pytest.mark.parametrize("change", [-1, 1, -5])
def test_a_vocabulary_of_another_length_is_named(copied: Path, change: int) -> None:
    path = copied / "vocabulary.txt"
    words = path.read_text(encoding="utf-8").splitlines()
    changed = words[:change] if change < 0 else [*words, "unheard-of"]
    path.write_text("".join(f"{word}\n" for word in changed), encoding="utf-8")
    done = command("evaluate", copied)
    assert done.exit_code == 1
    assert f"{path}:{min(len(words), len(changed)) + 1}\n" in done.output
    assert f"found:     {len(changed)} words\n  expected:  {len(words)}, one for each row" in done.output


@pytest.mark.parametrize("name", ["hyper.json", "vocabulary.txt"])
def test_a_file_of_a_run_that_is_missing(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(RunError, match=rf"of this run (are|is) missing[\s\S]*{name}"):
        load(copied)


@pytest.mark.parametrize("line", ["{", "[]", '{"epoch": 1}', '{"epoch": "1", "loss": 1, "dev": {}, "best": true}'])
def test_a_damaged_log_is_named_with_its_line(line: str, tmp_path: Path) -> None:
    good: dict[str, Any] = {"epoch": 1, "loss": 1.0, "dev": {}, "best": True}
    (tmp_path / "log.jsonl").write_text(f"{json.dumps(good)}\n{line}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"log\.jsonl:2:1: expected"):
        history.read_log(tmp_path / "log.jsonl")


BAD_LINES = [
    (b"(3 (2 a)", "9: expected "),
    (b"film \xff\xfe", "6: expected UTF-8 text, found the byte 0xff"),
    (b"(9 a)", "2: expected a label"),
]


@pytest.mark.parametrize("as_file", [True, False])
def test_bad_lines_do_not_take_the_good_ones_with_them(trained: Run, tmp_path: Path, as_file: bool) -> None:
    """Good, bad, good, bad and so on: all good ones are printed, each bad one is named, and the command has failed."""
    lines = b"good\n" + b"\n(3 (2 quite) (3 good))\n".join(bad for bad, _ in BAD_LINES) + b"\nna\xc3\xafve\n"
    (tmp_path / "in.txt").write_bytes(lines)
    arguments = ["predict", trained.folder, *([tmp_path / "in.txt"] if as_file else []), "--json"]
    done = command(*arguments, text=b"" if as_file else lines)
    assert done.exit_code == 1
    found = [json.loads(line)["sentence"] for line in done.stdout.splitlines()]
    assert found == ["good", *["quite good"] * (len(BAD_LINES) - 1), "na\u00efve"]
    source = tmp_path / "in.txt" if as_file else "<stdin>"
    said = [line for line in done.stderr.splitlines() if line.startswith("Error")]
    for number, (line, (_, message)) in enumerate(zip(said, BAD_LINES, strict=True)):
        assert line.startswith(f"Error: {source}:{2 * number + 2}:{message}")


def test_treebank_files_that_are_not_utf8(treebank: Path, trained: Run, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(treebank, tmp_path / "bank"))
    lines = (folder / "dev.txt").read_bytes().split(b"\n")
    (folder / "dev.txt").write_bytes(b"\n".join([lines[0], lines[1][:5] + b"\xe9" + lines[1][5:], *lines[2:]]))
    for arguments in (
        ["data", "stats", folder],
        ["evaluate", trained.folder, "--data", folder],
        ["show", trained.folder, "--data", folder, "--out", tmp_path / "tree.png"],
    ):
        done = command(*arguments)
        assert done.exit_code == 1, done.output
        assert f"Error: {folder / 'dev.txt'}:2:6: expected UTF-8 text, found the byte 0xe9" in done.output
    done = command("show", trained.folder, "--input", "caf\udce9", "--out", tmp_path / "tree.png")
    assert done.exit_code == 1
    assert "Error: --input:1:4: expected UTF-8 text, found the byte 0xe9" in done.output


@pytest.mark.parametrize(
    "option", ["--seed=-1", f"--seed={2**64}", f"--hidden={10**30}", f"--batch-size={10**30}", f"--epochs={10**30}"]
)
def test_numbers_out_of_range(option: str, treebank: Path, tmp_path: Path) -> None:
    done = command("train", "--data", treebank, "--out", tmp_path / "run", option)
    assert done.exit_code == 2
    assert f"Invalid value for '{option.split('=')[0]}'" in done.output
    assert "is not in the range" in done.output


@pytest.mark.parametrize("option", ["--hidden", "--embedding"])
def test_a_model_that_no_memory_holds(option: str, treebank: Path, tmp_path: Path) -> None:
    done = command("train", "--data", treebank, "--out", tmp_path / "run", option, 2_000_000_000)
    assert done.exit_code == 1
    assert "Error: out of memory: " in done.output
    assert f"Give a smaller {option}" in done.output.replace("--hidden, --embedding", option)
    assert not (tmp_path / "run").exists()


def test_what_tensorflow_runs_out_of_is_a_message(
    treebank: Path, trained: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*arguments: Any) -> None:
        tf.raw_ops.Fill(dims=tf.constant([1 << 24, 1 << 24], tf.int64), value=1.0)

    monkeypatch.setattr("recgraph.train.console.evaluate", exhausted)
    done = command("evaluate", trained.folder)
    assert done.exit_code == 1
    assert done.output.startswith("Error: ResourceExhaustedError: OOM when allocating tensor")
    assert "[Op:" not in done.output
    assert done.output.rstrip().endswith("Give a smaller --hidden, --embedding or --batch-size")
