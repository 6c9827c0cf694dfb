"""A program that makes a model and an optimizer again and again, for some steps each: seconds of all of it.

Searches for settings, cross-validation, and runs over seeds are such programs. What a way pays for each new model
counts here as it counts for the user. Each program runs in a process of its own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import report
from recgraph.benchmarks.options import COUNTS, Several

# What is trained, and by what; `sweep_worker.py` has them.
MODELS = {
    "variables": "a network of variables, descent written by hand",
    "keras": "Keras: layers and Adam",
}
WAYS = {
    "eager": "eagerly",
    "tf.function": "tf.function",
    "rg.function": "rg.function",
    "rg.speculation": "rg.speculation",
}


def measure(model: str, way: str, count: int, steps: int) -> dict[str, Any]:
    """Seconds of one program, in a new process."""
    order = [sys.executable, "-m", "recgraph.benchmarks.sweep_worker", model, way, str(count), str(steps)]
    done = subprocess.run(order, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(results: Sequence[dict[str, Any]]) -> str:
    """Milliseconds a step by each way, the first models' cost among them, and each over eager execution."""
    ways = list(dict.fromkeys(way for result in results for way in result["seconds"]))
    rows = []
    for result in results:
        medians = {way: statistics.median(seconds) for way, seconds in result["seconds"].items()}
        total = result["models"] * result["steps"] / 1000
        others = [f"{medians[way] / medians[ways[0]]:.2f}" for way in ways[1:]]
        rows.append(
            [
                f"{MODELS[result['model']]}; {result['models']} of them, {result['steps']} steps each",
                *(f"{medians[way] / total:.2f}" for way in ways),
                *others,
            ]
        )
    labels = [WAYS[way] for way in ways]
    return report.markdown(["ms a step", *labels, *(f"{label} / {labels[0]}" for label in labels[1:])], rows)


@click.command("sweep")
@click.option("--models", type=Several(MODELS), default=",".join(MODELS), show_default=True)
@click.option("--ways", type=Several(WAYS), default=",".join(WAYS), show_default=True)
@click.option("--steps", type=COUNTS, default="12,100", show_default=True, help="How many steps each model takes.")
@click.option("--count", type=click.IntRange(1), default=30, show_default=True, help="How many models are made.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Every way by turns, so often.")
@report.out_option
def main(models: list[str], ways: list[str], steps: list[int], count: int, rounds: int, out: Path | None) -> None:
    """Measure programs that make new models again and again."""
    results: list[dict[str, Any]] = []
    for model in models:
        for number in steps:
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            losses: dict[str, float] = {}
            for _ in range(rounds):
                for way in ways:
                    found = measure(model, way, count, number)
                    seconds[way].append(found["seconds"])
                    losses[way] = found["loss"]
            results.append({"model": model, "models": count, "steps": number, "seconds": seconds, "losses": losses})
            report.save("sweep", results, out)
    report.leave("sweep", results, table(results), out)
