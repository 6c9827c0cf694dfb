"""The programs of the Terra paper and of chapter 4 of the thesis: eagerly, by `tf.function`, and co-executed.

Where `tf.function` computes something else than the program does, that is said in place of a speed. A step's result
is looked at after the last step of a measurement, so that whoever can run ahead does.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.benchmarks import measure, report
from recgraph.benchmarks.options import Several
from recgraph.benchmarks.programs import MAX_WARM_UP, Contender, epoch_of, fault
from recgraph.models.zoo import COEXECUTED
from recgraph.models.zoo.program import Step

# Steps after which a program is expected to have shown all that it does.
SETTLED = 20
# Seconds that a measurement takes at least, in whole epochs, and at most.
SHORTEST, LONGEST = 0.5, 5.0
RUNNERS = ("Python", "graph")
LABELS = {
    "eager": "eager",
    "coexecuted": "co-executed",
    "tf_function": "tf.function",
    "signature": "tf.function, signature",
    "asynchronous": "asynchronous eager",
}


def wide_signature(epoch: Sequence[Step]) -> list[Any]:
    """What all steps' arguments are: `tf.TensorSpec`s, whose dimensions that vary are left open."""

    def joined(*tensors: Any) -> Any:
        specs = [tf.type_spec_from_value(tensor) for tensor in tensors]
        shape = specs[0].shape
        for spec in specs[1:]:
            shape = shape.most_specific_compatible_shape(spec.shape)
        kind = tf.SparseTensorSpec if isinstance(tensors[0], tf.SparseTensor) else tf.TensorSpec
        return kind(shape, specs[0].dtype)

    return [joined(*column) for column in zip(*epoch, strict=True)]


def step_of(kind: str, made: Any, epoch: Sequence[Step]) -> Callable[..., Any]:
    """The step of a program, made for a contender, one of `LABELS`."""
    if kind == "coexecuted":
        return rg.function(made.train_step, mode="coexec")
    if kind == "tf_function":
        return tf.function(made.train_step)
    if kind == "signature":
        return tf.function(made.train_step, input_signature=wide_signature(epoch))
    return made.train_step


@contextlib.contextmanager
def asynchronously() -> Iterator[None]:
    """TensorFlow's own asynchronous eager execution: operations are put into a queue."""
    tf.config.experimental.set_synchronous_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.set_synchronous_execution(True)


class Taking(Contender):
    """A program made anew that takes its steps in one of the ways.

    Attributes:
      coexecuted: of a co-executed program, whether each step was.
      is_late: whether it was stopped before the clock, because it makes one graph after the other.
    """

    def __init__(self, kind: str, name: str, epoch: list[Step], small: bool):
        """Args: one of `LABELS`, the program's name, the arguments of an epoch's steps, and the size."""
        super().__init__(name, lambda _, made: step_of(kind, made, epoch), epoch, small)
        self.kind = kind
        self.coexecuted: list[bool] = []
        self.is_late = False

    def context(self) -> contextlib.AbstractContextManager[None]:
        """What the steps run in."""
        return asynchronously() if self.kind == "asynchronous" else contextlib.nullcontext()

    def run(self, arguments: Step) -> Any:
        """One step, whose result is not looked at."""
        if self.kind != "coexecuted":
            return self.step(*arguments)
        before = self.step.phases.counts["coexecuted"]
        result = self.step(*arguments)
        self.coexecuted.append(self.step.phases.counts["coexecuted"] > before)
        return result

    def take(self, arguments: Any) -> None:
        """See `Contender`."""
        start = time.perf_counter()
        result = [np.asarray(loss) for loss in tf.nest.flatten(self.run(arguments))]
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(np.array(result))

    def warm_up(self, steps: int, limit: float | None = None) -> str:
        """See `Contender`."""
        with self.context(), contextlib.redirect_stdout(io.StringIO()):
            raised = super().warm_up(steps, limit)
        self.is_late = raised.startswith("it has taken") and len(self.losses) > 0
        return raised

    def __call__(self) -> float:
        """Steps a second, of whole epochs but for what would take more than `LONGEST`."""
        taken, results = 0, []
        with self.context(), contextlib.redirect_stdout(io.StringIO()):
            start = time.perf_counter()
            while (passed := time.perf_counter() - start) < LONGEST:
                if passed > SHORTEST and taken % len(self.epoch) == 0:
                    break
                results = tf.nest.flatten(self.run(self.epoch[taken % len(self.epoch)]))
                taken += 1
            for result in results:
                np.asarray(result)
            return taken / (time.perf_counter() - start)


def phases(taking: Taking, eager: Taking) -> dict[str, Any]:
    """How the steps of a co-executed program went.

    Returns:
      `steps`; `counts` of them by kind; `settled`, the share of those after `SETTLED` that were co-executed; `changes`
      between co-execution and tracing; `traced`, how long the steps before the clock took that were not co-executed,
      over the same steps eagerly; `runners`, seconds of a step that Python and the graph were busy and stalled;
      `given_up`, why they all run eagerly, or "".
    """
    kinds = taking.coexecuted
    timed = zip(kinds, taking.seconds, eager.seconds, strict=False)
    profile = taking.step.timing()
    traced = [(mine, theirs) for was_coexecuted, mine, theirs in timed if not was_coexecuted]
    return {
        "steps": len(kinds),
        "counts": dict(taking.step.phases.counts),
        "settled": statistics.fmean(kinds[SETTLED:]) if len(kinds) > SETTLED else None,
        "changes": sum(one != other for one, other in itertools.pairwise(kinds)),
        "traced": sum(mine for mine, _ in traced) / sum(theirs for _, theirs in traced) if traced else None,
        "runners": {"python": profile.python, "graph": profile.graph},
        "given_up": taking.step.phases.given_up,
    }


def started(one: Taking, eager: Taking) -> float:
    """The speed of the steps before the clock, with all that is made in them, over that of eager execution."""
    return sum(eager.seconds[: len(one.seconds)]) / sum(one.seconds)


def compare(name: str, batch_size: int, small: bool, data: Path | None, warm_up: int, rounds: int) -> dict[str, Any]:
    """Measures a program in each of the ways that compute the same.

    Args:
      name: of a program, in the zoo.
      batch_size: examples a step.
      small: whether the sizes are those of tests.
      data: the folder of real data; None for generated data.
      warm_up: steps before the clock starts, whose losses are compared.
      rounds: how many measurements count, of each contender in turn.
    """
    epoch = epoch_of(name, batch_size, small, data)
    Taking("eager", name, epoch, small).warm_up(2)  # what TensorFlow does once is in nobody's first steps
    contenders = {kind: Taking(kind, name, epoch, small) for kind in LABELS}
    eager, ours = contenders["eager"], contenders["coexecuted"]
    limits = {"eager": None, "coexecuted": None}
    raised = {kind: one.warm_up(warm_up, limits.get(kind, MAX_WARM_UP)) for kind, one in contenders.items()}
    faults = {kind: fault(one, eager, raised[kind]) for kind, one in contenders.items()}
    right = {kind: one for kind, one in contenders.items() if not faults[kind]}
    first = {kind: started(one, eager) for kind, one in contenders.items() if kind in right or one.is_late}
    series = measure.interleave(right, rounds)
    return {
        "program": name,
        "batch_size": batch_size,
        "small": small,
        "series": series,
        "first_steps": first,
        "faults": {kind: text for kind, text in faults.items() if text},
        "phases": phases(ours, eager),
    }


def speeds(results: Sequence[dict[str, Any]]) -> str:
    """Milliseconds of an eager step, and how much faster the others are."""
    others = [kind for kind in LABELS if kind != "eager"]
    rows = []
    for result in results:
        series, first = result["series"], result["first_steps"]
        eager = series["eager"]
        ratios = [
            f"{series[kind].over(eager):.2f} ±{series[kind].spread / 2:.0%}" if kind in series else "wrong"
            for kind in others
        ]
        starts = [f"{first[kind]:.2f}" if kind in first else "" for kind in others]
        rows.append([title(result), f"{1e3 / eager.median:.1f} ±{eager.spread / 2:.0%}", *ratios, *starts])
    header = ["program, batch", "eager, ms a step", *(f"{LABELS[kind]}" for kind in others)]
    return report.markdown([*header, *(f"first steps, {LABELS[kind]}" for kind in others)], rows)


def courses(results: Sequence[dict[str, Any]]) -> str:
    """How the co-executed steps went."""
    rows = []
    for result in results:
        found = result["phases"]
        settled = "" if found["settled"] is None else f"{found['settled']:.1%}"
        traced = "" if found["traced"] is None else f"{found['traced']:.2f}"
        counts = [str(found["counts"][kind]) for kind in ("traced", "left", "coexecuted", "eager")]
        runners = [f"{1e3 * seconds:.1f}" for pair in found["runners"].values() for seconds in pair]
        rows.append([title(result), *counts, settled, str(found["changes"]), traced, *runners])
    header = ["program, batch", "traced", "left", "co-executed", "eager", f"co-executed after step {SETTLED}"]
    header += ["changes of phase", "a traced step / an eager one"]
    return report.markdown([*header, *(f"{who} {what}, ms" for who in RUNNERS for what in ("busy", "stalled"))], rows)


def notes(results: Sequence[dict[str, Any]]) -> str:
    """Where something is wrong or not co-executed, a line each."""
    lines = []
    for result in results:
        lines += [f"- {title(result)}, {LABELS[kind]}: {text}" for kind, text in result["faults"].items()]
        if result["phases"]["given_up"]:
            lines.append(f"- {title(result)}, co-executed: runs eagerly, because {result['phases']['given_up']}")
    return "\n".join(lines)


def title(result: dict[str, Any]) -> str:
    """A program and the size of its batch."""
    return f"{COEXECUTED[result['program']].name}, {result['batch_size']}{' (small)' if result['small'] else ''}"


@click.command()
@click.option("--programs", type=Several(COEXECUTED), default=",".join(COEXECUTED), show_default=True, help="Names.")
@click.option("--batch-size", type=click.IntRange(1), help="Examples a step; left out, the program's.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--warm-up", default=SETTLED, show_default=True, help="Steps before the clock starts.")
@click.option("--small", is_flag=True, help="The sizes of the tests, and no others.")
@click.option("--large", is_flag=True, help="Sizes at which a step takes about 200 ms, and no others.")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="RECGRAPH_DATA",
    help="Folder of the reviews.",
)
@report.out_option
def main(
    programs: list[str],
    batch_size: int | None,
    rounds: int,
    warm_up: int,
    small: bool,
    large: bool,
    data: Path | None,
    out: Path | None,
) -> None:
    """Measure each program in each of the ways, interleaved, at two sizes."""
    results: list[dict[str, Any]] = []
    for is_small in [True] * (small or not large) + [False] * (large or not small):
        for name in programs:
            program = COEXECUTED[name]
            size = batch_size or (program.small_batch if is_small else program.batch_size)
            results.append(compare(name, size, is_small, data, warm_up, rounds))
            click.echo(speeds(results[-1:]).splitlines()[-1])
            report.save("coexec", {"programs": results}, out)
    legend = (
        "Speeds over that of eager execution; of the steps before the clock, the first, in the columns at the right."
    )
    text = "\n\n".join(part for part in (speeds(results), legend, courses(results), notes(results)) if part)
    report.leave("coexec", {"programs": results}, text, out)
