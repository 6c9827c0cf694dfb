"""What was seen while the program ran eagerly: of each site, call by call, the values that it had.

A site that is reached several times in a call (in a loop, say) has several *occurrences*; the first in one call is
compared with the first in the others. Arguments are sites, too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable
from typing import Any, Final

import tensorflow as tf

from recgraph import tf_private

# How many occurrences of a site in one call are kept apart; later ones count as one.
OCCURRENCES: Final = 256
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...))


class _Varies:
    def __repr__(self) -> str:
        return "VARIES"


VARIES: Final = _Varies()


@dataclasses.dataclass
class Seen:
    """The values of one occurrence in all calls so far.

    Attributes:
        types: of the values.
        constant: the one value it had, compared by value for plain data and by identity else, or `VARIES`.
        shape: of tensors, what all shapes have in common.
        count: how many calls have reached it.
        last: the value in the last of them that reached it.
        call: the number of that call.
    """

    types: set[type] = dataclasses.field(default_factory=set)
    constant: Any = VARIES
    shape: tf.TensorShape | None = None
    count: int = 0
    last: Any = None
    call: int = 0

    def add(self, value: Any) -> None:
        """Takes note of one more value."""
        if self.count == 0:
            self.constant = value
        elif self.constant is not VARIES and not same(self.constant, value):
            self.constant = VARIES
        self.types.add(type(value))
        if isinstance(value, tf_private.EagerTensor):
            self.shape = value.shape if self.shape is None else common_shape(self.shape, value.shape)
        self.count += 1
        self.last = value

    @property
    def varies(self) -> bool:
        """Whether calls have seen different values."""
        return self.constant is VARIES


class Profile:
    """Everything that was seen of one function and of what it calls."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, list[Seen]] = {}
        self._reached: dict[Hashable, int] = {}
        self.calls = 0

    def begin(self) -> None:
        """A call begins."""
        self._reached = {}
        self.calls += 1

    def see(self, site: Hashable, value: Any) -> None:
        """Takes note of the value of a site."""
        occurrence = min(self._reached.get(site, 0), OCCURRENCES - 1)
        self._reached[site] = occurrence + 1
        row = self._seen.setdefault(site, [])
        if occurrence == len(row):
            row.append(Seen())
        row[occurrence].add(value)
        row[occurrence].call = self.calls

    def note(self, site: Hashable, value: Any) -> Seen:
        """Takes note of a value that was found while converting."""
        row = self._seen.setdefault(site, [Seen()])
        row[0].add(value)
        return row[0]

    def seen(self, site: Hashable, occurrence: int) -> Seen:
        """What is known of an occurrence; where it was not reached yet, of the site's last one."""
        row = self._seen.get(site, [])
        return row[min(occurrence, len(row) - 1)] if row else Seen()

    def occurrences(self, site: Hashable) -> list[Seen]:
        """All occurrences of a site."""
        return self._seen.get(site, [])

    def relax(self, site: Hashable, occurrence: int) -> None:
        """An assumption about the value of an occurrence broke."""
        row = self._seen.setdefault(site, [Seen()])
        seen = row[min(occurrence, len(row) - 1)]
        seen.constant, seen.count = VARIES, max(seen.count, 2)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to a program: equal plain data of one type, or one object."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, _PLAIN) and bool(one == other)


def is_plain(value: Any) -> bool:
    """Whether a value is data that is compared by value and never changes."""
    if type(value) is tuple:
        return all(map(is_plain, value))
    return type(value) in _PLAIN


def common_shape(one: tf.TensorShape, other: tf.TensorShape) -> tf.TensorShape:
    """The most special shape that both have."""
    if one.rank is None or other.rank is None or one.rank != other.rank:
        return tf.TensorShape(None)
    return tf.TensorShape([a if a == b else None for a, b in zip(one, other, strict=True)])
