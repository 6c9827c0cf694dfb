"""Statements: assignments, branches, loops, `with`, `try`, definitions, `assert`, `raise`, `match`."""

from __future__ import annotations

import ast
import collections
from typing import Any

import tensorflow as tf

from recgraph.speculate.evaluate import branches, loops, targets
from recgraph.speculate.evaluate.expressions import IN_PLACE
from recgraph.speculate.machine.evaluator import Evaluator, Signal, rule
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import stand_ins
from recgraph.speculate.values import containers, objects
from recgraph.speculate.values.containers import is_unknown
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
    for target in node.targets:
        targets.assign(ev, target, value)


@rule(ast.AnnAssign)
def _annotated(ev: Evaluator, node: ast.AnnAssign) -> None:
    if node.value is not None:
        targets.assign(ev, node.target, ev.value(node.value))


@rule(ast.AugAssign)
def _augmented(ev: Evaluator, node: ast.AugAssign) -> None:
    """The target's owner and index are evaluated once."""
    function = IN_PLACE[type(node.op)]
    target = node.target
    if isinstance(target, ast.Name):
        current = ev.read_name(ast.copy_location(_load(target), target))
        ev.bind(target.id, _in_place(ev, function, current, ev.value(node.value)))
    elif isinstance(target, ast.Attribute):
        owner, name = ev.value(target.value), ev.frame.syntax.private(target.attr)
        with ev.at(target):
            current = ev.get(owner, name)
        ev.put(owner, name, _in_place(ev, function, current, ev.value(node.value)))
    else:
        container = ev.value(target.value)
        with ev.at(target):
            index = containers.known_index(ev, container, ev.value(target.slice))
        with ev.at(target):
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
    for target in node.targets:
        targets.delete(ev, target)


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
