"""Another form of a function's graph, which computes the same and may be faster.

Whoever runs graphs asks for it here and lets both forms take turns; what makes it is another room's, which registers
itself, as engines do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias


class Alternative(Protocol):
    """Another form of a graph.

    Attributes:
        is_better: whether it was found to be faster, in another process perhaps; None if that is not known.
        lines: what was done, as text.
    """

    is_better: bool | None
    lines: list[str]

    def make(self) -> Any | None:
        """Makes it, within a time that a call may wait for: a concrete function that is called like the graph's, which
        may have no gradient; None where there is none."""

    def decide(self, is_better: bool, before: float, after: float, is_sure: bool) -> None:
        """Both forms have taken turns, and have needed so many seconds for a call; not surely where some calls took
        much longer than others, by their kind or by what else the machine did."""


# Finds the alternative of a concrete function, for a caller who asks for it (True), forbids it (False), or neither.
Finder: TypeAlias = Callable[[Any, bool | None], Alternative | None]
_finders: list[Finder] = []


def register(finder: Finder) -> None:
    """Makes a kind of alternative known."""
    _finders.append(finder)


def of(concrete: Any, is_asked_for: bool | None) -> Alternative | None:
    """The alternative of a function, if one may be made."""
    found = (finder(concrete, is_asked_for) for finder in _finders)
    return next((one for one in found if one is not None), None)
