"""Ctrl-C ends every graph within a second, with a whole call or none done; other signals reach their handlers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.speculate import interrupted_programs

SECONDS = 1.0
ENDS = {
    "handler that raises": "Ended",
    "handler of Ctrl-C that raises": "Ended",
    "handler that goes on": "EagerTensor",
}


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """What became of each case, in other processes: one that hangs ends, and the next goes on behind it."""
    found: dict[str, Any] = {}
    waiting = list(interrupted_programs.CASES)
    while waiting:
        command = [sys.executable, "-m", "tests.speculate.interrupted_programs", *waiting]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=300)
        told = [json.loads(line) for line in ran.stdout.splitlines()]
        found.update({one["name"]: one for one in told})
        del waiting[: len(told)]
        if waiting:
            found[waiting.pop(0)] = ran.stderr[-3000:]
    return found


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", interrupted_programs.CASES)
def test_a_signal_ends_a_graph_that_runs_for_ever(name: str, results: Any) -> None:
    told = results[name]
    assert isinstance(told, dict), told
    ended, seconds, *holds = told["found"]
    assert ended == ENDS.get(name, "KeyboardInterrupt")
    assert seconds < SECONDS
    assert all(holds)
    assert told["usable"]
