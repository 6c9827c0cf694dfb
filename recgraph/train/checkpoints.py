"""Checkpoints that survive being killed at any moment: written whole or not at all, and checked before use."""

from __future__ import annotations

import logging
import os
import re
import tempfile
from pathlib import Path

import tensorflow as tf

from recgraph.errors import RecgraphError

logger = logging.getLogger(__name__)

_NAME = re.compile(r"epoch-(\d+)\.index$")


class CheckpointError(RecgraphError):
    """A checkpoint cannot be written, or none in a folder can be read."""

    id = "checkpoint"


class MismatchError(CheckpointError):
    """A checkpoint has other variables than the model it is restored to."""


class Checkpoints:
    """The last few checkpoints of a run in one folder, `epoch-0007.index` and its data file.

    Both are written in a folder beside their place, then renamed, the index last: where there is an index, the rest is
    complete, unless the disk itself lost it. That is what the check before a restore is for.
    """

    def __init__(self, checkpoint: tf.train.Checkpoint, folder: Path, keep: int):
        """Manages the checkpoints of one folder.

        Args:
          checkpoint: what to save and restore.
          folder: where.
          keep: how many to keep.
        """
        self._checkpoint = checkpoint
        self._folder = folder
        self._keep = keep

    def save(self, epoch: int) -> None:
        """Writes the checkpoint of an epoch, then deletes the oldest beyond `keep`.

        Raises:
          CheckpointError: it cannot be written, for instance because the disk is full; older ones are unchanged.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._folder, prefix=".writing.") as beside:
                self._checkpoint.write(os.path.join(beside, f"epoch-{epoch:04d}"))
                files = [path for path in Path(beside).iterdir() if path.is_file()]
                for path in sorted(files, key=lambda path: path.suffix == ".index"):
                    os.replace(path, self._folder / path.name)
        except (OSError, tf.errors.OpError) as cause:
            kept = "".join(f"the checkpoint of epoch {number} is kept; " for number in self.epochs()[-1:])
            raise CheckpointError(
                f"the checkpoint of epoch {epoch} cannot be written",
                where=str(self._folder),
                found=getattr(cause, "message", None) or str(cause),
                next_step=f"{kept}make room, then give the same command again",
            ) from cause
        for old in self.epochs()[: -self._keep]:
            self._delete(old)

    def epochs(self) -> list[int]:
        """The epochs that have a checkpoint, oldest first."""
        matches = [_NAME.search(path.name) for path in self._folder.glob("epoch-*.index")]
        return sorted(int(match.group(1)) for match in matches if match)

    def restore(self) -> int | None:
        """Restores the newest intact checkpoint, and ignores newer damaged ones from then on.

        Returns:
          Its epoch, or None if there is no checkpoint.

        Raises:
          CheckpointError: there are checkpoints, and all are damaged.
          MismatchError: it lacks a variable, has an additional one, or one has another shape.
        """
        damaged: list[int] = []
        for epoch in reversed(self.epochs()):
            path = str(self._folder / f"epoch-{epoch:04d}")
            problem = _problem(path)
            if problem is None:
                self._read(path)
                for newer in damaged:
                    self._delete(newer)
                return epoch
            logger.warning("checkpoint %s is damaged and is passed over: %s", path, problem)
            damaged.append(epoch)
        if damaged:
            raise CheckpointError(
                "every checkpoint in this folder is damaged",
                where=str(self._folder),
                found=f"{len(damaged)} that cannot be read; the last problem: {problem}",
                next_step="restore the files from a backup, or start again with --fresh",
            )
        return None

    def newest_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the variables in the newest checkpoint, by their names in it; none if it cannot be read."""
        for epoch in self.epochs()[-1:]:
            try:
                shapes = tf.train.load_checkpoint(str(self._folder / f"epoch-{epoch:04d}")).get_variable_to_shape_map()
            except Exception:  # whatever Python type is nearest to the status; `restore` will say what is wrong
                return {}
            return {name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE"): tuple(shapes[name]) for name in shapes}
        return {}

    def _read(self, path: str) -> None:
        """Restores every variable there is, from a checkpoint that has these and no other."""
        try:
            self._checkpoint.read(path).assert_consumed()
        except (AssertionError, ValueError) as cause:  # variables that differ, shapes that differ
            raise MismatchError(
                "the weights in this checkpoint are not those of this model",
                where=path,
                found=str(cause).strip().splitlines()[0],
                expected="the same variables, of the same shapes",
                next_step="settings.json, hyper.json and vocabulary.txt of a run belong to its weights: "
                "restore them, or train again with --fresh",
            ) from cause

    def _delete(self, epoch: int) -> None:
        # The index first: without it the other files are only litter.
        for path in sorted(self._folder.glob(f"epoch-{epoch:04d}.*"), reverse=True):
            path.unlink(missing_ok=True)


def _problem(path: str) -> str | None:
    """Reads all of a checkpoint, so that TensorFlow compares every checksum; what is wrong, or None."""
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except Exception as error:  # the reader raises whatever Python type is nearest to the status
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return None
