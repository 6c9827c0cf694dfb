"""What is known of a call before it runs: which blocks are run, and in which arenas their values lie.

All values of one dtype and shape are rows of one arena. Its row 0 is zeros; then come the rows of the forward call's
arena (for a gradient), of arguments, of what decides the structure, and of what the blocks compute, in the order in
which they run (`cc/core/level_tables.cc`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recgraph import native, tf_private
from recgraph.batch.compiler import Batched
from recgraph.core import program
from recgraph.errors import Unbatchable

_UNKNOWN, _KNOWN, _RUN = -1, 0, 1  # see Recgraph>PlanStages
Spec = tuple[tf.DType, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Group:
    """Blocks that can lead to rows for each other.

    Attributes:
        blocks: their numbers in the plan.
        repeats: whether a block of it can lead to rows for the group again.
    """

    blocks: tuple[int, ...]
    repeats: bool


@dataclasses.dataclass(frozen=True, eq=False)
class LevelLayout:
    """One function of a program: what runs, and where its values lie.

    Attributes:
        kind: "", "rec" or "grad".
        traced: the operations of all blocks of the plan.
        specs: dtype and shape of the rows of each class of arenas.
        of_blocks: by block, the class of each value that it writes; -1 of what only decides the structure.
        arguments: the class of each argument; -1 of a frame, and of what only decides the structure.
        known: (block, value) of what decides the structure, computed when that is discovered.
        blocks: the blocks that are run, in the plan's order.
        shared: (block, value) of what is one value for all rows.
        groups: the blocks that are run, those that lead to rows for others first.
        results: class of each result; none of a frame.
    """

    kind: str
    traced: Sequence[Any]
    specs: tuple[Spec, ...]
    of_blocks: list[list[int]]
    arguments: list[int]
    known: list[tuple[int, int]]
    blocks: list[int]
    shared: set[tuple[int, int]]
    groups: list[Group]
    results: list[int]

    def reads(self, block: int) -> list[int]:
        """The class of each value that a block reads."""
        return [self.specs.index((t.dtype, tuple(t.shape[1:].as_list()))) for t in self.traced[block].inputs]

    @property
    def tables(self) -> int:
        """How many tables there are."""
        return sum(len(self.traced[block].inputs) for block in self.blocks) + len(self.groups) + len(self.results)


class LevelProgram:
    """The layouts of a linked program.

    Attributes:
        linked: the program.
        layouts: by kind.
        slots: of the environment, those that are read when the structure is known.
        functions: the two steps of its eager calls, by label and whether they are of rows.
    """

    def __init__(self, linked: program.Program) -> None:
        """
        Args:
            linked: a program whose plan has kept the operations of its blocks.

        Raises:
            Unbatchable: values decide what is called, or a value has rows of unknown size.
        """
        if linked.plan is None:
            raise linked.unbatchable or Unbatchable(f"SubGraph '{linked.entry}'")
        assert isinstance(linked.plan, Batched)
        assert linked.subgraph is not None
        if any(member.gradient == "recompute" for member in program.reachable(linked.subgraph)):
            raise Unbatchable("gradient='recompute' in levels, which keep all values,")
        self.linked = linked
        self._plan, self._traced, self._blocks = linked.plan, linked.plan.traced, linked.plan.plan.blocks
        given = {"": _specs_of(linked.subgraph.placeholders)}
        made = {"": _specs_of(tf.nest.flatten(linked.subgraph.outputs))}
        if linked.contract is not None:
            given |= {"rec": given[""], "grad": [made[""][i] for i in linked.contract.seeds]}
            made |= {"rec": made[""], "grad": [given[""][i] for i in linked.contract.targets]}
        stages = {kind: self._stages(kind) for kind in given}
        specs = self._needed(stages, made)
        of_blocks = [[_class_of(_spec(rows.spec, 0), specs) for rows in block.outputs] for block in self._traced]
        self.layouts: dict[str, LevelLayout] = {}
        self.functions: dict[tuple[str, bool], Any] = {}
        for kind in given:
            arguments = [_class_of(spec, specs) for spec in given[kind]]
            results = [_class_of(spec, specs) for spec in made[kind]]
            self.layouts[kind] = self._layout(kind, stages[kind], tuple(specs), of_blocks, arguments, results)
        run = {block for layout in self.layouts.values() for block in layout.blocks}
        self.slots = sorted({slot for block in run for slot in self._traced[block].captures})

    def _stages(self, kind: str) -> list[int]:
        """What a call of a function makes of each block."""
        carrier = self._plan.carrier()
        name = self.linked.entry + (f".{kind}" if kind else "")
        with tf_private.eagerly():
            stages, reason = native.ops().recgraph_plan_stages(
                list(carrier.attr["code"].list.i), list(carrier.attr["strings"].list.s), name
            )
        if reason.numpy():
            raise Unbatchable(f"a call of SubGraph '{self.linked.entry}' ({reason.numpy().decode()})")
        return [int(stage) for stage in stages.numpy()]

    def _needed(self, stages: dict[str, list[int]], made: dict[str, list[Spec | None]]) -> dict[Spec, int]:
        """The classes of all rows that are read or given: what only decides the structure is in no arena."""
        found: dict[Spec, int] = {}
        wanted = [(spec, f"a result of SubGraph '{self.linked.entry}'") for specs in made.values() for spec in specs]
        for of in stages.values():
            for block, stage, traced in zip(self._blocks, of, self._traced, strict=True):
                if stage == _RUN:
                    wanted += [(_spec(tensor, 1), f"a value that {block.name} reads") for tensor in traced.inputs]
                    wanted += [(_spec(rows.spec, 0), f"a value of {block.name}") for rows in traced.outputs]
        for spec, what in wanted:
            if spec is None:
                raise Unbatchable(f"{what}, which has rows of unknown size or is no number,")
            found.setdefault(spec, len(found))
        return found

    def _layout(
        self,
        kind: str,
        stages: list[int],
        specs: tuple[Spec, ...],
        of_blocks: list[list[int]],
        arguments: list[int],
        results: list[int],
    ) -> LevelLayout:
        known = [
            (b, w) for b, stage in enumerate(stages) if stage == _KNOWN for w, of in enumerate(of_blocks[b]) if of >= 0
        ]
        blocks = [b for b, stage in enumerate(stages) if stage == _RUN]
        shared = {(b, w) for b, block in enumerate(self._blocks) for w, is_one in enumerate(block.shared) if is_one}
        by_priority: dict[int, list[int]] = {}
        for b in blocks:
            by_priority.setdefault(self._blocks[b].priority, []).append(b)
        groups = [
            Group(tuple(members), any(self._blocks[b].repeats for b in members))
            for _, members in sorted(by_priority.items())
        ]
        of_arguments = [-1, *arguments] if kind == "grad" else arguments
        return LevelLayout(kind, self._traced, specs, of_blocks, of_arguments, known, blocks, shared, groups, results)


def _class_of(spec: Spec | None, classes: dict[Spec, int]) -> int:
    return -1 if spec is None else classes.get(spec, -1)


def _specs_of(tensors: Sequence[Any]) -> list[Spec | None]:
    return [_spec(tensor, 0) for tensor in tensors]


def _spec(tensor: Any, rows: int) -> Spec | None:
    """Dtype and shape, without so many dimensions; None where rows of it cannot lie in an arena."""
    if tensor.shape.rank is None or tensor.dtype in (tf.variant, tf.resource, tf.string):
        return None
    shape = tensor.shape[rows:]
    return (tensor.dtype, tuple(shape.as_list())) if shape.is_fully_defined() else None
