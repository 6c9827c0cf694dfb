"""Lists whose length only the graph knows: what a loop or branch of the graph has appended is a *run* of members.

A list stays a Python list while a call is converted, so that all who have it see it change. A `Run` in it stands for as
many members as the graph says, which are alike: values flow into the same holes of one template, from one TensorList a
hole. Runs never change; what moves members (`+`, `extend`, slices) moves runs, and what looks at members does so in the
graph. Where it cannot, the loops and branches that made the runs are unrolled and assumed, as they are without this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recgraph.speculate.machine.evaluator import UNROLL, Evaluator
from recgraph.speculate.script.assumptions import NoException
from recgraph.speculate.script.contexts import Catching
from recgraph.speculate.script.symbolic import DynamicValue, IterationSpace, ListSegment, has_run, how_many
from recgraph.speculate.values import merging
from recgraph.speculate.values.merging import SpecLeaf, TreeSpec

# No list is longer.
LONGEST = 1 << 40


def of_tensor(tensor: tf.Tensor) -> ListSegment:
    """The rows of a tensor."""
    element = SpecLeaf(tensor.dtype, tensor.shape[1:], False)
    return ListSegment(element, (merging.list_of(tensor),), tf.shape(tensor, tf.int64)[0])


def member(run: ListSegment, number: tf.Tensor) -> Any:
    """The member of a number that is in range, int64."""
    place = tf.cast(_place(run, number), tf.int32)
    values = [
        tf.raw_ops.TensorListGetItem(
            input_handle=handle, index=place, element_shape=merging.dims(hole.shape), element_dtype=hole.dtype
        )
        for hole, handle in zip(run.element.holes(), run.lists, strict=True)
    ]
    return run.element.filled(iter(values))


def _view(run: ListSegment) -> tuple[tf.Tensor, tf.Tensor]:
    if run.backwards:
        return run.count - 1, tf.constant(-1, tf.int64)
    return run.view or (tf.constant(0, tf.int64), tf.constant(1, tf.int64))


def _place(run: ListSegment, number: tf.Tensor) -> tf.Tensor:
    first, step = _view(run)
    return number if run.is_whole else first + step * number


def part(run: ListSegment, first: tf.Tensor, step: int, count: tf.Tensor) -> ListSegment:
    """Every `step`-th member from one on."""
    begin, stride = _view(run)
    return ListSegment(run.element, run.lists, count, (begin + stride * first, stride * step))


def backwards(run: ListSegment) -> ListSegment:
    """Returns the same members from the last to the first."""
    if run.view is None:
        return dataclasses.replace(run, backwards=not run.backwards)
    return part(run, run.count - 1, -1, run.count)


def reverse(members: list[Any]) -> None:
    """`reverse` of a list."""
    members[:] = [backwards(m) if isinstance(m, ListSegment) else m for m in reversed(members)]


def expanded(ev: Evaluator, members: list[Any], count: int) -> list[Any]:
    """The members of a list that is one run, of which it is known how many they are. It stays a run where they are too
    many: what goes through them is to be a loop of the graph, too.
    """
    run = members[0]
    if ev.is_rolled or count > UNROLL or not all(hole.shape.is_fully_defined() for hole in run.element.holes()):
        return members
    columns = [tf.unstack(rows, num=count) for rows in merging.stacks(ev, run)]
    return [run.element.filled(column[i] for column in columns) for i in range(count)]


def whole(ev: Evaluator, members: Sequence[Any]) -> ListSegment:
    """All members of a list as one run."""
    if len(members) == 1 and isinstance(members[0], ListSegment):
        return members[0]
    return merging.joined(ev, members, merging.list_template(ev, members).member)


def length(members: Sequence[Any]) -> DynamicValue:
    """`len` of a list."""
    return DynamicValue("", tensor=how_many(members), late=True, limit=LONGEST)


def rows(ev: Evaluator, members: Sequence[Any]) -> IterationSpace:
    """The members for a loop in the graph, which must not change the list."""
    run = whole(ev, members)
    return IterationSpace(run.count, lambda number: member(run, number), sources=((members, tuple(members)),))


def check_sources(ev: Evaluator, rows: IterationSpace) -> None:
    """Checks that no list has changed while a loop went through it."""
    for members, before in rows.sources:
        if len(members) != len(before) or any(a is not b for a, b in zip(members, before, strict=True)):
            raise ev.refuse_runs("a list changes while a loop iterates over it")


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


def assume(ev: Evaluator, condition: tf.Tensor, what: str) -> None:
    """Checks that something does not raise. Where that may be caught, both ways would be needed."""
    if ev.inside(Catching):
        raise ev.refuse_runs(f"a tensor decides whether {what}")
    ev.assert_in_graph(condition, ev.noted(NoException, what))


def _in_range(ev: Evaluator, run: ListSegment, index: Any) -> tf.Tensor:
    """The number of a member, by Python's rules."""
    number = _integer(ev, index)
    number = tf.where(number < 0, number + run.count, number)
    there = tf.logical_and(number >= 0, number < run.count)
    assume(ev, there, "the index is in range")
    return number


def set_item(ev: Evaluator, members: Any, index: Any, value: Any) -> None:
    """`members[index] = value` of a list with runs."""
    if isinstance(index, slice) or not isinstance(members, list):
        raise ev.refuse_runs("a slice is assigned in a list whose length only the graph knows")
    run = whole(ev, members)
    element = merging.list_template(ev, members, [value]).member
    place = tf.cast(_place(run, _in_range(ev, run, index)), tf.int32)
    values = element.tensors(ev, value)
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
    tensor = ev.tensor(index) if isinstance(index, DynamicValue) else index
    if isinstance(tensor, int):
        return tf.constant(int(tensor), tf.int64)
    if isinstance(tensor, tf.Tensor) and tensor.dtype.is_integer and tensor.shape.num_elements() == 1:
        return tf.reshape(tf.cast(tensor, tf.int64), [])
    raise ev.refuse_runs("a list index must be an integer")


def _slice(ev: Evaluator, members: Any, index: slice) -> Any:
    """A slice, by Python's rules for what is out of range."""
    if (index.start, index.stop, index.step) == (None, None, None):
        return members[:]
    stride = 1 if index.step is None else ev.concrete(index.step)
    if not isinstance(stride, int) or stride == 0:
        raise ev.refuse_runs("the step of a slice must be a nonzero integer")
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
        raise ev.refuse_runs("pop() of a member that is neither the first nor the last")
    run = members[index]
    if not isinstance(run, ListSegment):
        return members.pop(index)
    if len(members) > 1:  # the next run may have it
        run = whole(ev, members)
    assume(ev, run.count > 0, "there is a member")
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
    raise ev.refuse_runs(f"{name} of a list of which only the graph knows the length")


def packed(ev: Evaluator, members: Sequence[Any], dtype: tf.DType | None = None) -> tf.Tensor:
    """What TensorFlow makes of a list of tensors or numbers that is not empty: its members as rows."""
    run = whole(ev, members)
    hole = run.element
    if not isinstance(hole, SpecLeaf) or hole.is_array:
        raise ev.refuse_runs("a tensor is made of a list that holds something else than tensors or numbers")
    if not any(not isinstance(m, ListSegment) for m in members):
        assume(ev, run.count > 0, "the list has members")
    (rows,) = merging.stacks(ev, run)
    return _numbers(ev, rows, dtype) if hole.is_number else rows


def _numbers(ev: Evaluator, rows: tf.Tensor, dtype: tf.DType | None) -> tf.Tensor:
    """Numbers of Python's in the dtype that TensorFlow gives them, or in another one that can hold them."""
    wanted = dtype or {tf.float64: tf.float32, tf.int64: tf.int32}.get(rows.dtype, rows.dtype)
    if rows.dtype.is_integer and wanted.is_integer:
        fits = tf.reduce_all(tf.logical_and(rows >= wanted.min, rows <= wanted.max))
        assume(ev, fits, f"all numbers are within {wanted.name}")
    elif rows.dtype == tf.bool and wanted != tf.bool or not wanted.is_floating:
        return rows
    return tf.cast(rows, wanted)


def concatenated(ev: Evaluator, members: Sequence[Any]) -> tf.Tensor:
    """The tensors of a list that is not empty, one after the other along their first axis, which may differ."""
    run = whole(ev, members)
    hole = run.element
    if not run.is_whole:
        if hole.shape[0] is None:
            raise ev.refuse_runs("tf.concat() of a reversed or sliced list of tensors of different lengths")
        rows = packed(ev, members)
        return tf.reshape(rows, tf.concat([[-1], tf.shape(rows)[2:]], 0))
    assume(ev, run.count > 0, "the list has members")
    made = tf.raw_ops.TensorListConcatV2(
        input_handle=run.lists[0],
        element_shape=merging.dims(tf.TensorShape([None]).concatenate(hole.shape[1:])),
        leading_dims=tf.constant([], tf.int64),
        element_dtype=hole.dtype,
    ).tensor
    made.set_shape(tf.TensorShape([None]).concatenate(hole.shape[1:]))
    return made


def members(element: TreeSpec, count: tf.Tensor, *columns: tf.Tensor) -> list[Any]:
    """The members of a run, once the graph has run: from the rows for each hole."""
    taken = [_taken(*pair) for pair in zip(element.holes(), columns, strict=True)]
    if not taken:
        return [element.filled(iter(()))] * int(count)
    return [element.filled(iter(values), plain=True) for values in zip(*taken, strict=True)]


def _taken(hole: SpecLeaf, column: tf.Tensor) -> Sequence[Any]:
    if hole.is_number:
        return column.numpy().tolist()
    return [row.copy() for row in column.numpy()] if hole.is_array else tf.unstack(column)
