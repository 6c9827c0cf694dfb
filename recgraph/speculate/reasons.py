"""Why something is not converted: what `explain()` shows."""

from __future__ import annotations

from typing import Any


class Again(Exception):
    """The conversion has found out that it has to assume more, earlier in the program: it begins again.

    Args:
        places: where a tensor decides and a way is to be assumed, as in `Evaluator.paths`.
    """

    def __init__(self, places: set[Any]) -> None:
        super().__init__(f"{len(places)} places")
        self.places = places


class Inconvertible(Exception):
    """The function, or a part of it, runs eagerly.

    Args:
        feature: a word for it, to count by.
        why: one sentence.
        where: the user's line, `file:line`.
    """

    def __init__(self, feature: str, why: str, where: str = "") -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.feature, self.why, self.where = feature, why, where
