"""Which writes of a step may wait until it is over: those of variables that nothing in the step looks at afterwards.

They work on the variables themselves, once everything else has been done without an error, and need no copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from recgraph.coexec.directions import PlannedScope
from recgraph.coexec.trace_graph import START, TraceNode


def deferred_writes(
    nodes: Mapping[int, TraceNode],
    scopes: Mapping[int, PlannedScope],
    is_write: Callable[[int], bool],
    may_wait: Callable[[int], bool],
) -> frozenset[int]:
    """The operations that only write, in every step, and whose variables have no other use from then on.

    Args:
        nodes: the operations of a trace graph.
        scopes: how they are laid out.
        is_write: whether operations with this signature change their variables.
        may_wait: whether they can be done when nothing may fail any more.
    """
    places = dict(_places(scopes))
    writes = {number for number in places if is_write(nodes[number].signature)}
    able = {n for n in writes if not nodes[n].outputs and not nodes[n].is_open and may_wait(nodes[n].signature)}
    deferred = able.intersection(_unconditional(scopes))
    while True:
        shared = _shared(nodes, places, writes, deferred)
        kept = {n for n in deferred if shared.isdisjoint(_variables(nodes[n]))}
        if kept == deferred:
            return frozenset(kept)
        deferred = kept


def _shared(
    nodes: Mapping[int, TraceNode], places: Mapping[int, int], writes: set[int], deferred: set[int]
) -> set[int]:
    """The variables that other operations write as well, or use after the first write that is deferred."""
    first: dict[int, int] = {}
    for number in sorted(deferred, key=places.__getitem__, reverse=True):
        first.update(dict.fromkeys(_variables(nodes[number]), places[number]))
    shared: set[int] = set()
    for number in places.keys() - deferred:
        place = places[number]
        shared.update(r for r in _variables(nodes[number]) if number in writes or place > first.get(r, place))
    return shared


def _variables(node: TraceNode) -> set[int]:
    return {r for r in node.resources if r >= 0}


def _places(scopes: Mapping[int, PlannedScope], scope: int = START) -> Iterator[tuple[int, int]]:
    """The operations, each with its place in the step; those of a loop are all at the place of the loop."""
    items = (item for level in scopes[scope].levels for block in level.blocks for item in block)
    for place, item in enumerate(items):
        if item in scopes:
            yield from ((number, place) for number, _ in _places(scopes, item))
        else:
            yield item, place


def _unconditional(scopes: Mapping[int, PlannedScope]) -> Iterator[int]:
    """What every step does, outside of loops."""
    for level in scopes[START].levels:
        if not level.is_switch:
            yield from level.blocks[0]
