"""Recursion over Python objects: a function that calls itself on the parts of an object becomes a SubGraph.

The objects that can be reached from the ones that the program starts with are read before the graph runs, as all of
the heap is, into a table: a row for each object, a column for each attribute that the program looks at. In the graph
an object is the number of its row. So a call from Python objects on costs one walk over them, without preprocessing by
the user, and the engine is free to batch.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.core.subgraph import SubGraph
from recgraph.speculate import containers, known
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.effects import effects
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.syntax import syntax_of
from recgraph.speculate.values import Residual

_NOTHING = -1  # the row of None
_NUMBERS = {bool: (np.bool_, tf.bool), int: (np.int64, tf.int64), float: (np.float64, tf.float64)}


@dataclasses.dataclass(eq=False)
class Ref:
    """An object that is a row of a table, or None.

    Attributes:
        table: of all objects of its class.
        row: int32 scalar, -1 for None.
    """

    table: Table
    row: tf.Tensor


class Table:
    """The objects of one class that the program goes through.

    Attributes:
        kind: their class.
        roots: those that the program starts with, by their names in the script, in order.
        columns: by attribute, whether it leads to another object, and the names that the script gives its values.
    """

    def __init__(self, ev: Evaluator, kind: type) -> None:
        self.ev, self.kind = ev, kind
        self.roots: dict[str, Any] = {}
        self.columns: dict[str, type | None] = {}
        self._fed: dict[str, tf.Tensor] = {}
        self._names: dict[str, str] = {}
        self._rows = self._feed("", tf.int32)

    def _feed(self, attribute: str, dtype: tf.DType) -> tf.Tensor:
        self._names[attribute] = self.ev.script.name()
        self._fed[attribute] = self.ev.heap.fed(self._names[attribute], tf.TensorSpec([None], dtype))
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
        kind = self.columns[name]
        value = tf.gather(self._fed[name], ref.row)
        return Ref(self, value) if kind is None else Residual("", tensor=value, late=True)

    def _add(self, name: str, node: ast.AST) -> None:
        found = {type(getattr(thing, name, None)) for thing in reachable(self.roots.values(), self.kind)}
        found.discard(type(None))
        if found <= {self.kind}:
            self.columns[name] = None
            self._feed(name, tf.int32)
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
        names = ", ".join(self._names[key] for key in ("", *self.columns))
        roots = "".join(f"{root}, " for root in self.roots)
        script.before += [f"try: ({names},) = walk({plan}, ({roots}))", f"except Exception: return broken({number})"]


def reachable(roots: Iterable[Any], kind: type) -> list[Any]:
    """All objects of a class that can be reached over attributes from others of that class, the roots first."""
    found: dict[int, Any] = {}
    queue = list(roots)
    for thing in queue:
        if type(thing) is kind and id(thing) not in found:
            found[id(thing)] = thing
            queue.extend(value for value in vars(thing).values() if type(value) is kind)
    return list(found.values())


def walk(plan: tuple[type, dict[str, type | None]], roots: tuple[Any, ...]) -> list[np.ndarray]:
    """The columns of a table: the rows of the roots, then the attributes in order.

    Raises:
        TypeError: an object or an attribute is of another class than before.
    """
    kind, columns = plan
    links = [name for name, of in columns.items() if of is None]
    rows: dict[int, int] = {}
    things: list[Any] = []
    for root in roots:
        _enter(root, kind, rows, things)
    for thing in things:  # grows while it is gone through
        for name in links:
            following = getattr(thing, name, None)
            if following is not None:
                _enter(following, kind, rows, things)
    made = [np.array([rows[id(root)] for root in roots], np.int32)]
    for name, of in columns.items():
        made.append(_links(things, name, rows) if of is None else _numbers(things, name, of))
    return made


def _enter(thing: Any, kind: type, rows: dict[int, int], things: list[Any]) -> None:
    if id(thing) not in rows:
        if type(thing) is not kind:
            raise TypeError(type(thing).__name__)
        rows[id(thing)] = len(things)
        things.append(thing)


def _links(things: list[Any], name: str, rows: dict[int, int]) -> np.ndarray:
    values = [getattr(thing, name, None) for thing in things]
    return np.array([_NOTHING if value is None else rows[id(value)] for value in values], np.int32)


def _numbers(things: list[Any], name: str, kind: type) -> np.ndarray:
    """Numbers; where an object has none there is a zero, which only a program that raises eagerly would use."""
    values = [getattr(thing, name, None) for thing in things]
    if not {type(value) for value in values} <= {kind, type(None)}:
        raise TypeError(name)
    return np.array([0 if value is None else value for value in values], _NUMBERS[kind][0])


class Recursion:
    """A recursive function as a SubGraph.

    Attributes:
        subgraph: its body has the function's operations.
        fixed: the arguments that are the same object in every call, by position; the others are inputs.
    """

    def __init__(self, ev: Evaluator, function: Any, arguments: list[Any], node: ast.AST) -> None:
        self.ev, self.function = ev, function
        self.fixed = {i: a for i, a in enumerate(arguments) if not isinstance(a, Ref | tf.Tensor)}
        self._tables = [a.table if isinstance(a, Ref) else None for a in arguments]
        self._batches: dict[int, tuple[int, Any]] = {}
        results = ev.profile.results.get(syntax_of(function).key)
        if results is None:
            raise ev.refuse("recursion", f"{function.__name__} does not return tensors", node)
        inputs = tuple(
            tf.TensorSpec([], tf.int32) if isinstance(a, Ref) else tf.TensorSpec(a.shape, a.dtype)
            for a in arguments
            if isinstance(a, Ref | tf.Tensor)
        )
        self.subgraph = SubGraph(function.__name__.strip("<>"), inputs=inputs, outputs=results)

    def build(self, run: Callable[[list[Any]], Any], node: ast.AST) -> None:
        """Converts the body, given what runs the function on its arguments."""
        ev = self.ev
        ev.callbacks += 1
        ev.recursive_bodies += 1
        count = len(ev.assertions)
        try:
            with self.subgraph:
                given = iter(self.subgraph.declared_arguments())
                arguments = [
                    self.fixed[i] if i in self.fixed else next(given) if table is None else Ref(table, next(given))
                    for i, table in enumerate(self._tables)
                ]
                self.subgraph.output(containers.lift(ev, run(arguments), node))
        finally:
            ev.callbacks -= 1
            ev.recursive_bodies -= 1
            del ev.assertions[count:]  # of branches without any: nothing is assumed in a body
        self._refuse_writes(node)

    def _refuse_writes(self, node: ast.AST) -> None:
        """A body may be run for objects before their turn."""
        for op in self.subgraph.finished_body().get_operations():
            if effects(op):
                raise self.ev.refuse("recursion", f"{self.function.__name__} writes a variable", node)

    def call(self, arguments: list[Any], node: ast.AST) -> Any:
        """One invocation."""
        for i, value in self.fixed.items():
            if arguments[i] is not value:
                raise self.ev.refuse("recursion", f"argument {i} of {self.function.__name__} changes", node)
        given = [a for i, a in enumerate(arguments) if i not in self.fixed]
        return self.subgraph(*(a.row if isinstance(a, Ref) else a for a in given))

    def call_for_members(self, container: list[Any], which: int, table: Table) -> Any:
        """The invocation for one of a list's members: those for all are made together, unless something was written.

        A function that has no effects may as well be called before its turn.
        """
        operations = self.ev.graph.get_operations()
        done, rows = self._batches.get(id(container), (0, None))
        if rows is None or any(map(effects, operations[done:])):
            roots = tf.stack([table.root(member).row for member in container])
            rows = self.subgraph.map(roots)
            self._batches[id(container)] = (len(self.ev.graph.get_operations()), rows)
        return tf.nest.map_structure(lambda all_rows: all_rows[which], rows)


def call(ev: Evaluator, function: Any, arguments: list[Any], node: ast.AST, run: Callable[[list[Any]], Any]) -> Any:
    """A call of a recursive function, from outside of it or from its own body."""
    recursion = ev.recursions.get(function.__code__)
    if recursion is None:
        started = [_from_heap(ev, function, i, a) for i, a in enumerate(arguments)]
        if not any(isinstance(a, Ref) for a in started):
            return None
        recursion = ev.recursions[function.__code__] = Recursion(ev, function, started, node)
        recursion.build(run, node)
    varying = [i for i in range(len(arguments)) if i not in recursion.fixed]
    place = ev.heap.places.get(id(arguments[varying[0]]))
    if len(varying) == 1 and place is not None and not ev.recursive_bodies:
        container, which = place
        kind = type(arguments[varying[0]])
        if all(type(member) is kind and ev.heap.name_of(member) is not None for member in container):
            return recursion.call_for_members(container, which, _table(ev, kind))
    return recursion.call([_as_ref(ev, recursion, i, a) for i, a in enumerate(arguments)], node)


def _from_heap(ev: Evaluator, function: Any, position: int, value: Any) -> Any:
    """An argument of the first call: an object that differs from call to call is a row."""
    name = function.__code__.co_varnames[position]
    varies = name in ev.profile.varying.get(syntax_of(function).key, ())
    if ev.heap.name_of(value) is None or not known.is_users_type(type(value)) or not varies:
        return value
    return _table(ev, type(value)).root(value)


def _as_ref(ev: Evaluator, recursion: Recursion, position: int, value: Any) -> Any:
    if position in recursion.fixed or isinstance(value, Ref | tf.Tensor) or ev.heap.name_of(value) is None:
        return value
    return _table(ev, type(value)).root(value)


def _table(ev: Evaluator, kind: type) -> Table:
    if kind not in ev.tables:
        ev.tables[kind] = Table(ev, kind)
    return ev.tables[kind]
