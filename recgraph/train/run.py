"""`Run`: a model with its vocabulary and settings, in a folder; made new, or opened from what was saved there."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.data import Vocabulary
from recgraph.train import stored, treebank
from recgraph.train.checkpoints import Checkpoints, MismatchError
from recgraph.train.settings import Settings, load_settings, require_same
from recgraph.train.stored import RunError
from recgraph.train.tasks import CLASSIFYING

KEPT = 3
VOCABULARY = "vocabulary.txt"
HYPER = "hyper.json"
CONFIDENCE = "confidence.json"
PARSER = "parser"
"""The folder in that of a classifier with the parser that it brings, a run of its own."""


@dataclasses.dataclass(frozen=True)
class Run:
    """A trained model, or one to train.

    Attributes:
      folder: holds `settings.json`, `hyper.json`, `vocabulary.txt`, `checkpoints/`, `best/`, `log.jsonl`,
        `tensorboard/` and `curve.png`; of a classifier also `confidence.json`, and `parser/`, a run of its own.
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


def prepare(
    folder: Path, settings: Settings, fresh: bool = False, tell: Callable[[str], None] = lambda text: None
) -> Run:
    """A run in `folder`: the one that is there, if its settings are the same, or a new one.

    Args:
      folder: of the run.
      settings: what is asked for.
      fresh: whether to delete a run that is there.
      tell: is told what is worth knowing before training begins.

    Raises:
      RunError: a run with other settings is there and `fresh` is not set, or no word has a pre-trained vector.
    """
    settings.model_class()
    if fresh:
        _clear(folder)
    if (folder / "settings.json").exists():
        require_same(load_settings(folder), settings, folder)
        vocabulary = _load_vocabulary(folder, "checkpoints")
    else:
        vocabulary = treebank.build_vocabulary(settings, treebank.load(settings))
    matrix, known = treebank.vectors(settings, vocabulary, tell)
    hyper = settings.full_hyper(**known)
    model = _build(settings, hyper, len(vocabulary), matrix)
    # The settings come last: where they are, the run is whole.
    vocabulary.save(folder / VOCABULARY)
    stored.write(hyper, folder / HYPER)
    settings.save(folder)
    return Run(folder, settings, vocabulary, model)


def follow(folder: Path, settings: Settings) -> Run:
    """The run of a worker that is not the chief: the same model and vocabulary, and nothing is read or written there.

    Its weights are the chief's, once training begins.
    """
    vocabulary = treebank.build_vocabulary(settings, treebank.load(settings))
    _, known = treebank.vectors(settings, vocabulary)
    return Run(folder, settings, vocabulary, _build(settings, settings.full_hyper(**known), len(vocabulary), None))


def load(folder: Path) -> Run:
    """Opens a trained run with its best weights; needs neither the data nor the vectors that it was trained with.

    Raises:
      RunError: there is no run, or it has not finished an epoch.
      CheckpointError: the weights are damaged.
      MismatchError: they are not those of this model or of this vocabulary.
    """
    settings = load_settings(folder)
    vocabulary = _load_vocabulary(folder, "best")
    run = Run(folder, settings, vocabulary, _build(settings, _load_hyper(folder, settings), len(vocabulary), None))
    if run.best().restore() is None:
        raise RunError(
            "this run has no weights yet",
            where=str(folder),
            next_step="train it for at least one epoch with `recgraph train`",
        )
    return run


def _load_hyper(folder: Path, settings: Settings) -> Any:
    path = folder / HYPER
    try:
        return stored.read(type(settings.model_class().defaults), path, "hyper-parameters")
    except FileNotFoundError as cause:
        raise RunError(
            "the hyper-parameters of this run are missing",
            where=str(path),
            next_step="restore the file, or train again with --fresh",
        ) from cause


def _load_vocabulary(folder: Path, weights: str) -> Vocabulary:
    """The vocabulary of a run, if it has a word for each row of the embedding in these weights, if there are any.

    Raises:
      RunError: there is none.
      MismatchError: it has more words or fewer.
    """
    path = folder / VOCABULARY
    try:
        vocabulary = Vocabulary.load(path)
    except FileNotFoundError as cause:
        raise RunError(
            "the vocabulary of this run is missing",
            where=str(path),
            next_step="restore the file, or train again with --fresh",
        ) from cause
    checkpoints = Checkpoints(tf.train.Checkpoint(), folder / weights, keep=1)
    rows = checkpoints.newest_shapes().get("model/embedding", (len(vocabulary),))[0]
    if rows != len(vocabulary):
        raise MismatchError(
            "the vocabulary of this run is not that of its weights",
            where=f"{path}:{min(rows, len(vocabulary)) + 1}",
            found=f"{len(vocabulary)} words",
            expected=f"{rows}, one for each row of the embedding in {folder / weights}",
            next_step="restore the file, or train again with --fresh",
        )
    return vocabulary


def load_classifier(folder: Path) -> Run:
    """Opens a trained run that classifies trees.

    Raises:
      RunError: as `load`, or the run has learned something else.
    """
    return _load_able(folder, "classify sentences", CLASSIFYING)


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
    model.engine = "batched" if settings.deterministic else settings.engine
    model.gradient = settings.gradient
    return model


def _clear(folder: Path) -> None:
    """Deletes what a run has written, and nothing else; the settings first, for without them there is no run."""
    for name in ("settings.json", HYPER, VOCABULARY, CONFIDENCE, "log.jsonl", "curve.png"):
        (folder / name).unlink(missing_ok=True)
    for name in ("checkpoints", "best", "tensorboard"):
        shutil.rmtree(folder / name, ignore_errors=True)
    if (folder / PARSER / "settings.json").exists():
        _clear(folder / PARSER)
