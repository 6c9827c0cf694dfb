"""Python objects as rows of a table, by which a graph can go from one to the next.

The objects that can be reached from the ones that the program starts with are read before the graph runs, as all of
the heap is: a row for each object, a column for each attribute that the program looks at. In the graph an object is
the number of its row.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph import native
from recgraph.core.subgraph import SubGraph
from recgraph.ops import effects
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.machine.protocol import Kind
from recgraph.speculate.observe import known
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.observe.syntax import syntax_of
from recgraph.speculate.script.assumptions import ModerateCost, SameConstant, SameType
from recgraph.speculate.script.contexts import RecursiveBody
from recgraph.speculate.script.script import Let
from recgraph.speculate.script.stand_ins import MISSING, Ref, Residual, Rows
from recgraph.speculate.values import attributes

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
            raise self.ev.refuse(Feature.RECURSION, f"{self.kind.__name__}.{name} is {names}")

    def finish(self) -> None:
        """Writes the walk into the script."""
        script = self.ev.script
        number = script.number(SameType(f"objects of {self.kind.__name__} are alike"))
        plan = script.constant((self.kind, tuple(self.columns.items()), self._no_circles()))
        circle = script.number(ModerateCost(f"objects of {self.kind.__name__} form no circle"))
        script.scope["walk"] = walk
        names, roots = ("".join(f"{name}, " for name in group) for group in (self._names, self.roots))
        broken = ("RecursionError", circle), ("Exception", number)
        script.before.append(Let(f"({names})", f"walk({plan}, ({roots}))", broken))

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


class Row(Kind):
    """An object that is a row of a table, or None."""

    name = "an object of a table"
    of = Ref

    def truth(self) -> Any:
        """Whether it is an object."""
        return self.it.row >= 0

    def get(self, name: str) -> Any:
        """A column of the table, or a method or property of the class."""
        ev, kind = self.ev, self.it.table.kind
        found = inspect.getattr_static(kind, name, MISSING)
        if isinstance(found, property):
            return ev.call(found.fget, [self.it], {})
        if isinstance(found, types.FunctionType):
            return types.MethodType(attributes.of_namespace(ev, kind, name), self.it)
        if found is not MISSING and not isinstance(found, types.MemberDescriptorType):
            raise ev.refuse(Feature.RECURSION, f"{kind.__name__}.{name} may be the class's")
        return self.it.table.attribute(self.it, name)


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
        self._seen = self._written()
        results = ev.profile.results.get(syntax_of(function).key)
        if results is None:
            raise ev.refuse(Feature.RECURSION, f"{function.__name__} does not return tensors")
        inputs = tuple(
            tf.TensorSpec([], tf.int32) if isinstance(a, Ref) else tf.TensorSpec(a.shape, a.dtype)
            for a in arguments
            if isinstance(a, Ref | tf.Tensor)
        )
        name, engine = function.__name__.strip("<>"), ev.optimizations.engine
        limit = sys.getrecursionlimit()
        ev.script.scope["recursion_limit"] = sys.getrecursionlimit
        ev.script.assume(f"recursion_limit() == {limit}", SameConstant("sys.getrecursionlimit()"))
        self.subgraph = SubGraph(name, inputs=inputs, outputs=results, engine=engine, max_depth=limit)

    def _written(self) -> dict[Any, Any]:
        """What the call has done to Python objects so far, by the identity of values: the body has read it."""
        heap = self.ev.heap
        slots: dict[Any, Any] = {key: id(value) for key, value in heap.shadow.items()}
        for key, value in heap.opened.items():
            now, before = (_identities(members) for members in (value, heap.originals[key][1]))
            if now != before:
                slots["opened", key] = now
        return slots

    def is_up_to_date(self) -> bool:
        """Whether the body has read what is there now."""
        return self._seen == self._written()

    def build(self, run: Callable[[list[Any]], Any]) -> None:
        """Converts the body, given what runs the function on its arguments."""
        ev = self.ev
        count = len(ev.assertions)
        try:
            with ev.within(RecursiveBody()), self.subgraph:
                given = iter(self.subgraph.declared_arguments())
                arguments = [
                    self.fixed[i] if i in self.fixed else next(given) if table is None else Ref(table, next(given))
                    for i, table in enumerate(self._tables)
                ]
                self.subgraph.output(ev.lift(run(arguments)))
        finally:
            del ev.assertions[count:]  # of branches without any: nothing is assumed in a body
        self._refuse_writes()

    def _refuse_writes(self) -> None:
        """A body may be run for objects before their turn."""
        for op in self.subgraph.finished_body().get_operations():
            if effects(op):
                raise self.ev.refuse(Feature.RECURSION, f"{self.function.__name__} writes a variable")

    def call(self, arguments: list[Any]) -> Any:
        """One invocation."""
        for i, value in self.fixed.items():
            if arguments[i] is not value:
                raise self.ev.refuse(
                    Feature.RECURSION,
                    f"argument {i} of the recursive function {self.function.__name__} differs between calls",
                )
        given = [a for i, a in enumerate(arguments) if i not in self.fixed]
        if self.ev.inside(RecursiveBody):
            for ref in given:
                if isinstance(ref, Ref):
                    ref.table.follow(ref)
        return self.subgraph(*(a.row if isinstance(a, Ref) else a for a in given))

    def call_for_members(self, container: list[Any], which: int, table: Table) -> Any:
        """The invocation for one of a list's members: those for all are made together, unless something was written.

        A function that has no effects may as well be called before its turn, if the same tapes are listening.
        """
        operations = self.ev.graph.get_operations()
        done, rows = self._batches.get(id(container), (0, None))
        if rows is None or any(map(effects, operations[done:])):
            roots = tf.stack([table.root(member).row for member in container])
            rows = self.subgraph.map(roots)
            self._batches[id(container)] = (len(self.ev.graph.get_operations()), rows)
        return tf.nest.map_structure(lambda all_rows: all_rows[which], rows)


def _identities(members: Any) -> tuple[Any, ...]:
    pairs = members.items() if isinstance(members, dict) else enumerate(members)
    return tuple((key, id(value)) for key, value in pairs)


def call(ev: Evaluator, function: Any, arguments: list[Any], run: Callable[[list[Any]], Any]) -> Any:
    """A call of a recursive function, from outside of it or from its own body."""
    recursion = ev.recursions.get(function.__code__)
    if recursion is None or not (ev.inside(RecursiveBody) or recursion.is_up_to_date()):
        started = [_from_heap(ev, function, i, a) for i, a in enumerate(arguments)]
        if not any(isinstance(a, Ref) for a in started):
            return None
        recursion = ev.recursions[function.__code__] = Recursion(ev, function, started, ev.here)
        recursion.build(run)
    varying = [i for i in range(len(arguments)) if i not in recursion.fixed]
    place = ev.places.get(id(arguments[varying[0]]))
    if len(varying) == 1 and place is not None and not ev.inside(RecursiveBody) and place[2] == ev.contexts.managers:
        container, which, _ = place
        kind = type(arguments[varying[0]])
        if all(type(member) is kind and ev.heap.name_of(member) is not None for member in container):
            return recursion.call_for_members(container, which, _table(ev, kind))
    return recursion.call([_as_ref(ev, recursion, i, a) for i, a in enumerate(arguments)])


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
