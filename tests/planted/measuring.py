"""Measures which tests come past which bugs and how long they take, and tries each bug on the tests that do.

Both can be stopped at any time and go on from there: what they know is in `build/planted`, one line for each file of
tests that was measured and for each bug that was tried. What happens while a file is imported or in its shared fixtures
counts for all its tests. What is done once in a process, as by `functools.cache` or in a worker that outlives a test,
counts for the first test alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.planted import ROOMS, Bug, bugs_of, catches, probing
from tests.planted.catches import Tried
from tests.planted.mutants import chosen_mutants
from tests.planted.planting import REPOSITORY, Copy

FOLDER = REPOSITORY / "build" / "planted"
FAILURES, SECONDS = 10, 480
PATIENCE = 60  # so many seconds longer than ten times what it takes may a test take on a bug
_FIRST, _MORE = 40, 4  # so many tests of a bug in the first process, then so many times as many

_PLUGINS = ("measuring_plugin.py", "trying_plugin.py")


def all_bugs() -> dict[str, Bug]:
    """Planted bugs in Python files, and mutants, by names that are their own."""
    planted = {f"{room}.{bug.name}": bug for room in ROOMS for bug in bugs_of(room) if bug.file.endswith(".py")}
    return planted | {mutant.name: mutant for mutants in chosen_mutants().values() for mutant in mutants}


def package_of(bug: Bug) -> str:
    """The package that a bug is in."""
    parts = Path(bug.file).parts
    return parts[1] if parts[0] == "recgraph" else parts[0]


def key_of(bug: Bug) -> str:
    """A key of what is planted."""
    return hashlib.sha256(f"{bug.old}\0{bug.new}".encode()).hexdigest()[:8]


def place_of(bug: Bug, text: str) -> tuple[int, int]:
    """Line and column (in bytes) of the first character that a bug changes."""
    at = text.index(bug.old) + len(os.path.commonprefix([bug.old, bug.new]))
    begin = text.rfind("\n", 0, at) + 1
    if not text[begin:at].strip():  # whole lines are changed: from the first statement on
        at += len(text[at:]) - len(text[at:].lstrip())
        begin = text.rfind("\n", 0, at) + 1
    return text.count("\n", 0, at) + 1, len(text[begin:at].encode())


def probes_of(bugs: Iterable[Bug], root: Path) -> dict[str, list[tuple[int, int, int]]]:
    """What `probing` reads: number, line and column of each bug by the paths of a copy's files."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for number, bug in enumerate(bugs):
        text = (root / bug.file).read_text(encoding="utf-8")
        if text.count(bug.old) == 1:
            found.setdefault(str(root / bug.file), []).append((number, *place_of(bug, text)))
    return found


class Runner:
    """Runs pytest in a copy of the sources, with what our plugins need."""

    def __init__(self, folder: Path) -> None:
        self.copy = Copy(folder)
        self.output, self._report = folder / "output", folder / "told"
        self._environment = self.copy.environment
        for name in _PLUGINS:
            shutil.copy2(Path(__file__).with_name(name), self.copy.started / f"recgraph_{name}")

    def probe(self, bugs: Iterable[Bug]) -> None:
        """Puts probes at these bugs."""
        places = self.copy.started / "probes.json"
        places.write_text(json.dumps(probes_of(bugs, self.copy.root)), encoding="utf-8")
        hits = str(self.copy.started / "hits")
        self._environment |= {probing.PROBES: str(places), probing.HITS: hits}

    def pytest(
        self, plugin: str, arguments: Iterable[str], seconds: float, **told: str
    ) -> tuple[int | None, list[Any]]:
        """The exit status, None where the time was over, and what the plugin has told."""
        self._report.write_text("", encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            f"recgraph_{plugin}",
            "-p",
            "no:cacheprovider",
            *arguments,
        ]
        environment = {**self._environment, **told, "RECGRAPH_PLANTED_REPORT": str(self._report)}
        with self.output.open("w", encoding="utf-8") as output:
            status = _ended(command, self.copy.root, environment, output, seconds)
        lines = self._report.read_text(encoding="utf-8").splitlines()
        return status, [json.loads(line) for line in lines]


def _ended(command: list[str], root: Path, environment: dict[str, str], output: Any, seconds: float) -> int | None:
    """The exit status of a process; it and those it has started are ended."""
    process = subprocess.Popen(
        command, cwd=root, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what tests have left behind
        process.wait()


@dataclass
class Executed:
    """What is known of tests.

    Attributes:
        seconds: of each test that passes.
        bugs: by a bug's name, the tests that come past it themselves, and those whose file does when it is imported.
        files: those that were measured.
        probed: the names of all bugs that had probes then.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    bugs: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    probed: set[str] = field(default_factory=set)

    def add(self, measured: Mapping[str, Any]) -> None:
        """Adds a measured file."""
        passed = {name: test for name, test in measured["tests"].items() if test["outcome"] == "passed"}
        self.files.add(measured["file"])
        for name, test in passed.items():
            self.seconds[name] = test["seconds"]
            for bug in test["bugs"]:
                self.bugs.setdefault(bug, ([], []))[0].append(name)
        for bug in measured["shared"]:
            own, shared = self.bugs.setdefault(bug, ([], []))
            shared += set(passed) - set(own)

    def tests_of(self, bug: str) -> list[str]:
        """Tests that come past a bug, the quickest first; then those that only import it."""
        return [test for part in self.bugs.get(bug, ([], [])) for test in sorted(part, key=self._order)]

    def _order(self, test: str) -> tuple[float, str]:
        return self.seconds[test], test


def read_executed(folder: Path = FOLDER) -> Executed:
    """What was measured so far; of a file that was measured again, the last."""
    found = Executed()
    for measured in {line["file"]: line for line in _lines(folder / "executed.jsonl")}.values():
        found.add(measured)
        found.probed.update(json.loads(_probed(folder, measured["probed"]).read_text(encoding="utf-8")))
    return found


def _probed(folder: Path, key: str) -> Path:
    """The names of the bugs that had probes."""
    return folder / f"probed-{key}.json"


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def _append(path: Path, line: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        print(json.dumps(line), file=file)


def find_test_files(places: Sequence[str]) -> list[str]:
    """The files of tests in these folders, or these files themselves, relative to `tests`."""
    root = REPOSITORY / "tests"
    paths = [
        path for place in places or ["."] for path in (sorted((root / place).rglob("test_*.py")) or [root / place])
    ]
    return list(dict.fromkeys(str(path.resolve().relative_to(root)) for path in paths))


def measure(runner: Runner, files: Sequence[str], marks: str, until: float, folder: Path = FOLDER) -> list[str]:
    """Measures files of tests in one process; those that could not be measured before a time."""
    bugs = all_bugs()
    names = list(bugs)
    runner.probe(bugs.values())
    _probed(folder, key := _key(names)).write_text(json.dumps(names), encoding="utf-8")
    places = [f"tests/{file}" for file in files]
    _, told = runner.pytest("measuring_plugin", ["-m", marks, *places], max(until - time.monotonic(), 1))
    tests = {line["test"].removeprefix("tests/"): line for line in told if "test" in line}
    measured = {line["measured"].removeprefix("tests/"): line["shared"] for line in told if "measured" in line}
    for file, shared in measured.items():
        own = {
            name: {"outcome": line["outcome"], "seconds": line["seconds"], "bugs": [names[k] for k in line["hits"]]}
            for name, line in tests.items()
            if name.startswith(f"{file}::")
        }
        found = {"file": file, "probed": key, "tests": own, "shared": [names[k] for k in shared]}
        _append(folder / "executed.jsonl", found)
    return [file for file in files if file not in measured]


def _key(names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]


def read_tried(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """What became of bugs so far: those that still have the same text."""
    keys = {name: key_of(bug) for name, bug in all_bugs().items()}
    return {line["bug"]: line for line in _lines(folder / "tried.jsonl") if line["text"] == keys.get(line["bug"])}


def remaining_tests(name: str, executed: Executed, tried: Mapping[str, Any]) -> list[str]:
    """The tests that come past a bug and have not been run on it, unless enough have failed or the time was over."""
    if len(tried.get("failed", ())) >= FAILURES or tried.get("seconds", 0) >= SECONDS:
        return []
    ran = set(tried.get("ran", ()))
    return [test for test in executed.tests_of(name) if test not in ran]


def try_bug(runner: Runner, name: str, executed: Executed, folder: Path = FOLDER) -> dict[str, Any]:
    """Runs tests on a bug that come past it, until enough fail or it has taken long enough."""
    bug = all_bugs()[name]
    tried = read_tried(folder).get(name) or {"bug": name, "text": key_of(bug), "ran": [], "failed": [], "seconds": 0}
    size = _FIRST
    with runner.copy.planted(bug):
        while left := remaining_tests(name, executed, tried):
            begin = time.monotonic()
            part = left[:size]
            ran, failed = _run(runner, part, FAILURES - len(tried["failed"]), SECONDS - tried["seconds"], executed)
            tried["ran"] += sorted(ran)
            tried["failed"] = sorted({*tried["failed"], *failed})
            tried["seconds"] = round(tried["seconds"] + time.monotonic() - begin, 1)
            size *= _MORE
    _append(folder / "tried.jsonl", tried)
    return tried


def _run(
    runner: Runner, tests: list[str], failures: int, seconds: float, executed: Executed
) -> tuple[set[str], set[str]]:
    """Which of these tests were run on what is planted, and which failed; files, where they could not be loaded."""
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    order = runner.copy.started / "order.json"
    limits = {f"tests/{test}": PATIENCE + 10 * executed.seconds[test] for test in tests}
    order.write_text(json.dumps(limits), encoding="utf-8")
    options = [f"--maxfail={failures}", "--continue-on-collection-errors", "-o", "faulthandler_timeout=0"]
    places = [f"tests/{file}" for file in files]
    told = {"RECGRAPH_PLANTED_ORDER": str(order), "RECGRAPH_PLANTED_SECONDS": str(seconds)}
    status, lines = runner.pytest("trying_plugin", [*options, *places], seconds + 60, **told)
    by_kind: dict[str, set[str]] = {}
    for line in lines:
        by_kind.setdefault(line["what"], set()).add(line["test"].removeprefix("tests/"))
    started, failed = by_kind.get("started", set()), by_kind.get("failed", set())
    unended = started - by_kind.get("ended", set())
    if status not in (0, 1, 2) and not lines:
        return set(tests), set(files)  # not even collected: the process died, or it hangs
    unloaded = {test for test in tests if test.partition("::")[0] in failed}
    is_whole = not unended and len(failed) < failures and "over" not in by_kind
    return set(tests) if is_whole else (started | unloaded or set(tests)), failed | unended


def store(folder: Path = FOLDER, path: Path = catches.PLACE) -> catches.Catches:
    """Writes what is known to the file of catches, of which only what exists no more is left out."""
    executed, found, bugs, tried = read_executed(folder), catches.read(path), all_bugs(), read_tried(folder)
    found.tests = {test: s for test, s in found.tests.items() if test.partition("::")[0] not in executed.files}
    found.tests |= executed.seconds
    found.bugs = {name: one for name, one in found.bugs.items() if name in bugs and one.text == key_of(bugs[name])}
    is_whole = executed.files.issuperset(find_test_files([]))
    for name, bug in bugs.items():
        count = len(executed.tests_of(name))
        if name in tried:
            one = tried[name]
            found.bugs[name] = Tried(one["text"], count, len(one["ran"]), one["seconds"], tuple(sorted(one["failed"])))
        elif is_whole and not count and name in executed.probed:  # there is nothing to run
            found.bugs[name] = Tried(key_of(bug), 0, 0, 0, ())
    catches.write(found, path)
    return found
