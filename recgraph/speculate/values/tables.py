"""Python objects as rows of a table, by which a graph can go from one to the next.

The objects that can be reached from the ones that the program starts with are read before the graph runs, as all of
the heap is: a row for each object, a column for each attribute that the program looks at. In the graph an object is
the number of its row. Where some objects have no value for an attribute, the graph fails if the program reads one, and
the call runs eagerly.
"""

from __future__ import annotations

import ast
import enum
import functools
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf

from recgraph import native, tf_private
from recgraph.core.subgraph import SubGraph
from recgraph.ops import effects
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.machine.protocol import Kind
from recgraph.speculate.observe import known
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.observe.syntax import syntax_of
from recgraph.speculate.script.assumptions import ModerateCost, NoException, SameConstant, SameType
from recgraph.speculate.script.contexts import RecursiveBody
from recgraph.speculate.script.script import Let
from recgraph.speculate.script.symbolic import MISSING, DynamicValue, IterationSpace, Perhaps, Ref
from recgraph.speculate.values import attributes, objects

# The place of an attribute that an object does not have.
_ABSENT: Final = -2
# How often a function may call itself in its body without branching.
_ONE: Final = 1
# What a column holds: an object of the same class or None, a list of such objects, numbers of a type (an `int` has 32
# bits, a `LONG` 64), or nothing but a method of the class, which no object has replaced.
LINK: Final = "link"
LINKS: Final = "links"
METHOD: Final = "method"
LONG: Final = "long"
_NUMBERS = {"bool": tf.bool, "int": tf.int64, LONG: tf.int64, "float": tf.float64}
# The arrays that a column is.
_ROWS: Final = np.dtype(np.int32)
_DTYPES = {LINK: [_ROWS], LINKS: [_ROWS] * 2, METHOD: []} | {
    name: [dtype.as_numpy_dtype().dtype] for name, dtype in _NUMBERS.items()
}


class Lacking(enum.IntEnum):
    """What some objects may have in place of a value."""

    NOTHING = 0
    NONES = 1
    ATTRIBUTES = 2


class Column(NamedTuple):
    """What is known of an attribute.

    Attributes:
        kind: `LINK`, `LINKS`, `METHOD` or the name of its numbers' type.
        lacking: what some objects may have in place of a value. Of links, None is one.
    """

    kind: str
    lacking: Lacking = Lacking.NOTHING

    @property
    def has_places(self) -> bool:
        """Whether an array says which rows have a value. Links say it themselves."""
        return self.lacking != Lacking.NOTHING and self.kind not in (LINK, METHOD)

    @property
    def dtypes(self) -> list[np.dtype]:
        """Those of its arrays: the values, the ends of lists, and the places."""
        return _DTYPES[self.kind] + [_ROWS] * self.has_places

    def described(self, kind: type) -> str:
        """What objects of a class are taken to have."""
        of = {LINK: kind.__name__, LINKS: f"a list of {kind.__name__}", METHOD: "as the class has it", LONG: "int"}
        text = of.get(self.kind, self.kind)
        return text + ("", " or None", ", None or nothing")[max(self.lacking, self.kind == LINK)]


class Table:
    """The objects of one class that the program goes through.

    Attributes:
        kind: their class.
        roots: those that the program starts with, by their names in the script, in order.
        columns: what is known of each attribute.
        followed: the attributes by which a recursive function comes from an object to those that it is called on.
        calls: how many calls it makes there.
    """

    def __init__(self, ev: Evaluator, kind: type) -> None:
        self.ev, self.kind = ev, kind
        self.roots: dict[str, Any] = {}
        self.columns: dict[str, Column] = {}
        self.followed: set[str] = set()
        self.calls = 0
        self._asked: set[tuple[int, int]] = set()
        self._fed: dict[str, list[tf.Tensor]] = {}
        self._names: list[str] = []
        (self._rows,) = self._feed("", [_ROWS])

    def _feed(self, attribute: str, dtypes: list[np.dtype]) -> list[tf.Tensor]:
        names = [self.ev.script.name() for _ in dtypes]
        self._names += names
        specs = [tf.TensorSpec([None], tf.as_dtype(dtype)) for dtype in dtypes]
        self._fed[attribute] = list(map(self.ev.heap.fed, names, specs))
        return self._fed[attribute]

    def root(self, value: Any) -> Ref:
        """An object that was there before the call."""
        name = self.ev.heap.names[id(value)]
        number = list(self.roots).index(name) if name in self.roots else len(self.roots)
        self.roots[name] = value
        return Ref(self, self._rows[number])

    def attribute(self, ref: Ref, name: str) -> Any:
        """The value of an attribute of a row."""
        self._check_unwritten(name)
        if name not in self.columns:
            self._add(name)
        self._asked.add((id(ref.row), id(tf_private.current_graph())))
        column, fed = self.columns[name], self._fed[name]
        if column.kind == LINK:
            row = tf.gather(fed[0], ref.row)
            self._check_there(row, name)
            return Ref(self, row, ref.path | {name})
        read = self._members if column.kind == LINKS else self._number
        if not column.has_places:
            return read(name, ref.row, ref.path)
        place = tf.gather(fed[-1], ref.row)
        self._check_there(place, name)
        # No row has a number below zero, so what reads there fails.
        truth = self.ev.truth(read(name, ref.row, ref.path))
        return Perhaps(place < 0, truth, lambda: read(name, place, ref.path))

    def method(self, ref: Ref, name: str) -> types.MethodType:
        """A method of the class, which no object has an attribute in place of."""
        function = attributes.of_namespace(self.ev, self.kind, name)
        if name not in self.columns:
            self.columns[name] = Column(METHOD)
        self._check_unwritten(name)
        self.check_object(ref)
        return types.MethodType(function, ref)

    def check_object(self, ref: Ref) -> None:
        """Checks that a row is one: None has no methods, no properties, and no attribute that can be read."""
        graph = tf_private.current_graph()
        while graph is not None:
            if (id(ref.row), id(graph)) in self._asked:
                return
            graph = getattr(graph, "outer_graph", None)
        self.ev.assert_in_graph(ref.row >= 0, self.ev.noted(NoException, f"a {self.kind.__name__} is not None"))

    def _check_there(self, place: tf.Tensor, name: str) -> None:
        """Checks that an object has the attribute that is read of it."""
        if self.columns[name].lacking is Lacking.ATTRIBUTES:
            what = self.ev.noted(NoException, f"each {self.kind.__name__} that is asked for {name} has it")
            self.ev.assert_in_graph(place > _ABSENT, what)

    def _number(self, name: str, row: tf.Tensor, path: frozenset[str]) -> DynamicValue:
        limit = -tf.int32.min if self.columns[name].kind == "int" else None
        return DynamicValue("", tensor=tf.gather(self._fed[name][0], row), late=True, limit=limit)

    def _members(self, name: str, row: tf.Tensor, path: frozenset[str]) -> IterationSpace:
        """The objects of a list, which the graph can count and go through."""
        flat, ends = self._fed[name][:2]
        first, end = tf.gather(ends, row), tf.gather(ends, row + 1)

        def member(i: tf.Tensor) -> Ref:
            return Ref(self, tf.gather(flat, first + tf.cast(i, tf.int32)), path | {name})

        return IterationSpace(tf.cast(end - first, tf.int64), member)

    def follow(self, ref: Ref) -> None:
        """A recursive function is called on an object that it has found."""
        self.calls += 1
        self.followed |= ref.path

    def _add(self, name: str) -> None:
        values = [held(thing, name) for thing in reachable(self.roots.values(), self.kind)]
        there = [value for value in values if value is not None and value is not MISSING]
        found = set(map(type, there))
        if any(value is MISSING for value in values):
            lacking = Lacking.ATTRIBUTES
        else:
            lacking = Lacking.NONES if len(there) < len(values) else Lacking.NOTHING
        self.columns[name] = Column(self._kind_of(name, there, found), lacking)
        self._feed(name, self.columns[name].dtypes)

    def _kind_of(self, name: str, there: list[Any], found: set[type]) -> str:
        """What a column holds, by the values that there are."""
        if found <= {self.kind}:
            return LINK
        if found <= {list, tuple} and all(type(member) is self.kind for value in there for member in value):
            return LINKS
        if found == {int} and not all(tf.int32.min <= value <= tf.int32.max for value in there):
            return LONG
        if len(found) == 1 and (kind := next(iter(found))) in (bool, int, float):
            return str(kind.__name__)
        names = ", ".join(sorted(kind.__name__ for kind in found))
        raise self.ev.refuse(Feature.RECURSION, f"{self.kind.__name__}.{name} is {names}")

    def _check_unwritten(self, name: str) -> None:
        """Checks that the call has not changed what the walk, which comes before it, reads."""
        heap = self.ev.heap
        if not (heap.shadow or heap.opened or heap.appended):
            return
        for thing in reachable(self.roots.values(), self.kind):
            value = held(thing, name)
            if attributes.slot_of(thing, name) in heap.shadow or self._is_changed(value):
                raise self.ev.refuse(
                    Feature.RECURSION, f"the call changes {self.kind.__name__}.{name} and goes on to it"
                )

    def _is_changed(self, value: Any) -> bool:
        """Whether the call has changed a list."""
        heap = self.ev.heap
        if type(value) is not list:
            return False
        if id(value) in heap.opened:
            return _identities(heap.opened[id(value)]) != _identities(heap.originals[id(value)][1])
        return bool(heap.appended.get(id(value)))

    def finish(self) -> None:
        """Writes the walk into the script."""
        script = self.ev.script
        number = script.number(SameType(self._described()))
        columns = tuple((name, *column) for name, column in self.columns.items())
        plan = script.constant((self.kind, columns, self._no_circles()))
        circle = script.number(ModerateCost(f"objects of {self.kind.__name__} form no circle"))
        script.scope["walk"] = walk
        names, roots = ("".join(f"{name}, " for name in group) for group in (self._names, self.roots))
        broken = ("RecursionError", circle), ("Exception", number)
        script.before.append(Let(f"({names})", f"walk({plan}, ({roots}))", broken))

    def _described(self) -> str:
        """What all objects are taken to have."""
        parts = [f"{name}: {column.described(self.kind)}" for name, column in self.columns.items()]
        return f"objects of {self.kind.__name__} are alike ({', '.join(parts)})"

    def _no_circles(self) -> tuple[str, ...]:
        """The attributes along which no object may lead back to itself.

        On a circle a function that calls itself once goes on to its greatest depth, as Python does. One that does so
        twice would need, where calls run beside each other, twice the memory at each depth.
        """
        is_branching = self.calls > _ONE or any(self.columns[name].kind == LINKS for name in self.followed)
        return tuple(sorted(self.followed)) if is_branching else ()


def held(thing: Any, name: str) -> Any:
    """What Python finds in an object or its class without asking `__getattr__`; `MISSING` where there is nothing."""
    try:
        return object.__getattribute__(thing, name)
    except AttributeError:
        return MISSING


def reachable(roots: Iterable[Any], kind: type) -> list[Any]:
    """All objects of a class that can be reached over attributes from others of that class, the roots first."""
    found: dict[int, Any] = {}
    queue = list(roots)
    slots = objects.slots_of(kind)
    for thing in queue:  # grows while it is gone through
        if type(thing) is kind and id(thing) not in found:
            found[id(thing)] = thing
            for value in [*getattr(thing, "__dict__", {}).values(), *(held(thing, name) for name in slots)]:
                queue.extend(value if type(value) in (list, tuple) else [value])
    return list(found.values())


def walk(
    plan: tuple[type, tuple[tuple[str, str, Lacking], ...], tuple[str, ...]], roots: tuple[Any, ...]
) -> list[np.ndarray]:
    """The columns of a table: the rows of the roots, then the attributes in order with the arrays of `Column.dtypes`.

    Raises:
        TypeError: an object or an attribute is of another class than before.
        AttributeError: an object has no such attribute.
        OverflowError: a number has more than 64 bits.
        RecursionError: objects form a circle along attributes that are followed.
    """
    of, columns, followed = plan
    made = native.objects().columns(of, columns, roots, followed)
    dtypes = [_ROWS, *(dtype for _, kind, lacking in columns for dtype in Column(kind, lacking).dtypes)]
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
        ev, ref, table = self.ev, self.it, self.it.table
        if attributes.has_own_access(ev, table.kind):
            raise ev.refuse(Feature.CUSTOM_ACCESS, f"{table.kind.__name__} has accessors of its own")
        found = ev.of_class(table.kind, name)
        if isinstance(found, property):
            made = ev.call(found.fget, [ref], {})
            table.check_object(ref)
            return made
        if isinstance(found, types.FunctionType):
            return table.method(ref, name)
        if not isinstance(found, types.MemberDescriptorType) and hasattr(type(found), "__get__"):
            raise ev.refuse(Feature.RECURSION, f"{table.kind.__name__}.{name} may be the class's")
        return table.attribute(ref, name)


def settled(value: Any) -> Any:
    """A value that may be None as one that is not, where the program goes on only if it is not."""
    return value.value() if isinstance(value, Perhaps) else value


class PerhapsNone(Kind):
    """What may be None: the program asks whether it is, or does what only the value can do."""

    name = "an attribute that may be None"
    of = Perhaps

    def truth(self) -> Any:
        """None is false."""
        return self.it.truth

    def operand(self) -> Any:
        """The value."""
        return self.it.value()


def _of_the_value(name: str) -> Callable[..., Any]:
    """What a kind does by asking the value."""

    def ask(self: PerhapsNone, *arguments: Any) -> Any:
        return getattr(self.ev.kind(self.it.value()), name)(*arguments)

    return functools.wraps(getattr(Kind, name))(ask)


for _name in (
    "type", "call", "get", "item", "contains", "length", "members", "pieces", "iterator", "rows", "tensor", "lift",
):  # fmt: skip
    setattr(PerhapsNone, _name, _of_the_value(_name))


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
