"""What `recgraph optimize measure` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from recgraph.optimize.bridge import measuring


def measure(rows: Sequence[int], sizes: Sequence[int], out: Path | None) -> None:
    """Times operators on this machine, and writes what they cost to a file."""
    cases = list(measuring.cases(rows, sizes))
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(f"{len(cases)} operators and shapes", total=len(cases))
        path = measuring.measure(cases, lambda done: bar.update(task, completed=done)).write(out)
    click.echo(f"{len(cases)} costs in {path}")
