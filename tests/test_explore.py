"""Exploring finds what fails, says how to repeat it, and keeps what is made smaller."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests import explore

_PROGRAM = """
from hypothesis import given, seed, settings, strategies as st
from tests import sampling

@seed(sampling.seed(0))
@settings(phases=sampling.PHASES, max_examples=50, database=None)
@given(st.integers(0, 1000))
def test_small(n):
    assert n < {limit}, f"the program {{n}}"
"""


def kind_of(folder: Path, limit: int) -> explore.Kind:
    """A kind whose one test fails for numbers from a limit on."""
    file = folder / "test_numbers.py"
    file.write_text(_PROGRAM.format(limit=limit), encoding="utf-8")
    return explore.Kind("numbers", (str(file),), ("-p", "tests.conftest"))


def test_a_failure_is_made_smaller_and_can_be_repeated(tmp_path: Path) -> None:
    kind = kind_of(tmp_path, 100)
    line = explore.turn(kind, 7, tmp_path)
    assert (line["failed"], line["seed"]) == (1, 7)
    (file,) = line["discovered"]  # type: ignore[misc]
    text = Path(file).read_text(encoding="utf-8")
    assert "the program 100\n" in text.partition("At first:")[0]
    assert "--random-seed=7" in text.splitlines()[0]
    assert "python -m pytest" in text.splitlines()[0]


def test_what_passes_is_a_line_of_the_log(tmp_path: Path) -> None:
    line = explore.turn(kind_of(tmp_path, 10_000), 7, tmp_path)
    assert (line["passed"], line["discovered"]) == (1, [])


def test_every_kind_has_tests() -> None:
    """A path that is gone would end in nothing each time."""
    for kind in explore.KINDS:
        assert [test for test in kind.tests if not Path(test.partition("::")[0]).exists()] == []


def test_seeds_reach_the_tests(tmp_path: Path) -> None:
    """Another seed, other numbers: the failing ones are others."""
    outputs = [
        subprocess.run(
            explore.command(kind_of(tmp_path, 100), seed), capture_output=True, text=True, check=False
        ).stdout
        for seed in (1, 2, 1)
    ]
    shown = [{line for line in output.splitlines() if "the program" in line} for output in outputs]
    assert shown[0] == shown[2]
    assert shown[0] != shown[1]
