"""Plants a bug in a copy of the sources and runs the tests that have to catch it there.

The copy is what a child process imports: a `sitecustomize.py` of ours points the finder of the editable installation at
it, and a plugin of pytest's reports where the planted module was imported from.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.planted import Bug
from tests.planted.suites import Suites

REPOSITORY = Path(__file__).parents[2]
SECONDS = 280
CAUGHT, NOT_CAUGHT = "caught", "not caught"
NOT_FOUND = "text no longer found"
BROKEN = "could not be tried"

_COPIED = ("recgraph", "models", "data", "benchmarks", "tests", "cc", "docs", "examples", "tools")
_FILES = (
    *("recgraph_command.py", "recgraph_doctor.py", "recgraph_launch.py", "setup.py", "pyproject.toml"),
    *("README.md", "CONTRIBUTING.md", "Makefile"),
)

_SITE = '''"""Points the editable installation at a copy of the sources."""
import sys
for _name, _module in list(sys.modules.items()):
    if _name.startswith("__editable___recgraph_") and hasattr(_module, "MAPPING"):
        for _key, _place in _module.MAPPING.items():
            _module.MAPPING[_key] = _place.replace({repository!r}, {copy!r}, 1)
import recgraph_probe
recgraph_probe.SEEN = recgraph_probe.start()
'''

_PLUGIN = '''"""Says where a module is imported from, and which tests fail."""
import importlib, os

def _tell(what, value):
    with open(os.environ["RECGRAPH_PLANTED_REPORT"], "a", encoding="utf-8") as file:
        print(what, value, file=file)

def pytest_collection_finish(session):
    for name in filter(None, os.environ["RECGRAPH_PLANTED_MODULE"].split()):
        _tell("imported", importlib.import_module(name).__file__)

def pytest_runtest_logreport(report):
    if report.failed:
        _tell("failed", report.nodeid)
'''


@dataclass(frozen=True)
class Verdict:
    """What became of a bug: one of the constants above, and a line that says more."""

    kind: str
    detail: str = ""


class Copy:
    """A copy of the sources, in which one bug at a time is planted."""

    def __init__(self, folder: Path) -> None:
        self.root, self.started = folder / "sources", folder / "started"
        self._report = folder / "report"
        ignored = shutil.ignore_patterns(".hypothesis", "results")
        for name in _COPIED:
            shutil.copytree(REPOSITORY / name, self.root / name, ignore=ignored)
        for name in _FILES:
            shutil.copy2(REPOSITORY / name, self.root)
        self.started.mkdir()
        site = _SITE.format(repository=str(REPOSITORY), copy=str(self.root))
        (self.started / "sitecustomize.py").write_text(site, encoding="utf-8")
        (self.started / "recgraph_planted.py").write_text(_PLUGIN, encoding="utf-8")
        shutil.copy2(Path(__file__).with_name("probing.py"), self.started / "recgraph_probe.py")
        self._suites: Suites | None = None

    @property
    def environment(self) -> dict[str, str]:
        """That of a process which imports the copy."""
        return {
            **os.environ,
            "PYTHONPATH": str(self.started),
            "PYTHONDONTWRITEBYTECODE": "1",  # a file's time and length may be those of the one before
        }

    def try_bug(self, bug: Bug) -> Verdict:
        """Whether the tests that have to catch a bug do."""
        if is_stale(bug):
            return Verdict(NOT_FOUND, bug.file)
        if bug.is_gtest:
            suites = self._compiled_suites()
        with self.planted(bug):
            if bug.is_gtest:
                return _verdict(bug, *suites.failing(bug))
            if bug.needs_library:
                self.build_library()
            return self._try_pytest(bug)

    def failing_without(self, bugs: Iterable[Bug]) -> list[str]:
        """Those tests of these bugs that fail without any bug: what they say of one means nothing.

        Raises:
            RuntimeError: the tests do not run.
        """
        tests = dict.fromkeys(test for bug in bugs if not bug.is_gtest for test in bug.tests)
        status, failed, output = self._pytest(tests, "", None) if tests else (0, [], "")
        if status not in (0, 1):
            raise RuntimeError(f"the tests do not run in the copy:\n{output[-3000:]}")
        return failed

    def build_library(self) -> None:
        """Compiles what has changed below cc for TensorFlow."""
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        built = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise RuntimeError(f"the op library does not compile:\n{built.stdout[-3000:]}{built.stderr[-3000:]}")

    def _compiled_suites(self) -> Suites:
        if self._suites is None:
            self._suites = Suites(self.root)
        return self._suites

    @contextlib.contextmanager
    def planted(self, bug: Bug) -> Iterator[None]:
        """The copy has the bug."""
        path = self.root / bug.file
        before = path.read_text(encoding="utf-8")
        path.write_text(before.replace(bug.old, bug.new), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(before, encoding="utf-8")

    def _try_pytest(self, bug: Bug) -> Verdict:
        module = "" if bug.needs_library else module_of(bug.file)
        try:
            status, failed, output = self._pytest(bug.tests, module)
        except subprocess.TimeoutExpired:
            return Verdict(CAUGHT, f"nothing for {SECONDS} seconds")
        imported = [place for what, place in self._told() if what == "imported"]
        if module and imported != [str(self.root / bug.file)]:
            return Verdict(BROKEN, f"{module} was imported from {imported}: {output[-1500:]}")
        if status < 0 or status in (134, 139):
            return Verdict(CAUGHT, f"the process ends with status {status}")
        if status not in (0, 1):
            return Verdict(BROKEN, output[-1500:])
        return _verdict(bug, failed)

    def _pytest(self, tests: Iterable[str], module: str, seconds: int | None = SECONDS) -> tuple[int, list[str], str]:
        """The exit status of pytest in the copy, the tests that failed, and what was printed."""
        self._report.write_text("", encoding="utf-8")
        places = [f"tests/{test}" for test in tests]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "recgraph_planted", "-p", "no:cacheprovider", *places]
        told = {"RECGRAPH_PLANTED_REPORT": str(self._report), "RECGRAPH_PLANTED_MODULE": module}
        ran = subprocess.run(
            command,
            cwd=self.root,
            env={**self.environment, **told},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        failed = [test.removeprefix("tests/") for what, test in self._told() if what == "failed"]
        return ran.returncode, failed, ran.stdout + ran.stderr

    def _told(self) -> list[tuple[str, str]]:
        """What the plugin has reported."""
        lines = self._report.read_text(encoding="utf-8").splitlines()
        return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def _verdict(bug: Bug, failed: list[str], why: str = "") -> Verdict:
    """Every test has to fail; where a test has cases and none is named, one of them."""
    missed = [test for test in bug.tests if not is_among(test, failed)]
    return Verdict(NOT_CAUGHT, f"passes: {', '.join(missed)}") if missed else Verdict(CAUGHT, why)


def is_among(test: str, failed: list[str]) -> bool:
    """Whether a test, or a case of it, has failed."""
    return any(name == test or name.startswith(f"{test}[") for name in failed)


def is_stale(bug: Bug) -> bool:
    """Whether the text that a bug replaces does not occur once in its file."""
    path = REPOSITORY / bug.file
    return not path.is_file() or path.read_text(encoding="utf-8").count(bug.old) != 1


def module_of(file: str) -> str:
    """The module that a source file is, as it is imported."""
    parts = list(Path(file).with_suffix("").parts)
    parts = parts if parts[0] in ("recgraph", "recgraph_command") else ["recgraph", *parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
