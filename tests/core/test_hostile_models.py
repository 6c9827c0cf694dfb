"""Thousands of damaged and forged models in child processes: none ends or hangs the process that runs it.

`--mutants` says how many (the suite takes a sample), `--random-seed` which. With
`--sanitizers` the library that they run in is compiled with AddressSanitizer.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest
from sanitizers import OPERATIONS, sanitized

from tests import sampling

REPOSITORY: Final = Path(__file__).parents[2]
CHILD: Final = "tests/core/hostile.py"
MUTANTS: Final = sampling.count("mutants", 200)
FIRST: Final = sampling.seed(1) * 1_000_000
SILENCE: Final = 90.0  # seconds without a word from the child: it hangs
LIMIT_GB: Final = 12  # of addresses; what asks for more gets none
ALLOCATION_MB: Final = 2048  # under AddressSanitizer, whose own addresses are more than any limit
ENVIRONMENT: Final = {"RECGRAPH_MEMORY_GB": "3", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


def watched(command: list[str], log: Path, folder: Path, output: Path, environment: dict[str, str]) -> str:
    """Runs a child; "" when it ends well, or what became of it."""
    with open(output, "w", encoding="utf-8") as file:
        child = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file)
        size, heard = -1, time.monotonic()
        while child.poll() is None:
            time.sleep(0.05)
            now = log.stat().st_size if log.exists() else 0
            if now != size:
                size, heard = now, time.monotonic()
            elif time.monotonic() - heard > SILENCE:
                child.kill()
                child.wait()
                return "hangs"
    return "" if child.returncode == 0 else f"ends the process ({child.returncode})"


def survivors(count: int, folder: Path, place: Path, **variables: str) -> tuple[list[str], list[str]]:
    """Runs mutants, going on after one that ends its process.

    Returns:
        What became of those that did not survive, and a line for each of the others.
    """
    log, output, failures, first = place / "log", place / "output", [], FIRST
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'tests'}", **variables}
    limit = "0" if "LD_PRELOAD" in variables else str(LIMIT_GB)  # AddressSanitizer takes all addresses
    while first < FIRST + count:
        command = [sys.executable, CHILD, str(first), str(FIRST + count - first), str(log), limit]
        what = watched(command, log, folder, output, environment)
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        if not what:
            break
        said = output.read_text(encoding="utf-8", errors="replace")
        assert lines, f"the models themselves fail:\n{said[-5000:]}"
        seed = int(lines[-1].split()[0])
        failures.append(f"mutant {seed} {what}:\n{said[-3000:]}")
        if seed < first:
            break
        with open(log, "a", encoding="utf-8") as file:
            print("", file=file)
        first = seed + 1
    found = log.read_text(encoding="utf-8").splitlines()
    failures += [line for line in found if line.endswith("AND DOES NOT END")]
    return failures, [line for line in found if re.match(r"\d+ .*: ", line)]


def judge(count: int, failures: list[str], lines: list[str]) -> None:
    """None has failed, and the mutants were what they are meant to be: some refused in each way, some running."""
    assert not failures, f"{len(failures)} of {count}:\n" + "\n".join(failures[:10])
    assert len(lines) == count
    for sign in (
        "plan: ",
        "functions: ",
        "structure: ",
        "captures: ",
        "bytes [",
        "raw Recgraph>",
        "it runs",
        "holds a damaged plan",
        "is not",
    ):
        assert any(sign in line for line in lines), sign


@pytest.mark.slow
def test_damaged_and_forged_models_are_survived(tmp_path: Path) -> None:
    """By the library as it is."""
    failures, lines = survivors(MUTANTS, REPOSITORY, tmp_path)
    judge(MUTANTS, failures, lines)


def test_a_child_that_dies_is_noticed(tmp_path: Path) -> None:
    """Otherwise silence would show nothing: one that ends by a signal, one that says nothing any more."""
    log, output = tmp_path / "log", tmp_path / "output"
    abort = [sys.executable, "-c", "import os; os.abort()"]
    assert watched(abort, log, tmp_path, output, dict(os.environ)) == "ends the process (-6)"


if sampling.SANITIZERS:

    @pytest.mark.slow
    def test_under_address_sanitizer(tmp_path: Path) -> None:
        """Nothing is written or read where it should not be."""
        copy, environment = sanitized("address", OPERATIONS, tmp_path)
        environment["ASAN_OPTIONS"] += f":allocator_may_return_null=1:max_allocation_size_mb={ALLOCATION_MB}"
        failures, lines = survivors(MUTANTS, copy, tmp_path, **environment)
        judge(MUTANTS, failures, lines)
