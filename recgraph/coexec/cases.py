"""The case assignment: which switches, with which cases, make one graph of a trace graph with any branches.

A *block* is a chain of nodes that is entered at its head and left at its end alone. The *level* of a block is the
length of the longest way to it. Two blocks of one level cannot be on one path, because along a path levels grow. So
each level is one switch, executed in the order of levels, whose cases are its blocks; one more case does nothing, if
some path goes by. A path is then a choice of one case for each level, and the switches do what is on the path, in its
order. The number of cases is that of the blocks, whatever the number of paths.

A loop is one node of what is around it, and its trips are paths through a graph of its own, with its own switches.
"""

from __future__ import annotations

import dataclasses

from recgraph.coexec.trace_graph import END, START, TraceGraph


@dataclasses.dataclass(frozen=True)
class Level:
    """One switch.

    Attributes:
        blocks: its cases, each a chain of nodes.
        may_skip: whether some path goes through none of them.
    """

    blocks: tuple[tuple[int, ...], ...]
    may_skip: bool

    @property
    def is_switch(self) -> bool:
        """Whether there is a choice."""
        return self.may_skip or len(self.blocks) > 1


def assign_cases(graph: TraceGraph, scope: int = START) -> tuple[Level, ...]:
    """The switches of a step, or of a trip of a loop, in the order in which they are executed."""
    blocks = _blocks(graph, scope)
    heads = {block[0]: block for block in blocks}
    after = {block[0]: graph.successors(block[-1]) for block in blocks}
    after[START] = graph.successors(START, scope)
    order = [node for node in graph.sorted(scope) if node in heads]
    level = {START: -1, **dict.fromkeys(heads, 0)}
    for head in (START, *order):
        for successor in after[head]:
            if successor != END:
                level[successor] = max(level[successor], level[head] + 1)
    count = max(level.values()) + 1
    skipped = [False] * count
    for head in (START, *order):
        for successor in after[head]:
            for between in range(level[head] + 1, count if successor == END else level[successor]):
                skipped[between] = True
    return tuple(
        Level(tuple(heads[head] for head in order if level[head] == number), skipped[number]) for number in range(count)
    )


def _blocks(graph: TraceGraph, scope: int) -> list[tuple[int, ...]]:
    """The nodes as chains, as long as possible."""
    members = graph.members(scope)
    before: dict[int, list[int]] = {number: [] for number in members}
    for number in (START, *members):
        for after in graph.successors(number, scope):
            if after != END:
                before[after].append(number)
    chains: dict[int, list[int]] = {}  # by the node at their end
    for number in graph.sorted(scope):
        previous = before[number]
        continues = len(previous) == 1 and previous[0] != START and len(graph.successors(previous[0])) == 1
        chain = chains.pop(previous[0]) if continues else []
        chains[number] = [*chain, number]
    return [tuple(chain) for chain in chains.values()]
