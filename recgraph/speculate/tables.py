"""Python objects as rows of a table, by which a graph can go from one to the next.

The objects that can be reached from the ones that the program starts with are read before the graph runs, as all of
the heap is: a row for each object, a column for each attribute that the program looks at. In the graph an object is
the number of its row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph import native
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.values import Ref, Residual, Rows

# How often a function may call itself in its body without branching.
_ONE: Final = 1

# What a column holds: an object of the same class or None, a list of such objects, or numbers of a type.
LINK: Final = "link"
LINKS: Final = "links"
_NUMBERS = {"bool": tf.bool, "int": tf.int64, "float": tf.float64}
# The arrays that a column is.
_DTYPES = {LINK: [np.dtype(np.int32)], LINKS: [np.dtype(np.int32)] * 2} | {
    name: [dtype.as_numpy_dtype().dtype] for name, dtype in _NUMBERS.items()
}


class Table:
    """The objects of one class that the program goes through.

    Attributes:
        kind: their class.
        roots: those that the program starts with, by their names in the script, in order.
        columns: by attribute, `LINK`, `LINKS` or the name of its numbers' type.
        followed: the attributes by which a recursive function comes from an object to those that it is called on.
        calls: how many calls it makes there.
    """

    def __init__(self, ev: Evaluator, kind: type) -> None:
        self.ev, self.kind = ev, kind
        self.roots: dict[str, Any] = {}
        self.columns: dict[str, str] = {}
        self.followed: set[str] = set()
        self.calls = 0
        self._fed: dict[str, list[tf.Tensor]] = {}
        self._names: list[str] = []
        (self._rows,) = self._feed("", tf.int32)

    def _feed(self, attribute: str, dtype: tf.DType, count: int = 1) -> list[tf.Tensor]:
        names = [self.ev.script.name() for _ in range(count)]
        self._names += names
        self._fed[attribute] = [self.ev.heap.fed(name, tf.TensorSpec([None], dtype)) for name in names]
        return self._fed[attribute]

    def root(self, value: Any) -> Ref:
        """An object that was there before the call."""
        name = self.ev.heap.names[id(value)]
        number = list(self.roots).index(name) if name in self.roots else len(self.roots)
        self.roots[name] = value
        return Ref(self, self._rows[number])

    def attribute(self, ref: Ref, name: str) -> Any:
        """The value of an attribute of a row."""
        if name not in self.columns:
            self._add(name)
        kind, fed = self.columns[name], self._fed[name]
        if kind is LINKS:
            return self._members(fed[0], fed[1], ref.row, ref.path | {name})
        value = tf.gather(fed[0], ref.row)
        return Ref(self, value, ref.path | {name}) if kind is LINK else Residual("", tensor=value, late=True)

    def _members(self, flat: tf.Tensor, ends: tf.Tensor, row: tf.Tensor, path: frozenset[str]) -> Rows:
        """The objects of a list, which the graph can count and go through."""
        first, end = tf.gather(ends, row), tf.gather(ends, row + 1)

        def member(i: tf.Tensor) -> Ref:
            return Ref(self, tf.gather(flat, first + tf.cast(i, tf.int32)), path)

        return Rows(tf.cast(end - first, tf.int64), member)

    def follow(self, ref: Ref) -> None:
        """A recursive function is called on an object that it has found."""
        self.calls += 1
        self.followed |= ref.path

    def _add(self, name: str) -> None:
        values = [getattr(thing, name, None) for thing in reachable(self.roots.values(), self.kind)]
        found = {type(value) for value in values if value is not None}
        if found <= {self.kind}:
            self.columns[name] = LINK
            self._feed(name, tf.int32)
        elif found <= {list, tuple} and all(type(m) is self.kind for v in values for m in v or ()):
            self.columns[name] = LINKS
            self._feed(name, tf.int32, 2)
        elif len(found) == 1 and (kind := next(iter(found))) in (bool, int, float):
            self.columns[name] = kind.__name__
            self._feed(name, _NUMBERS[kind.__name__])
        else:
            names = ", ".join(sorted(kind.__name__ for kind in found))
            raise self.ev.refuse("recursion", f"{self.kind.__name__}.{name} is {names}")

    def finish(self) -> None:
        """Writes the walk into the script."""
        script = self.ev.script
        number = script.number(assumption("type", f"objects of {self.kind.__name__} are alike"))
        plan = script.constant((self.kind, tuple(self.columns.items()), self._no_circles()))
        circle = script.number(assumption("cost", f"objects of {self.kind.__name__} form no circle"))
        script.scope["walk"] = walk
        names, roots = ("".join(f"{name}, " for name in group) for group in (self._names, self.roots))
        script.before += [
            f"try: ({names}) = walk({plan}, ({roots}))",
            f"except RecursionError: return broken({circle})",
            f"except Exception: return broken({number})",
        ]

    def _no_circles(self) -> tuple[str, ...]:
        """The attributes along which no object may lead back to itself.

        On a circle a function that calls itself once goes on to its greatest depth, as Python does. One that does so
        twice would need, where calls run beside each other, twice the memory at each depth.
        """
        is_branching = self.calls > _ONE or any(self.columns[name] is LINKS for name in self.followed)
        return tuple(sorted(self.followed)) if is_branching else ()


def reachable(roots: Iterable[Any], kind: type) -> list[Any]:
    """All objects of a class that can be reached over attributes from others of that class, the roots first."""
    found: dict[int, Any] = {}
    queue = list(roots)
    for thing in queue:  # grows while it is gone through
        if type(thing) is kind and id(thing) not in found:
            found[id(thing)] = thing
            for value in vars(thing).values():
                queue.extend(value if type(value) in (list, tuple) else [value])
    return list(found.values())


def walk(plan: tuple[type, tuple[tuple[str, str], ...], tuple[str, ...]], roots: tuple[Any, ...]) -> list[np.ndarray]:
    """The columns of a table: the rows of the roots, then the attributes in order, lists as members and ends.

    Raises:
        TypeError: an object or an attribute is of another class than before.
        OverflowError: a number has more than 64 bits.
        RecursionError: objects form a circle along attributes that are followed.
    """
    kind, columns, followed = plan
    made = native.objects().columns(kind, columns, roots, followed)
    dtypes = [np.dtype(np.int32), *(dtype for _, of in columns for dtype in _DTYPES[of])]
    return [np.frombuffer(part, dtype) for part, dtype in zip(made, dtypes, strict=True)]
