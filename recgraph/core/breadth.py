"""Whether invocations of a single call can stand at the same place at the same time: what there is to batch in one.

A chain has one invocation at work, however long it is. A tree has many: its body makes two calls of which neither
needs the other, and both come to the same SubGraph again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from recgraph.core import regions
from recgraph.core.definition import Definition

Identities: TypeAlias = frozenset[str]
_NONE: Identities = frozenset()


def is_wide(members: Sequence[Definition]) -> bool:
    """Whether some body of a program maps, or makes two calls that do not need each other and may meet below.

    Args:
        members: all SubGraphs of the program.
    """
    below = {member.identity: _below(member) for member in members}
    graphs = [graph for member in members for graph in _graphs(member.finished_body())]
    return any(_maps(graph) or _branches(graph, below) for graph in graphs)


def _below(member: Definition) -> Identities:
    """The SubGraph, and all that a call of it may reach."""
    found = {member.identity}
    queue = [member]
    while queue:
        callees = queue.pop().finished_body().callees
        queue += [callee for identity, callee in callees.items() if identity not in found]
        found.update(callees)
    return frozenset(found)


def _graphs(graph: Any) -> Iterator[Any]:
    """A body and all of its branches and loops."""
    yield graph
    for op in graph.get_operations():
        region = regions.region_of(op)
        for inner in region.graphs if region is not None else ():
            yield from _graphs(inner)


def _maps(graph: Any) -> bool:
    return any(op.type == "Recgraph>Invoke" and op.get_attr("map") for op in graph.get_operations())


def _branches(graph: Any, below: dict[str, Identities]) -> bool:
    """Whether two operations of a graph call the same SubGraph, and neither waits for the other's results."""
    calls: dict[tf.Operation, Identities] = {}
    needed: dict[tf.Operation, frozenset[tf.Operation]] = {}  # calls, by what comes after them
    for op in graph.get_operations():
        sources = {tensor.op for tensor in op.inputs}
        needed[op] = frozenset().union(*(needed[source] for source in sources), sources & calls.keys())
        reached = _reached(op, below)
        if reached:
            calls[op] = reached
    pairs = itertools.combinations(calls, 2)
    return any(first not in needed[second] and calls[first] & calls[second] for first, second in pairs)


def _reached(op: tf.Operation, below: dict[str, Identities]) -> Identities:
    """What an operation may call, itself or in a branch or loop."""
    if op.type == "Recgraph>Invoke":
        return below.get(op.get_attr("entry").decode(), _NONE)
    region = regions.region_of(op)
    if region is None:
        return _NONE
    return _NONE.union(*(_reached(inner, below) for graph in region.graphs for inner in graph.get_operations()))
