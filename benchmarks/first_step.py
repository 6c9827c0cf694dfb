"""The first step of `fit` for models with recursions over trees: seconds of the processor for each part of it.

Each case runs in a process of its own, since a process does most of this once; importing is not counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import report
from recgraph.benchmarks.options import Several

# What a node of each case has; `first_step_worker.py` makes them.
CASES = {
    "none": "a Dense layer in place of the trees: what Keras and TensorFlow take",
    "two": "two children",
    "four": "four children, each in a branch",
    "eight": "eight children, each in a branch",
    "deep": "four children, each with LayerNormalization and Dropout in a branch",
}


def measure(case: str) -> dict[str, Any]:
    """The first step of a case, in a new process."""
    order = [sys.executable, "-m", "recgraph.benchmarks.first_step_worker", case]
    done = subprocess.run(order, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"case": case, **found}


def table(results: Sequence[dict[str, Any]]) -> str:
    """Seconds by part, and how often each part was begun."""
    parts = list(results[0]["seconds"])
    rows = []
    for result in results:
        seconds, times = result["seconds"], result["times"]
        figures = [f"{seconds[part]:.2f}" + (f" ({times[part]})" if times.get(part) else "") for part in parts]
        rows.append([CASES[result["case"]], *figures, f"{sum(seconds.values()):.2f}", f"{result['second']:.2f}"])
    return report.markdown(["seconds (times)", *parts, "first step", "second call of fit"], rows)


@click.command("first_step")
@click.option("--cases", type=Several(CASES), default=",".join(CASES), show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True, help="The fastest of so many counts.")
@report.out_option
def main(cases: list[str], rounds: int, out: Path | None) -> None:
    """Measure what the first step of `fit` costs."""
    results: list[dict[str, Any]] = []
    for case in cases:
        runs = [measure(case) for _ in range(rounds)]
        results.append(min(runs, key=lambda one: float(sum(one["seconds"].values()))))
        report.save("first_step", results, out)
    report.leave("first_step", results, table(results), out)
