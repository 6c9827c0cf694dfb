"""Chooses the tests of `make test`: `python -m tests.planted.quick results.xml ...` writes `tests/quick.txt`.

The files are what `pytest --junitxml` wrote; without any, the seconds measured before are used. Chosen are all tests
that take under two seconds, a sixteenth of the cases of those that have many, and of the rest, by greedy cover, those
that catch a bug which no chosen test catches: first what costs the fewest seconds for each bug. Which tests catch which
bugs is what `tests/planted` asks of them, and what `catches.json` has measured.
"""

from __future__ import annotations

import collections
import json
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable

from tests import tiers
from tests.planted import ROOMS, bugs_of
from tests.planted import catches as measured

# A test with so many cases gives a sixteenth of them, if all together take longer than a plain test may.
MANY = 2 * tiers.OF
# A test, all of its cases together, may take so many seconds without having caught a bug.
CHEAP = 2.0
# So many of the bugs are caught by what is chosen.
SHARE = 0.95

Seconds = dict[str, dict[str, float]]


def read(files: Iterable[str]) -> Seconds:
    """The seconds and the number of cases of each test in results of pytest."""
    found: Seconds = collections.defaultdict(lambda: {"seconds": 0.0, "cases": 0})
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            if "classname" not in case.attrib:  # the run was interrupted
                continue
            name = f"{case.attrib['classname'].replace('.', '/')}.py::{tiers.function_of(case.attrib['name'])}"
            found[name]["cases"] += 1
            found[name]["seconds"] = round(found[name]["seconds"] + float(case.attrib["time"]), 2)
    return dict(sorted(found.items()))


def plain(seconds: Seconds) -> list[str]:
    """The lines of tests that are taken whatever they catch."""
    lines = []
    for test, of in seconds.items():
        if of["seconds"] < CHEAP:
            lines.append(test)
        elif of["cases"] >= MANY:
            lines.append(f"{test}{tiers.SHARED}")
    return lines


def cover(lines: list[str], seconds: Seconds, catches: dict[str, list[str]]) -> list[str]:
    """More lines, until nearly all bugs are caught for which a measured test is known."""
    whole = {line for line in lines if not line.endswith(tiers.SHARED)}
    catches = {bug: [test for test in tests if tiers.function_of(test) in seconds] for bug, tests in catches.items()}
    missing = {
        bug: tests
        for bug, tests in catches.items()
        if tests and not any(test in whole or tiers.function_of(test) in whole for test in tests)
    }
    allowed = (1.0 - SHARE) * sum(bool(tests) for tests in catches.values())
    more: list[str] = []
    while len(missing) > allowed:
        counts = collections.Counter(test for tests in missing.values() for test in set(tests))
        best = max(sorted(counts), key=lambda test: counts[test] / (0.01 + _cost(test, seconds)))
        more.append(best)
        missing = {bug: tests for bug, tests in missing.items() if best not in tests}
    return more


def _cost(test: str, seconds: Seconds) -> float:
    """The seconds of a test, or of one of its cases."""
    of = seconds[tiers.function_of(test)]
    return of["seconds"] / of["cases"] if "[" in test else of["seconds"]


def known_catches() -> dict[str, list[str]]:
    """The tests that are to catch each planted bug, and those that were seen to catch each bug."""
    asked = {
        f"{room}.{bug.name}": [f"tests/{test}" for test in bug.tests]
        for room in ROOMS
        for bug in bugs_of(room)
        if not bug.is_gtest
    }
    seen = {name: [f"tests/{test}" for test in tried.failed] for name, tried in measured.read().bugs.items()}
    return {name: [*asked.get(name, []), *seen.get(name, [])] for name in {**asked, **seen}}


def _exists(test: str) -> bool:
    file, _, function = tiers.function_of(test).partition("::")
    return function in tiers.functions_of(file)


def main() -> None:
    """Writes both files, and says how long the chosen tests take."""
    known: Seconds = read(sys.argv[1:]) if sys.argv[1:] else tiers.measured()
    seconds = {test: took for test, took in known.items() if _exists(test)}
    text = json.dumps(seconds).replace('}, "', '},\n "').replace("{", "{\n ", 1)
    tiers.SECONDS.write_text(f"{text}\n", encoding="utf-8")
    catches = known_catches()
    lines = plain(seconds)
    more = cover(lines, seconds, catches)
    head = "# Written by `python -m tests.planted.quick`, which says how these were chosen."
    tiers.QUICK.write_text("\n".join([head, *sorted([*lines, *more])]) + "\n", encoding="utf-8")
    shared = sum(seconds[line.removesuffix(tiers.SHARED)]["seconds"] for line in lines if line.endswith(tiers.SHARED))
    usual = sum(seconds[line]["seconds"] for line in lines if not line.endswith(tiers.SHARED))
    print(f"{len(lines)} plain tests: {usual:.0f} s, and {shared / tiers.OF:.0f} s of large ones")
    print(f"{len(more)} for bugs: {sum(_cost(test, seconds) for test in more):.0f} s")


if __name__ == "__main__":
    main()
