"""The choice of `make test` fits the tests that there are, and the choosing does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import tiers
from tests.planted import quick

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["quick.txt", "planted/seconds.json"])
def test_what_is_chosen_and_measured_exists(name: str) -> None:
    tests = tiers.chosen() if name == "quick.txt" else tiers.measured()
    names = {test: tiers.function_of(test).partition("::") for test in tests}
    gone = [test for test, (file, _, function) in names.items() if function not in tiers.functions_of(file)]
    assert gone == [], "run `python -m tests.planted.quick`"


def test_quick_and_rest_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test is quick as a whole, by a sixteenth of its cases, by one case, or as long as nobody has measured it."""
    monkeypatch.setattr(tiers, "chosen", lambda: {"a": False, "many": True, "c[1]": False})
    monkeypatch.setattr(tiers, "measured", lambda: dict.fromkeys(["a", "many", "c", "d"], 1.0))
    tests = ["a[0]", "a[1]", *(f"many[{i}]" for i in range(40)), "c[0]", "c[1]", "d", "new"]
    found = tiers.quick(tests, 3)
    assert found == {"a[0]", "a[1]", "many[2]", "many[18]", "many[34]", "c[1]", "new"}
    every = [tiers.quick(tests, sixteenth) for sixteenth in range(tiers.OF)]
    assert {f"many[{i}]" for i in range(40)} <= set().union(*every)


def test_choosing_takes_what_is_cheap_and_what_catches() -> None:
    seconds = {
        "plain": {"seconds": 0.5, "cases": 2},
        "large": {"seconds": 64.0, "cases": 64},
        "slow": {"seconds": 30.0, "cases": 1},
        "slower": {"seconds": 40.0, "cases": 1},
        "idle": {"seconds": 50.0, "cases": 1},
    }
    lines = quick.plain(seconds)
    assert lines == ["plain", "large 1/16"]
    caught = {"a": ["plain"], "b": ["slow", "slower"], "c": ["large[7]", "slower"], "d": ["not measured"]}
    assert quick.cover(lines, seconds, caught) == ["large[7]", "slow"]


def test_results_of_pytest_are_added_up(tmp_path: Path) -> None:
    file = tmp_path / "results.xml"
    case = '<testcase classname="tests.core.test_a" name="{}" time="0.25"/>'
    file.write_text(
        f"<testsuite>{case.format('test_x[1]')}{case.format('test_x[2]')}{case.format('test_y')}</testsuite>"
    )
    assert quick.read([str(file)]) == {
        "tests/core/test_a.py::test_x": {"seconds": 0.5, "cases": 2},
        "tests/core/test_a.py::test_y": {"seconds": 0.25, "cases": 1},
    }
