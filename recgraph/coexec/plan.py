"""A trace graph laid out for the two runners: the slots by which they meet, and what is said in each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from recgraph.coexec.cases import Level, assign_cases
from recgraph.coexec.trace import From, Origin
from recgraph.coexec.trace_graph import END, START, Node, TraceGraph

NONE = -1


@dataclasses.dataclass(frozen=True)
class PlannedInput:
    """One input of a node.

    Attributes:
        select: the slot that says which source it is, or NONE if there is only one.
        sources: where it may come from.
        slots: the slot of each source that is a feed, else NONE.
    """

    select: int
    sources: tuple[Origin, ...]
    slots: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class PlannedNode:
    """A node with its place: the level, and which case of that it is in.

    Attributes:
        is_sync: whether Python waits for the outputs.
        fetches: the slot of each output, or NONE.
    """

    node: Node
    level: int
    way: int
    is_sync: bool
    inputs: tuple[PlannedInput, ...]
    fetches: tuple[int, ...]
    follow: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that the graph and its walker have to agree upon.

    Attributes:
        selects: for each level the slot that says which case, or NONE.
        commit: the slot that says that the step is over, or NONE if it changes no variable.
        resources: the variables that are used.
        written: those that are changed.
    """

    nodes: tuple[PlannedNode, ...]
    levels: tuple[Level, ...]
    selects: tuple[int, ...]
    first: tuple[int, ...]
    commit: int
    slots: int
    resources: tuple[int, ...]
    written: frozenset[int]

    def described(self, function: bytes, config: bytes) -> tuple[Any, ...]:
        """The tuples that cc/python/plan_reader.cc reads."""
        levels = tuple((slot, len(level.blocks)) for slot, level in zip(self.selects, self.levels, strict=True))
        nodes = tuple(_described(node) for node in self.nodes)
        return function, config, self.resources, self.slots, self.commit, levels, nodes, self.first


def _described(node: PlannedNode) -> tuple[Any, ...]:
    inputs = tuple(
        (
            given.select,
            tuple(
                (
                    int(source.origin),
                    slot if source.origin is From.FEED else source.number,
                    source.output,
                    source.dtype,
                    source.shape,
                    source.value,
                )
                for source, slot in zip(given.sources, given.slots, strict=True)
            ),
        )
        for given in node.inputs
    )
    place = (node.level, node.way, int(node.is_sync))
    return node.node.signature, node.node.location, *place, inputs, node.fetches, node.follow


def make_plan(
    graph: TraceGraph, is_write: Callable[[int], bool], may_fail: Callable[[int], bool], may_wait: bool = True
) -> Plan:
    """Lays out a trace graph.

    Args:
        graph: what the steps did.
        is_write: whether an operation with this signature changes the variables that it is given.
        may_fail: whether it can have an error.
        may_wait: whether Python waits for what can.
    """
    counter = iter(range(2**31))
    levels = assign_cases(graph)
    place = {n: (i, way) for i, level in enumerate(levels) for way, block in enumerate(level.blocks) for n in block}
    selects = tuple(next(counter) if level.is_switch else NONE for level in levels)
    count = len(graph.nodes)
    nodes = []
    for number, node in enumerate(graph.nodes):
        is_sync = node.is_open or (may_wait and may_fail(node.signature))
        fetches = tuple(next(counter) if is_sync or i in node.fetched else NONE for i in range(node.outputs))
        inputs = tuple(_planned(sources, counter) for sources in node.inputs)
        follow = tuple(count if after == END else after for after in graph.successors(number))
        nodes.append(PlannedNode(node, *place[number], is_sync, inputs, fetches, follow))
    written = {r for node in graph.nodes if is_write(node.signature) for r in node.resources if r >= 0}
    resources = {r for node in graph.nodes for r in node.resources if r >= 0}
    first = tuple(count if after == END else after for after in graph.successors(START))
    commit = next(counter) if written else NONE
    return Plan(
        tuple(nodes), levels, selects, first, commit, next(counter), tuple(sorted(resources)), frozenset(written)
    )


def _planned(sources: tuple[Origin, ...], counter: Iterator[int]) -> PlannedInput:
    select = next(counter) if len(sources) > 1 else NONE
    slots = tuple(next(counter) if source.origin is From.FEED else NONE for source in sources)
    return PlannedInput(select, sources, slots)
