"""Training with substitutions: programs of the zoo in the default mode of `rg.function`, with and without them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import recgraph as rg
from recgraph.benchmarks import measure, report
from recgraph.benchmarks.options import Several
from recgraph.benchmarks.programs import MAX_WARM_UP, NUDGES, Contender, drift, epoch_of, fault, nudged
from recgraph.models.zoo import PROGRAMS

WAYS = {"without": False, "with": True}
# A contender may take so many times as long to be ready as in other benchmarks: substitutions are searched for.
SEARCHING = 4
REPORTED = ("bert_qa", "gpt2", "a3c", "inception_v3")


def compare(name: str, small: bool, warm_up: int, rounds: int) -> dict[str, Any]:
    """Measures a program's training step with and without substitutions.

    Args:
      name: in the zoo.
      small: whether the sizes are those of tests.
      warm_up: steps before the clock starts, whose losses are compared.
      rounds: how many epochs count, of each in turn.
    """
    program = PROGRAMS[name]
    epoch = epoch_of(name, program.small_batch if small else program.batch_size, small, None)

    def contender(optimize: bool, steps: list[Any]) -> Contender:
        return Contender(program, lambda made: rg.function(made.train_step, optimize=optimize), steps, small)

    found = {way: contender(optimize, epoch) for way, optimize in WAYS.items()}
    raised = {way: one.warm_up(warm_up, SEARCHING * MAX_WARM_UP) for way, one in found.items()}
    nearby = [contender(False, nudged(epoch, seed)) for seed in range(NUDGES)]
    for one in nearby:
        one.warm_up(warm_up)
    why = fault(found["with"], found["without"], raised["with"], True, drift(nearby, found["without"]))
    series = {} if why else measure.interleave(found, rounds)
    lines = map(str.strip, str(found["with"].step.explain()).splitlines())
    said = [line for line in lines if line.startswith(("substitutions", "measured"))]
    return {"program": name, "unit": program.unit, "series": series, "fault": why, "substitutions": said}


def table(results: Sequence[dict[str, Any]]) -> str:
    """Speeds, and those with substitutions over those without."""
    rows = []
    for result in results:
        title = f"{PROGRAMS[result['program']].name}, {result['unit']}"
        if result["fault"]:
            rows.append([title, "", "", result["fault"]])
            continue
        without, with_ = (result["series"][way] for way in WAYS)
        speeds = [f"{one.median:,.1f} ±{one.spread / 2:.0%}" for one in (without, with_)]
        rows.append([title, *speeds, f"{with_.over(without):.2f}"])
    return report.markdown(["program, a second", *WAYS, "with / without"], rows)


@click.command("rewriting")
@click.option("--programs", type=Several(PROGRAMS), default=",".join(REPORTED), show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="After one to warm up.")
@click.option("--warm-up", default=60, show_default=True, help="Steps before the clock starts.")
@click.option("--small", is_flag=True, help="The sizes of the tests.")
@report.out_option
def main(programs: list[str], rounds: int, warm_up: int, small: bool, out: Path | None) -> None:
    """Measure the training of programs of the zoo with and without substitutions."""
    results: list[dict[str, Any]] = []
    for name in programs:
        results.append(compare(name, small, warm_up, rounds))
        click.echo(table(results[-1:]).splitlines()[-1])
        click.echo("\n".join(f"  {line}" for line in results[-1]["substitutions"]))
        report.save("rewriting", results, out)
    report.leave("rewriting", results, table(results), out, {})
