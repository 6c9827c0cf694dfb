"""Pages of the site with the figures of `benchmarks/results`, as the benchmarks have written them.

A cell of a table has a bar as long as its value beside the largest of its row.
"""

from __future__ import annotations

import dataclasses
import html
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

LABELS = {
    "batched": "batched",
    "parallel": "parallel",
    "iterative": "TensorFlow loop",
    "pytorch_folded": "PyTorch folded",
    "dynet": "DyNet",
    "dgl": "DGL",
    "limit": "limit",
    "speculated": "rg.function",
    "eager": "eager",
    "tf_function": "tf.function",
    "by_hand": "by hand",
    "base": "base graph",
    "unrolling": "+ unrolling",
    "specialisation": "+ specialisation",
    "tree_lstm": "TreeLSTM",
    "tree_rnn": "TreeRNN",
    "tree_gru": "TreeGRU",
    "mv_rnn": "MVRNN",
    "rntn": "RNTN",
}
REFERENCES = ("limit",)  # bounds that are no contenders
EARLIER = (
    "!!! note\n    These figures are of the batched engine without row programs and schedules. "
    "[Results](../RESULTS.md#throughput-on-the-stanford-sentiment-treebank) has some of the engine as it is.\n"
)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A value in a table: how large it is, and what is written."""

    value: float
    text: str
    is_reference: bool = False


def label(name: str) -> str:
    """How a contender, a model or a program is written."""
    return LABELS.get(name, name)


def table(header: Sequence[str], rows: Iterable[tuple[str, Sequence[Cell | None]]]) -> str:
    """A table with bars; the largest value of a row is marked where there are several."""
    lines = [
        "<div class='figures'><table>",
        "<thead><tr>" + "".join(f"<th>{html.escape(each)}</th>" for each in header),
    ]
    lines.append("</tr></thead><tbody>")
    for title, cells in rows:
        largest = max((cell.value for cell in cells if cell), default=0.0) or 1.0
        best = max((cell.value for cell in cells if cell and not cell.is_reference), default=0.0)
        line = [f"<tr><td>{html.escape(title)}</td>"]
        for cell in cells:
            if cell is None:
                line.append("<td></td>")
                continue
            is_best = cell.value == best and not cell.is_reference and sum(c is not None for c in cells) > 1
            share = f"style='--share: {100 * cell.value / largest:.1f}%'"
            line.append(f"<td {share}{' class=best' if is_best else ''}>{cell.text}</td>")
        lines.append("".join([*line, "</tr>"]))
    return "\n".join([*lines, "</tbody></table></div>", ""])


def speeds(title: str, cases: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """A table of speeds: medians and half their spread."""
    names = list(dict.fromkeys(name for _, series in cases for name in series))

    def cell(name: str, found: Mapping[str, Any] | None) -> Cell | None:
        if found is None:
            return None
        text = f"{found['median']:,.0f} <small>±{found['spread'] / 2:.0%}</small>"
        return Cell(found["median"], text, name in REFERENCES)

    rows = [(case, [cell(name, series.get(name)) for name in names]) for case, series in cases]
    return table([title, *map(label, names)], rows)


def setting(record: Mapping[str, Any]) -> str:
    """What was asked for, and on which machine it was measured."""
    machine = record["machine"]
    options = ", ".join(
        f"{name.replace('_', ' ')} {', '.join(value) if isinstance(value, list) else value}"
        for name, value in record["options"].items()
        if value is not None and value is not False
    )
    return (
        f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}, "
        f"TensorFlow {machine['tensorflow']}. Options: {options}.\n"
    )


def read(folder: Path, name: str) -> Any:
    """The figures of one file."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def trees(folder: Path) -> str:
    """Speeds on a treebank, a table for each model and phase."""
    parts = [
        "# Trees\n",
        "Trees of the Stanford Sentiment Treebank a second: medians of interleaved rounds and half their spread.\n",
        EARLIER,
    ]
    for file in ("sst", "cells"):
        record = read(folder, file)
        for model, cases in groupby(record["results"], lambda case: case["model"]):
            parts.append(f"## {label(model)}\n")
            rows = [(f"{case['phase']}, batch {case['batch_size']}", case["series"]) for case in cases]
            parts.append(speeds("trees a second", rows))
        parts.append(setting(record))
    parts.append("While the first three models were measured, other work slowed the machine down, and unevenly.\n")
    return "\n".join(parts)


def shapes(folder: Path) -> str:
    """Trees of three shapes, and balanced trees by depth."""
    record = read(folder, "balance")
    parts = ["# Shapes of trees\n", EARLIER, setting(record)]
    for phase, cases in groupby(record["results"]["shapes"], lambda case: case["phase"]):
        rows = [(f"{case['shape']}, batch {case['batch_size']}", case["series"]) for case in cases]
        parts += [f"## {phase.capitalize()}\n", speeds("trees a second", rows)]
    depths = record["results"]["depths"]
    columns = [
        (f"{label(name)}, {each['phase']}", each["seconds"][name]) for each in depths for name in each["seconds"]
    ]
    lines = [
        (f"{depth} ({nodes:,} nodes)", [Cell(of[depth], f"{1e3 * of[depth]:.2f}", True) for _, of in columns])
        for depth, nodes in enumerate(depths[0]["nodes"])
    ]
    parts += ["## Balanced trees by depth\n", "Milliseconds for one tree.\n"]
    parts.append(table(["depth", *(title for title, _ in columns)], lines))
    return "\n".join(parts)


def generation(folder: Path) -> str:
    """Trees whose shape is computed."""
    record = read(folder, "generation")
    rows = [(f"{case['phase']}, batch {case['batch_size']}", case["series"]) for case in record["results"]]
    text = "A top-down TreeLSTM; in generation, computed values decide the shape of a tree.\n"
    return "\n".join(["# Generated trees\n", text, EARLIER, setting(record), speeds("trees a second", rows)])


def programs(folder: Path) -> str:
    """Imperative programs as graphs, and what each part of the converter adds."""
    records = [
        read(folder, path.stem) for path in sorted(folder.glob("speculate*.json")) if "ablation" not in path.stem
    ]
    latest = {case["program"]: case for record in records for case in record["results"]["programs"]}
    rows = [
        (f"{case['program']}, batch {case['batch_size']}, {case['unit']}", case["series"]) for case in latest.values()
    ]
    parts = [
        "# Imperative programs\n",
        'Training steps by `rg.function(mode="speculate")`, eager execution, `tf.function`, and a graph written by '
        "hand, in units of work a second. A contender that computes something else, or does not start, has no "
        "figure.\n",
        setting(records[0]).split(" Options")[0] + "\n",
        speeds("program", rows),
        "## Seconds to the first fast step\n",
        "A step is fast that takes at most 1.5 times the median of those at the end.\n",
    ]
    kinds = list(dict.fromkeys(kind for case in latest.values() for kind in case["seconds_to_fast"]))
    parts.append(
        table(
            ["program", *map(label, kinds)],
            [
                (
                    name,
                    [Cell(s, f"{s:.2f}", True) if (s := case["seconds_to_fast"].get(kind)) else None for kind in kinds],
                )
                for name, case in latest.items()
            ],
        )
    )
    parts.append("## Without a figure\n")
    parts += [
        f"- `{name}` by {label(kind)}: {html.escape(text)}"
        for name, case in latest.items()
        for kind, text in case["faults"].items()
    ]
    ablation = read(folder, "speculate-ablation")
    rows = [(f"{c['program']}, batch {c['batch_size']}, {c['unit']}", c["series"]) for c in ablation["results"]]
    parts += ["\n## What each part of the converter adds\n", setting(ablation), speeds("program", rows)]
    return "\n".join(parts)


def invocations(folder: Path) -> str:
    """What an invocation of a trivial body costs, and a level of a deep chain."""
    rows = [
        (
            f"{case['policy']}, {case['threads']} thread{'s' if case['threads'] > 1 else ''}",
            [
                Cell(value, f"{value:.2f}", True)
                for value in (statistics.median(case["microseconds"]), min(case["microseconds"]))
            ],
        )
        for case in read(folder, "invocation")
    ]
    parts = ["# Invocations\n", "## A trivial invocation\n", "Microseconds, of Fibonacci by the parallel engine.\n"]
    parts.append(table(["policy", "median", "best"], rows))
    chains = [
        (
            f"{case['depth']:,} levels, {'forward and backward' if case['backward'] else 'forward'}",
            [
                Cell(0, f"{case['counters']['peak_invocations']:,}", True),
                Cell(0, f"{case['microseconds_a_level']:.1f}", True),
                Cell(0, f"{case['bytes_a_level']:,.0f}", True),
            ],
        )
        for case in read(folder, "depth")
    ]
    parts += ["## Depth\n", "A chain of calls, each of which waits for the next one.\n"]
    parts.append(table(["chain", "live at once", "microseconds a level", "bytes a level"], chains))
    return "\n".join(parts)


PAGES: dict[str, Callable[[Path], str]] = {
    "trees": trees,
    "shapes": shapes,
    "generation": generation,
    "programs": programs,
    "invocations": invocations,
}


def pages(folder: Path) -> dict[str, str]:
    """All pages, by the names of their files."""
    return {name: make(folder) for name, make in PAGES.items()}
