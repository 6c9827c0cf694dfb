"""The programs of the Terra paper and of chapter 4 of the thesis: eagerly, by `tf.function`, and co-executed.

Where `tf.function` computes something else than the program does, that is said in place of a speed. A step's result
is looked at after the last step of a measurement, so that whoever can run ahead does.

Beside co-execution stand its two bounds: *serialised*, the same graph that starts only when Python waits for it, which
is lazy evaluation as LazyTensor's (the paper's table 2), and a *free graph*, which costs nothing. The first takes the
time of Python and that of the graph, the second that of Python alone. So it is known how much of the shorter is hidden.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from matplotlib.figure import Figure

from recgraph.auto.ways import WHAT
from recgraph.benchmarks import measure, pictures, report
from recgraph.benchmarks.coexec_ways import LABELS, Ceiling, Taking
from recgraph.benchmarks.options import Several
from recgraph.benchmarks.programs import MAX_WARM_UP, NUDGES, drift, epoch_of, fault, nudged
from recgraph.coexec import profile
from recgraph.models.zoo import COEXECUTED

# Steps after which a program is expected to have shown all that it does.
SETTLED = 20
# Steps after which co-execution has also tried by how many threads graphs are run.
WARM_UP = 60
RUNNERS = ("Python", "graph")
# The contenders that are always there: what others are compared with, and what this is about.
ALWAYS = ("eager", "coexecuted")
COLOURS = {
    "eager": "black", "coexecuted": "tab:blue", "auto": "tab:olive", "serialised": "tab:cyan", "ceiling": "lightgrey",
    "tf_function": "tab:orange",
}  # fmt: skip
STYLES = {kind: pictures.Style(LABELS[kind], COLOURS[kind], kind == "eager") for kind in LABELS}


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
    timing = taking.step.timing()
    traced = [(mine, theirs) for was_coexecuted, mine, theirs in timed if not was_coexecuted]
    return {
        "steps": len(kinds),
        "counts": dict(taking.step.phases.counts),
        "settled": statistics.fmean(kinds[SETTLED:]) if len(kinds) > SETTLED else None,
        "changes": sum(one != other for one, other in itertools.pairwise(kinds)),
        "traced": sum(mine for mine, _ in traced) / sum(theirs for _, theirs in traced) if traced else None,
        "runners": {"python": timing.python, "graph": timing.graph},
        "given_up": taking.step.phases.given_up,
    }


def started(one: Taking, eager: Taking) -> float:
    """The speed of the steps before the clock, with all that is made in them, over that of eager execution."""
    return sum(eager.seconds[: len(one.seconds)]) / sum(one.seconds)


def overlap(series: Mapping[str, measure.Series]) -> dict[str, float | None] | None:
    """What one runner hides of the other; None where it was not measured.

    Returns:
      Seconds of a step: `python`, with a free graph; `graph`, what a serialised step takes beyond that. `hidden`, how
      much less than both a co-executed step takes, as a part of the shorter, and `uncertain`, how well that is known.
      Each is the median of what the rounds say. `hidden` is None where it is not known to half of the shorter.
    """
    if not {"ceiling", "serialised", "coexecuted"} <= set(series):
        return None
    seconds = [[1.0 / speed for speed in series[kind].speeds] for kind in ("ceiling", "serialised", "coexecuted")]
    rounds = list(zip(*seconds, strict=True))
    python = statistics.median(seconds[0])
    graph = max(statistics.median(serialised - alone for alone, serialised, _ in rounds), 0.0)
    gains = [serialised - both for _, serialised, both in rounds]
    low, gain, high = statistics.quantiles(gains, n=4) if len(gains) > 1 else (-math.inf, gains[0], math.inf)
    shorter, doubt = min(python, graph), (high - low) / math.sqrt(len(gains))
    is_known = doubt < 0.5 * shorter
    return {
        "python": python,
        "graph": graph,
        "hidden": gain / shorter if is_known else None,
        "uncertain": doubt / shorter if is_known else None,
    }


def compare(
    name: str, ways: Sequence[str], batch_size: int, small: bool, data: Path | None, warm_up: int, rounds: int
) -> tuple[dict[str, Any], profile.StepProfile]:
    """Measures a program in each of the ways that compute the same.

    Args:
      name: of a program, in the zoo.
      ways: some of `LABELS`, those of `ALWAYS` among them.
      batch_size: examples a step.
      small: whether the sizes are those of tests.
      data: the folder of real data; None for generated data.
      warm_up: steps before the clock starts, whose losses are compared.
      rounds: how many measurements count, of each contender in turn.

    Returns:
      The figures, and where the time of co-executed steps goes.
    """
    epoch = epoch_of(name, batch_size, small, data)
    Taking("eager", name, epoch, small).warm_up(2)  # what TensorFlow does once is in nobody's first steps
    contenders = {kind: (Ceiling if kind == "ceiling" else Taking)(kind, name, epoch, small) for kind in ways}
    eager, ours = contenders["eager"], contenders["coexecuted"]
    raised = {kind: one.warm_up(warm_up, None if kind in ALWAYS else MAX_WARM_UP) for kind, one in contenders.items()}
    nearby = [Taking("eager", name, nudged(epoch, seed), small) for seed in range(NUDGES)]
    for one in nearby:
        one.warm_up(warm_up)
    rounding = drift(nearby, eager)
    faults = {  # the default mode has taken more steps, until it had decided
        kind: fault(one, eager, raised[kind], kind != "auto", rounding) for kind, one in contenders.items()
    }
    right = {kind: one for kind, one in contenders.items() if not faults[kind]}
    first = {kind: started(one, eager) for kind, one in contenders.items() if kind in right or one.is_late}
    series = measure.interleave(right, rounds)
    faults.update({kind: one.fault() for kind, one in right.items() if isinstance(one, Ceiling)})
    series = {kind: one for kind, one in series.items() if not faults[kind]}
    result = {
        "program": name,
        "batch_size": batch_size,
        "small": small,
        "series": series,
        "first_steps": first,
        "overlap": overlap(series),
        "processor": {kind: statistics.median(right[kind].processor[1:]) for kind in series},
        "rounding": rounding,
        "faults": {kind: text for kind, text in faults.items() if text},
        "phases": phases(ours, eager),
        "auto": contenders["auto"].step.way if "auto" in contenders else None,
    }
    return result, ours.step.timing()


def ways_of(results: Sequence[dict[str, Any]]) -> list[str]:
    """The ways that were measured, but eager execution."""
    tried = {kind for result in results for kind in (*result["series"], *result["faults"])}
    return [kind for kind in LABELS if kind in tried and kind != "eager"]


def speeds(results: Sequence[dict[str, Any]]) -> str:
    """Milliseconds of an eager step, and how much faster the others are."""
    others = ways_of(results)
    rows = []
    for result in results:
        series = result["series"]
        eager = series["eager"]
        ratios = [
            f"{series[kind].over(eager):.2f} ±{series[kind].spread / 2:.0%}" if kind in series else "wrong"
            for kind in others
        ]
        rows.append([title(result), f"{1e3 / eager.median:.1f} ±{eager.spread / 2:.0%}", *ratios])
    return report.markdown(["program, batch", "eager, ms a step", *(LABELS[kind] for kind in others)], rows)


def beginnings(results: Sequence[dict[str, Any]]) -> str:
    """How much faster than eager execution the steps before the clock are, in which everything is made."""
    others = [kind for kind in ways_of(results) if kind != "ceiling"]
    rows = []
    for result in results:
        first = result["first_steps"]
        rows.append([title(result), *(f"{first[kind]:.2f}" if kind in first else "" for kind in others)])
    return report.markdown(["the first steps", *(LABELS[kind] for kind in others)], rows)


def overlaps(results: Sequence[dict[str, Any]]) -> str:
    """Co-execution between its bounds; "" where they were not measured."""
    rows = []
    for result in results:
        found, series = result["overlap"], result["series"]
        if found is not None:
            ours = series["coexecuted"]
            times = (found["python"], found["graph"], 1.0 / series["serialised"].median, 1.0 / ours.median)
            bounds = [f"{ours.over(series[kind]):.2f}" for kind in ("serialised", "ceiling")]
            is_known = found["hidden"] is not None
            hidden = f"{found['hidden']:.0%} ±{found['uncertain']:.0%}" if is_known else "too short to say"
            times += (result["processor"]["coexecuted"],)
            rows.append([title(result), *(f"{1e3 * seconds:.1f}" for seconds in times), *bounds, hidden])
    header = ["ms of a step", "Python, with a free graph", "graph", "both, serialised", "both, co-executed"]
    header += ["processor time, co-executed", "/ serialised", "/ free graph", "hidden of the shorter"]
    return report.markdown(header, rows) if rows else ""


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
    """Where something is wrong or not co-executed, and what the default mode has chosen, a line each."""
    lines = []
    for result in results:
        lines += [f"- {title(result)}, {LABELS[kind]}: {text}" for kind, text in result["faults"].items()]
        if result["auto"] is not None:
            lines.append(f"- {title(result)}, auto: its steps run {WHAT[result['auto']]}")
        if result["phases"]["given_up"]:
            lines.append(f"- {title(result)}, co-executed: runs eagerly, because {result['phases']['given_up']}")
    return "\n".join(lines)


def title(result: dict[str, Any]) -> str:
    """A program and the size of its batch."""
    return f"{COEXECUTED[result['program']].name}, {result['batch_size']}{' (small)' if result['small'] else ''}"


def picture(results: Sequence[dict[str, Any]]) -> Figure:
    """Bars for each program: speeds over that of eager execution (the paper's figure 5 and table 2)."""
    rows = []
    for is_small in dict.fromkeys(result["small"] for result in results):
        chosen = [result for result in results if result["small"] is is_small]
        values = {
            kind: [r["series"][kind].over(r["series"]["eager"]) if kind in r["series"] else 0.0 for r in chosen]
            for kind in ("eager", *ways_of(chosen))
        }
        groups = [title(result).removesuffix(" (small)").replace(", ", "\n") for result in chosen]
        rows.append([pictures.Bars("small" if is_small else "", groups, values)])
    figure = pictures.bars(rows, STYLES, "program, batch", "speed over eager execution")
    figure.set_size_inches(max(6.5, 1.4 * max(len(row[0].groups) for row in rows)), figure.get_size_inches()[1])
    return figure


LEGEND = """\
Speeds over that of eager execution; *wrong* are losses further from it than ten times what a change of the data by a
millionth makes of them. *Auto* is the default mode, once it has decided how steps run. *Serialised* is lazy evaluation:
the graph starts when Python waits for it. A *free graph* costs nothing: what it gave before is there; that is the
ceiling where Python takes longer."""


@click.command()
@click.option("--programs", type=Several(COEXECUTED), default=",".join(COEXECUTED), show_default=True, help="Names.")
@click.option(
    "--ways", type=Several(LABELS), default=",".join(LABELS), show_default=True, help=f"Beside {' and '.join(ALWAYS)}."
)
@click.option("--batch-size", type=click.IntRange(1), help="Examples a step; left out, the program's.")
@click.option("--rounds", default=15, show_default=True)
@click.option("--warm-up", default=WARM_UP, show_default=True, help="Steps before the clock starts.")
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
    ways: list[str],
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
    timings = []
    ways = [kind for kind in LABELS if kind in ways or kind in ALWAYS]
    for is_small in [True] * (small or not large) + [False] * (large or not small):
        for name in programs:
            program = COEXECUTED[name]
            size = batch_size or (program.small_batch if is_small else program.batch_size)
            result, timing = compare(name, ways, size, is_small, data, warm_up, rounds)
            results.append(result)
            timings += [timing.renamed(title(result).replace(", ", "\n"))] if timing.steps else []
            click.echo(speeds([result]).splitlines()[-1])
            report.save("coexec", results, out)
    parts = (speeds(results), LEGEND, overlaps(results), beginnings(results), courses(results), notes(results))
    text = "\n\n".join(part for part in parts if part)
    drawn = {"speeds": lambda: picture(results), "runners": lambda: profile.breakdown(timings)}
    report.leave("coexec", results, text, out, drawn)
