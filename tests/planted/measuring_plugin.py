"""Of pytest, in a copy of the sources: says which places each test passes, how long it takes and whether it passes."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import recgraph_probe

_HITS = Path(os.environ[recgraph_probe.HITS])
_shared: set[int] = set()
_own: set[int] = set()
_left_out: set[str] = set()
_reports: list[pytest.TestReport] = []


def _tell(**what: Any) -> None:
    with open(os.environ["RECGRAPH_PLANTED_REPORT"], "a", encoding="utf-8") as file:
        print(json.dumps(what), file=file)


def _taken() -> set[int]:
    recgraph_probe.SEEN.clear()
    found: set[int] = recgraph_probe.taken(_HITS)
    return found


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """What importing the files passes is every test's."""
    result = yield
    _shared.update(_taken())
    return result


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, Any, Any]:
    """What a fixture of several tests passes is every test's."""
    if fixturedef.scope == "function":
        return (yield)
    _own.update(_taken())
    try:
        return (yield)
    finally:
        _shared.update(_taken())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """What happens in a test is its own, also in the processes it starts."""
    _taken()
    _own.clear()
    _reports.clear()
    result = yield
    _own.update(_taken())
    outcomes = {report.outcome for report in _reports}
    outcome = next((one for one in ("failed", "skipped") if one in outcomes), "passed")
    seconds = round(sum(report.duration for report in _reports), 2)
    _tell(test=item.nodeid, outcome=outcome, seconds=seconds, hits=sorted(_own))
    if nextitem is None or nextitem.path != item.path:
        _tell(measured=item.nodeid.partition("::")[0], shared=sorted(_shared))
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keeps what became of a test."""
    _reports.append(report)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Keeps what is not run."""
    _left_out.update(item.nodeid.partition("::")[0] for item in items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """A file of which nothing is run is measured, too."""
    for file in _left_out - {item.nodeid.partition("::")[0] for item in session.items}:
        _tell(measured=file, shared=[])
