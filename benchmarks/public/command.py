"""Public programs in four ways: eagerly, with `@rg.function` on the step, unmodified, and with their own `tf.function`.

How much of what people write becomes graphs, how fast these are, how soon, and what stands in the way.
"""

from __future__ import annotations

import collections
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import report
from recgraph.benchmarks.options import Several
from recgraph.benchmarks.public import running
from recgraph.benchmarks.public.programs import FIXED, PROGRAMS

EVERY = {one.name: one for one in (*PROGRAMS, *FIXED)}
WHAT = {
    "graph": "whole",
    "callees": "parts",
    "coexec": "co-executed",
    "coexec+callees": "parts, co-executed",
}
FASTER, SOON, SLOWER = 1.5, 20, 0.97
OURS = ("decorated", "unmodified")


def measured(name: str, folder: Path | None, work: Path, limits: running.Limits) -> dict[str, Any]:
    """The figures of a program."""
    program = EVERY[name]
    try:
        files, why = running.prepared(program, folder, work)
    except OSError as error:
        return {"program": name, "kind": program.kind, "raised": str(error), "ways": {}}
    results = running.run(files, limits, program.arguments)
    row = running.summary(program, results)
    if any(row["ways"].get(way, {}).get("difference", "").startswith(("step", "variables")) for way in OURS):
        row["drift"] = running.drift(files, results["eager"], program.arguments)
    explained = files["eager"].parent.parent
    for way, result in results.items():
        (explained / f"{way}.txt").write_text(result.pop("explain", "") or result.get("raised", ""), encoding="utf-8")
    return row | {"not_adapted": why}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each program."""
    header = [
        "program",
        "kind",
        "ms",
        "decorated",
        "speed",
        "steps",
        "s",
        "unmodified",
        "speed",
        "steps",
        "s",
        "tf.function",
    ]
    lines = []
    for row in rows:
        if row.get("raised") or not row["ways"]:
            lines.append([row["program"], row["kind"], "", f"eagerly: {row.get('raised', '')[:60]}", *[""] * 8])
            continue
        cells = [row["program"], row["kind"], f"{row['eager_ms']:.1f}"]
        for way in OURS:
            cells += _cells(row["ways"].get(way, {"difference": "cannot be adapted"}), row.get("drift", ""))
        own = row["ways"].get("tf.function", {"difference": "cannot be adapted"})
        lines.append([*cells, _fault(own) or f"{own['speed']:.1f}"])
    return report.markdown(header, lines)


def _cells(way: dict[str, Any], drift: str) -> list[str]:
    if "as" not in way:
        return [_fault(way), "", "", ""]
    what = WHAT.get(way["as"], way["as"])
    fault = "drifts" if _drifts(way, drift) else _fault(way)
    return [f"{what}, {fault}" if fault else what, f"{way['speed']:.1f}", str(way["decided"]), f"{way['seconds']:.1f}"]


def _drifts(way: dict[str, Any], drift: str) -> bool:
    """Whether a difference is no larger than that which a change in the last digits makes."""
    return (
        bool(drift)
        and way["difference"].startswith(("step", "variables"))
        and _step(way["difference"]) * 2 > _step(drift)
    )


def _step(text: str) -> int:
    """The step at which results differ."""
    return int(text.split()[1]) if text.startswith("step") else 1000


def _fault(way: dict[str, Any]) -> str:
    text = way["difference"]
    return "raises" if text.startswith("raises") else "differs" if text.startswith(("step", "var")) else text


def shares(rows: Sequence[dict[str, Any]]) -> str:
    """What part of the programs is equal, whole, fast and soon."""
    there = [row for row in rows if row["ways"]]
    lines = [f"{len(there)} programs of {len(rows)} run here at all."]
    for way in OURS:
        every = [one for row in there if "as" in (one := row["ways"].get(way, {}))]
        drifting = [
            one for row in there if "as" in (one := row["ways"].get(way, {})) and _drifts(one, row.get("drift", ""))
        ]
        if not every:
            continue
        parts = {
            "equal to eager": sum(not one["difference"] for one in every),
            "apart by rounding, as eager is from itself": len(drifting),
            "whole graphs": sum(one["as"] == "graph" for one in every),
            f"over {FASTER} times as fast": sum(one["speed"] > FASTER for one in every),
            f"decided within {SOON} steps": sum(one["decided"] <= SOON for one in every),
            "slower by over 3 %": sum(one["speed"] < SLOWER for one in every),
        }
        figures = ", ".join(f"{count / len(every):.0%} {what}" for what, count in parts.items())
        lines.append(f"- {way} ({len(every)}): {figures}.")
    own = [one for row in there if (one := row["ways"].get("tf.function"))]
    lines.append(
        f"- tf.function ({len(own)}): {sum(not one['difference'] for one in own) / max(len(own), 1):.0%} equal."
    )
    return "\n".join(lines)


def reasons(rows: Sequence[dict[str, Any]]) -> str:
    """Why programs are not whole graphs, or differ."""
    found = []
    for row in rows:
        for way, one in row["ways"].items():
            if one.get("difference"):
                found.append(f"- {row['program']}, {way}: {one['difference'][:300]}")
            if one.get("as", "graph") != "graph":
                found += [f"- {row['program']}, {way}: {why[:300]}" for why in one.get("why", [])[:4]]
    return "\n".join(dict.fromkeys(found))


@click.command()
@click.option(
    "--programs", "folder", type=report.FOLDER, help="Folder with originals: owner+name/path. Fetched without."
)
@click.option("--work", type=report.FOLDER, help="Where adapted programs and what they say are left.")
@click.option("--only", type=Several(EVERY), help="Names; all by default.")
@click.option("--fixed", is_flag=True, help="The further programs that were fixed before they were run.")
@click.option("--steps", default=100, show_default=True, help="Most steps.")
@click.option("--seconds", default=20.0, show_default=True, help="Of steps, of each way; at least 25 steps are taken.")
@report.out_option
def main(
    folder: Path | None,
    work: Path | None,
    only: list[str] | None,
    fixed: bool,
    steps: int,
    seconds: float,
    out: Path | None,
) -> None:
    """Run public imperative programs in four ways, interleaved, each in a process of its own."""
    work = work or Path(tempfile.mkdtemp(prefix="recgraph-public-"))
    limits = running.Limits(steps, seconds, min(steps, 25))
    rows: list[dict[str, Any]] = []
    for name in only or [one.name for one in (FIXED if fixed else PROGRAMS)]:
        rows.append(measured(name, folder, work.resolve(), limits))
        click.echo(table(rows[-1:]).splitlines()[-1])
        report.save("public-fixed" if fixed else "public", rows, out)
    kinds = collections.Counter(row["kind"] for row in rows)
    text = "\n\n".join([table(rows), shares(rows), reasons(rows), f"{len(kinds)} kinds of programs."])
    report.leave("public-fixed" if fixed else "public", rows, text, out)
