"""The tables of one call, and how ranges of rows are read and written with them.

Plain, a step has as many rows as there are. For XLA all sizes are static: a step has `width` rows, of which the last
ones may be nobody's; what they write is written again later, or lies behind what is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from recgraph import native, tf_private
from recgraph.core import invoke
from recgraph.levels.layout import LevelLayout, LevelProgram


@dataclasses.dataclass(frozen=True, eq=False)
class LevelTables:
    """What `Recgraph>LevelTables` gives, by its parts.

    Attributes:
        layout: of the function.
        width: rows of a step; 0 where each has as many as there are.
        reads: by block that runs, of each value that it reads, rows of an arena.
        steps: of each group, `[steps, columns]`: which block, its first row, how many, where each result is written.
        results: of each result, its row of each root.
        counts: how many steps each group has.
        row_counts: by block that runs, how many rows it has.
        sizes: of each class, how many rows its arena has.
        rooms: of each class, a tensor as long as its arena.
        values: of what decides the structure, rows.
    """

    layout: LevelLayout
    width: int
    reads: dict[int, list[tf.Tensor]]
    steps: list[tf.Tensor]
    results: list[tf.Tensor]
    counts: list[tf.Tensor]
    row_counts: dict[int, tf.Tensor]
    sizes: list[tf.Tensor]
    rooms: list[tf.Tensor]
    values: list[tf.Tensor]

    def size(self, number: int) -> tf.Tensor:
        """Of the arena of a class; where it is padded, the size of a tensor, which XLA knows when it compiles."""
        return tf.shape(self.rooms[number])[0] if self.width else self.sizes[number]

    def rows_of(self, block: int) -> tf.Tensor:
        """How many rows there is room for of a block that contributes to sums."""
        return tf.shape(self.reads[block][0])[0] if self.width else self.row_counts[block]

    def range(self, table: tf.Tensor, first: tf.Tensor, count: Any) -> tf.Tensor:
        """Rows of a table: those of a step, or so many."""
        rank = table.shape.rank
        if not self.width:
            return tf.slice(table, [first, *[0] * (rank - 1)], [count, *[-1] * (rank - 1)])
        size = count if isinstance(count, int) else self.width
        sizes = tf.constant([size, *table.shape[1:].as_list()])
        return _added("XlaDynamicSlice", [table, tf.stack([first, *[0] * (rank - 1)]), sizes])

    def write(self, arena: tf.Tensor, first: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """An arena with rows from `first` on replaced."""
        rest = [0] * (arena.shape.rank - 1)
        if self.width:
            made = _added("XlaDynamicUpdateSlice", [arena, values, tf.stack([first, *rest])])
        else:
            # TensorStridedSliceUpdate goes element by element, TensorScatterUpdate copies the arena.
            places = tf.range(first, first + tf.shape(values)[0])
            made = tf.raw_ops.InplaceUpdate(x=arena, i=places, v=values)
        made.set_shape(arena.shape)
        return made

    def without_padding(self, values: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """Zeros in place of the rows from `count` on, which are nobody's."""
        if not self.width:
            return values
        is_row = tf.range(tf.shape(values)[0]) < count
        return tf.where(tf.reshape(is_row, [-1, *[1] * (values.shape.rank - 1)]), values, tf.zeros([], values.dtype))


def _added(kind: str, inputs: list[tf.Tensor]) -> tf.Tensor:
    attributes = {"T": tf.compat.v1.AttrValue(type=inputs[0].dtype.as_datatype_enum)}
    attributes["Tindices"] = tf.compat.v1.AttrValue(type=tf.int32.as_datatype_enum)
    return tf_private.add_operation(kind, inputs, attributes, kind).outputs[0]


class LevelParts(NamedTuple):
    """What `Recgraph>LevelTables` gives, but for the frame: a nest that functions take and return.

    Attributes:
        tables: reads of all blocks, steps of all groups, rows of all results.
        facts: how many there are.
        rooms: of each class.
        values: what decides the structure.
    """

    tables: tuple[tf.Tensor, ...] = ()
    facts: tuple[tf.Tensor, ...] = ()
    rooms: tuple[tf.Tensor, ...] = ()
    values: tuple[tf.Tensor, ...] = ()


def added(
    program: LevelProgram,
    kind: str,
    args: list[tf.Tensor],
    captures: list[tf.Tensor],
    label: str,
    rows: bool,
    width: int = 0,
    least: Sequence[int] = (),
) -> tuple[LevelParts, tf.Tensor]:
    """Adds the operation that discovers a call, or runs it.

    Args:
        program: what is called.
        kind: "", "rec" or "grad"; for the last `args` is the frame of the forward call alone.
        args: the arguments.
        captures: the environment, as of Recgraph>Invoke.
        label: of the call site.
        rows: whether it is a call of `map`.
        width: see `LevelTables`.
        least: where it is not 0, the least sizes of all tables, arenas and known values.

    Returns:
        What was discovered, and the frame for the gradient.
    """
    linked, layout = program.linked, program.layouts[kind]
    assert linked.slots is not None
    assert linked.subgraph is not None
    seeds = [layout.specs[of] for of in layout.arguments[1:]] if kind == "grad" else []
    operations = native.ops()
    add = operations.recgraph_level_gradient_tables if kind == "grad" else operations.recgraph_level_tables
    made = add(
        args=args,
        captures=captures,
        least=tf.constant(least, tf.int64, [len(least)]),
        entry=linked.entry,
        key=linked.key,
        program=linked.library,
        site=label,
        map=rows,
        record=kind == "rec",
        max_depth=linked.subgraph.max_depth,
        reads=linked.slots.reads if kind != "grad" else [],
        block_classes=[of for of_block in layout.of_blocks for of in of_block],
        argument_classes=layout.arguments,
        width=width,
        padded=bool(width),
        Tvalues=[layout.specs[layout.of_blocks[b][w]][0] for b, w in layout.known],
        value_shapes=[layout.specs[layout.of_blocks[b][w]][1] for b, w in layout.known],
        seed_types=[dtype for dtype, _ in seeds],
        seed_shapes=[shape for _, shape in seeds],
        N=layout.tables,
        K=len(layout.specs),
    )
    if kind != "grad" and not tf_private.executing_eagerly():
        invoke.set_read_only(made.frame.op, len(args), linked.slots)
    return LevelParts(tuple(made.tables), (made.facts,), tuple(made.rooms), tuple(made.values)), made.frame


def tables_of(layout: LevelLayout, width: int, parts: LevelParts) -> LevelTables:
    """What was discovered, by its parts."""
    rest = iter(parts.tables)
    reads = {block: [_ranked(next(rest), 1) for _ in layout.traced[block].inputs] for block in layout.blocks}
    steps = [_ranked(next(rest), 2, 3 + _most_results(layout, group.blocks)) for group in layout.groups]
    results = [_ranked(next(rest), 1) for _ in layout.results]
    numbers = tf.unstack(parts.facts[0], num=len(layout.groups) + len(layout.blocks) + len(layout.specs))
    counts, numbers = numbers[: len(layout.groups)], numbers[len(layout.groups) :]
    row_counts = dict(zip(layout.blocks, numbers, strict=False))
    sizes = numbers[len(layout.blocks) :]
    return LevelTables(
        layout, width, reads, steps, results, counts, row_counts, sizes, list(parts.rooms), list(parts.values)
    )


def _most_results(layout: LevelLayout, blocks: tuple[int, ...]) -> int:
    return max(len(layout.of_blocks[block]) for block in blocks)


def _ranked(table: tf.Tensor, rank: int, columns: int | None = None) -> tf.Tensor:
    table.set_shape([*table.shape[:1], columns] if table.shape.rank == rank == 2 else [None, columns][:rank])
    return table
