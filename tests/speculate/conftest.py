"""What tests of speculation share: the reasons why functions were not converted."""

from __future__ import annotations

from typing import Any

import pytest

from recgraph.optimize import remembering, switch
from recgraph.optimize.remembering import GraphTiming
from recgraph.speculate.observe.reasons import Inconvertible
from recgraph.speculate.run import function, judged


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[Inconvertible]:
    """What conversions raise while the test runs, in order."""
    reasons: list[Inconvertible] = []
    convert = function.convert

    def recording(*arguments: Any, **named: Any) -> Any:
        try:
            return convert(*arguments, **named)
        except Inconvertible as reason:
            reasons.append(reason)
            raise

    monkeypatch.setattr(function, "convert", recording)
    return reasons


@pytest.fixture(autouse=True)
def _graphs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which calls run as graphs does not depend on how long they take."""
    monkeypatch.setattr(judged, "GRAPH_CALLS", 1_000_000)
    monkeypatch.setattr(function, "MAX_SECONDS", 1e6)


@pytest.fixture(autouse=True)
def _substitutions_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With RECGRAPH_OPTIMIZE=1 each graph runs in its other form from the start, as if that were known to be faster."""
    if switch.is_asked_for(None):
        monkeypatch.setattr(remembering, "recall", lambda key: GraphTiming(is_better=True, before=2.0, after=1.0))
        monkeypatch.setattr(remembering, "remember", lambda key, verdict: None)
