"""How long it takes to build the batched form of a model, for inference and with the gradient, in a fresh process."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import measure, report
from recgraph.benchmarks.options import Several
from recgraph.models import MODELS

PHASES = ("inference", "gradient")
ENGINES = ("parallel", "batched")
WORDS = 1000


def build(name: str, phase: str, engine: str) -> dict[str, float]:
    """Seconds to trace a step of a model: all of it, and in `compile_program`, which makes the batched plan."""
    import tensorflow as tf

    from recgraph.batch import compile_program
    from recgraph.core import engines
    from recgraph.models import MODELS
    from recgraph.train.steps import batch_signature

    compiling: list[float] = []

    def timed(library: Any, roots: list[str]) -> Any:
        start = time.perf_counter()
        plan = compile_program(library, roots)
        compiling.append(time.perf_counter() - start)
        return plan

    engines.register("batched", timed)
    model = MODELS[name](WORDS)
    model.engine = engine

    def train(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss, _ = model.loss(batch)
        return tape.gradient(loss, model.weights)

    step = {"inference": model.predict, "gradient": train}[phase]
    start = time.perf_counter()
    tf.function(step, input_signature=[batch_signature()], autograph=False).get_concrete_function()
    return {"whole": time.perf_counter() - start, "plan": sum(compiling)}


@click.command()
@click.option("--models", type=Several(MODELS), default="tree_lstm", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Each in a process of its own.")
@report.out_option
@click.option("--one", nargs=3, hidden=True, help="Model, phase and engine: measure in this process.")
def main(models: list[str], rounds: int, out: Path | None, one: tuple[str, str, str] | None) -> None:
    """Measure tracing a step with either engine, and making the batched plan within it."""
    if one is not None:
        click.echo(json.dumps(build(*one)))
        return
    cases = [(model, phase, engine) for model in models for phase in PHASES for engine in ENGINES]
    taken: dict[tuple[str, str, str], list[dict[str, float]]] = {case: [] for case in cases}
    for _ in range(rounds):
        for case in cases:
            taken[case].append(measure.in_child("recgraph.benchmarks.build", ["--one", *case]))
    results = [
        {"model": model, "phase": phase, "engine": engine, "seconds": rows}
        for (model, phase, engine), rows in taken.items()
    ]
    table = report.markdown(["step", "engine", "whole, s", "of it the plan, s"], [_row(r) for r in results])
    report.leave("build", results, table, out)


def _row(result: dict[str, Any]) -> list[str]:
    whole, plan = (statistics.median(row[part] for row in result["seconds"]) for part in ("whole", "plan"))
    return [f"{result['model']}, {result['phase']}", result["engine"], f"{whole:.2f}", f"{plan:.2f}" if plan else ""]


if __name__ == "__main__":
    main()
