"""What tests of speculation share: the reasons why functions were not converted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from recgraph.explaining import Remark
from recgraph.optimize import remembering, switch
from recgraph.optimize.remembering import GraphTiming
from recgraph.speculate.observe.reasons import Feature, Inconvertible
from recgraph.speculate.run import explaining, function, judged


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


# A reason has words of its own: more than the kind of an exception of Python's.
_WORDS = re.compile(r"(?s)(?!\w+(Error|Exception|StopIteration)\W*$).*\w\W+\w.*[^:\s]\s*")


@pytest.fixture(autouse=True)
def _refusals_say_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every refusal that a test meets has a feature, words, a line and a remedy."""

    def remark(reason: Inconvertible) -> Remark:
        made = explaining.remark_on_refusal(reason)
        assert isinstance(reason.feature, Feature), reason.feature
        assert _WORDS.fullmatch(made.text), made.text
        assert re.fullmatch(r"(?s).+:\d+", made.where), (made.text, made.where)
        assert len(made.remedy.split()) > 2, made.remedy
        return made

    monkeypatch.setattr(function, "remark_on_refusal", remark)


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
