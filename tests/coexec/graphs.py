"""Random trace graphs, and their paths counted out."""

from __future__ import annotations

import random
from collections.abc import Iterator

from recgraph.coexec.trace import Operation, Trace
from recgraph.coexec.trace_graph import END, START, TraceGraph


def trace(text: str) -> Trace:
    """A trace of operations without inputs; each letter is a signature at a location of its own."""
    return Trace(tuple(Operation(ord(letter), ord(letter)) for letter in text))


def merged(*texts: str) -> TraceGraph:
    """The graph of some traces."""
    graph = TraceGraph()
    for text in texts:
        graph = graph.merge(trace(text))
    return graph


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
