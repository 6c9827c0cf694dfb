"""A run that is stopped and continued is the same as one that was not stopped."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from recgraph.train import trainer
from recgraph.train.history import Record, read_log
from recgraph.train.run import RunError, load, prepare
from recgraph.train.settings import Settings
from recgraph.train.trainer import Progress, Sums, Trainer


class Killed(Exception):
    """Stands for SIGKILL: nothing of ours catches it."""


def train(folder: Path, settings: Settings, kill_after: int | None = None) -> Trainer:
    """Trains, and is killed at the so-manieth report."""
    training = Trainer(prepare(folder, settings))
    reports = 0

    def report(sums: Sums) -> None:
        nonlocal reports
        reports += 1
        if reports == kill_after:
            raise Killed

    training.fit(report, lambda record: None)
    return training


def without_speed(records: list[Record]) -> list[Record]:
    """What does not depend on the clock, to the digits that do not depend on the order of additions."""
    return [
        {key: np.round(value, 3) if key == "loss" else value for key, value in r.items() if key != "trees_per_second"}
        for r in records
    ]


def test_a_killed_run_continues_as_if_nothing_had_happened(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, order of the trees, dropout, step, and log: 4 steps an epoch, killed in the middle of epoch 2."""
    monkeypatch.setattr(trainer, "EXAMPLES_A_REPORT", 20)
    three = dataclasses.replace(settings, epochs=3)
    whole = train(tmp_path / "whole", three)
    with pytest.raises(Killed):
        train(tmp_path / "killed", three, kill_after=3)
    continued = train(tmp_path / "killed", three)
    assert continued.continued_after == 1
    for mine, theirs in zip(continued.run.model.variables, whole.run.model.variables, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    logs = [without_speed(read_log(tmp_path / name / "log.jsonl")) for name in ("whole", "killed")]
    assert logs[0] == logs[1]
    assert (tmp_path / "killed" / "curve.png").stat().st_size > 1000


def test_a_finished_run_is_not_trained_again(settings: Settings, tmp_path: Path) -> None:
    """Giving the command twice does no harm."""
    train(tmp_path, settings)
    again = Trainer(prepare(tmp_path, settings))
    records = again.fit(lambda sums: pytest.fail("a step was run"), lambda record: None)
    assert [record["epoch"] for record in records] == [1]


def test_a_run_with_other_settings_is_left_alone(settings: Settings, tmp_path: Path) -> None:
    """Unless it is to be thrown away."""
    prepare(tmp_path, settings)
    other = dataclasses.replace(settings, seed=5)
    with pytest.raises(RunError, match="this folder contains a run with other settings"):
        prepare(tmp_path, other)
    assert prepare(tmp_path, other, fresh=True).settings == other


def test_a_run_without_an_epoch_cannot_be_used(settings: Settings, tmp_path: Path) -> None:
    """The message says what to do."""
    prepare(tmp_path, settings)
    with pytest.raises(RunError, match=r"(?s)this run has no weights yet.*at least one epoch"):
        load(tmp_path)


def test_early_stop_counts_epochs_since_the_best() -> None:
    """An equal accuracy is not a better one."""
    progress = Progress()
    for epoch, accuracy in enumerate([0.3, 0.5, 0.5, 0.4], 1):
        assert progress.record(epoch, accuracy) is (epoch < 3)
        assert progress.exhausted(2) is (epoch == 4)


def test_the_best_weights_are_kept_and_not_the_last(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chosen on dev."""
    accuracies = iter([0.5, 0.9, 0.1])
    monkeypatch.setattr(trainer, "evaluate", lambda steps, dataset: {"root": next(accuracies)})
    train(tmp_path, dataclasses.replace(settings, epochs=3))
    assert [path.name for path in (tmp_path / "best").glob("*.index")] == ["epoch-0002.index"]


def test_the_binary_task_leaves_neutral_trees_out(settings: Settings, tmp_path: Path) -> None:
    """Two classes, and every root in the accuracy has a side."""
    (record,) = train_records(tmp_path, dataclasses.replace(settings, task="binary"))
    assert record["dev"]["root"] == record["dev"]["root_binary"]
    assert load(tmp_path).model.hyper.classes == 2


def train_records(folder: Path, settings: Settings) -> list[Record]:
    """The records of a run."""
    train(folder, settings)
    return read_log(folder / "log.jsonl")


def test_vectors_set_the_size_of_the_embedding(settings: Settings, treebank: Path, tmp_path: Path) -> None:
    """And a trained run needs the file no more."""
    path = tmp_path / "vectors.txt"
    path.write_text("film 1 2 3 4 5 6\nplot 6 5 4 3 2 1\n", encoding="utf-8")
    hyper = {key: value for key, value in settings.hyper.items() if key != "embedding"}
    with_vectors = dataclasses.replace(settings, vectors=str(path), hyper=hyper)
    run = prepare(tmp_path / "run", with_vectors)
    np.testing.assert_array_equal(run.model.embedding[run.vocabulary.id("film")], [1, 2, 3, 4, 5, 6])
    train(tmp_path / "run", with_vectors)
    path.unlink()
    assert load(tmp_path / "run").model.hyper.embedding == 6


def test_it_is_said_how_many_words_have_a_vector(settings: Settings, tmp_path: Path) -> None:
    """Few are a warning, none an error, and a file that holds no vectors is refused at its line."""
    path = tmp_path / "vectors.txt"
    with_vectors = dataclasses.replace(settings, vectors=str(path), hyper={"hidden": 8})
    said: list[str] = []
    path.write_text("film 1 2\nplot 6 5\n", encoding="utf-8")
    run = prepare(tmp_path / "few", with_vectors, tell=said.append)
    count = len(run.vocabulary) - 1
    assert said[0] == f"{path}: 2 of {count} words ({2 / count:.1%}) have a vector of 2 numbers"
    assert said[1].startswith("Warning: fewer than half of the words have a vector; among those without: ")
    path.write_text("Zog 1 2\n", encoding="utf-8")
    data = re.escape(settings.data)
    with pytest.raises(RunError, match=rf"these vectors are of other words(.|\n)*none of the \d+ words of {data}"):
        prepare(tmp_path / "none", with_vectors)
    path.write_text("(2 a)\n(3 (2 the) (3 film))\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"vectors\.txt:1:4: expected a finite number, found 'a\)'"):
        prepare(tmp_path / "trees", with_vectors)
    assert not (tmp_path / "trees").exists()
