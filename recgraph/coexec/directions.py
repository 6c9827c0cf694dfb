"""The ways from one operation to the next, through the ends and starts of loops, and what the graph is told on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from recgraph.coexec.cases import Level
from recgraph.coexec.trace_graph import END, START, Loop, TraceGraph

NONE = -1

Messages: TypeAlias = tuple[tuple[int, int], ...]  # slot and number


@dataclasses.dataclass(frozen=True)
class PlannedScope:
    """The step, or a loop.

    Attributes:
        levels: its switches.
        selects: for each level the slot that says which case, or NONE.
        condition: of a loop, the slot that says whether there is another trip; else NONE.
    """

    levels: tuple[Level, ...]
    selects: tuple[int, ...]
    condition: int


@dataclasses.dataclass(frozen=True)
class Direction:
    """From one node to another.

    Attributes:
        node: where it goes; END stands for the end of the step.
        messages: what the graph is told.
    """

    node: int
    messages: Messages


class Directions:
    """All ways of a graph.

    A way goes on in its scope, or, where a trip may end, into the next trip, or out of the loop; and to what is first
    in a loop that it comes to. Of two that end in equal operations the first is taken: the innermost loop goes on.
    """

    def __init__(self, graph: TraceGraph, scopes: Mapping[int, PlannedScope]) -> None:
        self.graph, self.scopes = graph, scopes
        self._place: dict[int, tuple[int, int]] = {}  # level and case
        for scope in scopes.values():
            for i, level in enumerate(scope.levels):
                for case, block in enumerate(level.blocks):
                    self._place.update(dict.fromkeys(block, (i, case)))

    def after(self, node: int) -> tuple[Direction, ...]:
        """Everything that may come after a node, or at the START of a step."""
        scope = START if node == START else self.graph.scopes[node]
        return tuple(self._onward(node, scope, ()))

    def _onward(self, item: int, scope: int, told: Messages) -> Iterator[Direction]:
        """What comes after an item of a scope; its START is one."""
        here = -1 if item == START else self._place[item][0]
        successors = self.graph.successors(item, scope)
        for after in successors:
            if after != END:
                yield from self._into(after, (*told, *self._to(scope, here, after)))
        if END in successors:
            over = (*told, *self._to_end(scope, here))
            if scope == START:
                yield Direction(END, over)
            else:
                condition = self.scopes[scope].condition
                yield from self._onward(START, scope, (*over, (condition, 1)))
                yield from self._onward(scope, self.graph.scopes[scope], (*over, (condition, 0)))

    def _into(self, item: int, told: Messages) -> Iterator[Direction]:
        if isinstance(self.graph.items[item], Loop):
            yield from self._onward(START, item, (*told, (self.scopes[item].condition, 1)))
        else:
            yield Direction(item, told)

    def _to(self, scope: int, here: int, item: int) -> Messages:
        """The cases of the levels up to that of an item: those that are passed by get the case after their last."""
        planned = self.scopes[scope]
        there, case = self._place[item]
        if there == here:
            return ()
        slot = planned.selects[there]
        return (*self._passing(planned, here, there), *(((slot, case),) if slot != NONE else ()))

    def _to_end(self, scope: int, here: int) -> Messages:
        planned = self.scopes[scope]
        return self._passing(planned, here, len(planned.levels))

    def _passing(self, planned: PlannedScope, here: int, there: int) -> Messages:
        between = range(here + 1, there)
        return tuple((planned.selects[i], len(planned.levels[i].blocks)) for i in between if planned.selects[i] != NONE)
