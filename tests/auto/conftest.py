"""What tests of the default mode share."""

from __future__ import annotations

import pytest

from recgraph.auto import choosing
from recgraph.speculate.run import function


@pytest.fixture(autouse=True)
def _ways_may_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """How a function runs does not depend on how busy the machine is while ways get ready."""
    monkeypatch.setattr(choosing, "MAX_SECONDS", 1e6)
    monkeypatch.setattr(function, "MAX_SECONDS", 1e6)


@pytest.fixture
def decides_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine, on which steps slow down, does not have the ways compared again."""
    monkeypatch.setattr(choosing, "NOTICED", 1e6)
