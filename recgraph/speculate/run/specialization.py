"""How general a graph is to be, from the most general to the least, and where the next conversion begins to try."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from recgraph.speculate.observe.profile import Profile
from recgraph.speculate.observe.reasons import PASSING, Feature, Inconvertible


@dataclasses.dataclass(frozen=True)
class SpecializationLevel:
    """For what calls a graph is to hold.

    Attributes:
        keys_may_vary: whether items may be set under keys that vary.
        has_exact_shapes: whether shapes that vary are constants.
        is_specialised: whether numbers that vary are, too.
        is_rolled: whether loops over many numbers are loops of the graph even where it is known how many.
        paths: where a tensor decides and a way is assumed, as in `Evaluator.paths`.
    """

    keys_may_vary: bool = False
    has_exact_shapes: bool = False
    is_specialised: bool = False
    is_rolled: bool = False
    paths: frozenset[Any] = frozenset()

    def may_help(self, reason: Inconvertible, profile: Profile) -> bool:
        """Whether what was refused before may be converted so: an open dimension makes libraries raise."""
        if self.is_rolled or reason.feature is Feature.OPERATIONS:
            return self.is_rolled and reason.feature is Feature.OPERATIONS and reason.built < _WORTH_ANOTHER
        if self.has_exact_shapes:
            return profile.has_open_shapes and (reason.feature is Feature.RAISES or reason.feature not in PASSING)
        return profile.has_variants and reason.feature not in PASSING


# Where the loop that makes too many operations comes after more than these, a second attempt takes too long as well.
_WORTH_ANOTHER: Final = 4_000
# One after the other, until one works.
GENERALITIES: Final = (
    SpecializationLevel(keys_may_vary=True),
    SpecializationLevel(),
    SpecializationLevel(has_exact_shapes=True),
    SpecializationLevel(is_specialised=True),
    SpecializationLevel(is_rolled=True),
)


class ConversionHistory:
    """Which generality has worked for the calls of a function.

    What has failed is likely to fail again, and takes as long as what works. So the next four conversions after one
    that went through failures begin with what worked then; the fifth tries all again; then eight begin so, and so on.
    What was learned since may make a difference: all is tried again at once.
    """

    def __init__(self) -> None:
        self._worked: SpecializationLevel | None = None
        self._left, self._next, self._lessons = 0, 4, 0

    def likely(self, profile: Profile) -> SpecializationLevel | None:
        """What is tried before all others; None if nothing is."""
        if not self._left or profile.lessons != self._lessons:
            return None
        self._left -= 1
        return self._worked

    def worked(self, generality: SpecializationLevel, profile: Profile) -> None:
        """What a conversion has come to that tried all from the most general on."""
        self._left, self._lessons = 0, profile.lessons
        if generality != GENERALITIES[0]:
            self._worked, self._left, self._next = generality, self._next, 2 * self._next
