"""Why something is not converted: what `explain()` shows."""

from __future__ import annotations

from typing import Any

from recgraph.errors import NotAGraph


class Again(Exception):
    """The conversion has found out that it has to assume more, earlier in the program: it begins again.

    Args:
        places: where a tensor decides and a way is to be assumed, as in `Evaluator.paths`.
    """

    def __init__(self, places: set[Any]) -> None:
        super().__init__(f"{len(places)} places")
        self.places = places


class Inconvertible(NotAGraph):
    """The function, or a part of it, runs eagerly.

    Args:
        feature: a word for it, to count by.
        why: one sentence.
        where: the user's line, `file:line`.
    """

    id = "not-converted"

    def __init__(self, feature: str, why: str, where: str = "") -> None:
        super().__init__(why, where=where)
        self.feature, self.why = feature, why
        self.where: str = where

    def __reduce__(self) -> tuple[Any, ...]:
        return Inconvertible, (self.feature, self.why, self.where), {"next_step": self.next_step}

    @property
    def told(self) -> str:
        """It in a line."""
        return f"{self.where}: {self.why}" if self.where else self.why


class Raised(Inconvertible):
    """The program raises an exception, as long as the assumptions hold. Its own handlers may catch it.

    Args:
        error: the exception, or a residual of one.
        where: the user's line.

    Attributes:
        in_rest: whether it was raised in what follows a branch, after the block that the branch is in.
    """

    def __init__(self, error: Any, where: str = "") -> None:
        super().__init__("raises", f"{type(error).__name__} is raised", where)
        self.error, self.in_rest = error, False


def matches(error: Any, kinds: Any) -> bool:
    """Whether an exception, or the residual of one, is of a class or of one of several."""
    return isinstance(error if isinstance(error, BaseException) else error.example, kinds)
