"""What is known of bugs and tests: seconds of each test, which bugs it catches; and the tests that catch most a second.

`catches.json` has it, one line for each test and each bug.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PLACE = Path(__file__).with_name("catches.json")
SHARE = 0.95


@dataclass(frozen=True)
class Tried:
    """What became of a bug.

    Attributes:
        text: a key of the bug's text: with another, what is said here is of another bug.
        executed: number of tests that come past it.
        ran: number of those that were run.
        seconds: how long these took.
        failed: those that failed; a file, where it cannot even be imported.
    """

    text: str
    executed: int
    ran: int
    seconds: float
    failed: tuple[str, ...]


@dataclass
class Catches:
    """Seconds of tests, and what became of bugs, by their names."""

    tests: dict[str, float] = field(default_factory=dict)
    bugs: dict[str, Tried] = field(default_factory=dict)


def read(path: Path = PLACE) -> Catches:
    """What a file says; nothing, if there is none."""
    if not path.is_file():
        return Catches()
    found = json.loads(path.read_text(encoding="utf-8"))
    bugs = {name: Tried(**{**tried, "failed": tuple(tried["failed"])}) for name, tried in found["bugs"].items()}
    return Catches(found["tests"], bugs)


def write(catches: Catches, path: Path = PLACE) -> None:
    """Writes a file that `read` reads: sorted, with a line for each entry."""
    tests = {name: json.dumps(catches.tests[name]) for name in sorted(catches.tests)}
    bugs = {name: json.dumps(vars(catches.bugs[name])) for name in sorted(catches.bugs)}
    path.write_text(f'{{\n"bugs": {_lines(bugs)},\n"tests": {_lines(tests)}\n}}\n', encoding="utf-8")


def _lines(entries: Mapping[str, str]) -> str:
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {text}" for name, text in entries.items()) + "\n}"


def caught_by(catches: Catches) -> dict[str, set[str]]:
    """The bugs that each test catches; those of a file that fails to load are caught by each of its tests."""
    found: dict[str, set[str]] = {}
    of_files: dict[str, list[str]] = {}
    for test in catches.tests:
        of_files.setdefault(test.partition("::")[0], []).append(test)
    for bug, tried in catches.bugs.items():
        for failed in tried.failed:
            for test in of_files.get(failed, [failed]):
                found.setdefault(test, set()).add(bug)
    return found


def chosen(catches: Catches, share: float = SHARE) -> list[str]:
    """Tests that catch this share of what was caught at all: those first that catch the most new bugs a second."""
    left = caught_by(catches)
    missing = set().union(*left.values())
    enough = len(missing) * (1 - share)
    found: list[str] = []
    while len(missing) > enough + 1e-9:
        best = min(left, key=lambda test: (-len(left[test] & missing) / _seconds(catches, test), test))
        missing -= left.pop(best)
        found.append(best)
    return found


def _seconds(catches: Catches, test: str) -> float:
    return max(catches.tests.get(test, 60.0), 0.01)  # of one whose time nobody knows, much


def share_of(catches: Catches, tests: Iterable[str]) -> tuple[int, int]:
    """How many of the bugs that were caught at all these tests catch, and how many these are."""
    found = caught_by(catches)
    return len(set().union(*(found.get(test, ()) for test in tests))), len(set().union(*found.values()))
