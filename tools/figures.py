"""Pages of the site with the figures of `benchmarks/results`, as the benchmarks have written them."""

from __future__ import annotations

import html
import json
import math
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
    "a3c": "A3C",
    "an": "AN",
    "inception_v3": "Inception-v3",
    "lenet": "LeNet",
    "lm": "LM",
    "lstm": "LSTM",
    "ppo": "PPO",
    "resnet50": "ResNet50",
}
BOUNDS = ("limit",)  # no contenders
EARLIER = (
    "!!! note\n    These figures are of the batched engine without row programs and schedules. "
    "[Results](../RESULTS.md#throughput-on-the-stanford-sentiment-treebank) has some of the engine as it is.\n"
)


def label(name: str) -> str:
    """How a contender, a model or a program is written."""
    return LABELS.get(name, name)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def speeds(title: str, cases: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """A table of speeds: medians and half their spread, each with a bar as long as it is beside the largest of its row.

    The fastest contender of each row is marked.
    """
    names = list(dict.fromkeys(name for _, series in cases for name in series))
    lines = ["<div class='figures'><table>", "<thead><tr>"]
    lines += [f"<th>{html.escape(each)}</th>" for each in (title, *map(label, names))]
    lines.append("</tr></thead><tbody>")
    for case, series in cases:
        medians = {name: found["median"] for name, found in series.items()}
        best = max((name for name in medians if name not in BOUNDS), key=medians.__getitem__)
        lines.append(f"<tr><td>{html.escape(case)}</td>")
        for name in names:
            if name not in series:
                lines.append("<td></td>")
                continue
            share = f"style='--share: {100 * medians[name] / max(medians.values()):.1f}%'"
            text = f"{medians[name]:,.0f} <small>±{series[name]['spread'] / 2:.0%}</small>"
            lines.append(f"<td {share}{' class=best' if name == best else ''}>{text}</td>")
        lines.append("</tr>")
    return "\n".join([*lines, "</tbody></table></div>", ""])


def setting(record: Mapping[str, Any]) -> str:
    """On which machine something was measured."""
    machine = record["machine"]
    return (
        f"Measured on {machine['processor']}, {machine['cores']} cores, with Python {machine['python']} and "
        f"TensorFlow {machine['tensorflow']}"
    )


def asked(record: Mapping[str, Any]) -> str:
    """The machine, and what was asked of the benchmark."""
    options = {name: value for name, value in record["options"].items() if value not in (None, False)}
    words = [f"{name.replace('_', ' ')} `{value}`" for name, value in options.items()]
    return f"{setting(record)}; {', '.join(words)}.\n"


def title(case: Mapping[str, Any]) -> str:
    """What a program does, how much of it, and what is counted."""
    return f"{label(case['program'])}, batch {case['batch_size']}, {case['unit']}"


def read(folder: Path, name: str) -> Any:
    """The figures of one file."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def trees(folder: Path) -> str:
    """Speeds on a treebank, a table for each model."""
    parts = [
        "# Trees\n",
        "Trees of the Stanford Sentiment Treebank a second: medians of interleaved rounds and half their spread.\n",
        EARLIER,
    ]
    for file in ("sst", "cells"):
        record = read(folder, file)
        for model, cases in groupby(record["results"], lambda case: case["model"]):
            rows = [(f"{case['phase']}, batch {case['batch_size']}", case["series"]) for case in cases]
            parts += [f"## {label(model)}\n", speeds("trees a second", rows)]
        parts.append(asked(record))
    parts.append("While the first three models were measured, other work slowed the machine down, and unevenly.\n")
    return "\n".join(parts)


def shapes(folder: Path) -> str:
    """Trees of three shapes, and balanced trees by depth."""
    record = read(folder, "balance")
    parts = ["# Shapes of trees\n", EARLIER, asked(record)]
    for phase, cases in groupby(record["results"]["shapes"], lambda case: case["phase"]):
        rows = [(f"{case['shape']}, batch {case['batch_size']}", case["series"]) for case in cases]
        parts += [f"## {phase.capitalize()}\n", speeds("trees a second", rows)]
    phases = record["results"]["depths"]
    columns = {f"{each['phase']}, {label(name)}": times for each in phases for name, times in each["seconds"].items()}
    lines = [
        [str(depth), f"{nodes:,}", *(f"{1e3 * times[depth]:.2f}" for times in columns.values())]
        for depth, nodes in enumerate(phases[0]["nodes"])
    ]
    parts += [
        "## Balanced trees by depth\n",
        "Milliseconds for one tree.\n",
        table(["depth", "nodes", *columns], lines),
    ]
    return "\n".join(parts)


def generation(folder: Path) -> str:
    """Trees whose shape is computed."""
    record = read(folder, "generation")
    rows = [(f"{case['phase']}, batch {case['batch_size']}", case["series"]) for case in record["results"]]
    text = "A top-down TreeLSTM; in generation, computed values decide the shape of a tree.\n"
    return "\n".join(["# Generated trees\n", text, EARLIER, asked(record), speeds("trees a second", rows)])


def programs(folder: Path) -> str:
    """Imperative programs as graphs, and what each part of the converter adds."""
    ablation = read(folder, "speculate-ablation")
    names = sorted(path.stem for path in folder.glob("speculate*.json") if path.stem != "speculate-ablation")
    records = [read(folder, name) for name in names]
    cases = {case["program"]: case for record in records for case in record["results"]["programs"]}
    kinds = list(dict.fromkeys(kind for case in cases.values() for kind in case["seconds_to_fast"]))
    fast = [
        [label(name), *(f"{case['seconds_to_fast'].get(kind, math.nan):.2f}".replace("nan", "") for kind in kinds)]
        for name, case in cases.items()
    ]
    faults = [(name, kind, text) for name, case in cases.items() for kind, text in case["faults"].items()]
    return "\n".join(
        [
            "# Imperative programs\n",
            'Training steps by `rg.function(mode="speculate")`, eager execution, `tf.function`, and a graph written by '
            "hand, in units of work a second. A contender that computes something else, or does not start, has no "
            f"figure. {setting(records[0])}.\n",
            speeds("program", [(title(case), case["series"]) for case in cases.values()]),
            "## Seconds to the first fast step\n",
            "A step is fast that takes at most 1.5 times the median of those at the end.\n",
            table(["program", *map(label, kinds)], fast),
            "## What has no figure\n",
            *(f"- {label(name)} by {label(kind)}: {html.escape(text)}" for name, kind, text in faults),
            "\n## What each part of the converter adds\n",
            asked(ablation),
            speeds("program", [(title(case), case["series"]) for case in ablation["results"]]),
        ]
    )


def invocations(folder: Path) -> str:
    """What an invocation of a trivial body costs, and a level of a deep chain."""
    costs = [
        [
            case["policy"].replace("_", " "),
            str(case["threads"]),
            f"{statistics.median(case['microseconds']):.2f}",
            f"{min(case['microseconds']):.2f}",
        ]
        for case in read(folder, "invocation")
    ]
    chains = [
        [
            f"{case['depth']:,}, {'forward and backward' if case['backward'] else 'forward'}",
            f"{case['counters']['peak_invocations']:,}",
            f"{case['microseconds_a_level']:.1f}",
            f"{case['bytes_a_level']:,.0f}",
        ]
        for case in read(folder, "depth")
    ]
    return "\n".join(
        [
            "# Invocations\n",
            "## A trivial invocation\n",
            "Of Fibonacci by the parallel engine.\n",
            table(["policy", "threads", "median, microseconds", "best, microseconds"], costs),
            "## Depth\n",
            "A chain of calls, each of which waits for the next one.\n",
            table(["levels", "live at once", "microseconds a level", "bytes a level"], chains),
        ]
    )


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
