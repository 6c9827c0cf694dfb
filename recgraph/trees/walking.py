"""How objects become a `Forest`: a walk from the roots, without recursion in Python, that finds what is shared."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from recgraph.errors import TreeError
from recgraph.trees.forest import ABSENT, FeatureColumn, Forest, put, shown

# A child, and the step that leads to it: an index or the name of an entry.
Step = tuple[Any, Any]
LARGEST = 2**31 - 1
DEEPEST = 4_000_000


def nothing_shared(item: Any) -> None:
    """No two places have one node."""


class Reading(NamedTuple):
    """How the objects of a kind are read.

    Attributes:
        children: gives the steps to the children of an object, and these.
        values: gives the features of an object by name; its second argument is the last step to it.
        identity: of two objects that are one node; None for one that is never shared.
        place: gives for a tree's number and the steps to a node where that is, and for its object.
        put: as of `Forest`.
        roles: names that steps have, of each of which a node has one child at most.
        given_out: what the user has of an object, where that is another.
    """

    children: Callable[[Any], Sequence[Step]]
    values: Callable[[Any, Any], Mapping[Any, Any]]
    identity: Callable[[Any], Hashable] = nothing_shared
    place: Callable[[int, list[Any], Any], str] = lambda tree, path, item: shown(path, f"trees[{tree}]")
    put: Callable[[Any, str, Any], None] = put
    roles: tuple[str, ...] = ()
    given_out: Callable[[Any], Any] | None = None


def read(trees: Iterable[Any], source: Reading) -> Forest:
    """Reads trees, each from its root.

    Raises:
        TreeError: a node is below itself; there are too many nodes, or too many in each other.
    """
    walk = _ForestWalk(source)
    with _no_collection():
        for root in trees:
            walk.tree(root)
        return walk.forest()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Lets the garbage collector wait: it would go through millions of new objects again and again, all in use."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _ForestWalk:
    """The nodes that were met so far."""

    def __init__(self, source: Reading) -> None:
        self._source = source
        self._objects: list[Any] = []
        self._steps: list[Any] = []  # the step that leads to each node when it is met first
        self._above: list[int] = []  # the node from which, -1 for a root
        self._edges: tuple[list[int], list[int]] = ([], [])  # parents and children
        self._offsets = [0]
        self._columns: dict[str, FeatureColumn] = {}
        self._roles: dict[str, FeatureColumn] = {name: FeatureColumn() for name in source.roles}

    def tree(self, root: Any) -> None:
        """Reads one tree, depth first."""
        seen: dict[Hashable, int] = {}
        identity, children = self._source.identity, self._source.children
        is_open: set[int] = set()  # the nodes on the way from the root to where the walk is
        stack: list[tuple[int, Iterator[Step]]] = []
        parents, below = self._edges

        def enter(item: Any, step: Any, above: int, name: Hashable) -> int:
            number = len(self._objects)
            try:
                self._add(item, step, above)
                steps = children(item)
            except Exception as error:
                if isinstance(error, TreeError):
                    error.where = error.where or self._place(number)
                else:
                    error.add_note(f"while {self._place(number)} was read")
                raise
            if name is not None:
                seen[name] = number
            if steps:
                stack.append((number, iter(steps)))
                is_open.add(number)
                if len(stack) > DEEPEST:
                    raise self._endless(number)
            return number

        enter(root, ABSENT, -1, identity(root))
        while stack:
            number, steps = stack[-1]
            for step, item in steps:
                name = identity(item)
                found = seen.get(name) if name is not None else None
                if found in is_open:
                    raise self._circle(number, step, found)
                depth = len(stack)
                child = enter(item, step, number, name) if found is None else found
                parents.append(number)
                below.append(child)
                if step in self._roles:
                    self._fill(number, step, child)
                if len(stack) > depth:
                    break
            else:
                stack.pop()
                is_open.discard(number)
        self._offsets.append(len(self._objects))

    def _add(self, item: Any, step: Any, above: int) -> None:
        number = len(self._objects)
        if number == LARGEST:
            raise TreeError(f"there are more than {LARGEST} nodes", next_step="read fewer trees at a time")
        self._objects.append(item)
        self._steps.append(step)
        self._above.append(above)
        columns = self._columns
        for name, value in self._source.values(item, step).items():
            if value is not ABSENT:
                column = columns.get(name)
                if column is None:
                    column = columns[name] = FeatureColumn()
                column.nodes.append(number)
                column.values.append(value)

    def _fill(self, number: int, role: str, child: int) -> None:
        self._roles[role].nodes.append(number)
        self._roles[role].values.append(child)

    def _path(self, number: int) -> tuple[int, list[Any]]:
        """The root above a node, and the steps from there."""
        steps = []
        while self._above[number] >= 0:
            steps.append(self._steps[number])
            number = self._above[number]
        return number, steps[::-1]

    def _place(self, number: int, *more: Any) -> str:
        root, steps = self._path(number)
        tree = int(np.searchsorted(self._offsets, root, side="right")) - 1
        return self._source.place(tree, [*steps, *more], self._objects[number])

    def _endless(self, number: int) -> TreeError:
        return TreeError(
            f"a node is more than {DEEPEST} levels deep",
            where=self._place(number),
            next_step="check that the function that gives children comes to an end: objects that are made anew each "
            "time are never found to be the same",
        )

    def _circle(self, number: int, step: Any, found: int | None) -> TreeError:
        assert found is not None
        _, upper = self._path(found)
        _, lower = self._path(number)
        return TreeError(
            "a node is below itself",
            where=self._place(number, step),
            found=f"the node at {self._place(found)} again, {len(lower) - len(upper) + 1} levels below itself",
            expected="no circles: a tree, or a graph in which no path leads back",
            next_step="leave that child out",
        )

    def forest(self) -> Forest:
        """What was read."""
        count = len(self._objects)
        parents, below = (np.array(ends, np.int32) for ends in self._edges)
        splits = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(parents, minlength=count), out=splits[1:])
        children = below[np.argsort(parents, kind="stable")]
        roles = {}
        for name, column in self._roles.items():
            roles[name] = np.full(count, -1, np.int32)
            roles[name][column.nodes] = column.values
        offsets, give = np.array(self._offsets, np.int64), self._source.given_out
        objects = self._objects if give is None else [give(item) for item in self._objects]
        return Forest(objects, children, splits, offsets, self._columns, roles, self._place, self._source.put)
