"""Which tests a run takes: `--quick` those that `tests/quick.txt` names, `--rest` all others, `--until` what fits.

A line of the file is a test with all of its cases, one case of it, or a test and `1/16`: then a sixteenth of its cases,
which one the commit decides. A test that has not been measured yet (`tests/planted/seconds.json`) is quick.
"""

from __future__ import annotations

import ast
import collections
import functools
import json
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests import sampling
from tests.planted import ROOMS, bugs_of

OF = 16
SHARED = f" 1/{OF}"
QUICK, SECONDS = (Path(__file__).parent / name for name in ("quick.txt", "planted/seconds.json"))
NO_TIME = "no time was left"

_left_out: collections.Counter[str] = collections.Counter()


def add_options(parser: pytest.Parser) -> None:
    """Declares what can be asked for."""
    group = parser.getgroup("tiers", "which tests run")
    group.addoption("--quick", action="store_true", help="those that catch the most in ten minutes: tests/quick.txt")
    group.addoption("--rest", action="store_true", help="those that --quick leaves out")
    group.addoption("--rotation", type=int, metavar="N", help="which sixteenth of large tests is quick; else by commit")
    group.addoption("--sample", type=int, metavar="N", help="so many of all tests, at random")
    group.addoption("--until", type=float, metavar="T", help="seconds since 1970, after which no test begins")


@functools.cache
def commit() -> str:
    """The hash of the commit that is tested, or zeros where git knows none."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "0" * 40


def rotation(config: pytest.Config) -> int:
    """Which sixteenth of the large tests is quick."""
    asked: int | None = config.getoption("rotation")
    return int(commit()[:8], 16) % OF if asked is None else asked % OF


def header(config: pytest.Config) -> list[str]:
    """How to run the same tests again."""
    if not (config.getoption("quick") or config.getoption("rest")):
        return []
    return [f"of large tests, sixteenth {rotation(config)} is quick: --rotation={rotation(config)} repeats it"]


@functools.cache
def functions_of(file: str) -> frozenset[str]:
    """The tests of a file."""
    path = Path(__file__).parents[1] / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def function_of(test: str) -> str:
    """A test without its case."""
    return test.partition("[")[0]


@functools.cache
def chosen() -> dict[str, bool]:
    """The tests and cases of `tests/quick.txt`, and whether only a sixteenth of one runs."""
    lines = QUICK.read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    return {line.removesuffix(SHARED): line.endswith(SHARED) for line in lines}


@functools.cache
def measured() -> dict[str, float]:
    """The seconds of each test, all of its cases together."""
    found: dict[str, float] = json.loads(SECONDS.read_text(encoding="utf-8"))
    return found


def quick(tests: list[str], sixteenth: int) -> set[str]:
    """Those of the tests (with their cases) that are quick."""
    counts: collections.Counter[str] = collections.Counter()
    found = set()
    for test in tests:
        name = function_of(test)
        counts[name] += 1
        is_its_turn = counts[name] % OF == sixteenth or not chosen().get(name)
        if test in chosen() or (name in chosen() and is_its_turn) or name not in measured():
            found.add(test)
    return found


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves those tests that were asked for."""
    kept = items
    if config.getoption("quick") or config.getoption("rest"):
        is_quick = quick([item.nodeid for item in items], rotation(config))
        kept = [item for item in items if (item.nodeid in is_quick) == config.getoption("quick")]
    sample: int | None = config.getoption("sample")
    if sample is not None and sample < len(kept):
        chance = random.Random(sampling.seed(0))
        kept = [kept[i] for i in sorted(chance.sample(range(len(kept)), sample))]
    if config.getoption("rest"):
        kept = ordered(kept, rotation(config))
    remaining = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in remaining])
    items[:] = kept


def ordered(items: list[pytest.Item], sixteenth: int) -> list[pytest.Item]:
    """First those that have to catch a planted bug; of the others, another sixteenth of the files begins each time."""
    named = {function_of(f"tests/{test}") for room in ROOMS for bug in bugs_of(room) for test in bug.tests}
    first = [item for item in items if function_of(item.nodeid) in named]
    then = [item for item in items if function_of(item.nodeid) not in named]
    files = list(dict.fromkeys(item.path for item in then))
    start = sixteenth * len(files) // OF
    place = {file: (number - start) % len(files) for number, file in enumerate(files)}
    return [*first, *sorted(then, key=lambda item: place[item.path])]


def begin(item: pytest.Item) -> None:
    """Skips a test for which no time is left."""
    until: float | None = item.config.getoption("until")
    if until is not None and time.time() > until:
        pytest.skip(NO_TIME)


def count(report: pytest.TestReport) -> None:
    """Takes note of a test that no time was left for."""
    if report.skipped and NO_TIME in str(report.longrepr):
        _left_out[report.nodeid.partition("::")[0]] += 1


def summary(terminal: pytest.TerminalReporter) -> None:
    """Says what no time was left for."""
    if _left_out:
        terminal.section(f"{sum(_left_out.values())} tests were not run: {NO_TIME}")
        for file, number in sorted(_left_out.items()):
            terminal.line(f"{number:6}  {file}")
