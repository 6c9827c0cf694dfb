"""The traces of several steps merged into one graph: acyclic, with loops as nodes that have a graph of their own.

Every path from START to END is a possible step, and every path through the graph of a loop a possible trip. The graph
is immutable: merging gives a new one, and a step that adds nothing gives the same one back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from recgraph.coexec.trace import From, Origin

START = -1
END = -2


@dataclasses.dataclass(frozen=True)
class TraceNode:
    """An operation of some of the steps.

    Attributes:
        inputs: for each input all the places where it came from. The number of an OPERATION or HISTORY is that of a
            node; OPERATION stands for what it gave the last time.
        fetched: the outputs whose values Python needs.
        is_open: whether the shapes of its outputs depend on values.
        is_foreseen: whether Python's thread always knew those, and that there was no error, without the graph.
    """

    signature: int
    location: int
    inputs: tuple[tuple[Origin, ...], ...]
    outputs: int
    fetched: frozenset[int]
    is_open: bool
    is_foreseen: bool

    @property
    def resources(self) -> tuple[int, ...]:
        """The variables that it is given."""
        firsts = [origins[0] for origins in self.inputs]
        return tuple(origin.number if origin.origin is From.RESOURCE else -1 for origin in firsts)

    @property
    def key(self) -> tuple[int, ...]:
        """What has to be equal for two operations to be one node."""
        return (self.signature, self.location, self.outputs, *self.resources)


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop of the program that took different numbers of trips."""

    number: int

    @property
    def key(self) -> tuple[int, ...]:
        """What has to be equal for two loops to be one node."""
        return (self.number,)


Item: TypeAlias = TraceNode | Loop


@dataclasses.dataclass(frozen=True)
class TraceGraph:
    """Nodes and loops by number, and what may follow each.

    A *scope* is the step itself, START, or a loop, by the number that it has among the items.

    Attributes:
        scopes: which scope each item is in.
        first: for each scope what it may begin with.
        follow: for each item what may come after it in its scope, in the order in which it was seen; END is one of it.
    """

    items: tuple[Item, ...] = ()
    scopes: tuple[int, ...] = ()
    first: Mapping[int, tuple[int, ...]] = dataclasses.field(default_factory=lambda: {START: ()})
    follow: tuple[tuple[int, ...], ...] = ()

    @property
    def nodes(self) -> Mapping[int, TraceNode]:
        """The operations by number."""
        return {number: item for number, item in enumerate(self.items) if isinstance(item, TraceNode)}

    @property
    def loops(self) -> Mapping[int, Loop]:
        """The loops by number."""
        return {number: item for number, item in enumerate(self.items) if isinstance(item, Loop)}

    def successors(self, item: int, scope: int = START) -> tuple[int, ...]:
        """What may follow an item, or what a scope may begin with, for START."""
        return self.first[scope] if item == START else self.follow[item]

    def members(self, scope: int = START) -> list[int]:
        """What a scope consists of."""
        return [number for number, around in enumerate(self.scopes) if around == scope]

    def sorted(self, scope: int = START) -> list[int]:
        """All items of a scope, each after everything that may come before it."""
        missing = dict.fromkeys(self.members(scope), 0)
        for item in (START, *missing):
            for after in self.successors(item, scope):
                if after != END:
                    missing[after] += 1
        order, ready = [], [START]
        while ready:
            item = ready.pop()
            order.append(item)
            for after in self.successors(item, scope):
                if after != END:
                    missing[after] -= 1
                    if missing[after] == 0:
                        ready.append(after)
        return order[1:]

    def __str__(self) -> str:
        return "\n".join(self._lines(START, ""))

    def _lines(self, scope: int, indent: str) -> Iterable[str]:
        yield f"{indent}START -> {_names(self.first[scope])}"
        for number in self.sorted(scope):
            item = self.items[number]
            after = _names(self.follow[number])
            if isinstance(item, Loop):
                yield f"{indent}{number}: loop {item.number} -> {after}"
                yield from self._lines(number, indent + "    ")
            else:
                fetched = f" fetched {sorted(item.fetched)}" if item.fetched else ""
                yield f"{indent}{number}: type {item.signature} at {item.location}{fetched} -> {after}"


def _names(items: Iterable[int]) -> str:
    return ", ".join("END" if item == END else str(item) for item in items)


def join_origins(known: tuple[Origin, ...], new: Origin) -> tuple[Origin, ...]:
    """The places where an input may come from, with one more.

    Of several values that Python gave, one feed is left, with the dimensions that they had in common. Of an operation's
    last value and its earlier ones, those that were any.
    """
    if new in known:
        return known
    if new.origin is From.RESOURCE:
        return (*known, new)
    if new.origin in (From.OPERATION, From.HISTORY):
        return _join_values(known, new)
    for i, old in enumerate(known):
        if old.origin in (From.FEED, From.CONSTANT) and old.dtype == new.dtype:
            joined = Origin(From.FEED, dtype=old.dtype, shape=_common(old.shape, new.shape))
            return (*known[:i], joined, *known[i + 1 :])
    return (*known, new)


def _join_values(known: tuple[Origin, ...], new: Origin) -> tuple[Origin, ...]:
    for i, old in enumerate(known):
        if old.origin in (From.OPERATION, From.HISTORY) and (old.number, old.output) == (new.number, new.output):
            any_time = dataclasses.replace(old, origin=From.HISTORY)
            return (*known[:i], any_time, *known[i + 1 :])
    return (*known, new)


def _common(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """What two shapes have in common; -1 for a dimension in which they differ, None for ranks that do."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else -1 for a, b in zip(one, other, strict=True))
