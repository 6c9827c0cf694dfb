"""Values that meet after a branch or a round: what they have in common is a template with holes, and tensors flow into
the holes.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.profile import common_shape, same
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script.stand_ins import DUMMY, HELD, MISSING, MemberRun, Missing, Residual, Unsure, has_run
from recgraph.speculate.values import arithmetic

_NUMBERS = {bool: tf.bool, int: tf.int64, float: tf.float64}


class Hole:
    """Where a tensor goes; a number or an array of NumPy's comes back as one."""

    def __init__(self, dtype: tf.DType, shape: tf.TensorShape, is_number: bool, is_array: bool = False) -> None:
        self.dtype, self.shape, self.is_number, self.is_array = dtype, shape, is_number, is_array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hole) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.dtype)

    def takes(self, other: Hole) -> bool:
        """Whether what flows into both is of one kind."""
        return self._key()[:3] == other._key()[:3]

    def wider(self, other: Hole) -> Hole:
        """A hole of this kind for what flows into either."""
        if self.shape == other.shape:
            return self
        return Hole(self.dtype, common_shape(self.shape, other.shape), self.is_number, self.is_array)

    def _key(self) -> Any:
        return self.dtype, self.is_number, self.is_array, None if self.shape.rank is None else self.shape.as_list()


class Maybe:
    """A template of the value of a name that may have none: whether it has one flows, too."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @classmethod
    def of(cls, ev: Evaluator, one: Any, other: Any) -> Maybe:
        """For two values."""
        return cls(template(ev, *(_plain(value) for value in (one, other))))

    def tensors(self, ev: Evaluator, value: Any) -> list[tf.Tensor]:
        """The tensors of a value, and whether there is one."""
        there = value.condition if isinstance(value, Unsure) else tf.constant(not isinstance(value, Missing))
        return [*tensors(ev, self.value, _plain(value)), there]


def _plain(value: Any) -> Any:
    if isinstance(value, Missing):
        return DUMMY
    return value.value if isinstance(value, Unsure) else value


def template(ev: Evaluator, one: Any, other: Any) -> Any:
    """What both values have in common, with holes where they differ.

    Raises:
        Inconvertible: they differ in structure.
    """
    if isinstance(one, Missing | Unsure) or isinstance(other, Missing | Unsure):
        return one if one is other else MISSING
    if one is DUMMY or other is DUMMY:
        return _all_holes(ev, other if one is DUMMY else one)
    if isinstance(one, tf.Tensor) or isinstance(other, tf.Tensor):
        return _tensor_hole(ev, one, other)
    if vary_in_length(one, other):
        return list_template(ev, one, other)
    if same(one, other):
        return one
    if _is_array(one) and _is_array(other) and one.tensor.dtype == other.tensor.dtype:
        shape = common_shape(one.tensor.shape, other.tensor.shape)
        return Hole(one.tensor.dtype, shape, False, True)
    if _number_type(one) and _number_type(one) == _number_type(other):
        return Hole(_number_type(one), tf.TensorShape([]), True)
    if isinstance(one, list | tuple) and type(one) is type(other) and len(one) == len(other):
        members = [template(ev, a, b) for a, b in zip(one, other, strict=True)]
        return type(one)._make(members) if hasattr(one, "_make") else type(one)(members)
    if type(one) is dict and type(other) is dict and list(one) == list(other):
        return {key: template(ev, one[key], other[key]) for key in one}
    raise ev.refuse(
        Feature.MERGE,
        f"a variable is {_describe(one)} after one branch or iteration and {_describe(other)} after another",
    )


def hole_of(value: Any) -> Hole | None:
    """The hole for a tensor, an array or a number; None for what cannot flow."""
    if isinstance(value, tf.Tensor):
        return Hole(value.dtype, value.shape, False)
    if _is_array(value):
        return Hole(value.tensor.dtype, value.tensor.shape, False, True)
    dtype = _number_type(value)
    return None if dtype is None else Hole(dtype, tf.TensorShape([]), True)


def _all_holes(ev: Evaluator, value: Any) -> Any:
    """A template of a value that may not be there: holes for all that can flow."""
    if has_run(value):
        return list_template(ev, value)
    if isinstance(value, tf.Tensor):
        return Hole(value.dtype, value.shape, False)
    if isinstance(value, Residual):
        return template(ev, value, dataclasses.replace(value))
    if isinstance(value, list | tuple):
        members = [_all_holes(ev, v) for v in value]
        return type(value)._make(members) if hasattr(value, "_make") else type(value)(members)
    if isinstance(value, dict):
        return {key: _all_holes(ev, v) for key, v in value.items()}
    return value


def _tensor_hole(ev: Evaluator, one: Any, other: Any) -> Hole:
    dtypes = {v.dtype for v in (one, other) if isinstance(v, tf.Tensor)}
    if not all(isinstance(v, tf.Tensor) for v in (one, other)) or len(dtypes) != 1:
        raise ev.refuse(
            Feature.MERGE,
            f"a variable is {_describe(one)} after one branch or iteration and {_describe(other)} after another",
        )
    shape = one.shape if one.shape == other.shape else common_shape(one.shape, other.shape)
    return Hole(dtypes.pop(), shape, False)


def _is_array(value: Any) -> bool:
    return isinstance(value, Residual) and value.is_array and value.tensor is not None


def _number_type(value: Any) -> tf.DType | None:
    if isinstance(value, Residual) and value.is_array:
        return None
    if isinstance(value, Residual) and value.tensor is not None:
        return value.tensor.dtype
    return _NUMBERS.get(type(value.example if isinstance(value, Residual) else value))


def _describe(value: Any) -> str:
    return f"tensor {value.dtype.name}{value.shape}" if isinstance(value, tf.Tensor) else f"a {type(value).__name__}"


def wider(ev: Evaluator, known: Any, found: Any) -> Any:
    """A template that covers two of the same value."""
    if isinstance(known, Missing) or isinstance(found, Missing):
        return MISSING
    if isinstance(known, Maybe) or isinstance(found, Maybe):
        return Maybe(wider(ev, *(part.value if isinstance(part, Maybe) else part for part in (known, found))))
    if isinstance(known, Hole) and isinstance(found, Hole):
        return known.wider(found)
    if isinstance(known, Grown) or isinstance(found, Grown):
        return found if known is None else list_template(ev, known, found)
    if isinstance(known, list | tuple) and isinstance(found, list | tuple) and len(known) == len(found):
        members = [wider(ev, a, b) for a, b in zip(known, found, strict=True)]
        return type(known)._make(members) if hasattr(known, "_make") else type(known)(members)
    if isinstance(known, dict) and isinstance(found, dict) and list(known) == list(found):
        return {key: wider(ev, known[key], found[key]) for key in known}
    return known if isinstance(known, Hole) else found


def tensors(ev: Evaluator, pattern: Any, value: Any) -> list[tf.Tensor]:
    """The tensors that go into the holes of a template."""
    if isinstance(pattern, Hole):
        return [_for_hole(ev, pattern, value)]
    if isinstance(pattern, Maybe):
        return pattern.tensors(ev, value)
    value = DUMMY if isinstance(value, Missing) else value
    if isinstance(pattern, Grown):
        return list_tensors(ev, pattern, () if value is DUMMY else value)
    if isinstance(pattern, list | tuple):
        parts = [DUMMY] * len(pattern) if value is DUMMY else value
        return [t for p, v in zip(pattern, parts, strict=True) for t in tensors(ev, p, v)]
    if isinstance(pattern, dict):
        return [t for key in pattern for t in tensors(ev, pattern[key], DUMMY if value is DUMMY else value[key])]
    return []


def _for_hole(ev: Evaluator, hole: Hole, value: Any) -> tf.Tensor:
    if value is DUMMY or isinstance(value, Missing):
        return tf.zeros([size or 0 for size in hole.shape] if hole.shape.rank is not None else [], hole.dtype)
    if isinstance(value, tf.Tensor):
        return value
    if isinstance(value, Residual):
        return tf.cast(arithmetic.kept_in_loop(ev, value), hole.dtype)
    return tf.constant(value, hole.dtype)


def filled(pattern: Any, values: Iterator[tf.Tensor]) -> Any:
    """A template with tensors in its holes."""
    if isinstance(pattern, Hole):
        value = next(values)
        if pattern.is_number:
            return Residual("", tensor=value, late=True, limit=HELD if value.dtype == tf.int64 else None)
        value.set_shape(pattern.shape)
        return Residual("", tensor=value, late=True, is_array=True) if pattern.is_array else value
    if isinstance(pattern, Maybe):
        return Unsure(filled(pattern.value, values), next(values))
    if isinstance(pattern, Grown):
        return list_filled(pattern, values)
    if isinstance(pattern, list | tuple) and any(map(holes, pattern)):
        members = [filled(p, values) for p in pattern]
        return type(pattern)._make(members) if hasattr(pattern, "_make") else type(pattern)(members)
    if isinstance(pattern, dict) and any(map(holes, pattern.values())):
        return {key: filled(p, values) for key, p in pattern.items()}
    return pattern


def holes(pattern: Any) -> list[Hole]:
    """The holes of a template, in order."""
    if isinstance(pattern, Hole):
        return [pattern]
    if isinstance(pattern, Maybe):
        return [*holes(pattern.value), Hole(tf.bool, tf.TensorShape([]), False)]
    if isinstance(pattern, Grown):
        return list_holes(pattern)
    if isinstance(pattern, list | tuple):
        return [hole for p in pattern for hole in holes(p)]
    if isinstance(pattern, dict):
        return [hole for p in pattern.values() for hole in holes(p)]
    return []


def grows(pattern: Any) -> bool:
    """Whether a template has one of a list that varies in length."""
    if isinstance(pattern, Maybe):
        return grows(pattern.value)
    if isinstance(pattern, list | tuple | dict):
        return any(map(grows, pattern.values() if isinstance(pattern, dict) else pattern))
    return isinstance(pattern, Grown)


# What is the same in all members of a run if it is in one: other objects could be changed or told apart.
_CONSTANTS = (str, bytes, type(None))


@dataclasses.dataclass(frozen=True)
class Grown:
    """The template of lists, or of tuples, of different lengths.

    Attributes:
        kind: `list` or `tuple`.
        element: the template of their members.
    """

    kind: type
    element: Any


def vary_in_length(one: Any, other: Any) -> bool:
    """Whether two values are lists or tuples of which only the graph will know the length."""
    if type(one) not in (list, tuple) or type(one) is not type(other):
        return False
    return len(one) != len(other) or has_run(one) or has_run(other)


def list_template(ev: Evaluator, *sequences: Any) -> Grown:
    """What lists, tuples or their templates have in common.

    Raises:
        Inconvertible: their members differ in structure.
    """
    kind = next(s.kind if isinstance(s, Grown) else type(s) for s in sequences)
    elements = [e for s in sequences for e in ([s.element] if isinstance(s, Grown) else map(_element_of(ev), s))]
    return Grown(kind, functools.reduce(lambda one, other: _common(ev, one, other), elements))


def _element_of(ev: Evaluator) -> Any:
    def find(value: Any) -> Any:
        if isinstance(value, MemberRun):
            return value.element
        if isinstance(value, Hole) or value is None or isinstance(value, _CONSTANTS):
            return value
        if isinstance(value, tuple):
            members = map(find, value)
            return value._make(members) if hasattr(value, "_make") else tuple(members)
        if isinstance(value, tf.Tensor | Residual | bool | int | float):
            hole = hole_of(value)
            if hole is not None and hole.dtype not in (tf.resource, tf.variant):
                return hole
        raise ev.refuse(Feature.MERGE, f"a list that grows as a tensor decides, of {type(value).__name__}")

    return find


def _common(ev: Evaluator, one: Any, other: Any) -> Any:
    if isinstance(one, Hole) and isinstance(other, Hole) and one.takes(other):
        return one.wider(other)
    if isinstance(one, tuple) and type(one) is type(other) and len(one) == len(other):
        members = [_common(ev, a, b) for a, b in zip(one, other, strict=True)]
        return one._make(members) if hasattr(one, "_make") else tuple(members)
    if isinstance(one, _CONSTANTS) and type(one) is type(other) and one == other:
        return one
    raise ev.refuse(
        Feature.MERGE, "a list that grows inside a tensor-dependent branch or loop holds values of different structure"
    )


def list_holes(grown: Grown) -> list[Hole]:
    """What flows for a list: how many members, and a TensorList for each hole of a member."""
    number, variant = (Hole(dtype, tf.TensorShape([]), False) for dtype in (tf.int64, tf.variant))
    return [number, *(variant for _ in holes(grown.element))]


def list_tensors(ev: Evaluator, grown: Grown, members: Sequence[Any]) -> list[tf.Tensor]:
    """What flows for these members."""
    run = joined(ev, members, grown.element)
    return [run.count, *run.lists]


def list_filled(grown: Grown, values: Iterable[tf.Tensor]) -> Any:
    """A list of what has flown."""
    count, *lists = itertools.islice(values, 1 + len(holes(grown.element)))
    return grown.kind([MemberRun(grown.element, tuple(lists), count)])


def joined(ev: Evaluator, members: Sequence[Any], element: Any) -> MemberRun:
    """One run of all members. To append to a run costs the same however long it is."""
    members = list(members)
    if members and isinstance(members[0], MemberRun) and members[0].is_whole:
        lists, count = members[0].lists, members[0].count
        members = members[1:]
    else:
        lists, count = tuple(_empty(hole) for hole in holes(element)), tf.constant(0, tf.int64)
    if has_run(members):
        return _stacked_anew(ev, [MemberRun(element, lists, count), *members], element)
    for member in members:
        values = tensors(ev, element, member)
        lists = tuple(map(_pushed, lists, values))
    return MemberRun(element, lists, count + len(members))


def _pushed(handle: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=value)


def _empty(hole: Hole) -> tf.Tensor:
    """A TensorList of nothing; members may have any shape."""
    return tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=hole.dtype)


def _stacked_anew(ev: Evaluator, members: list[Any], element: Any) -> MemberRun:
    """One run of several, whose members must have one shape."""
    columns: list[list[tf.Tensor]] = [[] for _ in holes(element)]
    count = tf.constant(0, tf.int64)
    for member in members:
        if isinstance(member, MemberRun):
            rows = stacks(ev, alike(ev, member))
            count += member.count
        else:
            rows = [value[tf.newaxis] for value in tensors(ev, element, member)]
            count += 1
        for column, value in zip(columns, rows, strict=True):
            column.append(value)
    return MemberRun(element, tuple(_list_of(tf.concat(column, 0)) for column in columns), count)


def _list_of(tensor: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.TensorListFromTensor(tensor=tensor, element_shape=tf.shape(tensor)[1:])


def stacks(ev: Evaluator, run: MemberRun) -> list[tf.Tensor]:
    """For each hole the values of all members, as rows of a tensor."""
    return [_stack(ev, run, *pair) for pair in zip(holes(run.element), run.lists, strict=True)]


def alike(ev: Evaluator, run: MemberRun) -> MemberRun:
    """The run if all members are sure to have one shape, so that rows of a tensor can hold them."""
    if not all(hole.shape.is_fully_defined() for hole in holes(run.element)):
        raise ev.refuse_runs("a list whose length only the graph knows holds tensors of different shapes")
    return run


def _stack(ev: Evaluator, run: MemberRun, hole: Hole, handle: tf.Tensor) -> tf.Tensor:
    if hole.shape.rank is None:
        raise ev.refuse_runs("a list whose length only the graph knows holds tensors of unknown rank")
    shape = _dims(hole.shape)
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


def _dims(shape: tf.TensorShape) -> Any:
    if shape.rank is None:
        return -1
    return tf.constant([-1 if size is None else size for size in shape], tf.int32)
