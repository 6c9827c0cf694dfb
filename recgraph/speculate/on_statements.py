"""Statements: assignments, branches, loops, `with`, `try`, definitions, `assert`, `raise`, `match`."""

from __future__ import annotations

import ast
import operator
from typing import Any

import tensorflow as tf

from recgraph.speculate import attributes, branches, calls, containers, grown, loops, residuals
from recgraph.speculate.evaluator import Evaluator, Signal, rule
from recgraph.speculate.on_expressions import IN_PLACE
from recgraph.speculate.values import Residual, is_symbolic


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
        attributes.assign(ev, target, value)


@rule(ast.AnnAssign)
def _annotated(ev: Evaluator, node: ast.AnnAssign) -> None:
    if node.value is not None:
        attributes.assign(ev, node.target, ev.value(node.value))


@rule(ast.AugAssign)
def _augmented(ev: Evaluator, node: ast.AugAssign) -> None:
    """The target's owner and index are evaluated once."""
    function = IN_PLACE[type(node.op)]
    target = node.target
    if isinstance(target, ast.Name):
        current = ev.read_name(ast.copy_location(_load(target), target))
        ev.bind(target.id, _in_place(ev, function, current, ev.value(node.value), node))
    elif isinstance(target, ast.Attribute):
        owner, name = ev.value(target.value), ev.frame.syntax.private(target.attr)
        current = attributes.get(ev, owner, name, target)
        attributes.put(ev, owner, name, _in_place(ev, function, current, ev.value(node.value), node), node)
    else:
        container = ev.value(target.value)
        index = containers.known_index(ev, container, ev.value(target.slice), target)
        current = containers.subscript(ev, container, index, target)
        value = _in_place(ev, function, current, ev.value(node.value), node)
        containers.set_subscript(ev, container, index, value, node)


def _load(name: ast.Name) -> ast.Name:
    made = ast.Name(name.id, ast.Load())
    made.site = getattr(name, "site", -1)  # type: ignore[attr-defined]
    return made


def _in_place(ev: Evaluator, function: Any, current: Any, value: Any, node: ast.AST) -> Any:
    """Lists and other mutable values change themselves; numbers and tensors do not."""
    if isinstance(current, list) and function.__name__ == "iadd":
        members = grown.pieces(ev, value, node)
        if ev.heap.name_of(current) is not None:
            ev.need_sequence("a list that grows")
            for member in members:
                ev.heap.append(current, member)
        else:
            current.extend(members)
        return current
    if isinstance(current, dict | set):
        target = containers.opened(ev, current, node)
        function(target, containers.opened(ev, value, node))
        return current
    return residuals.operate(ev, function, [current, value], node)


@rule(ast.Delete)
def _delete(ev: Evaluator, node: ast.Delete) -> None:
    for target in node.targets:
        attributes.delete(ev, target)


@rule(ast.If)
def _if(ev: Evaluator, node: ast.If) -> Signal | None:
    decided = ev.decide(ev.value(node.test), node.test)
    if not isinstance(decided, tf.Tensor):
        return ev.run(node.body if decided else node.orelse)
    leaves = branches.may_leave([*node.body, *node.orelse])
    return branches.fork(ev, decided, lambda: ev.run(node.body), lambda: ev.run(node.orelse), node.test, leaves)


@rule(ast.While)
def _while(ev: Evaluator, node: ast.While) -> Signal | None:
    return loops.run_while(ev, node)


@rule(ast.For)
def _for(ev: Evaluator, node: ast.For) -> Signal | None:
    return loops.run_for(ev, node)


@rule(ast.FunctionDef)
def _define(ev: Evaluator, node: ast.FunctionDef) -> None:
    made: Any = calls.Closure(ev, node)
    for decorator in reversed(node.decorator_list):
        made = calls.call(ev, ev.value(decorator), [made], {}, node)
    ev.bind(node.name, made)


@rule(ast.Match)
def _match(ev: Evaluator, node: ast.Match) -> Signal | None:
    return _cases(ev, node.cases, ev.value(node.subject), node)


def _cases(ev: Evaluator, cases: list[ast.match_case], subject: Any, node: ast.Match) -> Signal | None:
    """The first case that matches; a number from the graph is compared with one value after the other there."""
    for i, case in enumerate(cases):
        if isinstance(case.pattern, ast.MatchValue) and case.guard is None and isinstance(subject, Residual):
            decided = ev.decide(_equals(ev, subject, case.pattern.value), case.pattern.value)
            if isinstance(decided, tf.Tensor):
                return _case_of_tensor(ev, decided, cases[i:], subject, node)
            matched = decided
        else:
            matched = _matches(ev, case.pattern, subject, node)
        if matched and (case.guard is None or ev.decided(ev.value(case.guard), case.guard)):
            return ev.run(case.body)
    return None


def _case_of_tensor(
    ev: Evaluator, matches: tf.Tensor, cases: list[ast.match_case], subject: Any, node: ast.Match
) -> Signal | None:
    leaves = branches.may_leave(part for case in cases for part in case.body)
    first, *others = cases
    return branches.fork(
        ev, matches, lambda: ev.run(first.body), lambda: _cases(ev, others, subject, node), first.pattern, leaves
    )


def _matches(ev: Evaluator, pattern: ast.pattern, subject: Any, node: ast.AST) -> bool:
    if isinstance(pattern, ast.MatchAs):
        matched = pattern.pattern is None or _matches(ev, pattern.pattern, subject, node)
        if matched and pattern.name:
            ev.bind(pattern.name, subject)
        return matched
    if isinstance(pattern, ast.MatchOr):
        return any(_matches(ev, p, subject, node) for p in pattern.patterns)
    if isinstance(pattern, ast.MatchSingleton):
        return subject is pattern.value
    if isinstance(pattern, ast.MatchValue):
        return _equal(ev, subject, pattern.value)
    if isinstance(pattern, ast.MatchSequence):
        return _matches_sequence(ev, pattern, subject, node)
    if isinstance(pattern, ast.MatchMapping):
        return _matches_mapping(ev, pattern, subject, node)
    if isinstance(pattern, ast.MatchClass):
        return _matches_class(ev, pattern, subject, node)
    raise ev.refuse("match", f"a {type(pattern).__name__} pattern", node)


def _equal(ev: Evaluator, subject: Any, pattern: ast.expr) -> bool:
    return ev.decided(_equals(ev, subject, pattern), pattern)


def _equals(ev: Evaluator, subject: Any, pattern: ast.expr) -> Any:
    return residuals.operate(ev, operator.eq, [subject, ev.value(pattern)], pattern)


def _matches_sequence(ev: Evaluator, pattern: ast.MatchSequence, subject: Any, node: ast.AST) -> bool:
    if isinstance(subject, Residual) or not isinstance(subject, list | tuple):
        return False
    members = containers.iterate(ev, subject, node)
    stars = [i for i, p in enumerate(pattern.patterns) if isinstance(p, ast.MatchStar)]
    if not stars:
        return len(members) == len(pattern.patterns) and all(
            _matches(ev, p, m, node) for p, m in zip(pattern.patterns, members, strict=True)
        )
    star, after = stars[0], len(pattern.patterns) - stars[0] - 1
    if len(members) < star + after:
        return False
    end = len(members) - after
    whole = pattern.patterns[star]
    if isinstance(whole, ast.MatchStar) and whole.name:
        ev.bind(whole.name, members[star:end])
    pairs = [*zip(pattern.patterns[:star], members[:star], strict=True)]
    pairs += zip(pattern.patterns[star + 1 :], members[end:], strict=True)
    return all(_matches(ev, p, m, node) for p, m in pairs)


def _matches_mapping(ev: Evaluator, pattern: ast.MatchMapping, subject: Any, node: ast.AST) -> bool:
    if not isinstance(subject, dict):
        return False
    keys = [ev.value(key) for key in pattern.keys]
    if not all(containers.contains(ev, subject, key, node) for key in keys):
        return False
    if pattern.rest:
        members = dict(containers.opened(ev, subject, node))
        ev.bind(pattern.rest, {k: v for k, v in members.items() if k not in keys})
    values = [containers.subscript(ev, subject, key, node) for key in keys]
    return all(_matches(ev, p, v, node) for p, v in zip(pattern.patterns, values, strict=True))


def _matches_class(ev: Evaluator, pattern: ast.MatchClass, subject: Any, node: ast.AST) -> bool:
    kind = ev.value(pattern.cls)
    actual = subject.example if isinstance(subject, Residual) else subject
    is_tensor = is_symbolic(subject) and issubclass(ev.heap.eager_tensor_type, kind)
    if not is_tensor and not isinstance(actual, kind):
        return False
    names = [*getattr(kind, "__match_args__", ())[: len(pattern.patterns)], *pattern.kwd_attrs]
    patterns = [*pattern.patterns, *pattern.kwd_patterns]
    if kind in (int, float, str, bool, bytes, list, tuple, dict) and len(pattern.patterns) == 1:
        return _matches(ev, pattern.patterns[0], subject, node)
    values = [attributes.get(ev, subject, name, node) for name in names]
    return all(_matches(ev, p, v, node) for p, v in zip(patterns, values, strict=True))
