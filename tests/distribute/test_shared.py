"""Steps that real workers share by a scope: what breaks on one of them is run eagerly by all, and nothing twice."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from recgraph_launch import on_this_machine, supervise
from tests.distribute.shared_programs import PROGRAMS

ROOT = Path(__file__).parents[2]
NAMES = [make.__name__ for make in PROGRAMS]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each worker wrote, with a place for each program."""
    folder = tmp_path_factory.mktemp("shared")
    said: list[str] = []
    program = [sys.executable, "-m", "tests.distribute.shared_worker", str(folder), *NAMES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
        assert supervise(on_this_machine(2, program, 0), said.append) == 0, said
    return [json.loads((folder / f"worker-{index}.json").read_text(encoding="utf-8")) for index in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_assumption_that_breaks_on_one_worker(seen: list[dict[str, Any]], name: str) -> None:
    """All run that call eagerly; weights, results and what Python remembers are those of eager workers."""
    for worker in seen:
        told = worker[name]
        assert told["given up"] == ""
        assert told["graphs"] > 0
        assert told["places"] > 0
        assert told["fallbacks"] >= sum(other[name]["places"] for other in seen)
        assert told["graphs at the end"] > 0
        assert told["difference"] < 1e-5
