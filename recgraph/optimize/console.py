"""What `recgraph optimize` does: generates substitutions, verifies a file, and prints both."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track

from recgraph.errors import RecgraphError
from recgraph.optimize import axioms, store
from recgraph.optimize.families import FAMILIES
from recgraph.optimize.generator import Counts, Selection, distinct, enumerate_family
from recgraph.optimize.prover import Prover, z3_version
from recgraph.optimize.store import Substitution


@dataclasses.dataclass(frozen=True)
class GenerationRequest:
    """What to generate.

    Attributes:
        families: names of families; an empty one stands for all that have a default number of operators.
        operators: how many a graph has at most; by default the family's own number.
        repetitions: how often inputs may be used again at most; None for any number.
        processes: that enumerate.
        work: folder for what was enumerated; what it has is not enumerated again.
        seconds: for how long candidates of one family are looked at, the most general ones first; None for all.
    """

    families: tuple[str, ...]
    operators: int | None
    repetitions: int | None
    processes: int
    work: Path | None
    seconds: float | None


def generate(request: GenerationRequest, out: Path, as_json: bool) -> None:
    """Generates, proves and writes substitutions; prints the counts."""
    counts: dict[str, Counts] = {}
    selection = Selection()
    with _folder(request.work) as work:
        for name in request.families or tuple(FAMILIES):
            counts[name] = _generate(name, request, work, selection)
    found = selection.finish()
    store.write(out, _provenance(counts, request, len(found)), found)
    for name, one in counts.items():
        click.echo(json.dumps({"family": name, **dataclasses.asdict(one)}) if as_json else f"{name}: {one}")
    click.echo(json.dumps({"substitutions": len(found)}) if as_json else f"{len(found)} substitutions in {out}")


def _generate(name: str, request: GenerationRequest, work: Path, selection: Selection) -> Counts:
    counts, start = Counts(), time.monotonic()
    console = Console(stderr=True)
    operators = request.operators or FAMILIES[name].operators
    made, found = enumerate_family(name, operators, work, request.processes, console.print)
    counts.graphs, counts.values, counts.pairs = found.graphs, found.values, found.pairs
    counts.enumerated = time.monotonic() - start
    candidates = distinct(found, made, counts)
    if request.repetitions is not None:
        candidates = [one for one in candidates if one.repetitions <= request.repetitions]
    start = time.monotonic()
    for candidate in track(candidates, f"{name}: {len(candidates)} candidates", console=console):
        if request.seconds is not None and time.monotonic() - start > request.seconds:
            break
        counts.examined += 1
        selection(candidate, counts)
    counts.proved = time.monotonic() - start
    return counts


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def _provenance(counts: dict[str, Counts], request: GenerationRequest, number: int) -> list[str]:
    lines = [
        f"{number} substitutions, SOURCE => TARGET where CONDITIONS  # the axioms that each was proven from.",
        "`recgraph optimize verify` proves them anew. The operators are those of recgraph/optimize/operators.py.",
        "",
        f"recgraph {importlib.metadata.version('recgraph')}, z3 {z3_version()}, axioms {axioms.fingerprint()}",
        f"at most {request.repetitions} repeated inputs" if request.repetitions is not None else "",
    ]
    return [*lines, *(f"{name}: {one}" for name, one in counts.items())]


def verify(path: Path, effort: int, as_json: bool) -> int:
    """Proves each substitution of a file anew; prints those that are refused, and gives their number.

    Raises:
        RecgraphError: the file has none.
    """
    found = store.read(path)
    if not found:
        raise RecgraphError("there are no substitutions", where=str(path))
    prover, refused, start = Prover(effort=effort), 0, time.monotonic()
    for one in track(found, f"{len(found)} substitutions", console=Console(stderr=True)):
        verdict = store.verify(one, prover)
        refused += not verdict.is_proven
        if as_json:
            click.echo(json.dumps(_record(one, verdict.is_proven, verdict.axioms, verdict.reason)))
        elif not verdict.is_proven:
            click.echo(f"refused: {one.equation}\n         {verdict.reason}")
    if not as_json:
        click.echo(f"{len(found) - refused} proven, {refused} refused, {time.monotonic() - start:.1f} s")
    return refused


def _record(one: Substitution, is_proven: bool, names: tuple[str, ...], reason: str) -> dict[str, Any]:
    return {"substitution": str(one.equation), "proven": is_proven, "axioms": list(names), "reason": reason}
