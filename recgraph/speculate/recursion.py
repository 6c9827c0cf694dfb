"""Recursion over Python objects: a function that calls itself on the parts of an object becomes a SubGraph.

It goes as deep as Python would at most: a call of as many levels as `sys.getrecursionlimit()` runs eagerly, and raises.

In its body an object is a row of a table (`tables.py`). So a call from Python objects on costs one walk over them,
without preprocessing by the user, and the engine is free to batch.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recgraph.core.subgraph import SubGraph
from recgraph.speculate import containers, known
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.effects import effects
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.syntax import syntax_of
from recgraph.speculate.tables import Table
from recgraph.speculate.values import Ref


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
            raise ev.refuse("recursion", f"{function.__name__} does not return tensors")
        inputs = tuple(
            tf.TensorSpec([], tf.int32) if isinstance(a, Ref) else tf.TensorSpec(a.shape, a.dtype)
            for a in arguments
            if isinstance(a, Ref | tf.Tensor)
        )
        name, engine = function.__name__.strip("<>"), ev.optimizations.engine
        limit = sys.getrecursionlimit()
        ev.script.scope["recursion_limit"] = sys.getrecursionlimit
        ev.script.assume(f"recursion_limit() == {limit}", assumption("constant", "sys.getrecursionlimit()"))
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
                self.subgraph.output(containers.lift(ev, run(arguments)))
        finally:
            ev.callbacks -= 1
            ev.recursive_bodies -= 1
            del ev.assertions[count:]  # of branches without any: nothing is assumed in a body
        self._refuse_writes()

    def _refuse_writes(self) -> None:
        """A body may be run for objects before their turn."""
        for op in self.subgraph.finished_body().get_operations():
            if effects(op):
                raise self.ev.refuse("recursion", f"{self.function.__name__} writes a variable")

    def call(self, arguments: list[Any]) -> Any:
        """One invocation."""
        for i, value in self.fixed.items():
            if arguments[i] is not value:
                raise self.ev.refuse("recursion", f"argument {i} of {self.function.__name__} changes")
        given = [a for i, a in enumerate(arguments) if i not in self.fixed]
        if self.ev.recursive_bodies:
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
    if recursion is None or not (ev.recursive_bodies or recursion.is_up_to_date()):
        started = [_from_heap(ev, function, i, a) for i, a in enumerate(arguments)]
        if not any(isinstance(a, Ref) for a in started):
            return None
        recursion = ev.recursions[function.__code__] = Recursion(ev, function, started, ev.here)
        recursion.build(run)
    varying = [i for i in range(len(arguments)) if i not in recursion.fixed]
    place = ev.places.get(id(arguments[varying[0]]))
    if len(varying) == 1 and place is not None and not ev.recursive_bodies and place[2] == tuple(ev.managers):
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
