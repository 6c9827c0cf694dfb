"""Exceptions and context managers: `raise`, `assert`, `try`, `with`.

What raises as long as the assumptions hold is known while the call is converted, and so is the handler that catches it;
what may raise at another time is an assumption that it does not. Managers are the user's classes and generators, the
library's `suppress`, and tapes and scopes of frameworks.
"""

from __future__ import annotations

import ast
import contextlib
import types
from typing import Any

import tensorflow as tf

from recgraph.speculate.evaluate import branches
from recgraph.speculate.machine.evaluator import Evaluator, Signal, rule
from recgraph.speculate.observe import known
from recgraph.speculate.observe.reasons import Feature, ProgramException, matches
from recgraph.speculate.passes import connections
from recgraph.speculate.script.assumptions import NoException
from recgraph.speculate.script.contexts import Catching, Handling, Managed
from recgraph.speculate.script.symbolic import MISSING, DynamicValue, Generator, GeneratorStopped, SymbolicValue
from recgraph.speculate.values import library_calls, objects


@rule(ast.Assert)
def _assert(ev: Evaluator, node: ast.Assert) -> None:
    truth = ev.truth(branches.tested(ev, node.test))
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
        if isinstance(cause, DynamicValue) or not ev.heap.is_made(error):
            raise ev.refuse(Feature.RAISES, "`raise ... from` changes an exception that the call did not make")
        error.__cause__ = cause
    raise ev.raised(error)


def _instance(ev: Evaluator, value: Any) -> Any:
    """The exception that `raise` is given, or makes of a class."""
    if isinstance(value, type) and issubclass(value, BaseException):
        return ev.call(value, [], {})
    if isinstance(value, BaseException) or (
        isinstance(value, DynamicValue) and isinstance(value.example, BaseException)
    ):
        return value
    raise ev.refuse(Feature.RAISES, "exceptions must derive from BaseException")


@rule(ast.Try, ast.TryStar)
def _try(ev: Evaluator, node: ast.Try | ast.TryStar) -> Signal | None:
    """The body, its `else` and handlers are a scope, which `finally` follows in any case."""
    try:
        signal = branches.scope(ev, lambda: _handled(ev, node))
    except (ProgramException, GeneratorStopped) as ending:
        if isinstance(ending, GeneratorStopped) and node.finalbody and _is_named(ev, ending.generator):
            raise ev.refuse(Feature.GENERATOR, "a generator that has a name is left before its end") from None
        left = ev.run(node.finalbody)
        if left is not None:
            return left
        raise
    return ev.run(node.finalbody) or branches.resume(ev, signal)


def _is_named(ev: Evaluator, generator: Generator) -> bool:
    """Whether a name keeps a generator alive, so that it does not end where its consumer leaves it."""
    return any(value is generator for frame in ev.frames for value in frame.locals.values())


def _handled(ev: Evaluator, node: ast.Try | ast.TryStar) -> Signal | None:
    ev.frame.rests.append(node.orelse)
    try:
        with ev.within(Catching()) if node.handlers else contextlib.nullcontext():
            signal = ev.run(node.body)
    except ProgramException as raised:
        handler = _handler(ev, node, raised)
        if handler is None:
            raise
        error = raised.error
    except GeneratorStopped:
        if any(handler.type is None or matches(GeneratorExit(), ev.value(handler.type)) for handler in node.handlers):
            raise ev.refuse(Feature.GENERATOR, "a generator catches that it is left before its end") from None
        raise
    else:
        handler = None
    finally:
        ev.frame.rests.pop()
    if handler is not None:
        return _handle(ev, handler, error)
    return ev.run(node.orelse) if signal is None else signal


def _handler(ev: Evaluator, node: ast.Try | ast.TryStar, raised: ProgramException) -> ast.ExceptHandler | None:
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


# The code of what `contextlib.contextmanager` makes of a function.
HELPER = contextlib.contextmanager(lambda: iter(())).__code__


class Nothing(SymbolicValue):
    """`contextlib.nullcontext`."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Suppressing(SymbolicValue):
    """`contextlib.suppress`."""

    def __init__(self, kinds: tuple[Any, ...]) -> None:
        self.kinds = kinds


class OfGenerator(SymbolicValue):
    """What a function gives that `contextlib.contextmanager` was applied to."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator


class Traceback(SymbolicValue):
    """Stands for the traceback that a context manager is given: nobody may look into it."""


@rule(ast.With)
def _with(ev: Evaluator, node: ast.With) -> Signal | None:
    return branches.resume(ev, _managed(ev, node.items, node))


def _managed(ev: Evaluator, items: list[ast.withitem], node: ast.With) -> Signal | None:
    if not items:
        return branches.scope(ev, lambda: ev.run(node.body))
    manager = ev.value(items[0].context_expr)
    for kind, how in _KINDS.items():
        if isinstance(manager, kind):
            return how(ev, manager, items, node)
    kind = type(manager)
    if known.is_users_type(kind) and not known.is_frameworks_object(manager):
        return _users(ev, manager, items, node)
    if not known.is_frameworks_object(manager) and not known.is_frameworks(getattr(manager, "func", manager)):
        raise ev.refuse(Feature.WITH, f"the context manager {kind.__name__} is not known")
    connections.refuse_old_record(ev, manager)
    if ev.heap.name_of(manager) is not None:
        ev.lift(manager)  # it is this very object
    ev.tapes[id(manager)] = ev.contexts.forks
    with ev.within(Managed(id(manager))), manager as value:
        return _body(ev, value, items, node)


def _body(ev: Evaluator, value: Any, items: list[ast.withitem], node: ast.With) -> Signal | None:
    if items[0].optional_vars is not None:
        ev.assign(items[0].optional_vars, value)
    return _managed(ev, items[1:], node)


def _users(ev: Evaluator, manager: Any, items: list[ast.withitem], node: ast.With) -> Signal | None:
    enter, leave = (_method(ev, manager, name) for name in ("__enter__", "__exit__"))
    value = ev.call(enter, [], {})
    try:
        with ev.within(Catching()):
            signal = _body(ev, value, items, node)
    except ProgramException as raised:
        error = raised.error
        kind = type(error.example if isinstance(error, DynamicValue) else error)
        if not ev.decided(ev.call(leave, [kind, error, Traceback()], {})):
            raise
        return None
    except GeneratorStopped as closed:
        raise ev.refuse(Feature.GENERATOR, "a generator is abandoned inside a `with` block") from closed
    ev.call(leave, [None, None, None], {})
    return signal


def _method(ev: Evaluator, manager: Any, name: str) -> Any:
    """A method that the class has, whatever the object itself has under its name."""
    found = ev.of_class(type(manager), name)
    if found is None:
        raise ev.refuse(Feature.RAISES, f"{type(manager).__name__} has no {name}")
    return types.MethodType(found, manager) if isinstance(found, types.FunctionType) else ev.get(manager, name)


def _nothing(ev: Evaluator, manager: Nothing, items: list[ast.withitem], node: ast.With) -> Signal | None:
    return _body(ev, manager.value, items, node)


def _suppressing(ev: Evaluator, manager: Suppressing, items: list[ast.withitem], node: ast.With) -> Signal | None:
    try:
        with ev.within(Catching()):
            return _body(ev, None, items, node)
    except ProgramException as raised:
        if not matches(raised.error, manager.kinds):
            raise
        return None


def _of_generator(ev: Evaluator, manager: OfGenerator, items: list[ast.withitem], node: ast.With) -> Signal | None:
    """The generator's body with that of the `with` in place of its `yield`; an exception passes through it."""
    entered: list[bool] = []
    signals: list[Signal | None] = [None]

    def take(value: Any) -> bool:
        if entered:
            raise ev.refuse(Feature.RAISES, "the generator of a context manager does not stop")
        entered.append(True)
        signals[0] = _body(ev, value, items, node)
        return False

    with ev.within(Catching()):
        manager.generator.drive(ev, take, throws=True)
    if not entered:
        raise ev.refuse(Feature.RAISES, "the generator of a context manager does not yield")
    return signals[0]


def _name_scope(ev: Evaluator, manager: tf.name_scope, items: list[ast.withitem], node: ast.With) -> Signal | None:
    """A scope is named as it is eagerly: a graph would number the second one of a name."""
    if items[0].optional_vars is not None:
        library_calls.name_scope_read(ev)
    if ev.heap.name_of(manager) is not None:
        ev.lift(manager)  # it is this very object
    name, around = manager.name, tf.get_current_name_scope()
    if name and not name.endswith("/"):
        name = f"{around}/{name}/" if around else f"{name}/"
    with ev.within(Managed(id(manager))), tf.name_scope(name) as value:
        return _body(ev, value, items, node)


_KINDS: dict[Any, Any] = {
    Nothing: _nothing, Suppressing: _suppressing, OfGenerator: _of_generator, tf.name_scope: _name_scope
}  # fmt: skip
