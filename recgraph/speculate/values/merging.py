"""Values that meet after a branch or a round: what they have in common is a template with holes, and tensors flow into
the holes.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.profile import common_shape, same
from recgraph.speculate.observe.reasons import Feature, Inconvertible
from recgraph.speculate.script.symbolic import (
    HELD,
    MISSING,
    UNDEFINED,
    DynamicValue,
    ListSegment,
    MaybeUnbound,
    Missing,
    Perhaps,
    has_run,
    rebuilt,
)
from recgraph.speculate.values import arithmetic

_NUMBERS = {bool: tf.bool, int: tf.int64, float: tf.float64}
# What is the same in all members of a run if it is in one: other objects could be changed or told apart.
_CONSTANTS = (str, bytes, type(None))


class TreeSpec:
    """What values have in common.

    Attributes:
        precedence: of two templates of one value the one with the higher decides what covers both.
        grows: whether it has a list that varies in length.
    """

    precedence: ClassVar[int] = 0
    grows: bool = False

    def holes(self) -> list[SpecLeaf]:
        """Its holes, in order."""
        raise NotImplementedError

    def tensors(self, ev: Evaluator, value: Any) -> list[tf.Tensor]:
        """What a value has for the holes; `UNDEFINED` and `MISSING` have anything."""
        raise NotImplementedError

    def filled(self, values: Iterator[Any], plain: bool = False) -> Any:
        """The value with tensors in the holes; or, if they are `plain`, with values as they are."""
        raise NotImplementedError

    def covering(self, ev: Evaluator, known: TreeSpec, found: TreeSpec) -> TreeSpec:
        """A template of all that two have, of which this one has the higher precedence."""
        raise NotImplementedError

    def element(self, ev: Evaluator) -> TreeSpec:
        """The template for it as a member of a list that grows.

        Raises:
            Inconvertible: a member cannot be of this kind.
        """
        raise _no_member(ev, self)

    def elements(self, ev: Evaluator) -> list[TreeSpec]:
        """Those of its members, if it is one of a list or tuple."""
        raise _no_member(ev, self)

    def common(self, ev: Evaluator, other: TreeSpec) -> TreeSpec:
        """The template for members of which some have this one and some another.

        Raises:
            Inconvertible: they differ in structure.
        """
        raise ev.refuse(
            Feature.MERGE,
            "a list that grows inside a tensor-dependent branch or loop holds values of different structure",
        )


def _no_member(ev: Evaluator, value: Any) -> Inconvertible:
    return ev.refuse(Feature.MERGE, f"a list that grows as a tensor decides, of {type(value).__name__}")


@dataclasses.dataclass(frozen=True, eq=False)
class Constant(TreeSpec):
    """A value that is the same on both ways."""

    value: Any

    @property
    def precedence(self) -> int:  # type: ignore[override]
        """A name that has no value on one way has none."""
        return 5 if isinstance(self.value, Missing) else 0

    def holes(self) -> list[SpecLeaf]:
        """None."""
        return []

    def tensors(self, ev: Evaluator, value: Any) -> list[tf.Tensor]:
        """None."""
        return []

    def filled(self, values: Iterator[Any], plain: bool = False) -> Any:
        """The value."""
        return self.value

    def covering(self, ev: Evaluator, known: TreeSpec, found: TreeSpec) -> TreeSpec:
        """The later one."""
        return self if isinstance(self.value, Missing) else found

    def element(self, ev: Evaluator) -> TreeSpec:
        """Returns the same for what is compared by value; else there is none."""
        return element_of(ev, self.value)

    def elements(self, ev: Evaluator) -> list[TreeSpec]:
        """Of the members of a list or tuple."""
        return [element_of(ev, member) for member in self.value]

    def common(self, ev: Evaluator, other: TreeSpec) -> TreeSpec:
        """Returns the same value."""
        is_one = isinstance(other, Constant) and type(other.value) is type(self.value) and other.value == self.value
        return self if is_one else super().common(ev, other)


@dataclasses.dataclass(frozen=True)
class SpecLeaf(TreeSpec):
    """Where a tensor goes; a number or an array of NumPy's comes back as one."""

    precedence = 2

    dtype: tf.DType
    shape: tf.TensorShape
    is_number: bool
    is_array: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpecLeaf) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.dtype)

    def _key(self) -> Any:
        return self.dtype, self.is_number, self.is_array, None if self.shape.rank is None else self.shape.as_list()

    def takes(self, other: SpecLeaf) -> bool:
        """Whether what flows into both is of one kind."""
        return self._key()[:3] == other._key()[:3]

    def wider(self, other: SpecLeaf) -> SpecLeaf:
        """A hole of this kind for what flows into either."""
        if self.shape == other.shape:
            return self
        return dataclasses.replace(self, shape=common_shape(self.shape, other.shape))

    def holes(self) -> list[SpecLeaf]:
        """Itself."""
        return [self]

    def tensors(self, ev: Evaluator, value: Any) -> list[tf.Tensor]:
        """The tensor."""
        if _is_absent(value):
            return [tf.zeros([size or 0 for size in self.shape] if self.shape.rank is not None else [], self.dtype)]
        if isinstance(value, tf.Tensor):
            return [value]
        if isinstance(value, Perhaps):
            value = value.value()
        if isinstance(value, DynamicValue):
            return [tf.cast(arithmetic.kept_in_loop(ev, value), self.dtype)]
        return [tf.constant(value, self.dtype)]

    def filled(self, values: Iterator[Any], plain: bool = False) -> Any:
        """The tensor, or what Python has in its place."""
        value = next(values)
        if plain:
            return value
        if self.is_number:
            return DynamicValue("", tensor=value, late=True, limit=HELD if value.dtype == tf.int64 else None)
        value.set_shape(self.shape)
        return DynamicValue("", tensor=value, late=True, is_array=True) if self.is_array else value

    def covering(self, ev: Evaluator, known: TreeSpec, found: TreeSpec) -> TreeSpec:
        """A hole for both."""
        return known.wider(found) if isinstance(known, SpecLeaf) and isinstance(found, SpecLeaf) else self

    def element(self, ev: Evaluator) -> TreeSpec:
        """Itself."""
        return self

    def common(self, ev: Evaluator, other: TreeSpec) -> TreeSpec:
        """A hole for both, if they are of one kind."""
        return self.wider(other) if isinstance(other, SpecLeaf) and self.takes(other) else super().common(ev, other)


@dataclasses.dataclass(frozen=True, eq=False)
class Parts(TreeSpec):
    """A list, tuple or dict with a template for each member.

    Attributes:
        like: one of its kind, with the keys of a dict.
        members: their templates.
    """

    precedence = 1

    like: Any
    members: list[TreeSpec]

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """Whether a member does."""
        return any(member.grows for member in self.members)

    @classmethod
    def of(cls, like: Any, members: list[TreeSpec]) -> TreeSpec:
        """Without holes it is one value."""
        whole = cls(like, members)
        return whole if whole.holes() else Constant(whole.filled(iter(())))

    def holes(self) -> list[SpecLeaf]:
        """Those of all members."""
        return [hole for member in self.members for hole in member.holes()]

    def tensors(self, ev: Evaluator, value: Any) -> list[tf.Tensor]:
        """Those of all members."""
        parts = itertools.repeat(UNDEFINED, len(self.members)) if _is_absent(value) else _members(ev, value)
        return [t for member, part in zip(self.members, parts, strict=True) for t in member.tensors(ev, part)]

    def filled(self, values: Iterator[Any], plain: bool = False) -> Any:
        """A new container."""
        return rebuilt(self.like, [member.filled(values, plain) for member in self.members])

    def covering(self, ev: Evaluator, known: TreeSpec, found: TreeSpec) -> TreeSpec:
        """Member by member."""
        if not isinstance(known, Parts) or not isinstance(found, Parts) or len(known.members) != len(found.members):
            return self
        pairs = zip(known.members, found.members, strict=True)
        return Parts(self.like, [wider(ev, one, other) for one, other in pairs])

    def element(self, ev: Evaluator) -> TreeSpec:
        """Of a tuple: others can change."""
        if not isinstance(self.like, tuple):
            raise _no_member(ev, self.like)
        return Parts(self.like, self.elements(ev))

    def elements(self, ev: Evaluator) -> list[TreeSpec]:
        """Of its members."""
        return [member.element(ev) for member in self.members]

    def common(self, ev: Evaluator, other: TreeSpec) -> TreeSpec:
        """Member by member."""
        if not isinstance(other, Parts) or type(other.like) is not type(self.like) or len(other.like) != len(self.like):
            return super().common(ev, other)
        pairs = zip(self.members, other.members, strict=True)
        return Parts(self.like, [one.common(ev, another) for one, another in pairs])


@dataclasses.dataclass(frozen=True, eq=False)
class DynamicListSpec(TreeSpec):
    """Lists, or tuples, of different lengths.

    Attributes:
        kind: `list` or `tuple`.
        member: the template of their members.
    """

    precedence = 3
    grows = True

    kind: type
    member: TreeSpec

    @classmethod
    def of(cls, ev: Evaluator, kind: type, elements: Sequence[TreeSpec]) -> DynamicListSpec:
        """For members with these templates.

        Raises:
            Inconvertible: they differ in structure.
        """
        return cls(kind, functools.reduce(lambda one, other: one.common(ev, other), elements))

    def holes(self) -> list[SpecLeaf]:
        """How many members there are, and a TensorList for each hole of a member."""
        number, variant = (SpecLeaf(dtype, tf.TensorShape([]), False) for dtype in (tf.int64, tf.variant))
        return [number, *(variant for _ in self.member.holes())]

    def tensors(self, ev: Evaluator, value: Any) -> list[tf.Tensor]:
        """What flows for these members."""
        run = joined(ev, () if _is_absent(value) else value, self.member)
        return [run.count, *run.lists]

    def filled(self, values: Iterator[Any], plain: bool = False) -> Any:
        """A list with one run."""
        count, *lists = itertools.islice(values, 1 + len(self.member.holes()))
        return self.kind([ListSegment(self.member, tuple(lists), count)])

    def covering(self, ev: Evaluator, known: TreeSpec, found: TreeSpec) -> TreeSpec:
        """One with all members of both."""
        return DynamicListSpec.of(ev, self.kind, [*known.elements(ev), *found.elements(ev)])

    def elements(self, ev: Evaluator) -> list[TreeSpec]:
        """The one for all."""
        return [self.member]


@dataclasses.dataclass(frozen=True, eq=False)
class OptionalSpec(TreeSpec):
    """The value of a name that may have none: whether it has one flows, too."""

    precedence = 4

    value: TreeSpec

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """Whether the value does."""
        return self.value.grows

    @classmethod
    def of(cls, ev: Evaluator, one: Any, other: Any) -> OptionalSpec:
        """For two values."""
        return cls(template(ev, *(_plain(value) for value in (one, other))))

    def holes(self) -> list[SpecLeaf]:
        """Those of the value, and one for whether it is there."""
        return [*self.value.holes(), SpecLeaf(tf.bool, tf.TensorShape([]), False)]

    def tensors(self, ev: Evaluator, value: Any) -> list[tf.Tensor]:
        """Those of the value, and whether it is there."""
        there = value.condition if isinstance(value, MaybeUnbound) else tf.constant(not isinstance(value, Missing))
        return [*self.value.tensors(ev, _plain(value)), there]

    def filled(self, values: Iterator[Any], plain: bool = False) -> Any:
        """A value with the condition that it is there."""
        return MaybeUnbound(self.value.filled(values), next(values))

    def covering(self, ev: Evaluator, known: TreeSpec, found: TreeSpec) -> TreeSpec:
        """A value that may not be there."""
        return OptionalSpec(
            wider(ev, *(part.value if isinstance(part, OptionalSpec) else part for part in (known, found)))
        )


def _plain(value: Any) -> Any:
    if isinstance(value, Missing):
        return UNDEFINED
    return value.value if isinstance(value, MaybeUnbound) else value


def _is_absent(value: Any) -> bool:
    return value is UNDEFINED or isinstance(value, Missing)


def _members(ev: Evaluator, value: Any) -> list[Any]:
    """What a container holds; those of a tuple that was there before the call are read in each call."""
    value = ev.opened(value) if isinstance(value, tuple) else value
    return list(value.values() if isinstance(value, dict) else value)


def _is_the_programs(ev: Evaluator, value: Any) -> bool:
    """Whether a value is a container that was there before the call, and may be changed through other names."""
    return isinstance(value, list | dict) and ev.heap.name_of(value) is not None


def wider(ev: Evaluator, known: TreeSpec | None, found: TreeSpec) -> TreeSpec:
    """A template that covers two of the same value."""
    if known is None:
        return found
    return max(known, found, key=lambda one: one.precedence).covering(ev, known, found)


def template(ev: Evaluator, one: Any, other: Any) -> TreeSpec:
    """What both values have in common, with holes where they differ.

    Raises:
        Inconvertible: they differ in structure.
    """
    if isinstance(one, Missing | MaybeUnbound) or isinstance(other, Missing | MaybeUnbound):
        return Constant(one if one is other else MISSING)
    if one is UNDEFINED or other is UNDEFINED:
        return _all_holes(ev, other if one is UNDEFINED else one)
    if one is not other and (_is_the_programs(ev, one) or _is_the_programs(ev, other)):
        which = one if _is_the_programs(ev, one) else other
        name = type(which).__name__
        raise ev.refuse(Feature.MERGE, f"a tensor decides whether a {name} that was there before the call is replaced")
    if vary_in_length(one, other):
        return list_template(ev, one, other)
    if not any(isinstance(value, tf.Tensor) for value in (one, other)) and same(one, other):
        return Constant(one)
    hole, another = hole_of(one), hole_of(other)
    if hole is not None and another is not None and hole.takes(another):
        return hole.wider(another)
    if _are_alike(one, other):
        pairs = zip(_members(ev, one), _members(ev, other), strict=True)
        return Parts.of(one, [template(ev, *pair) for pair in pairs])
    raise ev.refuse(
        Feature.MERGE,
        f"a variable is {_describe(one)} after one branch or iteration and {_describe(other)} after another",
    )


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two values are lists or tuples of one length, or dicts with the same keys in the same order."""
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other)
    is_dict = type(one) is dict and type(other) is dict and list(one) == list(other)
    return is_dict and list(map(type, one)) == list(map(type, other))


def two_names(ev: Evaluator) -> Inconvertible:
    """The error for what would be another object for one of its names after a branch or round."""
    return ev.refuse(
        Feature.MERGE,
        "a list, dict or array to which other names refer, too, is replaced, or not, as a tensor decides",
    )


def another_order(ev: Evaluator) -> Inconvertible:
    """The error for what would come in another order after a branch or round."""
    return ev.refuse(Feature.MERGE, "a tensor decides in which order a dict has its keys, or an object its attributes")


def hole_of(value: Any) -> SpecLeaf | None:
    """The hole for a tensor, an array or a number; None for what cannot flow."""
    if isinstance(value, Perhaps):
        return hole_of(value.value())
    if isinstance(value, tf.Tensor):
        return SpecLeaf(value.dtype, value.shape, False)
    if not isinstance(value, DynamicValue):
        dtype = _NUMBERS.get(type(value))
    elif value.is_array:
        return None if value.tensor is None else SpecLeaf(value.tensor.dtype, value.tensor.shape, False, True)
    else:
        dtype = _NUMBERS.get(type(value.example)) if value.tensor is None else value.tensor.dtype
    return None if dtype is None else SpecLeaf(dtype, tf.TensorShape([]), True)


def _all_holes(ev: Evaluator, value: Any) -> TreeSpec:
    """A template of a value that may not be there: holes for all that can flow."""
    if _is_the_programs(ev, value):
        return Constant(value)
    if has_run(value):
        return list_template(ev, value)
    if isinstance(value, tf.Tensor | DynamicValue | Perhaps):
        return hole_of(value) or template(ev, value, dataclasses.replace(value))
    if isinstance(value, list | tuple | dict):
        return Parts.of(value, [_all_holes(ev, member) for member in _members(ev, value)])
    return Constant(value)


def _describe(value: Any) -> str:
    return f"tensor {value.dtype.name}{value.shape}" if isinstance(value, tf.Tensor) else f"a {type(value).__name__}"


def vary_in_length(one: Any, other: Any) -> bool:
    """Whether two values are lists or tuples of which only the graph will know the length."""
    if type(one) not in (list, tuple) or type(one) is not type(other):
        return False
    return len(one) != len(other) or has_run(one) or has_run(other)


def list_template(ev: Evaluator, *sequences: Any) -> DynamicListSpec:
    """What lists or tuples have in common.

    Raises:
        Inconvertible: their members differ in structure, or there are none.
    """
    elements = [element_of(ev, member) for sequence in sequences for member in _members(ev, sequence)]
    if not elements:
        raise ev.refuse_runs("an empty list is taken beside one of which only the graph knows the length")
    return DynamicListSpec.of(ev, type(sequences[0]), elements)


def element_of(ev: Evaluator, value: Any) -> TreeSpec:
    """The template of a member of a list that grows.

    Raises:
        Inconvertible: such a list cannot hold it.
    """
    if isinstance(value, ListSegment):
        found: TreeSpec = value.element
        return found
    if isinstance(value, _CONSTANTS):
        return Constant(value)
    if isinstance(value, tuple):
        return Parts(value, [element_of(ev, member) for member in _members(ev, value)])
    hole = hole_of(value)
    if hole is None or hole.dtype in (tf.resource, tf.variant):
        raise _no_member(ev, value)
    return hole


def joined(ev: Evaluator, members: Sequence[Any], element: TreeSpec) -> ListSegment:
    """One run of all members. To append to a run costs the same however long it is."""
    members = _members(ev, members)
    if members and isinstance(members[0], ListSegment) and members[0].is_whole:
        lists, count = members[0].lists, members[0].count
        members = members[1:]
    else:
        lists, count = tuple(_empty(hole) for hole in element.holes()), tf.constant(0, tf.int64)
    if has_run(members):
        return _stacked_anew(ev, [ListSegment(element, lists, count), *members], element)
    for member in members:
        values = element.tensors(ev, member)
        lists = tuple(map(_pushed, lists, values))
    return ListSegment(element, lists, count + len(members))


def _pushed(handle: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=value)


def _empty(hole: SpecLeaf) -> tf.Tensor:
    """A TensorList of nothing; members may have any shape."""
    return tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=hole.dtype)


def _stacked_anew(ev: Evaluator, members: list[Any], element: TreeSpec) -> ListSegment:
    """One run of several, whose members must have one shape."""
    columns: list[list[tf.Tensor]] = [[] for _ in element.holes()]
    count = tf.constant(0, tf.int64)
    for member in members:
        if isinstance(member, ListSegment):
            rows = stacks(ev, alike(ev, member))
            count += member.count
        else:
            rows = [value[tf.newaxis] for value in element.tensors(ev, member)]
            count += 1
        for column, value in zip(columns, rows, strict=True):
            column.append(value)
    return ListSegment(element, tuple(list_of(tf.concat(column, 0)) for column in columns), count)


def list_of(tensor: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.TensorListFromTensor(tensor=tensor, element_shape=tf.shape(tensor)[1:])


def stacks(ev: Evaluator, run: ListSegment) -> list[tf.Tensor]:
    """For each hole the values of all members, as rows of a tensor."""
    return [_stack(ev, run, *pair) for pair in zip(run.element.holes(), run.lists, strict=True)]


def alike(ev: Evaluator, run: ListSegment) -> ListSegment:
    """The run if all members are sure to have one shape, so that rows of a tensor can hold them."""
    if not all(hole.shape.is_fully_defined() for hole in run.element.holes()):
        raise ev.refuse_runs("a list whose length only the graph knows holds tensors of different shapes")
    return run


def _stack(ev: Evaluator, run: ListSegment, hole: SpecLeaf, handle: tf.Tensor) -> tf.Tensor:
    if hole.shape.rank is None:
        raise ev.refuse_runs("a list whose length only the graph knows holds tensors of unknown rank")
    shape = dims(hole.shape)
    if run.view is None:
        rows = tf.raw_ops.TensorListStack(input_handle=handle, element_shape=shape, element_dtype=hole.dtype)
        rows = tf.reverse(rows, [0]) if run.backwards else rows
    else:
        first, step = run.view
        places = tf.cast(first + step * tf.range(run.count), tf.int32)
        rows = tf.raw_ops.TensorListGather(
            input_handle=handle, indices=places, element_shape=shape, element_dtype=hole.dtype
        )
    rows.set_shape(tf.TensorShape([None]).concatenate(hole.shape))
    return rows


def dims(shape: tf.TensorShape) -> Any:
    if shape.rank is None:
        return -1
    return tf.constant([-1 if size is None else size for size in shape], tf.int32)
