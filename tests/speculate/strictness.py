"""What tests ask of conversions beyond equal results."""

from __future__ import annotations

import re
from typing import Any

import pytest

from recgraph.explaining import Remark
from recgraph.optimize import remembering, switch
from recgraph.optimize.remembering import GraphTiming
from recgraph.speculate.observe.reasons import Feature, Inconvertible
from recgraph.speculate.run import explaining, function, profitability

# A reason has words of its own: more than the kind of an exception of Python's.
_WORDS = re.compile(r"(?s)(?!\w+(Error|Exception|StopIteration)\W*$).*\w\W+\w.*[^:\s]\s*")


def record_refusals(monkeypatch: pytest.MonkeyPatch) -> list[Inconvertible]:
    """A list of what conversions raise from now on, in order."""
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


def require_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that every refusal has a feature, words, a line and a remedy."""

    def remark(reason: Inconvertible) -> Remark:
        made = explaining.remark_on_refusal(reason)
        assert isinstance(reason.feature, Feature), reason.feature
        assert _WORDS.fullmatch(made.text), made.text
        assert re.fullmatch(r"(?s).+:\d+", made.where), (made.text, made.where)
        assert len(made.remedy.split()) > 2, made.remedy
        return made

    monkeypatch.setattr(function, "remark_on_refusal", remark)


def keep_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps graphs however long calls take."""
    monkeypatch.setattr(profitability, "GRAPH_CALLS", 1_000_000)
    monkeypatch.setattr(function, "MAX_SECONDS", 1e6)


def substitute_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With RECGRAPH_OPTIMIZE=1 each graph runs in its other form from the start, as if that were known to be faster."""
    if switch.is_asked_for(None):
        monkeypatch.setattr(remembering, "recall", lambda key: GraphTiming(is_better=True, before=2.0, after=1.0))
        monkeypatch.setattr(remembering, "remember", lambda key, verdict: None)
