"""`Run`: a model with its vocabulary and settings, in a folder; made new, or opened from what was saved there."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.data import Vocabulary
from recgraph.data.files import atomic_file
from recgraph.train import treebank
from recgraph.train.checkpoints import Checkpoints
from recgraph.train.settings import RunError, Settings, load_settings, require_same

KEPT = 3
VOCABULARY = "vocabulary.txt"
HYPER = "hyper.json"


@dataclasses.dataclass(frozen=True)
class Run:
    """A trained model, or one to train.

    Attributes:
      folder: holds `settings.json`, `hyper.json`, `vocabulary.txt`, `checkpoints/`, `best/`, `log.jsonl`,
        `tensorboard/` and `curve.png`.
      settings: what was asked for.
      vocabulary: the words of the training trees.
      model: the network.
    """

    folder: Path
    settings: Settings
    vocabulary: Vocabulary
    model: Any

    def best(self) -> Checkpoints:
        """The weights that were best on dev."""
        return Checkpoints(tf.train.Checkpoint(model=self.model), self.folder / "best", keep=1)


def prepare(folder: Path, settings: Settings, fresh: bool = False) -> Run:
    """A run in `folder`: the one that is there, if its settings are the same, or a new one.

    Raises:
      RunError: a run with other settings is there and `fresh` is not set.
    """
    settings.model_class()
    if fresh:
        _clear(folder)
    if (folder / "settings.json").exists():
        require_same(load_settings(folder), settings, folder)
        vocabulary = Vocabulary.load(folder / VOCABULARY)
    else:
        vocabulary = treebank.build_vocabulary(settings, treebank.load(settings))
    matrix, known = treebank.vectors(settings, vocabulary)
    hyper = settings.full_hyper(**known)
    model = _build(settings, hyper, len(vocabulary), matrix)
    # The settings come last: where they are, the run is whole.
    vocabulary.save(folder / VOCABULARY)
    with atomic_file(folder / HYPER) as file:
        file.write(json.dumps(dataclasses.asdict(hyper), indent=2).encode() + b"\n")
    settings.save(folder)
    return Run(folder, settings, vocabulary, model)


def load(folder: Path) -> Run:
    """Opens a trained run with its best weights; needs neither the data nor the vectors that it was trained with.

    Raises:
      RunError: there is no run, or it has not finished an epoch.
      CheckpointError: the weights are damaged.
    """
    settings = load_settings(folder)
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    run = Run(folder, settings, vocabulary, _build(settings, _load_hyper(folder, settings), len(vocabulary), None))
    if run.best().restore() is None:
        raise RunError(
            "this run has no weights yet",
            where=str(folder),
            next_step="let `recgraph train` finish at least one epoch",
        )
    return run


def _load_hyper(folder: Path, settings: Settings) -> Any:
    path = folder / HYPER
    try:
        return type(settings.model_class().defaults)(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as cause:
        raise RunError(
            "the hyper-parameters of this run cannot be read",
            where=str(path),
            found=str(cause),
            next_step="restore the file, or train again with --fresh",
        ) from cause


def load_classifier(folder: Path) -> Run:
    """Opens a trained run that classifies trees.

    Raises:
      RunError: as `load`, or the run has learned something else.
    """
    return _load_able(folder, "classify sentences", ("fine", "binary"))


def load_parser(folder: Path) -> Run:
    """Opens a trained run that parses.

    Raises:
      RunError: as `load`, or the run has learned something else.
    """
    return _load_able(folder, "parse sentences", ("parsing",))


def _load_able(folder: Path, what: str, tasks: tuple[str, ...]) -> Run:
    run = load(folder)
    if run.settings.task not in tasks:
        raise RunError(
            f"this run does not {what}",
            where=str(folder),
            found=f"task={run.settings.task!r}",
            expected=f"a run of the task {' or '.join(tasks)}",
            next_step="`recgraph evaluate` says how well it has learned its own task",
        )
    return run


def _build(settings: Settings, hyper: Any, words: int, matrix: np.ndarray | None) -> Any:
    model = settings.model_class()(words, hyper, matrix, settings.seed)
    model.engine, model.gradient = settings.engine, settings.gradient
    return model


def _clear(folder: Path) -> None:
    """Deletes what a run has written, and nothing else; the settings first, for without them there is no run."""
    for name in ("settings.json", HYPER, VOCABULARY, "log.jsonl", "curve.png"):
        (folder / name).unlink(missing_ok=True)
    for name in ("checkpoints", "best", "tensorboard"):
        shutil.rmtree(folder / name, ignore_errors=True)
