"""Small programs, each on one feature of Python or one way for an assumption to break, run eagerly and converted.

A program is a function without arguments that makes everything it needs and gives what is called, the arguments of
call `i`, and the objects whose state is compared after every call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

CALLS = 15


@dataclasses.dataclass(frozen=True)
class Program:
    """One of the corpus.

    Attributes:
        make: gives the step, the arguments of call i, and the objects with state.
        converted: whether the last calls must run as graphs; else why they may not.
        graphs: how many there must be in the end, where that is said.
    """

    name: str
    make: Callable[[], tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], Any]]
    converted: bool
    reason: str = ""
    graphs: int | None = None


PROGRAMS: dict[str, Program] = {}


def program(make: Any = None, *, eager: str = "", graphs: int | None = None) -> Any:
    """Registers a program; `eager` says why it is not converted, `graphs` into how many graphs it is."""

    def register(function: Any) -> Any:
        PROGRAMS[function.__name__] = Program(function.__name__, function, not eager, eager, graphs)
        return function

    return register if make is None else register(make)
