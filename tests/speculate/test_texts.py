"""Changing state as text, in all modes: what eager execution writes, to the character, and no name of ours in it."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recgraph import racing
from recgraph.auto import Automatic, choosing, function
from recgraph.coexec import Coexecuted
from recgraph.speculate import Speculated
from tests.speculate import comparing, texts

_CALLS = 9
# What stands for values while a call is converted, and tensors that have none.
_OURS = re.compile(
    r"DynamicValue|VariableSnapshot|PartialShape|ObjectDict|Missing\(|Iteration|HeapMethod|SymbolicValue|_Undefined"
    r"|recgraph\.|Closure object|Callback object|\bRun\(|\bIterationSpace\(|\bRef\(|Tensor\(\"|:0\", shape"
)


def _module(program: texts.Text, path: Path) -> Any:
    path.write_text(program.source)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _run(program: texts.Text, path: Path, wrap: Callable[[Any], Any] | None) -> tuple[list[Any], Any]:
    """What each call gave, printed and logged."""
    step, arguments = _module(program, path).make()
    called = step if wrap is None else wrap(step)
    seen = []
    log, stream = logging.getLogger("texts"), io.StringIO()
    handler = logging.StreamHandler(stream)
    log.addHandler(handler)
    log.propagate = False
    try:
        for i in range(_CALLS):
            given, printed = arguments(i), io.StringIO()
            with contextlib.redirect_stdout(printed):
                try:
                    outcome: Any = called(*given)
                except Exception as error:
                    outcome = (type(error).__name__, str(error))
            seen.append((comparing.plain(outcome), printed.getvalue(), stream.getvalue()))
    finally:
        log.removeHandler(handler)
    return seen, called


def _compared(program: texts.Text, tmp_path: Path, wrap: Callable[[Any], Any]) -> Any:
    path = tmp_path / "program.py"
    expected, _ = _run(program, path, None)
    found, called = _run(program, path, wrap)
    assert comparing.differences(expected, found, exact=True) == [], called.explain()
    assert _OURS.search(repr(found)) is None
    return called


def test_there_are_enough_ways() -> None:
    """So many texts of so many kinds of state, most of them in graphs."""
    shown = [(name, way) for name, program in texts.PROGRAMS.items() for way in program.shown]
    converted = [name for name, program in texts.PROGRAMS.items() if program.converted]
    assert len(shown) > 1000
    assert len(texts.PROGRAMS) >= 150
    assert len(converted) >= 120


def test_a_name_of_ours_is_noticed() -> None:
    """An expression that matches nothing would agree with anything."""
    for text in (
        "DynamicValue(name='v2')",
        'Tensor("strided_slice:0", shape=(), dtype=float32)',
        "<recgraph.x object>",
    ):
        assert _OURS.search(repr([("tuple", text)]))
    assert _OURS.search(repr("tf.Tensor(1.0, shape=(), dtype=float32)")) is None


@pytest.mark.parametrize("name", texts.PROGRAMS)
def test_speculated(name: str, tmp_path: Path) -> None:
    """Where the text can be made right the step is a graph; else it is not converted, and says why."""
    program = texts.PROGRAMS[name]
    called = _compared(program, tmp_path, Speculated)
    if program.converted:
        assert called.calls["graph"] > 0, called.explain()
    else:
        assert called.calls["graph"] == 0, called.explain()


@pytest.mark.parametrize("name", texts.PROGRAMS)
def test_coexecuted(name: str, tmp_path: Path) -> None:
    """Python makes the text beside the graph."""
    called = _compared(texts.PROGRAMS[name], tmp_path, Coexecuted)
    assert called.phases.counts["coexecuted"] > 0, called.explain()


@pytest.mark.parametrize("name", texts.PROGRAMS)
def test_automatic(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that take turns in the ways that there are."""
    monkeypatch.setattr(choosing, "MAX_WARMING", 0)
    monkeypatch.setattr(racing, "BLOCKS", (1,) * 100)
    monkeypatch.setattr(choosing, "WITHIN", 10_000)
    monkeypatch.setattr(function, "CLEARLY", 0.0)
    _compared(texts.PROGRAMS[name], tmp_path, Automatic)
