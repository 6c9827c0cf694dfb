"""Statements: assignments, branches, loops, `with`, `try`, definitions, `assert`, `raise`, `match`."""

from __future__ import annotations

import ast
import collections
from typing import Any

import tensorflow as tf

from recgraph.cpython import messages
from recgraph.speculate.evaluate import branches, loops
from recgraph.speculate.evaluate.expressions import IN_PLACE
from recgraph.speculate.machine.evaluator import Evaluator, Signal, rule, target
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import stand_ins
from recgraph.speculate.script.stand_ins import MISSING, is_unknown
from recgraph.speculate.values import containers, objects
from recgraph.speculate.values.functions import Closure


@rule(ast.Expr)
def _expression(ev: Evaluator, node: ast.Expr) -> None:
    ev.value(node.value)


@rule(ast.Pass, ast.Global, ast.Nonlocal)
def _nothing(ev: Evaluator, node: ast.AST) -> None:
    return None


@rule(ast.Return)
def _return(ev: Evaluator, node: ast.Return) -> Signal:
    return ("return", None if node.value is None else ev.value(node.value))


@rule(ast.Break)
def _break(ev: Evaluator, node: ast.Break) -> Signal:
    return ("break", None)


@rule(ast.Continue)
def _continue(ev: Evaluator, node: ast.Continue) -> Signal:
    return ("continue", None)


@rule(ast.Assign)
def _assign(ev: Evaluator, node: ast.Assign) -> None:
    value = ev.value(node.value)
    for left in node.targets:
        ev.assign(left, value)


@rule(ast.AnnAssign)
def _annotated(ev: Evaluator, node: ast.AnnAssign) -> None:
    if node.value is not None:
        ev.assign(node.target, ev.value(node.value))


@target(ast.Name)
def _to_name(ev: Evaluator, node: ast.Name, value: Any) -> None:
    if value is MISSING:
        ev.read_name(node)
    ev.bind(node.id, value)


@target(ast.Attribute)
def _to_attribute(ev: Evaluator, node: ast.Attribute, value: Any) -> None:
    with ev.at(node):
        ev.put(ev.value(node.value), ev.frame.syntax.private(node.attr), value)


@target(ast.Subscript)
def _to_item(ev: Evaluator, node: ast.Subscript, value: Any) -> None:
    container = ev.value(node.value)
    with ev.at(node):
        index = ev.value(node.slice)
        if value is MISSING:
            ev.delete_item(container, index)
        else:
            ev.set_item(container, index, value)


@target(ast.Tuple, ast.List)
def _to_pattern(ev: Evaluator, node: ast.Tuple | ast.List, value: Any) -> None:
    """Each part gets a member, and one with a star those that are left."""
    parts, count = node.elts, len(node.elts)
    star = next((i for i, part in enumerate(parts) if isinstance(part, ast.Starred)), None)
    needed = count - (star is not None)
    with ev.at(node):
        values = [MISSING] * count if value is MISSING else ev.members(value)
        if len(values) < needed:
            raise ev.raised(messages.too_few_values(needed, len(values), star is not None))
        if star is not None:
            end = len(values) - (needed - star)
            values = [*values[:star], list(values[star:end]), *values[end:]]
        elif len(values) > count:
            raise ev.raised(messages.too_many_values(count))
        for part, member in zip(parts, values, strict=True):
            ev.assign(part.value if isinstance(part, ast.Starred) else part, member)


@rule(ast.AugAssign)
def _augmented(ev: Evaluator, node: ast.AugAssign) -> None:
    """The target's owner and index are evaluated once."""
    function = IN_PLACE[type(node.op)]
    left = node.target
    if isinstance(left, ast.Name):
        current = ev.read_name(ast.copy_location(_load(left), left))
        ev.bind(left.id, _in_place(ev, function, current, ev.value(node.value)))
    elif isinstance(left, ast.Attribute):
        owner, name = ev.value(left.value), ev.frame.syntax.private(left.attr)
        with ev.at(left):
            current = ev.get(owner, name)
        ev.put(owner, name, _in_place(ev, function, current, ev.value(node.value)))
    else:
        container = ev.value(left.value)
        with ev.at(left):
            index = containers.known_index(ev, container, ev.value(left.slice))
        with ev.at(left):
            current = ev.item(container, index)
        value = _in_place(ev, function, current, ev.value(node.value))
        ev.set_item(container, index, value)


def _load(name: ast.Name) -> ast.Name:
    made = ast.Name(name.id, ast.Load())
    made.site = getattr(name, "site", -1)  # type: ignore[attr-defined]
    return made


def _in_place(ev: Evaluator, function: Any, current: Any, value: Any) -> Any:
    """Lists and other mutable values change themselves; numbers and tensors do not."""
    if objects.is_object(current) and objects.method(ev, type(current), f"__{function.__name__}__"):
        return ev.operate(function, [current, value])
    if isinstance(current, list) and function.__name__ == "iadd":
        members = ev.pieces(value)
        if ev.heap.name_of(current) is not None:
            ev.need_sequence("a list that grows")
            for member in members:
                ev.heap.append(current, member)
        else:
            current.extend(members)
        return current
    if isinstance(current, dict | set):
        target, other = ev.opened(current), ev.opened(value)
        if isinstance(current, collections.Counter) and any(map(is_unknown, stand_ins.leaves([target, other]))):
            raise ev.refuse(Feature.CONTAINER, "a Counter with counts that vary is updated by an operator")
        try:
            function(target, other)
        except TypeError as error:
            raise ev.raised(error) from error
        return current
    if isinstance(current, list | collections.deque):
        ev.need_sequence("a write to a container")
        is_joined = function.__name__ == "iadd"
        more = ev.members(value) if is_joined else ev.concrete(value)
        try:
            function(ev.opened(current), more)
        except TypeError as error:
            raise ev.raised(error) from error
        return current
    return ev.operate(function, [current, value])


@rule(ast.Delete)
def _delete(ev: Evaluator, node: ast.Delete) -> None:
    for left in node.targets:
        ev.assign(left, MISSING)


@rule(ast.If)
def _if(ev: Evaluator, node: ast.If) -> Signal | None:
    decided = ev.decide(ev.value(node.test), at=node.test)
    if not isinstance(decided, tf.Tensor):
        return ev.run(node.body if decided else node.orelse)
    leaves = branches.may_leave([*node.body, *node.orelse])
    return branches.fork(ev, decided, lambda: ev.run(node.body), lambda: ev.run(node.orelse), leaves, at=node.test)


@rule(ast.While)
def _while(ev: Evaluator, node: ast.While) -> Signal | None:
    return loops.run_while(ev, node)


@rule(ast.For)
def _for(ev: Evaluator, node: ast.For) -> Signal | None:
    return loops.run_for(ev, node)


@rule(ast.FunctionDef)
def _define(ev: Evaluator, node: ast.FunctionDef) -> None:
    made: Any = Closure(ev, node)
    for decorator in reversed(node.decorator_list):
        made = ev.call(ev.value(decorator), [made], {})
    ev.bind(node.name, made)
