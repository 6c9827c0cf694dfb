"""Co-executed programs do what eager ones do: results, printed text, exceptions, variables, Python state."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from recgraph.coexec import Coexecuted
from tests.speculate import comparing, corpus

for module in pkgutil.iter_modules(corpus.__path__):
    importlib.import_module(f"{corpus.__name__}.{module.name}")


@pytest.mark.parametrize("name", corpus.PROGRAMS)
def test_program(name: str) -> None:
    """Fifteen calls give the same, and every line of the program runs as often as in eager execution."""
    program = corpus.PROGRAMS[name]
    expected, _, eager = comparing.run_wrapped(program, None)
    found, coexecuted, counts = comparing.run_wrapped(program, Coexecuted)
    assert comparing.differences(expected, found) == [], coexecuted.explain()
    assert [count.entered for count in counts] == [count.entered for count in eager]
