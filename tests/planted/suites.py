"""The gtest suites of cc/core in a copy of the sources: compiled once, and again where a bug is planted."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.gtest import Toolchain, find_toolchain, run
from tests.planted import Bug

_FLAGS = ["-O0", "-g0"]


class Suites:
    """The suites of a copy.

    Raises:
        NoToolchain: there is no compiler or no gtest.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._target = root, root / "build_of_suites" / "core"
        self._target.parent.mkdir()
        self._toolchain: Toolchain = find_toolchain(self._target.parent, root)
        self._sources = sorted((root / "cc" / "core").glob("*.cc"))
        self._stale: list[Path] = []  # their objects have a bug that is there no more
        self._toolchain.compile(self._target, self._sources, _FLAGS)

    def failing(self, bug: Bug) -> tuple[list[str], str]:
        """Which of a planted bug's tests fail, and how, if that is unusual."""
        affected = self._affected(bug.file)
        self._toolchain.compile(self._target, [*{*affected, *self._stale}], _FLAGS)
        self._toolchain.link(self._target, self._sources, _FLAGS)
        self._stale = affected
        found = {test: self._failure(test.removeprefix("gtest:")) for test in bug.tests}
        return [test for test, how in found.items() if how is not None], "".join(how or "" for how in found.values())

    def _failure(self, test: str) -> str | None:
        """How a test fails; None if it passes."""
        try:
            ran = run([str(self._target), f"--gtest_filter={test}"], self._root)
        except subprocess.TimeoutExpired:
            return "hangs"
        if " 1 test " not in ran.stdout and ran.returncode == 0:
            raise LookupError(f"no gtest has the name {test}")
        if ran.returncode < 0:
            return f"the process ends with status {ran.returncode}"
        return "" if ran.returncode else None

    def _affected(self, file: str) -> list[Path]:
        """The sources that a file is a part of."""
        return [source for source in self._sources if file in _included(self._root, source)]


def _included(root: Path, source: Path) -> set[str]:
    """A file and all that it includes of ours, relative to the root."""
    found: set[str] = set()
    waiting = [str(source.relative_to(root))]
    while waiting:
        file = waiting.pop()
        if file in found or not (root / file).is_file():
            continue
        found.add(file)
        waiting += re.findall(r'^#include "(cc/[^"]+)"', (root / file).read_text(encoding="utf-8"), re.MULTILINE)
    return found
