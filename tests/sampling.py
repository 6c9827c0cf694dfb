"""Which of many like tests a run takes: `make test` shares them among its Pythons and TensorFlows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final, TypeVar

# RECGRAPH_TEST_PART=1,3/3 takes the first and the third of each three.
_PARTS, _OF = os.environ.get("RECGRAPH_TEST_PART", "1/1").split("/")
_TAKEN = frozenset(int(part) % int(_OF) for part in _PARTS.split(","))
# Whether all ways of everything are tried.
ALL: Final = os.environ.get("RECGRAPH_TEST_ALL", "0") != "0"

One = TypeVar("One")


def share(things: Iterable[One]) -> list[One]:
    """Those that this run takes."""
    return [thing for number, thing in enumerate(things, 1) if number % int(_OF) in _TAKEN]
