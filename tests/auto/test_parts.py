"""Functions whose loops go through datasets: rounds are steps, from the first call on."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import pytest

from recgraph.auto import Automatic
from recgraph.speculate.run.discovered import DiscoveredFunction, with_parts
from tests.speculate import comparing, corpus

importlib.import_module("tests.speculate.corpus.epochs")
EPOCHS = [name for name, program in corpus.PROGRAMS.items() if program.feature == "DATASET"]


def parts_of(automatic: Automatic) -> list[DiscoveredFunction]:
    """What became of a function's parts and callees."""
    found: Iterable[Any] = automatic._parts.all()
    if automatic.rounds is not None and automatic.rounds.callees is not None:
        return automatic.rounds.callees.functions
    return list(with_parts(found))


@pytest.mark.parametrize("name", EPOCHS)
def test_rounds_of_a_loop_over_a_dataset_are_graphs(name: str) -> None:
    """Results and state are those of eager execution, and what is left of the program is no more than the loop."""
    program = corpus.PROGRAMS[name]
    expected, _, _ = comparing.run_wrapped(program, None)
    found, automatic, _ = comparing.run_wrapped(program, Automatic)
    assert comparing.differences(expected, found) == [], automatic.explain()
    assert any(part.calls["graph"] > 0 for part in parts_of(automatic)), automatic.explain()
