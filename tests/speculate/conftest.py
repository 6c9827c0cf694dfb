"""What tests of speculation share: they are stricter with conversions than programs are."""

from __future__ import annotations

import pytest

from tests.speculate import strictness


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals say something, and which calls run as graphs does not depend on how long they take."""
    strictness.require_words(monkeypatch)
    strictness.keep_graphs(monkeypatch)
    strictness.substitute_at_once(monkeypatch)
