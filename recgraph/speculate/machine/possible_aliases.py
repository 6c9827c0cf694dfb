"""Lists of which a tensor decides whether they are one or two: `x = [a, b] if tensor else x`, where `x` has another
name.

After such a branch `x` is a list of its own, with the members that it has either way. That is the same to the program
as long as it changes neither list, does not ask whether they are one, and neither is there after the call. Where it
does, the way is assumed, and the conversion begins again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from recgraph.speculate.observe.reasons import RestartConversion
from recgraph.speculate.script.symbolic import MUTABLE, DynamicValue

# Methods of a list that do not change it.
READING_LISTS: Final = frozenset({"copy", "count", "index"})


class PossibleAliases:
    """The lists of one conversion that may eagerly be one with another."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[list[Any], list[Any], Any]] = {}

    def add(self, value: Any, place: Any) -> None:
        """A list, and all lists in it, or in a tuple.

        Args:
            value: the list or tuple.
            place: of the branch, as in `Evaluator.paths`.
        """
        for found in lists_in(value):
            self._found.setdefault(id(found), (found, list(found), place))

    def follow(self, given: Sequence[Any], made: Any) -> None:
        """What has been made of values, if one of them was one of these, or held one."""
        for value in given:
            if (place := self.place_of(value)) is not None:
                self.add(made, place)

    def place_of(self, value: Any) -> Any:
        """The place of the branch for a value that is or holds one of them; None for others."""
        return next((self._found[id(one)][2] for one in lists_in(value) if id(one) in self._found), None)

    def check(self, value: Any) -> None:
        """Checks that a value is none of them: it is changed or told apart, or it leaves the call.

        Raises:
            RestartConversion: it is one.
        """
        if (found := self._found.get(id(value))) is not None:
            raise RestartConversion({found[2]})

    def check_unchanged(self) -> None:
        """Checks that none of them has other members now.

        Raises:
            RestartConversion: one has.
        """
        for found, members, _ in self._found.values():
            if len(found) != len(members) or any(a is not b for a, b in zip(found, members, strict=True)):
                self.check(found)


def are_lists(value: Any) -> bool:
    """Whether a value is a list, or a tuple, with nothing in it that the program can change but lists."""
    members = value if isinstance(value, tuple) or type(value) is list else ()
    return bool(members is value) and all(are_lists(one) or not _may_change(one) for one in members)


def _may_change(value: Any) -> bool:
    is_array = isinstance(value, np.ndarray) or (isinstance(value, DynamicValue) and value.is_array)
    return is_array or isinstance(value, (*MUTABLE, tuple))


def lists_in(value: Any) -> Iterator[list[Any]]:
    """A list, and all lists in it, or in a tuple."""
    if isinstance(value, list):
        yield value
    if isinstance(value, list | tuple):
        for one in value:
            yield from lists_in(one)
