"""The program of the batched engine: what `print` shows of it, and the numbers that the kernels read.

The C++ counterpart, with the meaning of events and groups, is `cc/core/batch_plan.h`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

VERSION = 3
BLOCK, CALL, PACK, UNPACK, IS_EMPTY, JOIN, WAIT = range(7)
PLAIN, LOOP, MAP = range(3)
NO_SELECTOR, BOOL, INDEX = range(3)
SUM_KINDS = ("dense", "outer", "rows")
# How a block reads a captured tensor: as it is or, a matrix, packed for products with rows.
RAW, PACKED, PACKED_TRANSPOSED = range(3)


@dataclasses.dataclass
class Block:
    """Operations that run together, once for all rows.

    Attributes:
        name: of its function in the library.
        operations: what it runs, for people.
        captures: (slot of the environment, form) of what it reads from there, after the slots of its node.
        shared: per slot that its node writes, whether all rows share one value.
        sums: (kind, slot of the environment, number of its first output).
        by_row: why it runs once for every row, or "".
        has_effect: whether running it a second time would be seen.
        ragged: whether rows may differ in shape.
        work: multiplications in the matrix products of one row.
        priority: blocks with a smaller number can lead to rows for those with a larger one, not the other way round.
        repeats: whether it can lead to rows for itself.
    """

    name: str
    operations: list[str]
    captures: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    shared: list[bool] = dataclasses.field(default_factory=list)
    sums: list[tuple[str, int, int]] = dataclasses.field(default_factory=list)
    by_row: str = ""
    has_effect: bool = False
    ragged: bool = False
    work: int = 0
    priority: int = 0
    repeats: bool = False


@dataclasses.dataclass
class PlanNode:
    """A step of a function: it runs when all events that it waits for were fired.

    Attributes:
        kind: one of the constants of this module.
        reads: slots; a call's selector first.
        writes: slots, -1 for a result that nobody reads.
        pending: how many events it waits for.
        event: the first event that it fires.
        block: of a block.
        targets: of a call, names of functions.
        selector: how a call picks its target.
        site: a call's label, "" for branches and loops.
        indices: which values of a frame are unpacked.
    """

    kind: int
    reads: list[int]
    writes: list[int]
    pending: int = 0
    event: int = -1
    block: Block | None = None
    targets: list[str] = dataclasses.field(default_factory=list)
    selector: int = NO_SELECTOR
    site: str = ""
    indices: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class MapResult:
    """A result of a map: a frame, or a tensor of this dtype and, without rows, shape (unknown dimensions 0)."""

    is_frame: bool
    dtype: int
    shape: list[int]


@dataclasses.dataclass
class PlannedFunction:
    """Nodes over numbered slots; the first slots are the arguments.

    Attributes:
        events: per event, the nodes that wait for it and the groups of results that it makes known.
        has_effects: whether others may see when it runs; then one machine runs all rows of a call from outside.
        is_linear: of a gradient, whether it is linear in the gradients that it is given: calls for one frame are one.
    """

    name: str
    arguments: int
    slots: int
    results: list[int]
    groups: list[list[int]]
    events: list[tuple[list[int], list[int]]]
    nodes: list[PlanNode]
    kind: int = PLAIN
    map_results: list[MapResult] = dataclasses.field(default_factory=list)
    has_effects: bool = False
    is_linear: bool = False


@dataclasses.dataclass
class Plan:
    """All functions of a program."""

    functions: list[PlannedFunction]

    @property
    def blocks(self) -> list[Block]:
        """The blocks of all functions, as they are numbered."""
        return [node.block for function in self.functions for node in function.nodes if node.block is not None]

    def encode(self) -> tuple[list[int], list[str]]:
        """The numbers and strings that `DecodePlan` reads."""
        return _Encoder(self).encode()

    def __str__(self) -> str:
        return "\n".join(line for function in self.functions for line in _listing(function))


class _Encoder:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.code: list[int] = []
        self.strings: list[str] = []
        self.labels = [""]
        self.number = {function.name: i for i, function in enumerate(plan.functions)}
        self.block_number = {id(block): i for i, block in enumerate(plan.blocks)}

    def encode(self) -> tuple[list[int], list[str]]:
        for function in self.plan.functions:
            self.labels += [n.site for n in function.nodes if n.site and n.site not in self.labels]
        self.add(VERSION, len(self.plan.functions), len(self.plan.blocks), len(self.labels))
        for text in [*self.number, *self.labels]:
            self.add_string(text)
        for function in self.plan.functions:
            self.add_function(function)
        for i, function in enumerate(self.plan.functions):
            for j, node in enumerate(function.nodes):
                if node.block is not None:
                    self.add_block(i, j, node.block)
        return self.code, self.strings

    def add(self, *numbers: int) -> None:
        self.code.extend(int(number) for number in numbers)

    def add_list(self, numbers: Iterable[int]) -> None:
        numbers = list(numbers)
        self.add(len(numbers), *numbers)

    def add_string(self, text: str) -> None:
        self.add(len(self.strings))
        self.strings.append(text)

    def add_function(self, function: PlannedFunction) -> None:
        facts = function.has_effects + 2 * function.is_linear
        self.add(function.kind, function.arguments, function.slots, facts)
        self.add_list(function.results)
        self.add(len(function.groups))
        for group in function.groups:
            self.add_list(group)
        self.add(len(function.events))
        for consumers, groups in function.events:
            self.add_list(consumers)
            self.add_list(groups)
        self.add(len(function.nodes))
        for node in function.nodes:
            self.add_node(node)
        for result in function.map_results:
            self.add(result.is_frame, result.dtype)
            self.add_list(result.shape)

    def add_node(self, node: PlanNode) -> None:
        self.add(node.kind, node.pending)
        self.add_list(node.reads)
        self.add_list(node.writes)
        self.add(node.event)
        if node.kind == BLOCK:
            self.add(self.block_number[id(node.block)])
        elif node.kind == CALL:
            self.add(node.selector, self.labels.index(node.site))
            self.add_list(self.number[target] for target in node.targets)
        elif node.kind == UNPACK:
            self.add_list(node.indices)

    def add_block(self, function: int, node: int, block: Block) -> None:
        self.add(function, node, block.priority, bool(block.by_row), block.has_effect, block.ragged, block.work)
        self.add_list(number for capture in block.captures for number in capture)
        self.add_list(block.shared)
        self.add_list(number for kind, slot, output in block.sums for number in (SUM_KINDS.index(kind), slot, output))
        self.add_string(block.name)


_VERBS = {PACK: "pack", UNPACK: "unpack", IS_EMPTY: "is empty", JOIN: "join", WAIT: "wait"}


def _listing(function: PlannedFunction) -> Iterable[str]:
    arguments = _slots(range(function.arguments))
    yield f"{function.name}({arguments}) -> {_slots(function.results)}"
    if function.kind == LOOP:
        yield f"    while {function.nodes[0].targets[0]}: {function.nodes[1].targets[0]}"
        return
    if function.kind == MAP:
        yield f"    for every row: {function.nodes[0].targets[0]}"
        return
    for node in function.nodes:
        yield f"    {_slots(node.writes) or '-'} = {_what(node)}"


def _what(node: PlanNode) -> str:
    if node.kind == CALL:
        if node.selector == NO_SELECTOR:
            return f"call {node.targets[0]}({_slots(node.reads)})"
        return f"pick by %{node.reads[0]} of [{', '.join(node.targets)}] ({_slots(node.reads[1:])})"
    if node.block is None:
        return f"{_VERBS[node.kind]}({_slots(node.reads)})"
    block = node.block
    how = f" row by row, {block.by_row}" if block.by_row else ""
    sums = "".join(f", adds to sum {slot} ({kind})" for kind, slot, _ in block.sums)
    return f"block {block.priority}({_slots(node.reads)}): {counted(block.operations)}{sums}{how}"


def counted(operations: Sequence[str]) -> str:
    """The operations, those of a kind as one with their number."""
    counts = {name: operations.count(name) for name in dict.fromkeys(operations)}
    return " ".join(name if count == 1 else f"{count}x{name}" for name, count in counts.items())


def _slots(slots: Iterable[int]) -> str:
    return ", ".join("_" if slot < 0 else f"%{slot}" for slot in slots)
