"""`Forest`: trees from any source as one table of nodes, which still knows the user's object of each."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, Final

import numpy as np

from recgraph.errors import TreeError

ABSENT: Final = None
"""The value of a feature that a node does not have."""


@dataclasses.dataclass
class FeatureColumn:
    """The values of one feature, at the nodes that have it.

    Attributes:
        nodes: their numbers, ascending.
        values: their values, as the source has them.
    """

    nodes: list[int] = dataclasses.field(default_factory=list)
    values: list[Any] = dataclasses.field(default_factory=list)

    def at(self, count: int) -> list[Any]:
        """A value for each of so many nodes, `ABSENT` where there is none."""
        found = [ABSENT] * count
        for node, value in zip(self.nodes, self.values, strict=True):
            found[node] = value
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class Forest:
    """B trees of N nodes together, one after the other; the root of a tree is the first of its nodes.

    A node that is the child of several nodes of a tree is there once.

    Attributes:
        objects: N objects, what the user has of each node.
        children: int32 [E]; numbers of the children of all nodes, those of node n from `splits[n]` to `splits[n + 1]`.
        splits: int64 [N + 1].
        offsets: int64 [B + 1]; tree b has the nodes from `offsets[b]` to `offsets[b + 1]`.
        columns: the features by name, each at the nodes that have it.
        roles: names of children that a node has one of at most, such as left and right: int32 [N], -1 for none.
        places: gives for the number of a node where it is in the user's data, for messages.
        put: writes a value on one of the objects under a name.
    """

    objects: list[Any]
    children: np.ndarray
    splits: np.ndarray
    offsets: np.ndarray
    columns: dict[str, FeatureColumn]
    roles: dict[str, np.ndarray]
    places: Callable[[int], str]
    put: Callable[[Any, str, Any], None]

    def __len__(self) -> int:
        """The number of trees."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        features = ", ".join(self.columns) or "no features"
        return f"<Forest of {len(self)} trees, {len(self.objects)} nodes: {features}>"

    @property
    def roots(self) -> np.ndarray:
        """The numbers of the roots, int64 [B]."""
        return self.offsets[:-1]

    def below(self, node: int) -> list[int]:
        """The numbers of the children of a node."""
        found: list[int] = self.children[self.splits[node] : self.splits[node + 1]].tolist()
        return found

    def values(self, name: str) -> list[Any]:
        """The values of a feature at all nodes, `None` where a node has none."""
        return self._column(name).at(len(self.objects))

    def _column(self, name: str) -> FeatureColumn:
        if name not in self.columns:
            raise TreeError(
                f"no node has a feature {name!r}",
                found=", ".join(sorted(map(str, self.columns))) or "no features at all",
                next_step="give one of these names, or have the reader read it",
            )
        return self.columns[name]

    def at_roots(self, predictions: Any) -> Iterator[tuple[Any, Any]]:
        """Pairs of the object of each root and its prediction.

        Args:
            predictions: an array or tensor `[B, ...]`, for instance of `model.predict`.

        Raises:
            TreeError: there are not as many predictions as trees.
        """
        rows = self._rows(predictions, len(self), "trees")
        return zip((self.objects[root] for root in self.roots), rows, strict=True)

    def at_nodes(self, predictions: Any) -> Iterator[tuple[Any, Any]]:
        """Pairs of the object of each node and its prediction.

        Args:
            predictions: ragged `[B, N, ...]`, or `[all nodes, ...]`.

        Raises:
            TreeError: there are not as many predictions as nodes.
        """
        rows = self._rows(getattr(predictions, "flat_values", predictions), len(self.objects), "nodes")
        return zip(self.objects, rows, strict=True)

    def write(self, name: str, predictions: Any) -> None:
        """Writes predictions on the user's own objects: as an entry of a dict, else as an attribute.

        Args:
            name: of the entry or attribute.
            predictions: as of `at_nodes`, or of `at_roots` where there are as many as trees.

        Raises:
            TreeError: there are as many as neither, or an object cannot have it.
        """
        flat = getattr(predictions, "flat_values", predictions)
        is_of_nodes = len(flat) == len(self.objects)
        numbers = list(range(len(self.objects))) if is_of_nodes else self.roots.tolist()
        rows = self._rows(flat, len(numbers), "nodes" if is_of_nodes else "trees")
        for number, row in zip(numbers, rows, strict=True):
            try:
                self.put(self.objects[number], name, row)
            except (AttributeError, TypeError) as error:
                raise TreeError(
                    f"a {type(self.objects[number]).__name__} cannot have {name!r} written on it",
                    where=self.places(number),
                    found=str(error),
                    next_step="go through the pairs of at_roots or at_nodes",
                ) from None

    def _rows(self, predictions: Any, count: int, what: str) -> list[Any]:
        array = np.asarray(predictions)
        if array.shape[:1] != (count,):
            raise TreeError(
                f"the predictions are not those of these {what}",
                found=f"an array of shape {list(array.shape)}",
                expected=f"[{count}, ...]: this forest has {len(self)} trees and {len(self.objects)} nodes",
                next_step="keep the order of the trees: predict on a dataset that is not shuffled",
            )
        if array.ndim > 1 and array.shape[1:] == (1,):
            array = array[:, 0]
        return array.tolist() if array.ndim == 1 else list(array)

    @functools.cached_property
    def paths(self) -> float:
        """How many paths lead from the roots to nodes: as often a recursion calls itself where nothing is shared."""
        if len(self.children) == len(self.objects) - len(self):  # each node has one parent
            return float(len(self.objects))
        counts = np.ones(len(self.objects))
        for node in self._children_first():
            counts[node] += counts[self.below(node)].sum()
        return float(counts[self.roots].sum())

    def _children_first(self) -> list[int]:
        """The nodes, each after its children."""
        waiting = np.diff(self.splits).tolist()
        parents: list[list[int]] = [[] for _ in self.objects]
        for node in range(len(self.objects)):
            for child in self.below(node):
                parents[child].append(node)
        order = [node for node, count in enumerate(waiting) if count == 0]
        for node in order:  # grows
            for parent in parents[node]:
                waiting[parent] -= 1
                if waiting[parent] == 0:
                    order.append(parent)
        return order


def put(item: Any, name: str, value: Any) -> None:
    """Writes a value on an object of a source that has no way of its own.

    Raises:
        AttributeError, TypeError: it is one that cannot be changed.
    """
    if isinstance(item, MutableMapping):
        item[name] = value
    else:
        setattr(item, name, value)


def shown(path: Sequence[Any], start: str) -> str:
    """A path as it would be written in Python, the middle of a long one left out."""
    parts = [part for step in path for part in (step if isinstance(step, tuple) else (step,))]
    return start + "".join(
        _shortened([f".{part}" if isinstance(part, str) and part.isidentifier() else f"[{part!r}]" for part in parts])
    )


def trail(names: Sequence[Any]) -> str:
    """The names of nodes on a way, the middle of a long one left out."""
    return " > ".join(_shortened([repr(name) for name in names]))


def _shortened(steps: list[str]) -> list[str]:
    return steps if len(steps) <= 12 else [*steps[:5], f" ... ({len(steps) - 10} steps) ... ", *steps[-5:]]
