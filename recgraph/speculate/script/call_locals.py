"""What a call makes in its graph and drops with it: variables, and objects of Keras's, which may have such.

They belong to the conversion: an object that is left when the call has returned would be one for all calls.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Iterable
from typing import Any

import keras

from recgraph.speculate.script.symbolic import leaves


class CallLocalObjects:
    """The variables and objects that the call has made.

    Attributes:
        counts: how many names of each kind Keras has given them.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._names: set[str] = set()
        self._held: dict[int, tuple[Any, str]] = {}

    def add(self, thing: Any, where: str) -> Any:
        """Takes note of one, made at a line."""
        self._held.setdefault(id(thing), (thing, where))
        return thing

    def has(self, thing: Any) -> bool:
        """Whether a thing is one."""
        return id(thing) in self._held or (isinstance(thing, keras.Variable) and id(thing._value) in self._held)

    def kept_by(self, value: Any) -> str | None:
        """The line that has made what a value is or holds on to; None if that is none of them."""
        if not self._held:
            return None
        if id(value) in self._held:
            return self._held[id(value)][1]
        return next((where for part in _parts(value) if (where := self.kept_by(part)) is not None), None)

    def name(self, before: dict[str, int], after: dict[str, int]) -> None:
        """Keras has counted names; they are others in each call."""
        for kind, count in after.items():
            first = before.get(kind, 0)
            if count > first:
                self.counts[kind] = self.counts.get(kind, 0) + count - first
                self._names |= {f"{kind}_{i}" if i else kind for i in range(first, count)}

    def is_named_in(self, text: str) -> bool:
        """Whether a text has the name of one that Keras has named."""
        return any(name in text for name in self._names)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, keras.Variable):
        return [value._value]
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, *leaves([*value.args, *value.keywords.values()])]
    if isinstance(value, types.FunctionType):
        return [getattr(value, "__wrapped__", None)]
    if isinstance(value, weakref.ref):
        return [value()]
    return ()  # members of containers are written one by one
