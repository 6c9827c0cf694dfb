"""What two real workers do for `test_shared.py`: steps in a scope, whose assumptions break on one of them at a time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recgraph as rg
from recgraph.distribute import Cluster
from recgraph.speculate import Speculated
from tests.distribute import shared_programs
from tests.distribute.shared_programs import Program

# Calls before anything is broken on purpose, and after all that.
WARM, LAST = 12, 6
BROKEN = ("guard", "assertion")


def numbers(values: Any) -> Iterator[float]:
    """All of them, in arrays, lists and dicts."""
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list | tuple):
        for value in values:
            yield from numbers(value)
    else:
        yield from np.ravel(values).tolist()


def eagerly(cluster: Cluster, program: Program, calls: int) -> list[float]:
    """What the program has done after so many calls, run as it is written."""
    with cluster.scope():
        results = [program.step(*program.arguments(call, cluster.index)) for call in range(calls)]
    return list(numbers([results, program.look()]))


def broken(cluster: Cluster, program: Program, patch: pytest.MonkeyPatch) -> tuple[list[float], dict[str, Any]]:
    """The same as a converted step: each assumption of each worker breaks once, in calls in which no other's does."""
    from tests.speculate.injection import Injection  # it uses TensorFlow, which is too early at the top

    injection = Injection(patch, points=0)
    step, results = Speculated(program.step), []

    def call() -> None:
        results.append(step(*program.arguments(len(results), cluster.index)))

    with cluster.scope():
        for _ in range(WARM):
            call()
        graphs = dict(step.calls)
        # What breaks on purpose says nothing about the program.
        patch.setattr(step, "_learn", lambda misses: None)
        patch.setattr(step, "_converted", lambda call, misses: None)
        places = {place for graph in step._graphs for place in injection.places(graph) if place[0] in BROKEN}
        mine = sorted(places)
        for turn in range(max(map(int, cluster.exchange(str(len(mine)))))):
            for worker in range(cluster.size):
                with injection.broken(*mine[turn]) if worker == cluster.index and turn < len(mine) else nullcontext():
                    call()
        before_last = step.calls["graph"]
        for _ in range(LAST):
            call()
    told = {
        "graphs": graphs["graph"],
        "places": len(mine),
        "fallbacks": step.calls["fallback"] - graphs["fallback"],
        "graphs at the end": step.calls["graph"] - before_last,
        "given up": step.given_up,
    }
    return list(numbers([results, program.look()])), {**told, "calls": len(results)}


def main(folder: Path, names: list[str]) -> None:
    """Everything, in the same order on all workers."""
    cluster = rg.distribute(timeout=60, start_timeout=120)
    seen = {}
    for make in (getattr(shared_programs, name) for name in names):
        with pytest.MonkeyPatch.context() as patch:
            got, told = broken(cluster, make(cluster), patch)
        expected = eagerly(cluster, make(cluster), told["calls"])
        told["difference"] = float(np.max(np.abs(np.subtract(expected, got)) / (1 + np.abs(expected))))
        seen[make.__name__] = told
    (folder / f"worker-{cluster.index}.json").write_text(json.dumps(seen), encoding="utf-8")
    cluster.leave()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
