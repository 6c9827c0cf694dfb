"""The programs of the JANUS paper eagerly, by `tf.function`, by hand, and converted by `rg.function`; what
optimisations add, and what guards cost.
"""

from __future__ import annotations

import functools
import statistics
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import tensorflow as tf

import recgraph as rg
from recgraph.benchmarks import ablation, measure, report
from recgraph.benchmarks.options import Several
from recgraph.benchmarks.programs import KINDS, LABELS, MAX_WARM_UP, Contender, epoch_of, fault
from recgraph.models.zoo import ZOO

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def compare(name: str, batch_size: int, small: bool, data: Path | None, warm_up: int, rounds: int) -> dict[str, Any]:
    """Measures a program in each of the ways that give the right losses.

    Args:
      name: in the zoo.
      batch_size: examples a step.
      small: whether the sizes are those of tests.
      data: the folder of real data; None for generated data.
      warm_up: steps before the clock starts, whose losses are compared.
      rounds: how many epochs count, of each contender in turn.
    """
    epoch = epoch_of(name, batch_size, small, data)
    contenders = {
        kind: Contender(ZOO[name], functools.partial(step, name), epoch, small) for kind, step in KINDS.items()
    }
    limits = {"eager": None}  # all others are compared with it
    raised = {kind: one.warm_up(warm_up, limits.get(kind, MAX_WARM_UP)) for kind, one in contenders.items()}
    expected = contenders["eager"]
    faults = {
        kind: fault(contender, expected, raised[kind], kind != "by_hand") for kind, contender in contenders.items()
    }
    right = {kind: contender for kind, contender in contenders.items() if not faults[kind]}
    series = measure.interleave(right, rounds)
    speculated = contenders["speculated"].step
    return {
        "program": name,
        "batch_size": batch_size,
        "unit": ZOO[name].unit,
        "series": series,
        "seconds_to_fast": {kind: contender.seconds_to_fast() for kind, contender in right.items()},
        "faults": {kind: text for kind, text in faults.items() if text},
        "calls": dict(speculated.calls),
        "eager_because": speculated.given_up,
    }


def guarded(settings: types.SimpleNamespace, x: tf.Tensor) -> tf.Tensor:
    """A tiny function of float32 `[2]` that reads eighteen attributes: with its arguments, twenty guards."""
    rates = settings.a + settings.b + settings.c + settings.d + settings.e + settings.f
    sizes = settings.g + settings.h + settings.i + settings.j + settings.k + settings.l
    others = settings.m + settings.n + settings.o + settings.p + settings.q + settings.r
    return x * (rates + sizes + others)


def guards(rounds: int, calls: int) -> dict[str, Any]:
    """Microseconds of a cached call of `guarded`, and of the bare graph that multiplies by the sum."""
    settings = types.SimpleNamespace(**{name: float(i) for i, name in enumerate("abcdefghijklmnopqr")})
    x, total = tf.constant([1.0, 2.0]), float(sum(range(18)))
    speculated = rg.function(guarded, mode="speculate")
    for _ in range(5):
        speculated(settings, x)
    bare = tf.function(lambda x: x * total).get_concrete_function(tf.TensorSpec([2], tf.float32))

    def speed(run: Callable[[], Any]) -> Callable[[], float]:
        return lambda: measure.speed(calls, lambda: [run() for _ in range(calls)])

    series = measure.interleave(
        {"speculated": speed(lambda: speculated(settings, x)), "bare": speed(lambda: bare(x))}, rounds
    )
    assumed = [line for line in speculated.explain().splitlines() if line.startswith("  assumes ")]
    return {
        "guards": sum("presence" not in line for line in assumed),
        "microseconds": {name: [1e6 / value for value in one.speeds] for name, one in series.items()},
    }


def table(results: Sequence[dict[str, Any]]) -> str:
    """Speeds, ratios, and the time to the first fast step."""
    others = [kind for kind in KINDS if kind != "speculated"]
    timed = [kind for kind in KINDS if kind != "eager"]
    rows = []
    for result in results:
        series, fast = result["series"], result["seconds_to_fast"]
        speeds = [f"{s.median:,.0f} ±{s.spread / 2:.0%}" if (s := series.get(kind)) else "wrong" for kind in KINDS]
        ratios = [
            f"{series['speculated'].over(series[kind]):.2f}" if {"speculated", kind} <= set(series) else ""
            for kind in others
        ]
        times = [f"{fast[kind]:.1f}" if kind in fast else "" for kind in timed]
        title = f"{ZOO[result['program']].name}, {result['batch_size']}, {result['unit']}"
        rows.append([title, *speeds, *ratios, *times])
    ratios = [f"/ {LABELS[kind]}" for kind in others]
    header = ["program, batch, a second", *(LABELS[kind] for kind in KINDS), *ratios]
    return report.markdown([*header, *(f"to fast, s, {LABELS[kind]}" for kind in timed)], rows)


def notes(results: Sequence[dict[str, Any]]) -> str:
    """Where something is wrong or not converted, a line each."""
    lines = []
    for result in results:
        name = ZOO[result["program"]].name
        lines += [f"- {name} by {LABELS[kind]}: {text}" for kind, text in result["faults"].items()]
        if result["eager_because"]:
            lines.append(f"- {name} by rg.function runs eagerly: {result['eager_because']}")
        elif result["calls"]["fallback"] > result["calls"]["graph"]:
            lines.append(f"- {name} by rg.function falls back more often than not: {result['calls']}")
    return "\n".join(lines)


def guards_line(cost: dict[str, Any]) -> str:
    """In words."""
    mine, bare = cost["microseconds"]["speculated"], cost["microseconds"]["bare"]
    return (
        f"A cached call with {cost['guards']} guards takes {statistics.median(mine):.1f} us (in the fastest round "
        f"{min(mine):.1f}), its graph called by itself {statistics.median(bare):.1f} us ({min(bare):.1f})."
    )


@click.command()
@click.option("--programs", type=Several(ZOO), default=",".join(ZOO), show_default=True, help="Names of the zoo.")
@click.option("--batch-size", type=click.IntRange(1), help="Examples a step; left out, the paper's.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--warm-up", default=12, show_default=True, help="Steps before the clock starts.")
@click.option("--small", is_flag=True, help="The sizes of the tests.")
@click.option("--data", type=FOLDER, envvar="RECGRAPH_DATA", help="Folder of the treebank and the reviews.")
@click.option("--ablation", "by_stages", is_flag=True, help="What each optimisation adds, in place of the comparison.")
@report.out_option
def main(
    programs: list[str],
    batch_size: int | None,
    rounds: int,
    warm_up: int,
    small: bool,
    data: Path | None,
    by_stages: bool,
    out: Path | None,
) -> None:
    """Measure each program in each of the ways, interleaved, and the cost of guards."""
    sizes = {name: batch_size or (ZOO[name].small_batch if small else ZOO[name].batch_size) for name in programs}
    if by_stages:
        folder = None if data is None else str(data)
        run = lambda name, size: ablation.measured(ablation.Case(name, size, small, folder), warm_up, rounds)  # noqa: E731
        report.leave("speculate-ablation", *_each(sizes, run, ablation.table), out)
    else:
        results, lines = _each(sizes, lambda name, size: compare(name, size, small, data, warm_up, rounds), table)
        cost = guards(rounds, 1000)
        text = "\n\n".join(part for part in (lines, notes(results), guards_line(cost)) if part)
        report.leave("speculate", {"programs": results, "guards": cost}, text, out)


def _each(
    sizes: dict[str, int], run: Callable[[str, int], dict[str, Any]], show: Callable[[list[dict[str, Any]]], str]
) -> tuple[list[dict[str, Any]], str]:
    """Results and table of all programs, of which each row is shown when it is there."""
    results = []
    for name, size in sizes.items():
        results.append(run(name, size))
        click.echo(show(results[-1:]).splitlines()[-1])
    return results, show(results)
