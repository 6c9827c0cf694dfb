"""Fixtures of the data tests."""

import os
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real data sets: `RECGRAPH_DATA`, or a data folder beside the checkout."""
    named = os.environ.get("RECGRAPH_DATA")
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    for folder in [Path(named)] if named else [beside]:
        if (folder / "sst" / "train.txt").is_file():
            return folder
    pytest.skip("the real data sets are not here: set RECGRAPH_DATA to a folder that has sst/train.txt")


@pytest.fixture
def no_recursion():
    """Makes a recursive walk of a deep tree fail at once."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    yield
    sys.setrecursionlimit(limit)
