"""What waits too long for other workers is broken off; what goes on is not."""

from __future__ import annotations

import itertools
import time

import pytest

from recgraph.distribute import collective_timeouts


@pytest.fixture
def aborted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What collectives were broken off with."""
    said: list[str] = []
    monkeypatch.setattr(collective_timeouts, "abort_collectives", said.append)
    return said


def test_a_block_that_takes_too_long_breaks_collectives_off_once(aborted: list[str]) -> None:
    with collective_timeouts.bounded(0.1):
        time.sleep(1.0)
    assert aborted == ["Collective operations not over after 0.1 seconds"]


def test_a_block_that_is_over_in_time_does_not(aborted: list[str]) -> None:
    with collective_timeouts.bounded(0.5):
        pass
    time.sleep(1.0)
    assert aborted == []


def test_time_begins_anew_where_there_is_progress(aborted: list[str]) -> None:
    """A graph may take many steps, each of which may take so long."""
    steps = itertools.count()
    with collective_timeouts.bounded(0.6, lambda: next(steps)):
        time.sleep(1.5)
    assert aborted == []


def test_blocks_are_looked_at_a_few_times_a_second() -> None:
    """And not all the time, which would take a processor from those who work."""
    looks, began = itertools.count(), time.monotonic()
    with collective_timeouts.bounded(60.0, lambda: next(looks)):
        time.sleep(1.0)
    assert next(looks) <= 3 + 4 * (time.monotonic() - began)
