"""Bugs that are planted in copies of the sources, one after another, and the tests that have to catch each.

The files of the rooms have lists of them, `BUGS`; `python -m tests.planted` tries them. `mutants.py` makes more, which
are anybody's to catch: `measuring.py` finds out which tests do, and `catches.py` which of them catch most a second.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

ROOMS = ("core", "batch", "speculate", "coexec", "keras", "others", "native")


@dataclass(frozen=True)
class Bug:
    """One bug.

    Attributes:
        name: of the bug, its own in the room.
        what: a sentence that says what is wrong with the planted source.
        file: relative to the repository.
        old: text that occurs once in the file.
        new: what is put in its place.
        tests: every one has to fail: of pytest `file::test` or `file::test[case]`, relative to `tests`; or of a gtest
            suite in cc/core `gtest:Suite.Test`.
    """

    name: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def is_gtest(self) -> bool:
        """Whether a compiled suite of cc/core has to catch it."""
        return self.tests[0].startswith("gtest:")

    @property
    def needs_library(self) -> bool:
        """Whether the op library has to be compiled again for it."""
        return self.file.startswith("cc/") and not self.is_gtest


def bugs_of(room: str) -> list[Bug]:
    """The bugs of a room."""
    found: list[Bug] = importlib.import_module(f"{__name__}.{room}").BUGS
    return found
