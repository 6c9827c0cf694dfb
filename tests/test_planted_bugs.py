"""The bugs of `tests/planted` still fit the sources, and a few of them, chosen at random, are caught."""

from __future__ import annotations

import ast
import random
import re
from functools import cache
from pathlib import Path

import pytest

from tests import sampling
from tests.planted import ROOMS, Bug, bugs_of
from tests.planted.planting import (
    BROKEN,
    CAUGHT,
    NOT_CAUGHT,
    NOT_FOUND,
    REPOSITORY,
    Copy,
    Verdict,
    is_among,
    is_stale,
    module_of,
)

COUNT = sampling.count("planted", 2)
SEED = sampling.seed(0)
BUGS = [(room, bug) for room in ROOMS for bug in bugs_of(room)]
QUICK = [bug for _, bug in BUGS if not bug.file.startswith("cc/") and bug.file.startswith(("recgraph/", "data/"))]
NAMES = [f"{room}.{bug.name}" for room, bug in BUGS]
HARMLESS = Bug(
    "harmless",
    "Nothing is wrong: what a test that passes looks like.",
    "data/trees.py",
    '"""The words from left to right."""',
    '"""The words, from left to right."""',
    ("data/test_trees.py::test_a_tree_knows_its_tokens_depth_and_label",),
)


@cache
def functions_of(file: Path) -> frozenset[str]:
    """The tests of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@cache
def suites() -> str:
    """The text of all gtest suites."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((REPOSITORY / "cc/core").glob("*_test.cc")))


def is_there(test: str) -> bool:
    """Whether there is a test of this name; that of a gtest may have the suite's prefix and the case's number."""
    if test.startswith("gtest:"):
        suite, name = re.fullmatch(r"gtest:(?:\w+/)?(\w+)\.(\w+)(?:/\d+)?", test).groups()  # type: ignore[union-attr]
        return re.search(rf"TEST(_F|_P)?\({suite}, {name}\)", suites()) is not None
    file, _, name = test.partition("::")
    path = REPOSITORY / "tests" / file
    return path.is_file() and name.partition("[")[0] in functions_of(path)


@pytest.mark.parametrize(("room", "bug"), BUGS, ids=NAMES)
def test_a_bug_fits_the_sources(room: str, bug: Bug) -> None:
    """Its text occurs once, what is planted is something else, and its tests exist."""
    assert not is_stale(bug), f"{bug.file} does not have this text once:\n{bug.old}"
    assert bug.new != bug.old
    assert [test for test in bug.tests if not is_there(test)] == []


def test_every_bug_has_a_name_of_its_own() -> None:
    assert len({*NAMES}) == len(NAMES)


def test_what_does_not_fit_is_noticed() -> None:
    assert is_stale(Bug("", "", "data/trees.py", "no such text", "", ()))
    assert is_stale(Bug("", "", "data/trees.py", "self", "", ()))  # it occurs often
    assert is_stale(Bug("", "", "data/no_such_file.py", "", "", ()))
    assert not is_there("data/test_trees.py::test_that_is_not_there")
    assert not is_there("gtest:Machine.NoSuchTest")


def test_modules_are_named_as_they_are_imported() -> None:
    assert module_of("recgraph/core/gradient.py") == "recgraph.core.gradient"
    assert module_of("recgraph/batch/__init__.py") == "recgraph.batch"
    assert module_of("data/trees.py") == "recgraph.data.trees"
    assert module_of("recgraph_command.py") == "recgraph_command"


@pytest.mark.slow
def test_a_sample_is_caught(tmp_path: Path) -> None:
    """In a copy of the sources, where the same tests pass without a bug, and with a change that is none."""
    copy = Copy(tmp_path)
    chosen = random.Random(SEED).sample(QUICK, min(COUNT, len(QUICK)))
    assert copy.failing_without([*chosen, HARMLESS]) == []
    found = {bug.name: copy.try_bug(bug) for bug in chosen}
    assert {name: verdict.kind for name, verdict in found.items()} == dict.fromkeys(found, CAUGHT), found
    assert copy.try_bug(HARMLESS).kind == NOT_CAUGHT


@pytest.mark.slow
def test_what_cannot_be_tried_is_not_caught(tmp_path: Path) -> None:
    """A text that is gone, and sources that do not even parse: their tests fail, but for another reason."""
    copy = Copy(tmp_path)
    gone = Bug("", "", "data/trees.py", "no such text", "", HARMLESS.tests)
    assert copy.try_bug(gone) == Verdict(NOT_FOUND, "data/trees.py")
    unparsable = Bug("", "", "data/trees.py", HARMLESS.old, "return return", HARMLESS.tests)
    assert copy.try_bug(unparsable).kind == BROKEN
    assert is_among("a.py::test", ["a.py::test[1]"])
    assert not is_among("a.py::test", ["a.py::test_more"])
