"""The programs of the JANUS paper eagerly, by `tf.function`, and converted by `rg.function`; and what guards cost."""

from __future__ import annotations

import itertools
import statistics
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.benchmarks import measure, report
from recgraph.models.zoo import ZOO, Program

KINDS: dict[str, Callable[[Any], Any]] = {
    "speculated": lambda step: rg.function(step, mode="speculate"),
    "eager": lambda step: step,
    "tf_function": tf.function,
}
LABELS = {"speculated": "rg.function", "eager": "eager", "tf_function": "tf.function"}
# Losses that differ by more than this from eager ones, which is more than rounding makes of them, are wrong.
TOLERANCE = 2e-3
# A step is fast that takes at most so many times the median of those at the end.
FAST = 1.5


class Contender:
    """A program made anew that takes its steps in one of the ways.

    Attributes:
      losses: of the steps taken, float32.
      seconds: how long each took.
    """

    def __init__(self, program: Program, kind: str, batch_size: int, small: bool):
        """Args: the program, a name from `KINDS`, and the sizes."""
        self.program = program
        self.epoch = program.steps(batch_size, small)
        self.made = program.make(small)
        self.step = KINDS[kind](self.made.train_step)
        self.losses: list[np.ndarray] = []
        self.seconds: list[float] = []

    def take(self, arguments: Any) -> None:
        """One step, whose result is looked at."""
        start = time.perf_counter()
        result = [np.asarray(loss) for loss in tf.nest.flatten(self.step(*arguments))]
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(np.array(result))

    def warm_up(self, steps: int) -> str:
        """So many steps; what was raised if something was."""
        try:
            for arguments in itertools.islice(itertools.cycle(self.epoch), steps):
                self.take(arguments)
        except Exception as error:  # whatever a conversion may do to a program
            return f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
        return ""

    def __call__(self) -> float:
        """Units of work a second in an epoch."""
        count = len(self.seconds)
        for arguments in self.epoch:
            self.take(arguments)
        return sum(map(self.program.work, self.epoch)) / sum(self.seconds[count:])

    def seconds_to_fast(self) -> float:
        """From the first call to the end of the first fast step; call it after the measurement."""
        usual = statistics.median(self.seconds[-len(self.epoch) :])
        first = next(i for i, seconds in enumerate(self.seconds) if seconds <= FAST * usual)
        return sum(self.seconds[: first + 1])


def fault(found: Contender, expected: Contender, raised: str) -> str:
    """Why a contender does not compute what eager execution does; empty where it does."""
    if raised:
        return raised
    for i, (mine, right) in enumerate(zip(found.losses, expected.losses, strict=True)):
        if not np.allclose(mine, right, TOLERANCE, TOLERANCE):
            return f"the loss of step {i + 1} is {np.ravel(mine)[0]:.4g} in place of {np.ravel(right)[0]:.4g}"
    kept, wanted = kept_in_python(found.made), kept_in_python(expected.made)
    return "; ".join(
        f"{name} is {kept[name]} in place of {wanted[name]}" for name in wanted if kept[name] != wanted[name]
    )


def kept_in_python(made: Any) -> dict[str, str]:
    """What a program keeps in plain attributes: its numbers, how many there are of what it lists, and of which kind."""
    return {name: _told(value) for name, value in vars(made).items() if not isinstance(value, dict)}


def _told(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{len(value)} of ({', '.join(sorted(set(map(_told, value))))})"
    if tf.is_tensor(value):
        return "a tensor with a value" if hasattr(value, "numpy") else "a tensor without a value"
    return str(value) if isinstance(value, int | float | str | types.NoneType) else type(value).__name__


def compare(name: str, batch_size: int, small: bool, warm_up: int, rounds: int) -> dict[str, Any]:
    """Measures a program in each of the ways that give the right losses.

    Args:
      name: in the zoo.
      batch_size: examples a step.
      small: whether the sizes are those of tests.
      warm_up: steps before the clock starts, whose losses are compared.
      rounds: how many epochs count, of each contender in turn.
    """
    contenders = {kind: Contender(ZOO[name], kind, batch_size, small) for kind in KINDS}
    raised = {kind: contender.warm_up(warm_up) for kind, contender in contenders.items()}
    faults = {kind: fault(contender, contenders["eager"], raised[kind]) for kind, contender in contenders.items()}
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
    rows = []
    for result in results:
        series, fast = result["series"], result["seconds_to_fast"]
        speeds = [f"{s.median:,.0f} ±{s.spread / 2:.0%}" if (s := series.get(kind)) else "wrong" for kind in KINDS]
        ratios = [
            f"{series['speculated'].over(series[kind]):.2f}" if {"speculated", kind} <= set(series) else ""
            for kind in ("eager", "tf_function")
        ]
        times = [f"{fast[kind]:.1f}" if kind in fast else "" for kind in ("speculated", "tf_function")]
        title = f"{ZOO[result['program']].name}, {result['batch_size']}, {result['unit']}"
        rows.append([title, *speeds, *ratios, *times])
    header = ["program, batch, a second", *LABELS.values(), "/ eager", "/ tf.function"]
    return report.markdown([*header, "to fast, s", "tf.function to fast, s"], rows)


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
@click.option("--programs", default=",".join(ZOO), show_default=True, help="Names of the zoo.")
@click.option("--batch-size", type=click.IntRange(1), help="Examples a step; left out, the paper's.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--warm-up", default=12, show_default=True, help="Steps before the clock starts.")
@click.option("--small", is_flag=True, help="The sizes of the tests.")
@report.out_option
def main(programs: str, batch_size: int | None, rounds: int, warm_up: int, small: bool, out: Path | None) -> None:
    """Measure each program in each of the ways, interleaved, and the cost of guards."""
    results = []
    for name in programs.split(","):
        size = batch_size or (ZOO[name].small_batch if small else ZOO[name].batch_size)
        results.append(compare(name, size, small, warm_up, rounds))
        click.echo(table(results[-1:]).splitlines()[-1])
    cost = guards(rounds, 1000)
    text = "\n\n".join(part for part in (table(results), notes(results), guards_line(cost)) if part)
    report.leave("speculate", {"programs": results, "guards": cost}, text, out)
