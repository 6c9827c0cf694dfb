"""Programs of the corpus that run in whatever way is found to be the fastest do what eager ones do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recgraph import contest
from recgraph.auto import Automatic, choosing, function
from tests import sampling
from tests.speculate import comparing, corpus

PROGRAMS = corpus.load()


def _unconverted(step: object) -> Automatic:
    """A function that is never converted whole."""
    made = Automatic(step)
    made._give_up("the test wants to see the other ways")
    return made


# A variable's text in the middle of a co-executed step shows its value before the step; a tensor's device is ours.
_STALE = [("variables_as_text", _unconverted), ("a_device_that_is_asked_for", _unconverted)]


def in_turn() -> Iterator[tuple[str, Callable[[Any], Automatic]]]:
    """Each program in both ways, or, if not all are asked for, some of them in one of both."""
    for i, name in enumerate(PROGRAMS):
        yield from (
            (name, wrap) for j, wrap in enumerate((Automatic, _unconverted)) if sampling.ALL or (i + 3 * j) % 6 == 0
        )


@pytest.mark.parametrize(("name", "wrap"), [case for case in in_turn() if case not in _STALE])
def test_program_whose_ways_take_turns(
    name: str, wrap: Callable[[Any], Automatic], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is taken in another way than the one before: none leaves anything behind that another trips over."""
    monkeypatch.setattr(choosing, "MAX_WARMING", 0)
    monkeypatch.setattr(contest, "BLOCKS", (1,) * 100)
    monkeypatch.setattr(choosing, "WITHIN", 10_000)
    monkeypatch.setattr(function, "CLEARLY", 0.0)
    program = PROGRAMS[name]
    expected, _, eager = comparing.run_wrapped(program, None)
    found, automatic, counts = comparing.run_wrapped(program, wrap)
    assert comparing.differences(expected, found) == [], automatic.explain()
    assert max(count.entered for count in counts) <= max(count.entered for count in eager)
    ways = {way for way, count in automatic.calls.items() if count > 0 and way != "fallback"}
    assert len(ways) > 1 or _has_one_way(automatic), automatic.explain()


def _has_one_way(automatic: Automatic) -> bool:
    """Checks that it says why no step was taken as a whole in another way, or that parts of the steps were graphs."""
    text = automatic.explain()
    return bool(automatic.given_up) and ("cannot run" in text or re.search(r", [1-9]\d* graph", text) is not None)
