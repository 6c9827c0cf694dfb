"""Python objects as rows of a table, by which a graph can go from one to the next.

The objects that can be reached from the ones that the program starts with are read before the graph runs, as all of
the heap is: a row for each object, a column for each attribute that the program looks at. In the graph an object is
the number of its row.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph.speculate.assumptions import assumption
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.values import Ref, Residual, Rows

# What a column holds: an object of the same class or None, a list of such objects, or numbers of a type.
LINK: Final = "link"
LINKS: Final = "links"
_NOTHING = -1  # the row of None
_NUMBERS = {bool: (np.bool_, tf.bool), int: (np.int64, tf.int64), float: (np.float64, tf.float64)}


class Table:
    """The objects of one class that the program goes through.

    Attributes:
        kind: their class.
        roots: those that the program starts with, by their names in the script, in order.
        columns: by attribute, `LINK`, `LINKS` or the type of its numbers.
    """

    def __init__(self, ev: Evaluator, kind: type) -> None:
        self.ev, self.kind = ev, kind
        self.roots: dict[str, Any] = {}
        self.columns: dict[str, Any] = {}
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

    def attribute(self, ref: Ref, name: str, node: ast.AST) -> Any:
        """The value of an attribute of a row."""
        if name not in self.columns:
            self._add(name, node)
        kind, fed = self.columns[name], self._fed[name]
        if kind is LINKS:
            return self._members(fed[0], fed[1], ref.row)
        value = tf.gather(fed[0], ref.row)
        return Ref(self, value) if kind is LINK else Residual("", tensor=value, late=True)

    def _members(self, flat: tf.Tensor, ends: tf.Tensor, row: tf.Tensor) -> Rows:
        """The objects of a list, which the graph can count and go through."""
        first, end = tf.gather(ends, row), tf.gather(ends, row + 1)
        return Rows(tf.cast(end - first, tf.int64), lambda i: Ref(self, tf.gather(flat, first + tf.cast(i, tf.int32))))

    def _add(self, name: str, node: ast.AST) -> None:
        values = [getattr(thing, name, None) for thing in reachable(self.roots.values(), self.kind)]
        found = {type(value) for value in values if value is not None}
        if found <= {self.kind}:
            self.columns[name] = LINK
            self._feed(name, tf.int32)
        elif found <= {list, tuple} and all(type(m) is self.kind for v in values for m in v or ()):
            self.columns[name] = LINKS
            self._feed(name, tf.int32, 2)
        elif len(found) == 1 and (kind := next(iter(found))) in _NUMBERS:
            self.columns[name] = kind
            self._feed(name, _NUMBERS[kind][1])
        else:
            names = ", ".join(sorted(kind.__name__ for kind in found))
            raise self.ev.refuse("recursion", f"{self.kind.__name__}.{name} is {names}", node)

    def finish(self) -> None:
        """Writes the walk into the script."""
        script = self.ev.script
        number = script.number(assumption("type", f"objects of {self.kind.__name__} are alike"))
        plan = script.constant((self.kind, dict(self.columns)))
        script.scope["walk"] = walk
        names, roots = ("".join(f"{name}, " for name in group) for group in (self._names, self.roots))
        script.before += [f"try: ({names}) = walk({plan}, ({roots}))", f"except Exception: return broken({number})"]


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


def walk(plan: tuple[type, dict[str, Any]], roots: tuple[Any, ...]) -> list[np.ndarray]:
    """The columns of a table: the rows of the roots, then the attributes in order, lists as members and ends.

    Raises:
        TypeError: an object or an attribute is of another class than before.
    """
    kind, columns = plan
    single = [name for name, of in columns.items() if of is LINK]
    several = [name for name, of in columns.items() if of is LINKS]
    rows: dict[int, int] = {}
    things: list[Any] = []
    for root in roots:
        _enter(root, kind, rows, things)
    for thing in things:  # grows while it is gone through
        for name in single:
            following = getattr(thing, name, None)
            if following is not None:
                _enter(following, kind, rows, things)
        for name in several:
            for following in getattr(thing, name, None) or ():
                _enter(following, kind, rows, things)
    made = [np.array([rows[id(root)] for root in roots], np.int32)]
    for name, of in columns.items():
        made.extend(_column([getattr(thing, name, None) for thing in things], of, rows))
    return made


def _enter(thing: Any, kind: type, rows: dict[int, int], things: list[Any]) -> None:
    if id(thing) not in rows:
        if type(thing) is not kind:
            raise TypeError(type(thing).__name__)
        rows[id(thing)] = len(things)
        things.append(thing)


def _column(values: list[Any], of: Any, rows: dict[int, int]) -> Iterator[np.ndarray]:
    """An attribute of all objects. Where one has no number there is a zero, which a right program does not look at."""
    if of is LINK:
        yield np.array([_NOTHING if value is None else rows[id(value)] for value in values], np.int32)
    elif of is LINKS:
        yield np.array([rows[id(member)] for value in values for member in value or ()], np.int32)
        yield np.cumsum([0, *(len(value or ()) for value in values)], dtype=np.int32)
    elif not {type(value) for value in values} <= {of, type(None)}:
        raise TypeError(of.__name__)
    else:
        yield np.array([0 if value is None else value for value in values], _NUMBERS[of][0])
