"""Context managers: the user's classes and generators, the library's `suppress`, tapes and scopes of frameworks."""

from __future__ import annotations

import ast
import contextlib
from typing import Any

from recgraph.speculate.evaluate import branches, targets
from recgraph.speculate.machine.evaluator import Evaluator, Signal, rule
from recgraph.speculate.observe import known
from recgraph.speculate.observe.reasons import Feature, Raised, matches
from recgraph.speculate.passes import connections
from recgraph.speculate.script.contexts import Catching, Managed
from recgraph.speculate.script.stand_ins import Closed, Generator, Residual, StandIn

# The code of what `contextlib.contextmanager` makes of a function.
HELPER = contextlib.contextmanager(lambda: iter(())).__code__


class Nothing(StandIn):
    """`contextlib.nullcontext`."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Suppressing(StandIn):
    """`contextlib.suppress`."""

    def __init__(self, kinds: tuple[Any, ...]) -> None:
        self.kinds = kinds


class OfGenerator(StandIn):
    """What a function gives that `contextlib.contextmanager` was applied to."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator


class Traceback(StandIn):
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
        targets.assign(ev, items[0].optional_vars, value)
    return _managed(ev, items[1:], node)


def _users(ev: Evaluator, manager: Any, items: list[ast.withitem], node: ast.With) -> Signal | None:
    leave = ev.get(manager, "__exit__")
    value = ev.call(ev.get(manager, "__enter__"), [], {})
    try:
        with ev.within(Catching()):
            signal = _body(ev, value, items, node)
    except Raised as raised:
        error = raised.error
        kind = type(error.example if isinstance(error, Residual) else error)
        if not ev.decided(ev.call(leave, [kind, error, Traceback()], {})):
            raise
        return None
    except Closed as closed:
        raise ev.refuse(Feature.GENERATOR, "a generator is abandoned inside a `with` block") from closed
    ev.call(leave, [None, None, None], {})
    return signal


def _nothing(ev: Evaluator, manager: Nothing, items: list[ast.withitem], node: ast.With) -> Signal | None:
    return _body(ev, manager.value, items, node)


def _suppressing(ev: Evaluator, manager: Suppressing, items: list[ast.withitem], node: ast.With) -> Signal | None:
    try:
        with ev.within(Catching()):
            return _body(ev, None, items, node)
    except Raised as raised:
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
        manager.generator.drive(ev, take)
    if not entered:
        raise ev.refuse(Feature.RAISES, "the generator of a context manager does not yield")
    return signals[0]


_KINDS: dict[Any, Any] = {Nothing: _nothing, Suppressing: _suppressing, OfGenerator: _of_generator}
