"""A trace graph laid out for the two runners: the slots by which they meet, and what is said in each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

from recgraph.coexec.cases import assign_cases
from recgraph.coexec.deferring import deferred_writes
from recgraph.coexec.directions import NONE, Direction, Directions, PlannedScope
from recgraph.coexec.trace import From, Origin
from recgraph.coexec.trace_graph import START, TraceGraph, TraceNode

# Which threads do the work of a graph: whichever turn out to be better, one, or all of TensorFlow's.
Threads = Literal["tried", "one", "all"]


@dataclasses.dataclass(frozen=True)
class PlannedInput:
    """One input of a node.

    Attributes:
        select: the slot that says which source it is, or NONE if there is only one.
        sources: where it may come from.
        slots: for each source the slot of a feed, or that which says when a value of the past was made; else NONE.
    """

    select: int
    sources: tuple[Origin, ...]
    slots: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class PlannedNode:
    """A node with what may come after it.

    Attributes:
        is_sync: whether Python waits for the outputs if it does not know by itself what it has to.
        fetches: the slot of each output, or NONE; of its end, if Python waits and there is no output.
        kept: for each output where all that it ever was is kept, or NONE.
    """

    node: TraceNode
    is_sync: bool
    inputs: tuple[PlannedInput, ...]
    fetches: tuple[int, ...]
    kept: tuple[int, ...]
    follow: tuple[Direction, ...]


@dataclasses.dataclass(frozen=True)
class StepPlan:
    """Everything that the graph and its walker have to agree upon.

    Attributes:
        nodes: the operations by number.
        scopes: the step, by START, and the loops by number.
        first: what a step may begin with.
        commit: the slot that says that the step is over, or NONE if it changes no variable.
        kept: how many outputs there are of which all values are kept.
        resources: the variables that are used.
        written: the variables that the graph changes.
        shadowed: those that it changes while the step is not over, on copies.
        deferred: the operations that change others, when it is.
    """

    nodes: Mapping[int, PlannedNode]
    scopes: Mapping[int, PlannedScope]
    first: tuple[Direction, ...]
    commit: int
    slots: int
    kept: int
    resources: tuple[int, ...]
    written: frozenset[int]
    shadowed: frozenset[int]
    deferred: frozenset[int]

    @property
    def switches(self) -> int:
        """How many there are."""
        return sum(level.is_switch for scope in self.scopes.values() for level in scope.levels)

    def described(
        self, function: bytes, config: bytes, is_lazy: bool = False, threads: Threads = "tried"
    ) -> tuple[Any, ...]:
        """The tuples that cc/python/plan_reader.cc reads. Nodes have other numbers there, without gaps."""
        numbers = {number: i for i, number in enumerate(self.nodes)}
        nodes = tuple(_described(node, numbers) for node in self.nodes.values())
        first = _described_ways(self.first, numbers)
        how = int(is_lazy), get_args(Threads).index(threads)
        head = (function, config, *how, self.resources, tuple(sorted(self.written)))
        return *head, self.slots, self.kept, self.commit, nodes, first


def _described_ways(ways: tuple[Direction, ...], numbers: Mapping[int, int]) -> tuple[Any, ...]:
    return tuple((numbers.get(way.node, len(numbers)), way.messages) for way in ways)


def _described(node: PlannedNode, numbers: Mapping[int, int]) -> tuple[Any, ...]:
    inputs = tuple(
        (
            given.select,
            tuple(_described_source(s, slot, numbers) for s, slot in zip(given.sources, given.slots, strict=True)),
        )
        for given in node.inputs
    )
    follow = _described_ways(node.follow, numbers)
    return node.node.signature, node.node.location, int(node.is_sync), inputs, node.fetches, follow


def _described_source(source: Origin, slot: int, numbers: Mapping[int, int]) -> tuple[Any, ...]:
    number = numbers[source.number] if source.origin in (From.OPERATION, From.HISTORY) else source.number
    return int(source.origin), number, slot, source.output, source.dtype, source.shape, source.value


def make_plan(
    graph: TraceGraph,
    is_write: Callable[[int], bool],
    may_fail: Callable[[int], bool],
    may_be_deferred: Callable[[int], bool] = lambda _: False,
    may_wait: bool = True,
) -> StepPlan:
    """Lays out a trace graph.

    Args:
        graph: what the steps did.
        is_write: whether an operation with this signature changes the variables that it is given.
        may_fail: whether it can have an error.
        may_be_deferred: whether a write can be done when nothing may fail any more.
        may_wait: whether Python waits for what can.
    """
    counter = iter(range(2**31))
    scopes = {scope: _planned_scope(graph, scope, counter) for scope in graph.first}
    directions = Directions(graph, scopes)
    kept = _kept(graph)
    nodes = {}
    for number, node in graph.nodes.items():
        is_sync = node.is_open or (may_wait and may_fail(node.signature))
        is_awaited = is_sync and not node.is_foreseen
        outputs = range(max(node.outputs, int(is_sync)))
        nodes[number] = PlannedNode(
            node,
            is_sync,
            tuple(_planned(sources, counter) for sources in node.inputs),
            tuple(next(counter) if is_awaited or i in node.fetched else NONE for i in outputs),
            tuple(kept.get((number, i), NONE) for i in range(node.outputs)),
            directions.after(number),
        )
    written = {number: node.resources for number, node in graph.nodes.items() if is_write(node.signature)}
    deferred = deferred_writes(graph.nodes, scopes, is_write, may_be_deferred)
    shadowed = {r for number, used in written.items() if number not in deferred for r in used if r >= 0}
    resources = {r for node in graph.nodes.values() for r in node.resources if r >= 0}
    commit = next(counter) if written else NONE
    return StepPlan(
        nodes,
        scopes,
        directions.after(START),
        commit,
        next(counter),
        len(kept),
        tuple(sorted(resources)),
        frozenset(r for used in written.values() for r in used if r >= 0),
        frozenset(shadowed),
        deferred,
    )


def _planned_scope(graph: TraceGraph, scope: int, counter: Iterator[int]) -> PlannedScope:
    levels = assign_cases(graph, scope)
    selects = tuple(next(counter) if level.is_switch else NONE for level in levels)
    return PlannedScope(levels, selects, NONE if scope == START else next(counter))


def _kept(graph: TraceGraph) -> dict[tuple[int, int], int]:
    """The outputs that are used when their operation has been done again since, numbered."""
    used = (o for node in graph.nodes.values() for origins in node.inputs for o in origins)
    keys = dict.fromkeys((o.number, o.output) for o in used if o.origin is From.HISTORY)
    return {key: i for i, key in enumerate(keys)}


def _planned(sources: tuple[Origin, ...], counter: Iterator[int]) -> PlannedInput:
    select = next(counter) if len(sources) > 1 else NONE
    told = (From.FEED, From.HISTORY)
    slots = tuple(next(counter) if source.origin in told else NONE for source in sources)
    return PlannedInput(select, sources, slots)
