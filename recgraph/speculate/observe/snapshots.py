"""Objects as they are now, to be compared with what becomes of them. A snapshot keeps none of them alive.

A graph that holds for a model lives as long as the function that it is a graph of. If its snapshot kept a layer that
knows its model, or a bound method of that, the model would live as long, too. So objects are held weakly: one that has
died is not as it was. Containers, most of which have no weak references, are found where they were, in an attribute or
in another container, and compared by what they hold. Data is kept.
"""

from __future__ import annotations

import array
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from recgraph import native, tf_private

# What is compared by value, never changes and leads to no object.
_DATA: Final = (int, float, complex, str, bytes, bool, type(None), type(...))
_CONTAINERS: Final = (list, dict, set, tuple)
# In place of what a container holds that is in itself.
_ITSELF: Final = object()
# Whether something is like what was expected, which is not the very object that was there: see `alike`.
Alike: TypeAlias = Callable[[Any, Any], bool]


class WeakObject(weakref.ref[Any]):
    """Stands for an object, without keeping it."""

    __slots__ = ()


class WeakData(WeakObject):
    """Stands for an object in whose place any other data will do."""

    __slots__ = ()


class Members(tuple[Any, ...]):
    """Stands for a container: its type, the number of its version (-1 for none), and what stands for its members."""

    __slots__ = ()

    @property
    def kind(self) -> type:
        """The type of the container."""
        kind: type = self[0]
        return kind

    @property
    def are_mutable(self) -> bool:
        """Whether the container may hold something else later."""
        return not issubclass(self.kind, tuple) or any(isinstance(one, Members) and one.are_mutable for one in self)


class Snapshot:
    """What objects have and containers hold.

    Args:
        is_alike: tells of something and what it was (`WeakObject`, `Members` or data) whether it will do in its place.
        data: the types of what `WeakData` is to stand for.
    """

    def __init__(self, is_alike: Alike, data: tuple[type, ...] = ()) -> None:
        self._is_alike, self._data = is_alike, data
        self._parts: list[tuple[Any, ...]] = []
        self._slots = 0

    def note(
        self, owner: Any, attributes: Mapping[str, Any], is_followed: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Takes note of attributes in an object's dictionary; `...` says that there is none of that name.

        Args:
            owner: the object.
            attributes: what they are now, by name.
            is_followed: whether what a container in an attribute holds counts also where the attribute stays.
        """
        names, values = tuple(attributes), tuple(map(self._recorded, attributes.values()))
        followed = tuple(i for i in _mutable(values) if is_followed(names[i]))
        self._parts.append((weakref.ref(owner), names, values, followed))

    def note_absent(self, owner: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        """Takes note that an object has no attributes of some names; `values` are as many `...`."""
        self._parts.append((weakref.ref(owner), names, values, ()))

    def note_all(self, owner: Any, ignored: frozenset[str]) -> None:
        """Takes note of all attributes of an object: there is no other.

        Args:
            owner: the object.
            ignored: names of attributes that may become anything.
        """
        attributes = {name: NotImplemented if name in ignored else value for name, value in vars(owner).items()}
        members = self._recorded(attributes)
        followed = _mutable(members[2 + len(attributes) :])
        self._parts.append((weakref.ref(owner), None, members, followed))

    def checker(self) -> Callable[[], bool]:
        """A function that tells whether all is as it was noted; False as well where it cannot be compared any more."""
        parts, versions = tuple(self._parts), array.array("Q", [0] * (len(self._parts) + self._slots))
        holds, is_alike = native.snapshots().holds, self._is_alike
        inner = tf_private.ATTRIBUTES_OF_WRAPPERS

        def check() -> bool:
            try:
                return bool(holds(parts, versions, is_alike, WeakObject, Members, inner))
            except (AttributeError, KeyError, RuntimeError):
                return False

        return check

    def _recorded(self, value: Any, around: tuple[int, ...] = ()) -> Any:
        """What stands for a value: data itself."""
        if isinstance(value, _CONTAINERS):
            if id(value) in around:
                return _ITSELF
            members = [self._recorded(one, (*around, id(value))) for one in members_of(value)]
            return Members((type(value), self._slot(value, members), *members))
        if isinstance(value, _DATA):
            return value
        try:
            return WeakData(value) if isinstance(value, self._data) else WeakObject(value)
        except TypeError:
            return value

    def _slot(self, container: Any, members: list[Any]) -> int:
        """A number for the version of a dictionary, below which containers are looked for by their names; else -1."""
        pairs = zip(members, members[len(members) // 2 :], strict=False)
        if not isinstance(container, dict) or any(isinstance(b, Members) and type(a) is not str for a, b in pairs):
            return -1
        self._slots += 1
        return self._slots - 1


def _mutable(values: Sequence[Any]) -> tuple[int, ...]:
    """The places of containers that may hold something else later."""
    return tuple(i for i, value in enumerate(values) if isinstance(value, Members) and value.are_mutable)


def members_of(container: Any) -> tuple[Any, ...]:
    """What a container holds: of a dictionary its keys, then its values."""
    inner = tf_private.wrapped_container(container)
    return (*inner.keys(), *inner.values()) if isinstance(inner, dict) else tuple(inner)


def alike(found: Any, expected: Any, same: Alike, around: tuple[Any, ...] = ()) -> bool:
    """Whether something is what it was, or a container that holds the same, sets in any order.

    Args:
        found: what is there now.
        expected: what stands for what was there.
        same: tells of two objects whether they are the same.
        around: the containers that it was found in.
    """
    if isinstance(expected, WeakObject):
        before = expected()
        return before is not None and same(found, before)
    if expected is _ITSELF:
        return any(found is one for one in around)
    if not isinstance(expected, Members):
        return same(found, expected)
    members = members_of(found) if type(found) is expected.kind else None
    if members is None or len(members) != len(expected) - 2:
        return False
    within = (*around, found)
    if issubclass(expected.kind, set):
        return all(any(alike(one, other, same, within) for other in expected[2:]) for one in members)
    return all(alike(one, other, same, within) for one, other in zip(members, expected[2:], strict=True))
