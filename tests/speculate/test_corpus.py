"""Speculated programs do what eager ones do: results, printed text, exceptions, variables, Python state."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from tests.speculate import comparing, corpus

for module in pkgutil.iter_modules(corpus.__path__):
    importlib.import_module(f"{corpus.__name__}.{module.name}")


@pytest.mark.parametrize("name", corpus.PROGRAMS)
def test_program(name: str) -> None:
    """Fifteen calls give the same, and the last ones run no line of the program where it is converted."""
    program = corpus.PROGRAMS[name]
    expected, _, _ = comparing.run(program, speculated=False)
    found, speculated, entered = comparing.run(program, speculated=True)
    assert comparing.differences(expected, found) == []
    assert speculated is not None
    if program.converted:
        assert speculated.calls["graph"] > 0, speculated.explain()
        assert entered[-1] == 0, speculated.explain()
    else:
        assert speculated.given_up, speculated.explain()
