"""Lists whose length only the graph knows: what a loop or branch of the graph has appended is a *run* of members.

A list stays a Python list while a call is converted, so that all who have it see it change. A `Run` in it stands for as
many members as the graph says, which are alike: values flow into the same holes of one template, from one TensorList a
hole. Runs never change; what moves members (`+`, `extend`, slices) moves runs, and what looks at members does so in the
graph. Where it cannot, the loops and branches that made the runs are unrolled and assumed, as they are without this.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from recgraph.speculate import containers, loops, merging, residuals, state, trips
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.reasons import Again
from recgraph.speculate.values import Iteration, Residual, Rows, Run, has_run, how_many, is_symbolic

# What is the same in all members of a run if it is in one: other objects could be changed or told apart.
_CONSTANTS = (str, bytes, type(None))
# No list is longer.
LONGEST = 1 << 40


@dataclasses.dataclass(frozen=True)
class Grown:
    """The template of lists, or of tuples, of different lengths.

    Attributes:
        kind: `list` or `tuple`.
        element: the template of their members.
    """

    kind: type
    element: Any


def inside(ev: Evaluator, container: Any) -> Any:
    """The members of a list or tuple if a run is among them; else None."""
    return ev.heap.with_runs(container, ev.where())


def refuse(ev: Evaluator, why: str) -> Exception:
    """The error for what cannot be done with a run: nothing may make one, if that is possible."""
    places = ev.growing - ev.paths
    return Again(places) if places else ev.refuse("list", why)


# Templates.


def vary_in_length(one: Any, other: Any) -> bool:
    """Whether two values are lists or tuples of which only the graph will know the length."""
    if type(one) not in (list, tuple) or type(one) is not type(other):
        return False
    return len(one) != len(other) or has_run(one) or has_run(other)


def template(ev: Evaluator, *sequences: Any) -> Grown:
    """What lists, tuples or their templates have in common.

    Raises:
        Inconvertible: their members differ in structure.
    """
    kind = next(s.kind if isinstance(s, Grown) else type(s) for s in sequences)
    elements = [e for s in sequences for e in ([s.element] if isinstance(s, Grown) else map(_element_of(ev), s))]
    return Grown(kind, functools.reduce(lambda one, other: _common(ev, one, other), elements))


def _element_of(ev: Evaluator) -> Any:
    def find(value: Any) -> Any:
        if isinstance(value, Run):
            return value.element
        if isinstance(value, merging.Hole) or value is None or isinstance(value, _CONSTANTS):
            return value
        if isinstance(value, tuple):
            members = map(find, value)
            return value._make(members) if hasattr(value, "_make") else tuple(members)
        if isinstance(value, tf.Tensor | Residual | bool | int | float):
            hole = merging.hole_of(value)
            if hole is not None and hole.dtype not in (tf.resource, tf.variant):
                return hole
        raise ev.refuse("merge", f"a list that grows as a tensor decides, of {type(value).__name__}")

    return find


def _common(ev: Evaluator, one: Any, other: Any) -> Any:
    if isinstance(one, merging.Hole) and isinstance(other, merging.Hole) and one.takes(other):
        return one.wider(other)
    if isinstance(one, tuple) and type(one) is type(other) and len(one) == len(other):
        members = [_common(ev, a, b) for a, b in zip(one, other, strict=True)]
        return one._make(members) if hasattr(one, "_make") else tuple(members)
    if isinstance(one, _CONSTANTS) and type(one) is type(other) and one == other:
        return one
    raise ev.refuse("merge", "a list that grows as a tensor decides, of members that differ")


def holes(grown: Grown) -> list[merging.Hole]:
    """What flows for a list: how many members, and a TensorList for each hole of a member."""
    number, variant = (merging.Hole(dtype, tf.TensorShape([]), False) for dtype in (tf.int64, tf.variant))
    return [number, *(variant for _ in merging.holes(grown.element))]


def tensors(ev: Evaluator, grown: Grown, members: Sequence[Any]) -> list[tf.Tensor]:
    """What flows for these members."""
    run = joined(ev, members, grown.element)
    return [run.count, *run.lists]


def filled(grown: Grown, values: Iterable[tf.Tensor]) -> Any:
    """A list of what has flown."""
    count, *lists = itertools.islice(values, 1 + len(merging.holes(grown.element)))
    return grown.kind([Run(grown.element, tuple(lists), count)])


# Runs.


def joined(ev: Evaluator, members: Sequence[Any], element: Any) -> Run:
    """One run of all members. To append to a run costs the same however long it is."""
    members = list(members)
    if members and isinstance(members[0], Run) and members[0].is_whole:
        lists, count = members[0].lists, members[0].count
        members = members[1:]
    else:
        lists, count = tuple(_empty(hole) for hole in merging.holes(element)), tf.constant(0, tf.int64)
    if has_run(members):
        return _stacked_anew(ev, [Run(element, lists, count), *members], element)
    for member in members:
        values = merging.tensors(ev, element, member)
        lists = tuple(map(_pushed, lists, values))
    return Run(element, lists, count + len(members))


def _pushed(handle: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=value)


def _empty(hole: merging.Hole) -> tf.Tensor:
    """A TensorList of nothing; members may have any shape."""
    return tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=hole.dtype)


def _stacked_anew(ev: Evaluator, members: list[Any], element: Any) -> Run:
    """One run of several, whose members must have one shape."""
    columns: list[list[tf.Tensor]] = [[] for _ in merging.holes(element)]
    count = tf.constant(0, tf.int64)
    for member in members:
        if isinstance(member, Run):
            rows = stacks(ev, alike(ev, member))
            count += member.count
        else:
            rows = [value[tf.newaxis] for value in merging.tensors(ev, element, member)]
            count += 1
        for column, value in zip(columns, rows, strict=True):
            column.append(value)
    return Run(element, tuple(_list_of(tf.concat(column, 0)) for column in columns), count)


def _list_of(tensor: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.TensorListFromTensor(tensor=tensor, element_shape=tf.shape(tensor)[1:])


def of_tensor(tensor: tf.Tensor) -> Run:
    """The rows of a tensor."""
    element = merging.Hole(tensor.dtype, tensor.shape[1:], False)
    return Run(element, (_list_of(tensor),), tf.shape(tensor, tf.int64)[0])


def stacks(ev: Evaluator, run: Run) -> list[tf.Tensor]:
    """For each hole the values of all members, as rows of a tensor."""
    return [_stack(ev, run, *pair) for pair in zip(merging.holes(run.element), run.lists, strict=True)]


def alike(ev: Evaluator, run: Run) -> Run:
    """The run if all members are sure to have one shape, so that rows of a tensor can hold them."""
    if not all(hole.shape.is_fully_defined() for hole in merging.holes(run.element)):
        raise refuse(ev, "members of different shapes in a list of which only the graph knows the length")
    return run


def _stack(ev: Evaluator, run: Run, hole: merging.Hole, handle: tf.Tensor) -> tf.Tensor:
    if hole.shape.rank is None:
        raise refuse(ev, "tensors of unknown rank in a list that varies in length")
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


def member(run: Run, number: tf.Tensor) -> Any:
    """The member of a number that is in range, int64."""
    place = tf.cast(_place(run, number), tf.int32)
    values = [
        tf.raw_ops.TensorListGetItem(
            input_handle=handle, index=place, element_shape=_dims(hole.shape), element_dtype=hole.dtype
        )
        for hole, handle in zip(merging.holes(run.element), run.lists, strict=True)
    ]
    return merging.filled(run.element, iter(values))


def _view(run: Run) -> tuple[tf.Tensor, tf.Tensor]:
    if run.backwards:
        return run.count - 1, tf.constant(-1, tf.int64)
    return run.view or (tf.constant(0, tf.int64), tf.constant(1, tf.int64))


def _place(run: Run, number: tf.Tensor) -> tf.Tensor:
    first, step = _view(run)
    return number if run.is_whole else first + step * number


def part(run: Run, first: tf.Tensor, step: int, count: tf.Tensor) -> Run:
    """Every `step`-th member from one on."""
    begin, stride = _view(run)
    return Run(run.element, run.lists, count, (begin + stride * first, stride * step))


def backwards(run: Run) -> Run:
    """The same members from the last to the first."""
    if run.view is None:
        return dataclasses.replace(run, backwards=not run.backwards)
    return part(run, run.count - 1, -1, run.count)


def reverse(members: list[Any]) -> None:
    """`reverse` of a list."""
    members[:] = [backwards(m) if isinstance(m, Run) else m for m in reversed(members)]


# Lists.


def whole(ev: Evaluator, members: Sequence[Any]) -> Run:
    """All members of a list as one run."""
    if len(members) == 1 and isinstance(members[0], Run):
        return members[0]
    return joined(ev, members, template(ev, members).element)


def length(members: Sequence[Any]) -> Residual:
    """`len` of a list."""
    return Residual("", tensor=how_many(members), late=True, limit=LONGEST)


def rows(ev: Evaluator, members: Sequence[Any]) -> Rows:
    """The members for a loop in the graph, which must not change the list."""
    run = whole(ev, members)
    return Rows(run.count, lambda number: member(run, number), sources=((members, tuple(members)),))


def check_sources(ev: Evaluator, rows: Rows) -> None:
    """That no list has changed while a loop went through it."""
    for members, before in rows.sources:
        if len(members) != len(before) or any(a is not b for a, b in zip(members, before, strict=True)):
            raise refuse(ev, "a list changes while a loop goes through it")


def pieces(ev: Evaluator, iterable: Any) -> list[Any]:
    """All members of something, with runs for those of which only the graph knows how many there are."""
    members = inside(ev, iterable)
    if members is not None:
        return list(members)
    if isinstance(iterable, tf.Tensor) and iterable.shape.rank and iterable.shape[0] is None:
        return [of_tensor(iterable)]
    if isinstance(iterable, Rows) or isinstance(iterable, Iteration) and isinstance(iterable.members, Rows):
        found = trips.rows(ev, iterable)
        assert found is not None
        return loops.collected(ev, found)
    return containers.iterate(ev, iterable)


def item(ev: Evaluator, members: Any, index: Any) -> Any:
    """`members[index]` of a list with runs."""
    if isinstance(index, slice):
        return _slice(ev, members, index)
    if isinstance(index, int) and not isinstance(index, bool):
        place = _known_place(members, index)
        if place is not None:
            return members[place]
    run = whole(ev, members)
    return member(run, _in_range(ev, run, index))


def _assume(ev: Evaluator, condition: tf.Tensor, what: str) -> None:
    """That something does not raise. Where that may be caught, both ways would be needed."""
    if ev.handlers:
        raise refuse(ev, f"a tensor decides whether {what}")
    ev.assert_in_graph(condition, ev.noted("raises", what))


def _in_range(ev: Evaluator, run: Run, index: Any) -> tf.Tensor:
    """The number of a member, by Python's rules."""
    number = _integer(ev, index)
    number = tf.where(number < 0, number + run.count, number)
    there = tf.logical_and(number >= 0, number < run.count)
    _assume(ev, there, "the index is in range")
    return number


def set_item(ev: Evaluator, members: Any, index: Any, value: Any) -> None:
    """`members[index] = value` of a list with runs."""
    if isinstance(index, slice) or not isinstance(members, list):
        raise refuse(ev, "a part of a list is set of which only the graph knows the length")
    run = whole(ev, members)
    element = template(ev, members, [value]).element
    place = tf.cast(_place(run, _in_range(ev, run, index)), tf.int32)
    values = merging.tensors(ev, element, value)
    lists = tuple(  # not `TensorListSetItem`, which fills an empty place: gradients do not come to what was there
        tf.raw_ops.TensorListScatterIntoExistingList(
            input_handle=handle, tensor=item[tf.newaxis], indices=place[tf.newaxis]
        )
        for handle, item in zip(run.lists, values, strict=True)
    )
    members[:] = [dataclasses.replace(run, element=element, lists=lists)]


def _known_place(members: Sequence[Any], index: int) -> int | None:
    """Where a member is that no run is before, or after."""
    ends = members[: index + 1] if index >= 0 else members[index:]
    return None if has_run(ends) or not -len(members) <= index < len(members) else index


def _integer(ev: Evaluator, index: Any) -> tf.Tensor:
    tensor = residuals.as_tensor(ev, index) if isinstance(index, Residual) else index
    if isinstance(tensor, int):
        return tf.constant(int(tensor), tf.int64)
    if isinstance(tensor, tf.Tensor) and tensor.dtype.is_integer and tensor.shape.num_elements() == 1:
        return tf.reshape(tf.cast(tensor, tf.int64), [])
    raise refuse(ev, "an index that is no integer")


def _slice(ev: Evaluator, members: Any, index: slice) -> Any:
    """A slice, by Python's rules for what is out of range."""
    if (index.start, index.stop, index.step) == (None, None, None):
        return members[:]
    stride = 1 if index.step is None else ev.concrete(index.step)
    if not isinstance(stride, int) or stride == 0:
        raise refuse(ev, "a slice whose step is no integer")
    ends = [None if end is None else _integer(ev, end) for end in (index.start, index.stop)]
    run = whole(ev, members)
    if ends == [None, None] and stride == -1:
        return type(members)([backwards(run)])
    lowest, highest = tf.constant(0, tf.int64), run.count
    if stride < 0:
        lowest, highest = lowest - 1, highest - 1

    def within(end: tf.Tensor | None, default: tf.Tensor) -> tf.Tensor:
        if end is None:
            return default
        return tf.where(end < 0, tf.maximum(end + run.count, lowest), tf.minimum(end, highest))

    first, last = (lowest, highest) if stride > 0 else (highest, lowest)
    start, stop = within(ends[0], first), within(ends[1], last)
    count = tf.maximum((stop - start + stride - (1 if stride > 0 else -1)) // stride, 0)
    return type(members)([part(run, start, stride, count)])


def pop(ev: Evaluator, members: list[Any], arguments: list[Any]) -> Any:
    """`pop` of the last member, or of the first."""
    index = arguments[0] if arguments else -1
    if not isinstance(index, int) or index not in (0, -1):
        raise refuse(ev, "pop of a member in the middle")
    run = members[index]
    if not isinstance(run, Run):
        return members.pop(index)
    if len(members) > 1:  # the next run may have it
        run = whole(ev, members)
    _assume(ev, run.count > 0, "there is a member")
    rest = tf.maximum(run.count - 1, 0)
    members[:] = [part(run, tf.constant(0 if index else 1, tf.int64), 1, rest)]
    return member(run, rest if index else tf.constant(0, tf.int64))


def applied(ev: Evaluator, members: list[Any], name: str, arguments: list[Any]) -> Any:
    """A method of a list with runs."""
    if name == "reverse":
        return reverse(members)
    if name == "pop":
        return pop(ev, members, arguments)
    first = arguments[0] if arguments else None
    is_known = name == "insert" and isinstance(first, int) and first >= 0 and not has_run(members[:first])
    if is_known or name in ("append", "clear", "copy"):
        return getattr(members, name)(*arguments)
    raise refuse(ev, f"{name} of a list of which only the graph knows the length")


def packed(ev: Evaluator, members: Sequence[Any], dtype: tf.DType | None = None) -> tf.Tensor:
    """What TensorFlow makes of a list of tensors or numbers that is not empty: its members as rows."""
    run = whole(ev, members)
    hole = run.element
    if not isinstance(hole, merging.Hole) or hole.is_array:
        raise refuse(ev, "a tensor is made of a list of other things")
    if not any(not isinstance(m, Run) for m in members):
        _assume(ev, run.count > 0, "the list has members")
    (rows,) = stacks(ev, run)
    return _numbers(ev, rows, dtype) if hole.is_number else rows


def _numbers(ev: Evaluator, rows: tf.Tensor, dtype: tf.DType | None) -> tf.Tensor:
    """Numbers of Python's in the dtype that TensorFlow gives them, or in another one that can hold them."""
    wanted = dtype or {tf.float64: tf.float32, tf.int64: tf.int32}.get(rows.dtype, rows.dtype)
    if rows.dtype.is_integer and wanted.is_integer:
        fits = tf.reduce_all(tf.logical_and(rows >= wanted.min, rows <= wanted.max))
        _assume(ev, fits, f"all numbers are within {wanted.name}")
    elif rows.dtype == tf.bool and wanted != tf.bool or not wanted.is_floating:
        return rows
    return tf.cast(rows, wanted)


def total(ev: Evaluator, rows: Rows, start: Any) -> Any:
    """`sum`: members are added one after the other. That there is one is assumed where that decides about the type."""
    if not is_symbolic(start):
        ev.assert_in_graph(rows.count > 0, ev.noted("path", "there is something to add up"))
        row = rows.row
        start = residuals.operate(ev, operator.add, [start, row(tf.constant(0, tf.int64))])
        rows = dataclasses.replace(rows, count=rows.count - 1, row=lambda number: row(number + 1))
    with state.held(ev, [start], ev.here) as held:

        def add(member: Any) -> None:
            held[0] = residuals.operate(ev, operator.add, [held[0], member])

        if not loops.each(ev, rows, add):
            raise refuse(ev, "a sum that does not fit into the graph")
    return held[0]


def concatenated(ev: Evaluator, members: Sequence[Any]) -> tf.Tensor:
    """The tensors of a list that is not empty, one after the other along their first axis, which may differ."""
    run = whole(ev, members)
    hole = run.element
    if not run.is_whole:
        if hole.shape[0] is None:
            raise refuse(ev, "tensors of different lengths are joined backwards, or some of them")
        rows = packed(ev, members)
        return tf.reshape(rows, tf.concat([[-1], tf.shape(rows)[2:]], 0))
    _assume(ev, run.count > 0, "the list has members")
    made = tf.raw_ops.TensorListConcatV2(
        input_handle=run.lists[0],
        element_shape=_dims(tf.TensorShape([None]).concatenate(hole.shape[1:])),
        leading_dims=tf.constant([], tf.int64),
        element_dtype=hole.dtype,
    ).tensor
    made.set_shape(tf.TensorShape([None]).concatenate(hole.shape[1:]))
    return made


def members(element: Any, count: tf.Tensor, *columns: tf.Tensor) -> list[Any]:
    """The members of a run, once the graph has run: from the rows for each hole."""
    taken = [_taken(*pair) for pair in zip(merging.holes(element), columns, strict=True)]
    if not taken:
        return [element] * int(count)
    return [_member_of(element, iter(values)) for values in zip(*taken, strict=True)]


def _taken(hole: merging.Hole, column: tf.Tensor) -> Sequence[Any]:
    if hole.is_number:
        return column.numpy().tolist()
    return [row.copy() for row in column.numpy()] if hole.is_array else tf.unstack(column)


def _member_of(element: Any, values: Iterator[Any]) -> Any:
    if isinstance(element, merging.Hole):
        return next(values)
    if isinstance(element, tuple):
        parts = [_member_of(p, values) for p in element]
        return element._make(parts) if hasattr(element, "_make") else tuple(parts)
    return element
