"""Small programs, each on one feature of Python or one way for an assumption to break, run eagerly and converted.

A program is a function without arguments that makes everything it needs and gives what is called, the arguments of
call `i`, and the objects whose state is compared after every call.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from tests import sampling

CALLS = 15


@dataclasses.dataclass(frozen=True)
class Program:
    """One of the corpus.

    Attributes:
        make: gives the step, the arguments of call i, and the objects with state.
        converted: whether the last calls must run as graphs; else why they may not.
        graphs: how many there must be in the end, where that is said.
        feature: of one that is not converted, the name of the feature that the conversion must refuse.
        line: the user's line at which it must; "" where that is the one at which the function begins.
        breaks: in place of these, a part of what is said where an assumption keeps breaking.
    """

    name: str
    make: Callable[[], tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], Any]]
    converted: bool
    reason: str = ""
    graphs: int | None = None
    feature: str = ""
    line: str = ""
    breaks: str = ""


PROGRAMS: dict[str, Program] = {}


def program(
    make: Any = None,
    *,
    eager: str = "",
    graphs: int | None = None,
    feature: str = "",
    line: str = "",
    breaks: str = "",
) -> Any:
    """Registers a program: `eager` says why it is not converted; for the others see `Program`."""
    if bool(eager) != bool(feature or breaks):
        raise TypeError("what is not converted needs its `feature` or what `breaks`, and nothing else does")

    def register(function: Any) -> Any:
        name = function.__name__
        PROGRAMS[name] = Program(name, function, not eager, eager, graphs, feature, line, breaks)
        return function

    return register if make is None else register(make)


def load() -> dict[str, Program]:
    """All programs: importing a file of the corpus registers its own."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return PROGRAMS


def sample() -> list[str]:
    """The names of those that are run."""
    return sampling.share(load())
