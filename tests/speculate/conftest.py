"""What tests of speculation share: the reasons why functions were not converted."""

from __future__ import annotations

from typing import Any

import pytest

from recgraph.speculate.observe.reasons import Inconvertible
from recgraph.speculate.run import function


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
