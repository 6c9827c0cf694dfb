"""`match`: patterns in their order. A name may be bound even where the pattern does not match in the end."""

from __future__ import annotations

import ast
import collections
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from recgraph.speculate.evaluate import branches
from recgraph.speculate.machine.evaluator import Evaluator, Signal, rule
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script.stand_ins import MISSING, Residual, is_symbolic
from recgraph.speculate.values import objects

# Classes whose only positional pattern is for the subject itself.
_THEMSELVES: Final = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
_TEXTS: Final = (str, bytes, bytearray)


@rule(ast.Match)
def _match(ev: Evaluator, node: ast.Match) -> Signal | None:
    return _cases(ev, node.cases, ev.value(node.subject), node)


def _cases(ev: Evaluator, cases: list[ast.match_case], subject: Any, node: ast.Match) -> Signal | None:
    """The first case that matches; what only the graph knows is compared with one value after the other there."""
    for i, case in enumerate(cases):
        first, place = case.pattern, _place(case.pattern)
        if isinstance(subject, Residual) and _is_test(first):
            matched = ev.decide(_test(ev, first, subject), at=place)
        else:
            matched = _matches(ev, first, subject)
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
        return Residual("", tensor=tf.reduce_any([ev.truth(truth, at=pattern) for truth in truths]), late=True)
    return any(ev.decided(truth, at=pattern) for truth in truths)


def _matches(ev: Evaluator, pattern: ast.pattern, subject: Any) -> bool:
    if isinstance(pattern, ast.MatchAs):
        matched = pattern.pattern is None or _matches(ev, pattern.pattern, subject)
        if matched and pattern.name:
            ev.bind(pattern.name, subject)
        return matched
    if isinstance(pattern, ast.MatchOr):
        return any(_matches(ev, p, subject) for p in pattern.patterns)
    if isinstance(pattern, ast.MatchSingleton | ast.MatchValue):
        return ev.decided(_test(ev, pattern, subject), at=_place(pattern))
    if isinstance(pattern, ast.MatchSequence):
        return _matches_sequence(ev, pattern, subject)
    if isinstance(pattern, ast.MatchMapping):
        return _matches_mapping(ev, pattern, subject)
    if isinstance(pattern, ast.MatchClass):
        return _matches_class(ev, pattern, subject)
    raise ev.refuse(Feature.MATCH, f"a {type(pattern).__name__} pattern")


def _matches_sequence(ev: Evaluator, pattern: ast.MatchSequence, subject: Any) -> bool:
    kind = ev.type_of(subject)
    if issubclass(kind, _TEXTS) or not issubclass(kind, Sequence):
        return False
    if not issubclass(kind, list | tuple | range | collections.deque):
        raise ev.refuse(Feature.MATCH, f"a sequence pattern is matched against a {kind.__name__}")
    members = ev.members(subject)
    stars = [i for i, p in enumerate(pattern.patterns) if isinstance(p, ast.MatchStar)]
    if not stars:
        return len(members) == len(pattern.patterns) and all(
            _matches(ev, p, m) for p, m in zip(pattern.patterns, members, strict=True)
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
    return all(_matches(ev, p, m) for p, m in pairs)


def _matches_mapping(ev: Evaluator, pattern: ast.MatchMapping, subject: Any) -> bool:
    kind = ev.type_of(subject)
    if not issubclass(kind, Mapping):
        return False
    if isinstance(subject, Residual) or not issubclass(kind, dict) or objects.is_object(subject):
        raise ev.refuse(Feature.MATCH, f"a mapping pattern is matched against a {kind.__name__}")
    keys = [ev.value(key) for key in pattern.keys]
    if not all(ev.decided(ev.contains(subject, key)) for key in keys):
        return False
    if pattern.rest:
        members = dict(ev.opened(subject))
        ev.bind(pattern.rest, {k: v for k, v in members.items() if k not in keys})
    values = [ev.item(subject, key) for key in keys]
    return all(_matches(ev, p, v) for p, v in zip(pattern.patterns, values, strict=True))


def _matches_class(ev: Evaluator, pattern: ast.MatchClass, subject: Any) -> bool:
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
    if is_itself and given and not _matches(ev, pattern.patterns[0], subject):
        return False
    names = [*(() if is_itself else places or ())[:given], *pattern.kwd_attrs]
    patterns = [*(() if is_itself else pattern.patterns), *pattern.kwd_patterns]
    values = []
    for name in names:
        values.append(objects.read_or(ev, subject, name, MISSING))
        if values[-1] is MISSING:
            return False
    return all(_matches(ev, p, v) for p, v in zip(patterns, values, strict=True))
