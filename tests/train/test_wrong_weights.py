"""Weights that are not the model's, and weights that are no numbers: refused, and nothing that was there is lost."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from click.testing import CliRunner

from recgraph.train.checkpoints import Checkpoints, MismatchError
from recgraph.train.run import Run, load, prepare
from recgraph.train.settings import RunError, Settings
from recgraph.train.trainer import Trainer, TrainingError
from recgraph_command import main


@pytest.fixture
def copied(trained: Run, tmp_path: Path) -> Path:
    """The folder of a run that may be damaged."""
    return Path(shutil.copytree(trained.folder, tmp_path / "run"))


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("model", ["tree_gru", "tree_rnn", "rntn"])
def test_weights_of_another_model_are_refused(copied: Path, model: str) -> None:
    change(copied / "settings.json", model=model)
    with pytest.raises((MismatchError, RunError)):
        load(copied)
    result = CliRunner().invoke(main, ["evaluate", str(copied)])
    assert result.exit_code == 1
    assert "Error: the " in result.output


@pytest.mark.parametrize("name", ["hidden", "embedding"])
def test_weights_of_another_shape_are_refused(copied: Path, name: str) -> None:
    change(copied / "hyper.json", **{name: 9})
    with pytest.raises(
        MismatchError, match=r"the weights in this checkpoint are not those of this model[\s\S]*--fresh"
    ):
        load(copied)


def test_a_vocabulary_that_was_shortened_is_refused(copied: Path) -> None:
    words = (copied / "vocabulary.txt").read_text().splitlines(keepends=True)
    (copied / "vocabulary.txt").write_text("".join(words[:-1]))
    with pytest.raises(MismatchError, match="vocabulary"):
        load(copied)


@pytest.mark.parametrize("text", ["{", "[]", '{"hidden": 8, "unheard_of": 1}', ""])
def test_hyper_parameters_that_cannot_be_read(copied: Path, text: str) -> None:
    (copied / "hyper.json").write_text(text)
    with pytest.raises(RunError, match=r"hyper-parameters of this run cannot be read[\s\S]*hyper\.json"):
        load(copied)


class Two(tf.Module):
    """Two variables, of which one may be missing."""

    def __init__(self, with_second: bool = True) -> None:
        super().__init__()
        self.first = tf.Variable([1.0, 2.0])
        if with_second:
            self.second = tf.Variable(3.0)


@pytest.mark.parametrize("saved_with", [True, False])
def test_every_variable_is_demanded_both_ways(saved_with: bool, tmp_path: Path) -> None:
    Checkpoints(tf.train.Checkpoint(model=Two(saved_with)), tmp_path, keep=1).save(1)
    with pytest.raises(MismatchError, match="expected:  the same variables"):
        Checkpoints(tf.train.Checkpoint(model=Two(not saved_with)), tmp_path, keep=1).restore()
    assert Checkpoints(tf.train.Checkpoint(model=Two(saved_with)), tmp_path, keep=1).restore() == 1


def fit(folder: Path, settings: Settings) -> list[Any]:
    return Trainer(prepare(folder, settings)).fit(lambda sums: None, lambda record: None)


@pytest.mark.parametrize(
    "rates", [{"learning_rate": 1e30}, {"learning_rate": 1e38}, {"learning_rate": 1e30, "embedding_rate": 1e30}]
)
def test_a_loss_that_is_not_finite_ends_the_run(settings: Settings, tmp_path: Path, rates: dict[str, float]) -> None:
    diverging = dataclasses.replace(settings, hyper={**settings.hyper, **rates}, epochs=3)
    with pytest.raises(TrainingError, match=r"the loss is not finite in epoch 1, step \d[\s\S]*trees like: \w+"):
        fit(tmp_path / "run", diverging)
    assert not list((tmp_path / "run").glob("best/*"))


def test_the_last_good_checkpoint_is_kept(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names it, and the run can be used."""
    folder = tmp_path / "run"
    fit(folder, settings)
    before = {path.name: path.read_bytes() for path in folder.glob("*/epoch-*")}
    assert before
    training = Trainer(prepare(folder, dataclasses.replace(settings, epochs=2)))
    training.run.model.embedding.assign(tf.fill(training.run.model.embedding.shape, float("nan")))
    with pytest.raises(TrainingError, match=r"in epoch 2, step 1[\s\S]*the last checkpoint, of epoch 1, is kept; try"):
        training.fit(lambda sums: None, lambda record: None)
    assert {path.name: path.read_bytes() for path in folder.glob("*/epoch-*")} == before
    load(folder)


@pytest.mark.parametrize("option", ["--learning-rate", "--embedding-rate", "--l2", "--dropout"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_rates_that_are_no_rates(option: str, value: str, treebank: Path, tmp_path: Path) -> None:
    arguments = ["train", "--data", str(treebank), "--out", str(tmp_path / "run"), option, value]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.output
    assert not (tmp_path / "run").exists()
