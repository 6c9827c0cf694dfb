"""Statements: assignments, branches, loops, definitions, `match`.

Patterns are tried in their order. Names are bound when a whole pattern has matched, before its guard is asked.
"""

from __future__ import annotations
import __future__

import ast
import collections
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import tensorflow as tf

from recgraph.cpython import messages
from recgraph.speculate.evaluate import branches, loops
from recgraph.speculate.evaluate.expressions import IN_PLACE
from recgraph.speculate.machine.evaluator import Evaluator, Signal, rule, target
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.symbolic import MISSING, DynamicValue, Generator, Iteration, is_symbolic, is_unknown
from recgraph.speculate.values import containers, iterators, objects
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
        values = [MISSING] * count if value is MISSING else _unpacked(ev, value, count, star is not None)
        if len(values) < needed:
            raise ev.raised(messages.too_few_values(needed, len(values), star is not None))
        if star is not None:
            end = len(values) - (needed - star)
            values = [*values[:star], list(values[star:end]), *values[end:]]
        elif len(values) > count:
            raise ev.raised(messages.too_many_values(count))
        for part, member in zip(parts, values, strict=True):
            ev.assign(part.value if isinstance(part, ast.Starred) else part, member)


def _unpacked(ev: Evaluator, value: Any, count: int, has_star: bool) -> list[Any]:
    """The members for a pattern. Of an iterator one more is taken than there are parts, to see that it ends."""
    if objects.is_object(value):
        value = ev.begin(value)
    if has_star or not isinstance(value, Iteration | Generator):
        return ev.members(value)
    if isinstance(value, Iteration):
        return list(itertools.islice(ev.iterator(value), count + 1))
    found = iterators.first(ev, value, count + 1)
    if len(found) > count:
        raise ev.refuse(Feature.RAISES, f"a generator gives more than {count} values")
    return found


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


# In-place operators on sets, as methods.
_OF_SETS = {
    operator.ior: "update", operator.isub: "difference_update", operator.iand: "intersection_update",
    operator.ixor: "symmetric_difference_update",
}  # fmt: skip


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
        is_held = ev.heap.name_of(current) is not None
        target = ev.heap.open(current, ev.where()) if is_held else current
        other = containers.mapping(ev, value) if isinstance(target, dict) else ev.opened(value)
        if isinstance(current, collections.Counter) and any(map(is_unknown, symbolic.leaves([target, other]))):
            raise ev.refuse(Feature.CONTAINER, "a Counter with counts that vary is updated by an operator")
        try:
            if isinstance(current, set) and is_held:
                ev.need_sequence("a write to a container")
                method = _OF_SETS[function]
                containers.change_set(ev, current, method, [other], lambda: function(target, other))
            else:
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
    decided = ev.decide(branches.tested(ev, node.test), at=node.test)
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
    decorators = [ev.value(decorator) for decorator in node.decorator_list]
    made: Any = Closure(ev, node)
    _annotate(ev, node)
    for decorator in reversed(decorators):
        made = ev.call(decorator, [made], {})
    ev.bind(node.name, made)


def _annotate(ev: Evaluator, node: ast.FunctionDef) -> None:
    """Annotations are evaluated for what they call; nobody looks at what they give."""
    if ev.frame.function.__code__.co_flags & __future__.annotations.compiler_flag:
        return
    arguments = [a for a in ast.walk(node.args) if isinstance(a, ast.arg)]
    for annotation in [*(a.annotation for a in arguments), node.returns]:
        if annotation is not None and any(isinstance(n, ast.Call | ast.NamedExpr) for n in ast.walk(annotation)):
            ev.value(annotation)


# Classes whose only positional pattern is for the subject itself.
_THEMSELVES: Final = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
_TEXTS: Final = (str, bytes, bytearray)
# The names of a pattern, with the values that they get if all of it matches.
Captured: TypeAlias = dict[str, Any]


@rule(ast.Match)
def _match(ev: Evaluator, node: ast.Match) -> Signal | None:
    return _cases(ev, node.cases, ev.value(node.subject), node)


def _cases(ev: Evaluator, cases: list[ast.match_case], subject: Any, node: ast.Match) -> Signal | None:
    """The first case that matches; what only the graph knows is compared with one value after the other there."""
    for i, case in enumerate(cases):
        first, place = case.pattern, _place(case.pattern)
        if isinstance(subject, DynamicValue) and _is_test(first):
            matched = ev.decide(_test(ev, first, subject), at=place)
        else:
            captured: Captured = {}
            matched = _matches(ev, first, subject, captured)
            for name, value in captured.items() if matched else ():
                ev.bind(name, value)
        if matched is True and case.guard is not None:
            matched, place = ev.decide(ev.value(case.guard), at=case.guard), case.guard
        elif isinstance(matched, tf.Tensor) and case.guard is not None:
            matched = ev.follow_last(matched, at=place) and ev.decided(ev.value(case.guard), at=case.guard)
        if isinstance(matched, tf.Tensor):
            return _case_of_tensor(ev, matched, cases[i:], subject, node, place)
        if matched:
            return ev.run(case.body)
    return None


def _case_of_tensor(
    ev: Evaluator, matches: tf.Tensor, cases: list[ast.match_case], subject: Any, node: ast.Match, place: ast.AST
) -> Signal | None:
    leaves = branches.may_leave(part for case in cases for part in case.body)
    first, *others = cases
    return branches.fork(
        ev, matches, lambda: ev.run(first.body), lambda: _cases(ev, others, subject, node), leaves, at=place
    )


def _place(pattern: ast.pattern) -> ast.AST:
    return pattern.value if isinstance(pattern, ast.MatchValue) else pattern


def _is_test(pattern: ast.pattern) -> bool:
    """Whether a pattern binds nothing and is a comparison, or several of which one has to hold."""
    if isinstance(pattern, ast.MatchOr):
        return all(map(_is_test, pattern.patterns))
    return isinstance(pattern, ast.MatchValue | ast.MatchSingleton)


def _test(ev: Evaluator, pattern: ast.pattern, subject: Any) -> Any:
    if isinstance(pattern, ast.MatchValue):
        with ev.at(pattern.value):
            return ev.operate(operator.eq, [subject, ev.value(pattern.value)])
    if isinstance(pattern, ast.MatchSingleton):
        with ev.at(pattern):
            return objects.identity(ev, subject, pattern.value)
    assert isinstance(pattern, ast.MatchOr)
    truths = [ev.truth(_test(ev, one, subject), at=pattern) for one in pattern.patterns]
    if any(isinstance(truth, tf.Tensor) for truth in truths):
        return DynamicValue("", tensor=tf.reduce_any([ev.truth(truth, at=pattern) for truth in truths]), late=True)
    return any(ev.decided(truth, at=pattern) for truth in truths)


def _matches(ev: Evaluator, pattern: ast.pattern, subject: Any, names: Captured) -> bool:
    how = _PATTERNS.get(type(pattern))
    if how is None:
        raise ev.refuse(Feature.MATCH, f"a {type(pattern).__name__} pattern")
    return how(ev, pattern, subject, names)


def _matches_any(ev: Evaluator, pattern: ast.MatchOr, subject: Any, names: Captured) -> bool:
    return any(_matches(ev, one, subject, names) for one in pattern.patterns)


def _matches_and_binds(ev: Evaluator, pattern: ast.MatchAs, subject: Any, names: Captured) -> bool:
    matched = pattern.pattern is None or _matches(ev, pattern.pattern, subject, names)
    if matched and pattern.name:
        names[pattern.name] = subject
    return matched


def _matches_value(ev: Evaluator, pattern: ast.pattern, subject: Any, names: Captured) -> bool:
    return ev.decided(_test(ev, pattern, subject), at=_place(pattern))


def _matches_sequence(ev: Evaluator, pattern: ast.MatchSequence, subject: Any, names: Captured) -> bool:
    kind = ev.type_of(subject)
    if issubclass(kind, _TEXTS) or not issubclass(kind, Sequence):
        return False
    if not issubclass(kind, list | tuple | range | collections.deque):
        raise ev.refuse(Feature.MATCH, f"a sequence pattern is matched against a {kind.__name__}")
    members = ev.members(subject)
    stars = [i for i, p in enumerate(pattern.patterns) if isinstance(p, ast.MatchStar)]
    if not stars:
        return len(members) == len(pattern.patterns) and all(
            _matches(ev, p, m, names) for p, m in zip(pattern.patterns, members, strict=True)
        )
    star, after = stars[0], len(pattern.patterns) - stars[0] - 1
    if len(members) < star + after:
        return False
    end = len(members) - after
    whole = pattern.patterns[star]
    if isinstance(whole, ast.MatchStar) and whole.name:
        names[whole.name] = members[star:end]
    pairs = [*zip(pattern.patterns[:star], members[:star], strict=True)]
    pairs += zip(pattern.patterns[star + 1 :], members[end:], strict=True)
    return all(_matches(ev, p, m, names) for p, m in pairs)


def _matches_mapping(ev: Evaluator, pattern: ast.MatchMapping, subject: Any, names: Captured) -> bool:
    kind = ev.type_of(subject)
    if not issubclass(kind, Mapping):
        return False
    if isinstance(subject, DynamicValue) or not issubclass(kind, dict) or objects.is_object(subject):
        raise ev.refuse(Feature.MATCH, f"a mapping pattern is matched against a {kind.__name__}")
    keys = [ev.value(key) for key in pattern.keys]
    if not all(ev.decided(ev.contains(subject, key)) for key in keys):
        return False
    if pattern.rest:
        members = dict(ev.opened(subject))
        names[pattern.rest] = {k: v for k, v in members.items() if k not in keys}
    values = [ev.item(subject, key) for key in keys]
    return all(_matches(ev, p, v, names) for p, v in zip(pattern.patterns, values, strict=True))


def _matches_class(ev: Evaluator, pattern: ast.MatchClass, subject: Any, names: Captured) -> bool:
    kind = ev.value(pattern.cls)
    is_tensor = is_symbolic(subject) and issubclass(ev.heap.eager_tensor_type, kind)
    if not is_tensor and not objects.is_instance(ev, subject, kind):
        return False
    places = ev.of_class(kind, "__match_args__")
    is_itself = places is None and issubclass(kind, _THEMSELVES)
    allowed, given = 1 if is_itself else len(places or ()), len(pattern.patterns)
    if given > allowed:
        several = "" if allowed == 1 else "s"
        text = f"{kind.__name__}() accepts {allowed} positional sub-pattern{several} ({given} given)"
        raise ev.raised(TypeError(text))
    if is_itself and given and not _matches(ev, pattern.patterns[0], subject, names):
        return False
    asked = [*(() if is_itself else places or ())[:given], *pattern.kwd_attrs]
    patterns = [*(() if is_itself else pattern.patterns), *pattern.kwd_patterns]
    values = []
    for name in asked:
        values.append(objects.read_or(ev, subject, name, MISSING))
        if values[-1] is MISSING:
            return False
    return all(_matches(ev, p, v, names) for p, v in zip(patterns, values, strict=True))


_PATTERNS: Final[dict[type[ast.pattern], Callable[[Evaluator, Any, Any, Captured], bool]]] = {
    ast.MatchAs: _matches_and_binds,
    ast.MatchOr: _matches_any,
    ast.MatchSingleton: _matches_value,
    ast.MatchValue: _matches_value,
    ast.MatchSequence: _matches_sequence,
    ast.MatchMapping: _matches_mapping,
    ast.MatchClass: _matches_class,
}
