"""Why something is not converted: what `explain()` shows."""

from __future__ import annotations


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
