"""What `recgraph optimize measure` and `recgraph optimize model` do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import tensorflow as tf
from rich.console import Console
from rich.progress import Progress

from recgraph import files
from recgraph.optimize.bridge import functions, measuring


def measure(rows: Sequence[int], sizes: Sequence[int], out: Path | None) -> None:
    """Times operators on this machine, and writes what they cost to a file."""
    cases = list(measuring.cases(rows, sizes))
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(f"{len(cases)} operators and shapes", total=len(cases))
        path = measuring.measure(cases, lambda done: bar.update(task, completed=done)).write(out)
    click.echo(f"{len(cases)} costs in {path}")


def model(folder: Path, out: Path, seconds: float, search: str) -> None:
    """Optimizes all signatures of a SavedModel, says what was done, and saves it elsewhere."""
    loaded = tf.saved_model.load(str(folder))
    signatures = {
        name: functions.optimize(one, seconds=seconds, search=search) for name, one in loaded.signatures.items()
    }
    for name, one in signatures.items():
        click.echo(f"{name}: {one.explain()}")
    with files.filling(out, tf.saved_model.SAVED_MODEL_FILENAME_PB) as beside:
        tf.saved_model.save(loaded, str(beside), signatures=signatures)
    click.echo(str(out))
