"""Random trace graphs, and their paths counted out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from recgraph.coexec.merging import Merged
from recgraph.coexec.trace import Operation, Trace, Trip
from recgraph.coexec.trace_graph import END, START, TraceGraph


def trace(text: str) -> Trace:
    """A trace of operations without inputs; each letter is a signature at a location of its own."""
    return Trace(tuple(Operation(ord(letter), ord(letter)) for letter in text))


def merging(*traces: Trace) -> Merged:
    """Some traces, merged."""
    known = Merged()
    for each in traces:
        known = known.merge(each)
    return known


def merged(*texts: str) -> TraceGraph:
    """The graph of some traces."""
    return merging(*map(trace, texts)).graph


def letters(graph: TraceGraph, path: tuple[int, ...]) -> str:
    """A path as the trace that it is."""
    return "".join(chr(graph.nodes[number].signature) for number in path)


def paths(graph: TraceGraph, start: int = START) -> Iterator[tuple[int, ...]]:
    """Every path from a node to the end, without that node."""
    for after in graph.successors(start):
        if after == END:
            yield ()
        else:
            for rest in paths(graph, after):
                yield (after, *rest)


def random_graph(source: random.Random, nodes: int) -> TraceGraph:
    """A graph out of random walks along a random order; letters repeat, so that some meetings would make cycles."""
    alphabet = [chr(ord("a") + source.randrange(max(2, nodes * 2 // 3))) for _ in range(nodes)]
    texts = ["".join(letter for letter in alphabet if source.random() < 0.6) for _ in range(source.randrange(1, 6))]
    return merged(*texts)


class Program:
    """A random program of operations, branches and loops, some left early, each of whose runs is a trace."""

    def __init__(self, source: random.Random, depth: int = 3) -> None:
        self.source = source
        self.count = 0  # of places in it
        self.body = self._statements(depth, is_in_loop=False)

    def _statements(self, depth: int, is_in_loop: bool) -> list[Any]:
        statements: list[Any] = []
        for _ in range(self.source.randrange(1, 4)):
            self.count += 1
            kind = self.source.choice(["operation", "operation", "branch", "loop", "leave"])
            if kind in ("branch", "loop") and depth:
                inner = self._statements(depth - 1, is_in_loop or kind == "loop")
                statements.append((kind, self.count, inner))
            elif kind != "leave" or is_in_loop:
                statements.append((kind if kind == "leave" else "operation", self.count, []))
        return statements

    def run(self) -> Trace:
        """One step."""
        operations: list[Operation] = []
        self._run(self.body, (), operations)
        return Trace(tuple(operations))

    def _run(self, statements: list[Any], trips: tuple[Trip, ...], operations: list[Operation]) -> bool:
        """Whether the loop around goes on."""
        for kind, place, inner in statements:
            if kind == "operation":
                operations.append(Operation(place, place, trips=trips))
            elif kind == "leave" and self.source.random() < 0.2:
                return False
            elif kind == "branch" and self.source.random() < 0.5:
                if not self._run(inner, trips, operations):
                    return False
            elif kind == "loop":
                for trip in range(self.source.randrange(4)):
                    if not self._run(inner, (*trips, (place, trip)), operations):
                        break
        return True
