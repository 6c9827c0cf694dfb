"""Which of many like tests a run takes: `make test` shares them among its Pythons and TensorFlows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final, TypeVar

# RECGRAPH_TEST_PART=2/3 takes the second of each three.
_PART, _PARTS = map(int, os.environ.get("RECGRAPH_TEST_PART", "1/1").split("/"))
# Whether all ways of everything are tried.
ALL: Final = os.environ.get("RECGRAPH_TEST_ALL", "0") != "0"

One = TypeVar("One")


def share(things: Iterable[One]) -> list[One]:
    """Those that this run takes."""
    return list(things)[_PART - 1 :: _PARTS]
