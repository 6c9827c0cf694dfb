"""Runs the blocks of a call level by level, in operations of TensorFlow alone.

Each group of blocks that can lead to rows for each other is one loop over its steps; a step gathers the rows that a
block reads, runs the block's operations for them, and writes what they give as one range of an arena.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.levels.layout import Group, LevelLayout
from recgraph.levels.tables import LevelTables


@dataclasses.dataclass
class LevelTotal:
    """What the blocks have contributed to one sum.

    Attributes:
        kind: "dense", "outer" or "rows".
        slot: of the environment.
        tensors: the sum; of "rows" the indices and the rows.
    """

    kind: str
    slot: int
    tensors: list[tf.Tensor]


class LevelExecution:
    """One call under construction."""

    def __init__(
        self,
        layout: LevelLayout,
        tables: LevelTables,
        captures: Mapping[int, tf.Tensor],
        arguments: Sequence[tf.Tensor],
        before: Sequence[tf.Tensor] | None,
        rows: bool,
    ) -> None:
        """
        Args:
            layout: of the function.
            tables: of the call.
            captures: by slot of the environment; values in place of the handles of variables.
            arguments: those that are no frames.
            before: the forward call's arenas, for a gradient.
            rows: whether the arguments are rows, one for each root.
        """
        self.layout, self.tables, self.captures = layout, tables, captures
        self.arenas = [self._arena(number, arguments, before, rows) for number in range(len(layout.specs))]
        self.totals: list[LevelTotal] = []

    def run(self) -> None:
        """Runs all blocks."""
        for number, group in enumerate(self.layout.groups):
            _GroupRun(self, number, group).run()

    def results(self, rows: bool) -> list[tf.Tensor]:
        """What the roots give."""
        found = []
        for number, of in enumerate(self.layout.results):
            values = tf.gather(self.arenas[of], self.tables.results[number])
            found.append(values if rows else values[0])
        return found

    def _arena(
        self, number: int, arguments: Sequence[tf.Tensor], before: Sequence[tf.Tensor] | None, rows: bool
    ) -> tf.Tensor:
        """The arena of a class, with what comes from outside."""
        layout, (dtype, shape) = self.layout, self.layout.specs[number]
        parts = [tf.zeros([1, *shape], dtype)] if before is None else [before[number]]
        classes = layout.arguments[1:] if layout.kind == "grad" else layout.arguments
        for of, value in zip(classes, arguments, strict=True):
            if of == number:
                parts.append(value if rows else value[None])
        values = dict(zip(layout.known, self.tables.values, strict=True))
        for block, of_block in enumerate(layout.of_blocks):
            for w, of in enumerate(of_block):
                if of != number:
                    continue
                if (block, w) in values:
                    parts.append(values[block, w])
                elif (block, w) in layout.shared and block in layout.blocks:
                    parts.append(tf.zeros([1, *shape], dtype))
        size = self.tables.size(number)
        if not self.tables.width:
            return self._written_in_place(size, parts, shape, dtype)
        imported = tf.add_n([tf.shape(part)[0] for part in parts])
        made = tf.concat([*parts, self.empty(size - imported, shape, dtype)], 0)
        made.set_shape([None, *shape])
        return made

    def _written_in_place(
        self, size: tf.Tensor, parts: list[tf.Tensor], shape: Sequence[int], dtype: tf.DType
    ) -> tf.Tensor:
        """The parts at the beginning of an arena: without a copy of what is not there yet."""
        made, first = self.empty(size, shape, dtype), tf.constant(0)
        for part in parts:
            count = tf.shape(part)[0]
            made = self.tables.write(made, first, part)
            first += count
        return made

    def empty(self, rows: Any, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
        """Room for so many rows, that nobody else has: rows are written in place."""
        size = tf.concat([tf.reshape(rows, [1]), tf.constant(shape, tf.int32)], 0)
        made = tf.raw_ops.Empty(shape=size, dtype=dtype, init=bool(self.tables.width))
        made.set_shape([None, *shape])
        return made


class _GroupRun:
    """The steps of one group."""

    def __init__(self, execution: LevelExecution, number: int, group: Group) -> None:
        self.execution, self.layout, self.tables = execution, execution.layout, execution.tables
        self.group, self.steps, self.count = group, execution.tables.steps[number], execution.tables.counts[number]
        traced = [self.layout.traced[block] for block in group.blocks]
        written = {of for block in group.blocks for of in self.layout.of_blocks[block]}
        self.written = sorted(written)
        # (member, contribution, part) -> what the steps carry along for it
        self.carried: dict[tuple[int, int, int], tf.Tensor] = {}
        for member, block in enumerate(traced):
            for c, (kind, _, values) in enumerate(block.contributions):
                for part, value in enumerate(values):
                    self.carried[member, c, part] = self._carried(group.blocks[member], kind, value)

    def _carried(self, block: int, kind: str, value: Any) -> tf.Tensor:
        if not value.shape.is_fully_defined():
            raise AssertionError(f"a contribution of unknown shape {value.shape}")
        if kind == "dense":
            return tf.zeros(value.shape, _wide(value.tensor.dtype))
        rows = self.tables.rows_of(block)
        return self.execution.empty(rows, value.shape.as_list(), value.tensor.dtype)

    def run(self) -> None:
        arenas = [self.execution.arenas[of] for of in self.written]
        state = [*arenas, *self.carried.values()]
        if not self.group.repeats and not self.tables.width:
            step = tf.reduce_sum(self.steps, 0)  # one at most
            state = self._step(step, state)
        else:
            shapes = [tensor.shape for tensor in state]
            _, *state = tf.while_loop(
                lambda i, *_: i < self.count,
                lambda i, *state: [i + 1, *self._step(self._row(i), list(state))],
                [tf.constant(0), *state],
                shape_invariants=[tf.TensorShape([]), *shapes],
                parallel_iterations=1,
            )
        for of, arena in zip(self.written, state, strict=False):
            self.execution.arenas[of] = arena
        carried = dict(zip(self.carried, state[len(self.written) :], strict=True))
        for member, block in enumerate(self.group.blocks):
            for c, (kind, slot, values) in enumerate(self.layout.traced[block].contributions):
                parts = [carried[member, c, part] for part in range(len(values))]
                self.execution.totals.append(LevelTotal(kind, slot, self._total(kind, block, parts)))

    def _row(self, i: tf.Tensor) -> tf.Tensor:
        return self.tables.range(self.steps, i, 1)[0]

    def _step(self, step: tf.Tensor, state: list[tf.Tensor]) -> list[tf.Tensor]:
        columns = tf.unstack(step, num=self.steps.shape[1])
        if len(self.group.blocks) == 1:
            return self._member(0, columns, state)
        branches = [
            lambda member=member: self._member(member, columns, state) for member in range(len(self.group.blocks))
        ]
        return list(tf.switch_case(columns[0], branches))

    def _member(self, member: int, columns: list[tf.Tensor], state: list[tf.Tensor]) -> list[tf.Tensor]:
        """One block, for the rows of a step."""
        layout, tables = self.layout, self.tables
        block = self.group.blocks[member]
        traced, first, count = layout.traced[block], columns[1], columns[2]
        arenas = list(self.execution.arenas)
        for of, arena in zip(self.written, state, strict=False):
            arenas[of] = arena
        carried = dict(zip(self.carried, state[len(self.written) :], strict=True))
        inputs = []
        for r, of in enumerate(layout.reads(block)):
            rows = tf.gather(arenas[of], tables.range(tables.reads[block][r], first, count))
            inputs.append(rows)
        copy = _Copy(traced, inputs, self.execution.captures)
        outputs = [copy.of(rows.tensor) for rows in traced.outputs]
        contributions = [[copy.of(value.tensor) for value in values] for _, _, values in traced.contributions]
        for w, (rows, value) in enumerate(zip(traced.outputs, outputs, strict=True)):
            of = layout.of_blocks[block][w]
            arenas[of] = tables.write(arenas[of], columns[3 + w], value if rows.has_rows else value[None])
        for c, (kind, _, values) in enumerate(traced.contributions):
            for part, (value, tensor) in enumerate(zip(values, contributions[c], strict=True)):
                key = member, c, part
                carried[key] = self._contribute(kind, carried[key], first, count, value.has_rows, tensor)
        return [*(arenas[of] for of in self.written), *carried.values()]

    def _contribute(
        self, kind: str, so_far: tf.Tensor, first: tf.Tensor, count: tf.Tensor, has_rows: bool, value: tf.Tensor
    ) -> tf.Tensor:
        if kind == "dense":
            value = tf.cast(value, so_far.dtype)
            if not has_rows:
                return so_far + value * tf.cast(count, value.dtype)
            return so_far + tf.reduce_sum(self.tables.without_padding(value, count), 0)
        if not has_rows:
            size = self.tables.width or count
            value = tf.broadcast_to(value, tf.concat([[size], tf.shape(value)], 0))
        return self.tables.write(so_far, first, value)

    def _total(self, kind: str, block: int, parts: list[tf.Tensor]) -> list[tf.Tensor]:
        """The sum, of what the steps have carried along."""
        if kind == "dense":
            return parts
        count = self.tables.row_counts[block]
        if kind == "outer":
            a, b = (_merged(part) for part in (self.tables.without_padding(parts[0], count), parts[1]))
            return [tf.matmul(a, b, transpose_a=True)]
        return [_merged(self.tables.without_padding(part, count)) for part in parts]


def _merged(rows: tf.Tensor) -> tf.Tensor:
    """`[rows, m, ...]` as `[rows * m, ...]`."""
    return tf.reshape(rows, [-1, *rows.shape[2:]])


def _wide(dtype: tf.DType) -> tf.DType:
    return tf.float32 if dtype in (tf.float16, tf.bfloat16) else dtype


class _Copy:
    """A block's operations, copied into the current graph for given inputs."""

    def __init__(self, traced: Any, inputs: Sequence[tf.Tensor], captures: Mapping[int, tf.Tensor]) -> None:
        self._made: dict[int, tf.Tensor] = {id(old): new for old, new in zip(traced.inputs, inputs, strict=True)}
        self._made.update((id(old), captures[slot]) for slot, old in traced.captures.items())
        self._traced = traced

    def of(self, tensor: tf.Tensor) -> tf.Tensor:
        """What a tensor of the block is here."""
        stack = [tensor]
        while stack:
            op = stack[-1].op
            if id(stack[-1]) in self._made:
                stack.pop()
                continue
            missing = [source for source in op.inputs if id(source) not in self._made]
            stack += missing
            if not missing:
                self._copy(op)
        return self._made[id(tensor)]

    def _copy(self, op: tf.Operation) -> None:
        inputs = [self._made[id(source)] for source in op.inputs]
        outputs = self._of_variable(op, inputs)
        if outputs is None:
            attributes = {key: value for key, value in op.node_def.attr.items() if not key.startswith("_")}
            made = tf_private.add_operation(op.type, inputs, attributes, op.name)
            outputs = list(made.outputs)
            for old, new in zip(op.outputs, outputs, strict=True):
                with contextlib.suppress(ValueError):
                    new.set_shape(old.shape)
        self._made.update((id(old), new) for old, new in zip(op.outputs, outputs, strict=True))

    @staticmethod
    def _of_variable(op: tf.Operation, inputs: list[tf.Tensor]) -> list[tf.Tensor] | None:
        """What an operation on a variable gives, whose value stands in for its handle."""
        if not inputs or op.inputs[0].dtype != tf.resource or inputs[0].dtype == tf.resource:
            return None
        if op.type == "ReadVariableOp":
            return [inputs[0]]
        if op.type == "ResourceGather":
            return [tf.gather(inputs[0], inputs[1], batch_dims=op.get_attr("batch_dims"))]
        if op.type == "ResourceGatherNd":
            return [tf.gather_nd(inputs[0], inputs[1])]
        raise AssertionError(f"{op.type} of a variable")
