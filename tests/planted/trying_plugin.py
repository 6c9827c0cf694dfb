"""Of pytest, in a copy of the sources: runs the tests that a file lists, in its order and each for so many seconds."""

from __future__ import annotations

import faulthandler
import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_sessions: list[pytest.Session] = []
_seconds: dict[str, float] = json.loads(Path(os.environ["RECGRAPH_PLANTED_ORDER"]).read_text(encoding="utf-8"))
_until = time.monotonic() + float(os.environ["RECGRAPH_PLANTED_SECONDS"])


def _tell(what: str, test: str) -> None:
    with open(os.environ["RECGRAPH_PLANTED_REPORT"], "a", encoding="utf-8") as file:
        print(json.dumps({"what": what, "test": test}), file=file)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Keeps what can be stopped."""
    _sessions.append(session)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Takes those that are listed."""
    order = {name: i for i, name in enumerate(_seconds)}
    items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported fails as a whole."""
    if report.failed:
        _tell("failed", report.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """One that hangs ends the process."""
    faulthandler.dump_traceback_later(_seconds[item.nodeid], exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_runtest_logstart(nodeid: str) -> None:
    """One that has begun and never ends has hung, or ended the process."""
    _tell("started", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """What the run is for."""
    if report.failed:
        _tell("failed", report.nodeid)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Stops when the time is over."""
    _tell("ended", nodeid)
    if time.monotonic() > _until:
        _tell("over", "")
        _sessions[0].shouldstop = "the time is over"
