"""Exceptions: `raise`, `assert`, `try`. What raises as long as the assumptions hold is known while the call is
converted, and so is the handler that catches it; what may raise at another time is an assumption that it does not.
"""

from __future__ import annotations

import ast
import contextlib
from typing import Any

import tensorflow as tf

from recgraph.speculate.evaluate import branches
from recgraph.speculate.machine.evaluator import Evaluator, Signal, rule
from recgraph.speculate.observe.reasons import Feature, Raised, matches
from recgraph.speculate.script.assumptions import NoException
from recgraph.speculate.script.contexts import Catching, Handling
from recgraph.speculate.script.stand_ins import MISSING, Closed, Residual
from recgraph.speculate.values import objects


@rule(ast.Assert)
def _assert(ev: Evaluator, node: ast.Assert) -> None:
    truth = ev.truth(ev.value(node.test))
    if isinstance(truth, tf.Tensor):
        ev.assert_in_graph(truth, ev.noted(NoException, "the assertion holds"))
    elif not ev.decided(truth, at=node.test):
        message = [] if node.msg is None else [ev.value(node.msg)]
        raise ev.raised(objects.made(ev, AssertionError, message, {}))


@rule(ast.Raise)
def _raise(ev: Evaluator, node: ast.Raise) -> None:
    if node.exc is None:
        handling = ev.contexts.all(Handling)
        if not handling:
            raise ev.refuse(Feature.RAISES, "`raise` without an exception outside an `except` block")
        raise ev.raised(handling[-1].error)
    error = _instance(ev, ev.value(node.exc))
    if node.cause is not None:
        cause = ev.value(node.cause)
        cause = None if cause is None else _instance(ev, cause)
        if isinstance(cause, Residual) or not ev.heap.is_made(error):
            raise ev.refuse(Feature.RAISES, "`raise ... from` changes an exception that the call did not make")
        error.__cause__ = cause
    raise ev.raised(error)


def _instance(ev: Evaluator, value: Any) -> Any:
    """The exception that `raise` is given, or makes of a class."""
    if isinstance(value, type) and issubclass(value, BaseException):
        return ev.call(value, [], {})
    if isinstance(value, BaseException) or (isinstance(value, Residual) and isinstance(value.example, BaseException)):
        return value
    raise ev.refuse(Feature.RAISES, "exceptions must derive from BaseException")


@rule(ast.Try, ast.TryStar)
def _try(ev: Evaluator, node: ast.Try | ast.TryStar) -> Signal | None:
    """The body, its `else` and handlers are a scope, which `finally` follows in any case."""
    try:
        signal = branches.scope(ev, lambda: _handled(ev, node))
    except (Raised, Closed):
        left = ev.run(node.finalbody)
        if left is not None:
            return left
        raise
    return ev.run(node.finalbody) or branches.resume(ev, signal)


def _handled(ev: Evaluator, node: ast.Try | ast.TryStar) -> Signal | None:
    ev.frame.rests.append(node.orelse)
    try:
        with ev.within(Catching()) if node.handlers else contextlib.nullcontext():
            signal = ev.run(node.body)
    except Raised as raised:
        handler = _handler(ev, node, raised)
        if handler is None:
            raise
        error = raised.error
    else:
        handler = None
    finally:
        ev.frame.rests.pop()
    if handler is not None:
        return _handle(ev, handler, error)
    return ev.run(node.orelse) if signal is None else signal


def _handler(ev: Evaluator, node: ast.Try | ast.TryStar, raised: Raised) -> ast.ExceptHandler | None:
    """The handler that catches it, None if none does."""
    if not node.handlers:
        return None
    if isinstance(node, ast.TryStar):
        raise ev.refuse(Feature.EXCEPTION_GROUP, "an exception is caught by `except*`")
    if raised.in_rest and node.orelse:
        raise ev.refuse(
            Feature.EXCEPTION, "an exception is raised after a tensor-dependent branch, inside a `try` with `else`"
        )
    for handler in node.handlers:
        if handler.type is None or matches(raised.error, ev.value(handler.type)):
            return handler
    return None


def _handle(ev: Evaluator, handler: ast.ExceptHandler, error: Any) -> Signal | None:
    if handler.name:
        ev.bind(handler.name, error)
    try:
        with ev.within(Handling(error)):
            return ev.run(handler.body)
    finally:
        if handler.name:
            ev.bind(handler.name, MISSING)
