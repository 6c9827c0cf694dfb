"""The traces of several steps merged into one directed acyclic graph.

Every path from START to END is a possible step. The graph is immutable: merging gives a new one, and a step that adds
nothing gives the same one back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from recgraph.coexec.trace import From, Operation, Origin, Trace

START = -1
END = -2


@dataclasses.dataclass(frozen=True)
class Node:
    """An operation of some of the steps.

    Attributes:
        inputs: for each input all the places where it came from. The number of an OPERATION is that of a node.
        fetched: the outputs whose values Python needs.
    """

    signature: int
    location: int
    inputs: tuple[tuple[Origin, ...], ...]
    outputs: int
    fetched: frozenset[int]
    is_open: bool

    @property
    def resources(self) -> tuple[int, ...]:
        """The variables that it is given."""
        return _resources(origins[0] for origins in self.inputs)


def _resources(origins: Iterable[Origin]) -> tuple[int, ...]:
    return tuple(origin.number if origin.origin is From.RESOURCE else -1 for origin in origins)


@dataclasses.dataclass(frozen=True)
class TraceGraph:
    """Nodes in an order in which every edge goes forward, and what may follow each.

    Attributes:
        order: the numbers of the nodes, sorted topologically.
        follow: the successors of START and of each node, in the order in which they were seen; END is one of them.
    """

    nodes: tuple[Node, ...] = ()
    follow: tuple[tuple[int, tuple[int, ...]], ...] = ((START, ()),)

    def successors(self, node: int) -> tuple[int, ...]:
        """What may follow a node, or START."""
        return self.follow[node + 1][1]

    def depths(self) -> list[int]:
        """The length of the longest path to each node."""
        depth = [0] * len(self.nodes)
        for node in self.sorted():
            for after in self.successors(node):
                if after != END:
                    depth[after] = max(depth[after], depth[node] + 1)
        return depth

    def sorted(self) -> list[int]:
        """All nodes, each after everything that may come before it."""
        missing = [0] * len(self.nodes)
        for node in range(START, len(self.nodes)):
            for after in self.successors(node):
                if after != END:
                    missing[after] += 1
        order, ready = [], [START]
        while ready:
            node = ready.pop()
            order.append(node)
            for after in self.successors(node):
                if after != END:
                    missing[after] -= 1
                    if missing[after] == 0:
                        ready.append(after)
        return order[1:]

    def merge(self, trace: Trace) -> TraceGraph:
        """The graph with one more step. The same object if the step was a path of it already."""
        merging = _Merging(self)
        for operation in trace.operations:
            merging.add(operation)
        return merging.finished()

    def __str__(self) -> str:
        names = {END: "END"}
        lines = [f"START -> {', '.join(names.get(n, str(n)) for n in self.successors(START))}"]
        for number in self.sorted():
            node = self.nodes[number]
            after = ", ".join(names.get(n, str(n)) for n in self.successors(number))
            fetched = f" fetched {sorted(node.fetched)}" if node.fetched else ""
            lines.append(f"{number}: type {node.signature} at {node.location}{fetched} -> {after}")
        return "\n".join(lines)


class _Merging:
    """A trace on its way through a copy of the graph."""

    def __init__(self, graph: TraceGraph) -> None:
        self.graph = graph
        self.nodes = list(graph.nodes)
        self.follow = [list(after) for _, after in graph.follow]
        self.here = START
        self.path: list[int] = []  # the node of each operation of the trace
        self._candidates: dict[tuple[int, ...], list[int]] = {}
        for number, node in enumerate(self.nodes):
            self._candidates.setdefault(_key(node), []).append(number)
        self._depth = graph.depths()
        self._preceding: list[list[int]] = [[] for _ in self.nodes]
        for number, after in enumerate(self.follow):
            for node_after in after:
                if node_after != END and number + START != START:
                    self._preceding[node_after].append(number + START)
        self._before: set[int] = set()  # everything that may come before `here`, which only grows along a path

    def add(self, operation: Operation) -> None:
        """Finds or makes the node of the trace's next operation, and goes there."""
        inputs = tuple(self._translated(origin) for origin in operation.inputs)
        node = Node(
            operation.signature,
            operation.location,
            tuple((origin,) for origin in inputs),
            operation.outputs,
            operation.fetched,
            operation.is_open,
        )
        key = _key(node)
        number = self._among_successors(key, inputs)
        if number is None:
            number = self._meeting(key)
        if number is None:
            number = len(self.nodes)
            self.nodes.append(node)
            self.follow.append([])
            self._candidates.setdefault(key, []).append(number)
            self._depth.append(0 if self.here == START else self._depth[self.here] + 1)
            self._preceding.append([])
        else:
            self.nodes[number] = _joined(self.nodes[number], node)
        self._go(number)

    def _go(self, number: int) -> None:
        """Moves on, over an edge that is made where there was none."""
        if number not in self.follow[self.here + 1]:
            self.follow[self.here + 1].append(number)
            if self.here != START:
                self._preceding[number].append(self.here)
        waiting = [before for before in self._preceding[number] if before not in self._before]
        while waiting:
            before = waiting.pop()
            if before not in self._before:
                self._before.add(before)
                waiting += self._preceding[before]
        self.here = number
        self.path.append(number)

    def finished(self) -> TraceGraph:
        """The merged graph."""
        if END not in self.follow[self.here + 1]:
            self.follow[self.here + 1].append(END)
        follow = tuple((i + START, tuple(after)) for i, after in enumerate(self.follow))
        merged = TraceGraph(tuple(self.nodes), follow)
        return self.graph if merged == self.graph else merged

    def _translated(self, origin: Origin) -> Origin:
        if origin.origin is From.OPERATION:
            return dataclasses.replace(origin, number=self.path[origin.number])
        return origin

    def _among_successors(self, key: tuple[int, ...], inputs: tuple[Origin, ...]) -> int | None:
        """A successor that is the same operation; one that has had the same inputs, if there are several."""
        fitting = [n for n in self.follow[self.here + 1] if n != END and _key(self.nodes[n]) == key]
        exact = [n for n in fitting if all(o in known for o, known in zip(inputs, self.nodes[n].inputs, strict=True))]
        return next(iter(exact or fitting), None)

    def _meeting(self, key: tuple[int, ...]) -> int | None:
        """The first node elsewhere that is the same operation and does not come before: there the branches meet."""
        candidates = [n for n in self._candidates.get(key, []) if n != self.here and n not in self._before]
        return min(candidates, key=self._depth.__getitem__, default=None)


def _key(node: Node) -> tuple[int, ...]:
    """What has to be equal for two operations to be one node."""
    return (node.signature, node.location, node.outputs, *node.resources)


def _joined(one: Node, other: Node) -> Node:
    """A node that stands for both."""
    return dataclasses.replace(
        one,
        inputs=tuple(join_origins(a, b[0]) for a, b in zip(one.inputs, other.inputs, strict=True)),
        fetched=one.fetched | other.fetched,
        is_open=one.is_open or other.is_open,
    )


def join_origins(known: tuple[Origin, ...], new: Origin) -> tuple[Origin, ...]:
    """The places where an input may come from, with one more.

    Of several values that Python gave, one feed is left, with the dimensions that they had in common.
    """
    if new in known:
        return known
    if new.origin in (From.OPERATION, From.RESOURCE):
        return (*known, new)
    for i, old in enumerate(known):
        if old.origin in (From.FEED, From.CONSTANT) and old.dtype == new.dtype:
            joined = Origin(From.FEED, dtype=old.dtype, shape=_common(old.shape, new.shape))
            return (*known[:i], joined, *known[i + 1 :])
    return (*known, new)


def _common(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """What two shapes have in common; -1 for a dimension in which they differ, None for ranks that do."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else -1 for a, b in zip(one, other, strict=True))
