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
class Way:
    """From one node to another.

    Attributes:
        node: where it goes; the number of nodes stands for the end.
        messages: what the graph is told, as pairs of slot and number.
    """

    node: int
    messages: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class PlannedNode:
    """A node with what may come after it.

    Attributes:
        is_sync: whether Python waits for the outputs.
        fetches: the slot of each output, or NONE.
    """

    node: Node
    is_sync: bool
    inputs: tuple[PlannedInput, ...]
    fetches: tuple[int, ...]
    follow: tuple[Way, ...]


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
    first: tuple[Way, ...]
    commit: int
    slots: int
    resources: tuple[int, ...]
    written: frozenset[int]

    def described(self, function: bytes, config: bytes) -> tuple[Any, ...]:
        """The tuples that cc/python/plan_reader.cc reads."""
        nodes = tuple(_described(node) for node in self.nodes)
        first = _described_ways(self.first)
        return function, config, self.resources, self.slots, self.commit, nodes, first


def _described_ways(ways: tuple[Way, ...]) -> tuple[Any, ...]:
    return tuple((way.node, way.messages) for way in ways)


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
    follow = _described_ways(node.follow)
    return node.node.signature, node.node.location, int(node.is_sync), inputs, node.fetches, follow


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
    selects = tuple(next(counter) if level.is_switch else NONE for level in levels)
    directions = _Directions(graph, levels, selects)
    nodes = []
    for number, node in enumerate(graph.nodes):
        is_sync = node.is_open or (may_wait and may_fail(node.signature))
        fetches = tuple(next(counter) if is_sync or i in node.fetched else NONE for i in range(node.outputs))
        inputs = tuple(_planned(sources, counter) for sources in node.inputs)
        nodes.append(PlannedNode(node, is_sync, inputs, fetches, directions.ways(number)))
    written = {r for node in graph.nodes if is_write(node.signature) for r in node.resources if r >= 0}
    resources = {r for node in graph.nodes for r in node.resources if r >= 0}
    commit = next(counter) if written else NONE
    return Plan(
        tuple(nodes),
        levels,
        selects,
        directions.ways(START),
        commit,
        next(counter),
        tuple(sorted(resources)),
        frozenset(written),
    )


def _planned(sources: tuple[Origin, ...], counter: Iterator[int]) -> PlannedInput:
    select = next(counter) if len(sources) > 1 else NONE
    slots = tuple(next(counter) if source.origin is From.FEED else NONE for source in sources)
    return PlannedInput(select, sources, slots)


class _Directions:
    """What the graph has to be told on the way from one node to another: the cases of the levels in between."""

    def __init__(self, graph: TraceGraph, levels: tuple[Level, ...], selects: tuple[int, ...]) -> None:
        self.graph, self.levels, self.selects = graph, levels, selects
        places = (
            (i, way, n) for i, level in enumerate(levels) for way, block in enumerate(level.blocks) for n in block
        )
        self.place = {n: (i, way) for i, way, n in places}
        self.place[START] = -1, 0
        self.place[END] = len(levels), 0

    def ways(self, node: int) -> tuple[Way, ...]:
        """Everything that may come after a node, or START."""
        count = len(self.graph.nodes)
        return tuple(
            Way(count if after == END else after, self._messages(node, after)) for after in self.graph.successors(node)
        )

    def _messages(self, node: int, after: int) -> tuple[tuple[int, int], ...]:
        """Levels that are passed by get the case after their last; that of the next node, the one it is in."""
        here, (there, way) = self.place[node][0], self.place[after]
        told = [(self.selects[i], len(self.levels[i].blocks)) for i in range(here + 1, there)]
        if there > here and there < len(self.levels):
            told.append((self.selects[there], way))
        return tuple((slot, value) for slot, value in told if slot != NONE)
