"""What was seen while the program ran eagerly: of each site, call by call, the values that it had.

A site that is reached several times in a call (in a loop, say) has several *occurrences*; the first in one call is
compared with the first in the others. Arguments are sites, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import weakref
from collections.abc import Hashable, Iterator
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.observe.known import answers_itself, is_a

# How many occurrences of a site in one call are kept apart; later ones count as one.
OCCURRENCES: Final = 256
# So many shapes of a tensor get a graph each: batches of an epoch, and the smaller last one. With more, dimensions are
# left open, which makes a graph some percent slower.
FEW_SHAPES: Final = 2
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...))
_PLAIN_IDS = frozenset(map(id, _PLAIN))  # comparing classes would ask their metaclasses


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
        shape: of tensors, and of arrays that become some, what all shapes have in common.
        shapes: the first shapes, one more than few; None where it stands for many values in one call.
        dtypes: of tensors, by name.
        count: how many calls have reached it.
        parts: of ragged and sparse tensors, their tensors.
        last: the value in the last of them that reached it, if it is plain.
        call: the number of that call.
    """

    types: set[type] = dataclasses.field(default_factory=set)
    constant: Any = VARIES
    shape: tf.TensorShape | None = None
    shapes: set[tuple[int, ...]] | None = dataclasses.field(default_factory=set)
    dtypes: set[str] = dataclasses.field(default_factory=set)
    count: int = 0
    parts: list[Seen] = dataclasses.field(default_factory=list)
    last: Any = None
    call: int = 0

    def add(self, value: Any) -> None:
        """Takes note of one more value."""
        if answers_itself(value):  # nothing more may be asked of it
            self.constant, self.last = _Kept.of(value) if self.count == 0 else VARIES, None
            self.count += 1
            return
        if self.count == 0:
            self.constant = value if is_plain(value) else _Kept.of(value)
        elif self.constant is not VARIES and not _is(self.constant, value):
            self.constant = VARIES
        self.types.add(type(value))
        if is_a(value, tf_private.EagerTensor):
            self.dtypes.add(value.dtype.name)
            self.add_shape(value.shape)
        elif type(value) is np.ndarray:
            self.add_shape(tf.TensorShape(value.shape))
        elif is_a(value, tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices):
            components = _components(value)
            self.parts += [Seen() for _ in components[len(self.parts) :]]
            for part, component in zip(self.parts, components, strict=False):
                part.add(component)
        self.count += 1
        self.last = value if is_plain(value) else None

    def add_shape(self, shape: tf.TensorShape) -> None:
        """Takes note of the shape of one more value."""
        self.shape = shape if self.shape is None else common_shape(self.shape, shape)
        self.count_shape(shape)

    def count_shape(self, shape: tf.TensorShape) -> None:
        """Takes note of one more shape among the first few alone."""
        if self.shapes is not None and len(self.shapes) <= FEW_SHAPES:
            self.shapes.add(tuple(shape))

    @property
    def varies(self) -> bool:
        """Whether calls have seen different values."""
        return self.constant is VARIES

    @property
    def has_few_shapes(self) -> bool:
        """Whether what it saw were tensors, of so few shapes that each can have a graph."""
        if self.parts:
            return all(part.has_few_shapes for part in self.parts)
        return self.shapes is not None and 0 < len(self.shapes) <= FEW_SHAPES


def _components(value: Any) -> list[Any]:
    """The tensors of a composite one; none where it is made of something else, slices of lists perhaps."""
    try:
        return list(tf.nest.flatten(value, expand_composites=True))
    except AttributeError:
        return []


class _Kept:
    """Stands for an object that the profile does not keep alive."""

    def __init__(self, value: Any) -> None:
        self._reference = weakref.ref(value)

    @classmethod
    def of(cls, value: Any) -> Any:
        """For this object; `VARIES` for one that cannot be told from another that comes to lie where it was."""
        try:
            return cls(value)
        except TypeError:
            return VARIES

    def stands_for(self, value: Any) -> bool:
        """Whether it is this object."""
        return self._reference() is value


def _is(constant: Any, value: Any) -> bool:
    if isinstance(constant, _Kept):
        return constant.stands_for(value)
    return same(constant, value)


class Profile:
    """Everything that was seen of one function and of what it calls.

    Attributes:
        results: of recursive functions, by their place, the specs of the tensors that they return.
        varying: of recursive functions, the parameters that differ between a call and the calls in it.
        calls: how many calls were observed.
        returned_calls: how many of them did not raise.
        lessons: how often an assumption broke about something that had not varied before.
        syntaxes: of the functions that were observed, by their places.
    """

    def __init__(self) -> None:
        self.results: dict[Hashable, Any] = {}
        self.varying: dict[Hashable, set[str]] = {}
        self.syntaxes: dict[Any, Any] = {}
        self._seen: dict[Any, list[Seen]] = {}
        self._now = threading.local()  # each thread has a call of its own
        self.calls, self.returned_calls, self.lessons = 0, 0, 0

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """A call is observed. One inside of another, of a recursive function, is a part of it."""
        if getattr(self._now, "reached", None) is not None:
            yield
            return
        self._now.reached, self._now.active = {}, {}
        self.calls += 1
        try:
            yield
            self.returned_calls += 1
        finally:
            self._now.reached = None

    def enter(self, place: Hashable, arguments: dict[str, Any]) -> None:
        """A function of the user's is called."""
        if getattr(self._now, "reached", None) is None:
            return
        active = self._now.active.setdefault(place, [])
        given = {name: id(value) for name, value in arguments.items()}  # the callee may let go of them
        if active:
            around = active[-1]
            differing = {name for name, value in given.items() if value != around.get(name)}
            self.varying.setdefault(place, set()).update(differing)
        active.append(given)

    def leave(self, place: Hashable) -> None:
        """It has ended."""
        if getattr(self._now, "reached", None) is not None:
            self._now.active[place].pop()

    def returned(self, place: Hashable, value: Any) -> None:
        """It gives a value."""
        if getattr(self._now, "reached", None) is None:
            return
        if place in self.varying or len(self._now.active[place]) > 1:
            specs = _specs(value)
            known = self.results.get(place, specs)
            self.results[place] = None if specs is None or known is None else _wider(known, specs)

    def see(self, site: Hashable, value: Any) -> None:
        """Takes note of the value of a site."""
        reached = getattr(self._now, "reached", None)
        if reached is None:
            return  # an observed function that is called after the call, or by another thread
        occurrence = min(reached.get(site, 0), OCCURRENCES - 1)
        reached[site] = occurrence + 1
        row = self._seen.setdefault(site, [])
        while occurrence >= len(row):
            row.append(Seen())
        row[occurrence].add(value)
        row[occurrence].call = self.calls

    def note(self, site: Hashable, value: Any, keeps_shapes: bool = False) -> Seen:
        """Takes note of a value that was found while converting; `keeps_shapes` where there is one in a call."""
        row = self._seen.setdefault(site, [Seen()])
        row[0].add(value)
        if not keeps_shapes:
            row[0].shapes = None
        return row[0]

    def note_array(self, site: Hashable, array: np.ndarray, seen_at: Hashable, varying: frozenset[int]) -> Seen:
        """Takes note of an array that was found while converting.

        Args:
            site: where it becomes a tensor.
            array: that of this call.
            seen_at: where eager calls may have seen it.
            varying: of one that they have not seen, sizes that are likely to vary.
        """
        if site not in self._seen:
            first = self._shapes_at(seen_at)
            if first.shape is None and varying.intersection(array.shape) - {1}:
                first.shape = tf.TensorShape([None if n in varying and n != 1 else n for n in array.shape])
                first.shapes = None
            self._seen[site] = [first]
        self._seen[site][0].add(array)
        return self._seen[site][0]

    def _shapes_at(self, site: Hashable) -> Seen:
        """The shapes alone of all occurrences of a site."""
        found = Seen()
        for seen in self._seen.get(site, []):
            if seen.shape is not None:
                found.shape = seen.shape if found.shape is None else common_shape(found.shape, seen.shape)
                if found.shapes is not None:
                    found.shapes = None if seen.shapes is None else found.shapes | seen.shapes
        return found

    def share_shapes(self, site: Hashable, other: Hashable) -> None:
        """What assumptions about another site are about has the shapes of this one."""
        self._seen.setdefault(other, [Seen()])[0].shapes = self._seen[site][0].shapes

    @property
    def has_variants(self) -> bool:
        """Whether some number, string or shape has varied."""
        plain = {int, float, str}
        return self.has_open_shapes or any(seen.varies and seen.types & plain for seen in self._every())

    @property
    def has_open_shapes(self) -> bool:
        """Whether some shape has varied."""
        every = (seen.shape for seen in self._every())
        return any(shape is not None and not shape.is_fully_defined() for shape in every)

    def _every(self) -> Iterator[Seen]:
        """All occurrences of all sites so far: other threads may see more meanwhile."""
        return (seen for row in list(self._seen.values()) for seen in row)

    def seen(self, site: Hashable, occurrence: int) -> Seen:
        """What is known of an occurrence; where it was not reached yet, of the site's last one."""
        row = self._seen.get(site, [])
        return row[min(occurrence, len(row) - 1)] if row else Seen()

    def sites(self) -> dict[Any, list[Seen]]:
        """All sites so far with their occurrences: other threads may see more meanwhile."""
        return {site: row.copy() for site, row in self._seen.copy().items() if row}

    def occurrences(self, site: Hashable) -> list[Seen]:
        """All occurrences of a site."""
        return self._seen.get(site, [])

    def varies_from(self, site: Hashable, occurrence: int) -> bool:
        """Whether an occurrence or a later one differed from call to call, or from another of these."""
        row = self._seen.get(site, [])
        first, *others = row[min(occurrence, len(row) - 1) :] if row else [Seen()]
        return first.varies or any(seen.varies or not _is(first.constant, seen.constant) for seen in others)

    def trips_vary(self, site: Hashable) -> bool:
        """Whether calls differed in the number of rounds of a loop, of which each round is an occurrence."""
        return any(seen.varies for seen in self._seen.get(site, []))

    def relax(self, site: Hashable, occurrence: int) -> None:
        """An assumption about the value of an occurrence broke."""
        row = self._seen.setdefault(site, [Seen()])
        seen = row[min(occurrence, len(row) - 1)]
        self.lessons += not (seen.varies and seen.count > 1)
        seen.constant, seen.count = VARIES, max(seen.count, 2)


class GeneralProfile(Profile):
    """What was seen, as if everything had varied: what a graph is made from that is not specialised.

    Numbers of rounds stay as they are: whether they are assumed is a matter of unrolling.
    """

    def __init__(self, profile: Profile, keeps_shapes: bool = False) -> None:
        vars(self).update(vars(profile))
        self.keeps_shapes = keeps_shapes

    def seen(self, site: Hashable, occurrence: int) -> Seen:
        """See `Profile`."""
        seen = super().seen(site, occurrence)
        return seen if isinstance(site, tuple) and "trips" in site else self._general(seen)

    def occurrences(self, site: Hashable) -> list[Seen]:
        """See `Profile`."""
        return [self._general(seen) for seen in super().occurrences(site)]

    def note(self, site: Hashable, value: Any, keeps_shapes: bool = False) -> Seen:
        """See `Profile`."""
        return self._general(super().note(site, value, keeps_shapes))

    def note_array(self, site: Hashable, array: np.ndarray, seen_at: Hashable, varying: frozenset[int]) -> Seen:
        """See `Profile`."""
        return self._general(super().note_array(site, array, seen_at, varying))

    def varies_from(self, site: Hashable, occurrence: int) -> bool:
        """See `Profile`."""
        return True

    def _general(self, seen: Seen) -> Seen:
        shape = seen.shape
        if shape is not None and shape.rank is not None and not self.keeps_shapes:
            shape = tf.TensorShape([None] * shape.rank)
        parts = [self._general(part) for part in seen.parts]
        return dataclasses.replace(seen, constant=VARIES, count=max(seen.count, 2), shape=shape, parts=parts)


def _specs(value: Any) -> Any:
    """The specs of a nest of tensors; None for anything else."""
    if not all(isinstance(leaf, tf_private.EagerTensor) for leaf in tf.nest.flatten(value)):
        return None
    return tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), value)


def _wider(one: Any, other: Any) -> Any:
    """Specs that cover both; None where there are none."""
    try:
        tf.nest.assert_same_structure(one, other)
    except (TypeError, ValueError):
        return None
    pairs = zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True)
    if any(a.dtype != b.dtype for a, b in pairs):
        return None
    return tf.nest.map_structure(lambda a, b: tf.TensorSpec(common_shape(a.shape, b.shape), a.dtype), one, other)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to a program: equal plain data of one type, or one object."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, _PLAIN) and bool(one == other)


def is_plain(value: Any) -> bool:
    """Whether a value is data that is compared by value and never changes."""
    if type(value) is tuple:
        return all(map(is_plain, value))
    return id(type(value)) in _PLAIN_IDS


def common_shape(one: tf.TensorShape, other: tf.TensorShape) -> tf.TensorShape:
    """The most special shape that both have."""
    if one.rank is None or other.rank is None or one.rank != other.rank:
        return tf.TensorShape(None)
    return tf.TensorShape([a if a == b else None for a, b in zip(one, other, strict=True)])


def fits(actual: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    """Whether the shape of a tensor is a case of a more general one."""
    return len(actual) == len(shape) and all(b is None or a == b for a, b in zip(actual, shape, strict=True))
