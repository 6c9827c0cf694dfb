"""Programs do in each mode what they do eagerly: results, printed text, exceptions, variables, Python state."""

from __future__ import annotations

import sys

import pytest

from recgraph.auto import Automatic
from tests import sampling
from tests.speculate import checking, corpus

PROGRAMS = corpus.load()
# Of the programs that take turns among their ways, if not all are asked for: every sixth in each of both kinds.
EVERY = 1 if sampling.ALL else 6
TURNS = {Automatic: list(PROGRAMS)[::EVERY], checking.unconverted: list(PROGRAMS)[EVERY // 2 :: EVERY]}
if sys.version_info >= (3, 12):  # where a callee is a graph, the profiler counts one entry more
    TURNS = {}


@pytest.mark.parametrize("name", corpus.sample())
def test_program(name: str, subtests: pytest.Subtests) -> None:
    """One eager run, with which each mode is compared."""
    program = PROGRAMS[name]
    eager = checking.run_eagerly(program)
    with subtests.test("speculated"):
        checking.check_speculated(program, eager)
    if name not in checking.SEEING:
        with subtests.test("co-executed"):
            checking.check_coexecuted(program, eager)
    for wrap, names in TURNS.items():
        if name in names and not (wrap is checking.unconverted and name in checking.DIFFER):
            with subtests.test("in turns", wrap=wrap.__name__):
                checking.check_in_turns(program, eager, wrap)


def test_the_exceptions_are_programs_of_the_corpus() -> None:
    """An entry for a program that is gone would check nothing."""
    assert {*checking.NOT_COEXECUTED, *checking.SEEING, *checking.DIFFER} <= set(PROGRAMS)
