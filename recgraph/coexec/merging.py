"""Merging traces: which operations of different steps are one node, and which loops are nodes."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable

from recgraph.coexec.loops import Items, Repeated, nested, trip_counts
from recgraph.coexec.trace import From, Operation, Origin, Trace
from recgraph.coexec.trace_graph import END, START, Item, Loop, TraceGraph, TraceNode, join_origins


@dataclasses.dataclass(frozen=True)
class Merged:
    """The traces that were merged, and their graph.

    A loop that took the same number of trips whenever it was come to is unrolled: its trips are parts of the path. One
    that did not is a node.

    Attributes:
        traces: those that added something.
        counts: the numbers of trips of each loop.
    """

    graph: TraceGraph = TraceGraph()
    traces: tuple[Trace, ...] = ()
    counts: frozenset[tuple[int, int]] = frozenset()

    @property
    def loops(self) -> frozenset[int]:
        """The loops whose trips varied."""
        different = collections.Counter(loop for loop, _ in self.counts)
        return frozenset(loop for loop, count in different.items() if count > 1)

    def merge(self, trace: Trace) -> Merged:
        """Returns the same with one more step. The same object if the step was a path of the graph already."""
        everything = {loop for op in trace.operations for loop, _ in op.trips}
        counts = self.counts | frozenset(trip_counts(nested([op.trips for op in trace.operations], everything)))
        merged = Merged(self.graph, (*self.traces, trace), counts)
        if merged.loops == self.loops:
            graph = _merge(self.graph, trace, self.loops)
            return self if graph is self.graph else dataclasses.replace(merged, graph=graph)
        graph = TraceGraph()
        for each in merged.traces:
            graph = _merge(graph, each, merged.loops)
        return dataclasses.replace(merged, graph=graph)


def _merge(graph: TraceGraph, trace: Trace, loops: frozenset[int]) -> TraceGraph:
    """A graph with one more trace, in which these loops are nodes."""
    merging = _Merging(graph, trace)
    merging.walk(nested([op.trips for op in trace.operations], loops), START)
    return merging.finished()


class _Merging:
    """A trace on its way through a copy of the graph."""

    def __init__(self, graph: TraceGraph, trace: Trace) -> None:
        self.graph, self.trace = graph, trace
        self.items = list(graph.items)
        self.scopes = list(graph.scopes)
        self.first = {scope: list(items) for scope, items in graph.first.items()}
        self.follow = [list(items) for items in graph.follow]
        self.path: dict[int, int] = {}  # the node of each operation of the trace
        self.last: dict[int, int] = {}  # the operation that was a node's last one
        self.candidates: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for number, item in enumerate(self.items):
            self.candidates.setdefault((self.scopes[number], item.key), []).append(number)
        self.depth = _depths(graph)
        self.preceding: list[list[int]] = [[] for _ in self.items]
        for number, after in enumerate(self.follow):
            for follower in after:
                if follower != END:
                    self.preceding[follower].append(number)

    def walk(self, items: Items, scope: int) -> None:
        """Takes the trace, or a trip of it, from the start of a scope to its end."""
        path = _Path(self, scope)
        for item in items:
            if isinstance(item, Repeated):
                number = path.go(Loop(item.loop), ())
                for trip in item.trips:
                    self.walk(trip, number)
            else:
                operation = self.trace.operations[item]
                inputs = tuple(self._translated(origin) for origin in operation.inputs)
                self.path[item] = path.go(_node(operation, inputs), inputs)
                self.last[self.path[item]] = item
        path.end()

    def _translated(self, origin: Origin) -> Origin:
        if origin.origin is not From.OPERATION:
            return origin
        node = self.path[origin.number]
        kind = From.OPERATION if self.last[node] == origin.number else From.HISTORY
        return dataclasses.replace(origin, origin=kind, number=node)

    def new(self, item: Item, scope: int, depth: int) -> int:
        """One more item of the graph."""
        number = len(self.items)
        self.items.append(item)
        self.scopes.append(scope)
        self.follow.append([])
        self.preceding.append([])
        self.depth.append(depth)
        self.candidates.setdefault((scope, item.key), []).append(number)
        if isinstance(item, Loop):
            self.first[number] = []
        return number

    def finished(self) -> TraceGraph:
        """The merged graph."""
        first = {scope: tuple(items) for scope, items in self.first.items()}
        follow = tuple(tuple(items) for items in self.follow)
        merged = TraceGraph(tuple(self.items), tuple(self.scopes), first, follow)
        return self.graph if merged == self.graph else merged


class _Path:
    """One way through a scope."""

    def __init__(self, merging: _Merging, scope: int) -> None:
        self.merging, self.scope = merging, scope
        self.here = START
        self._before: set[int] = set()  # everything that may come before `here`, which only grows along a path

    @property
    def _follow(self) -> list[int]:
        return self.merging.first[self.scope] if self.here == START else self.merging.follow[self.here]

    def go(self, item: Item, inputs: tuple[Origin, ...]) -> int:
        """Finds or makes the next item, goes there, and gives its number."""
        items = self.merging.items
        number = self._among_successors(item, inputs)
        if number is None:
            number = self._meeting(item)
        if number is None:
            number = self.merging.new(item, self.scope, 0 if self.here == START else self.merging.depth[self.here] + 1)
        else:
            items[number] = _joined(items[number], item)
        self._move(number)
        return number

    def end(self) -> None:
        """Goes to the end of the scope."""
        if END not in self._follow:
            self._follow.append(END)

    def _move(self, number: int) -> None:
        """Goes over an edge, which is made where there was none."""
        preceding = self.merging.preceding
        if number not in self._follow:
            self._follow.append(number)
            if self.here != START:
                preceding[number].append(self.here)
        waiting = [before for before in preceding[number] if before not in self._before]
        while waiting:
            before = waiting.pop()
            if before not in self._before:
                self._before.add(before)
                waiting += preceding[before]
        self.here = number

    def _among_successors(self, item: Item, inputs: tuple[Origin, ...]) -> int | None:
        """A successor that is the same; one that has had the same inputs, if there are several."""
        items = self.merging.items
        fitting = [number for number in self._follow if number != END and items[number].key == item.key]
        exact = [number for number in fitting if _has_had(items[number], inputs)]
        return next(iter(exact or fitting), None)

    def _meeting(self, item: Item) -> int | None:
        """The first item elsewhere that is the same and does not come before: there the branches meet."""
        same = self.merging.candidates.get((self.scope, item.key), [])
        candidates = [number for number in same if number != self.here and number not in self._before]
        return min(candidates, key=self.merging.depth.__getitem__, default=None)


def _depths(graph: TraceGraph) -> list[int]:
    """The length of the longest path to each item in its scope."""
    depth = [0] * len(graph.items)
    for scope in graph.first:
        for item in graph.sorted(scope):
            for after in graph.follow[item]:
                if after != END:
                    depth[after] = max(depth[after], depth[item] + 1)
    return depth


def _node(operation: Operation, inputs: Iterable[Origin]) -> TraceNode:
    return TraceNode(
        operation.signature,
        operation.location,
        tuple((origin,) for origin in inputs),
        operation.outputs,
        operation.fetched,
        operation.is_open,
        operation.is_foreseen,
    )


def _has_had(item: Item, inputs: tuple[Origin, ...]) -> bool:
    if isinstance(item, Loop):
        return True
    return all(origin in known for origin, known in zip(inputs, item.inputs, strict=True))


def _joined(one: Item, other: Item) -> Item:
    """An item that stands for both."""
    if isinstance(one, Loop) or isinstance(other, Loop):
        return one
    return dataclasses.replace(
        one,
        inputs=tuple(join_origins(a, b[0]) for a, b in zip(one.inputs, other.inputs, strict=True)),
        fetched=one.fetched | other.fetched,
        is_open=one.is_open or other.is_open,
        is_foreseen=one.is_foreseen and other.is_foreseen,
    )
