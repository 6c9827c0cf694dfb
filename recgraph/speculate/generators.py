"""Generators of the user's. What consumes one is converted inside of it, where it yields: a loop over a generator is
the generator's body with the loop's body in place of `yield`, so that everything happens in the eager order.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf

from recgraph.speculate import iterators, state
from recgraph.speculate.evaluator import Evaluator, rule
from recgraph.speculate.profile import is_plain
from recgraph.speculate.scopes import Frame
from recgraph.speculate.values import Residual, StandIn, is_symbolic

# What is done with a member; whether the consumer wants no more.
Taker: TypeAlias = Callable[[Any], bool]


class Closed(Exception):
    """The consumer of a generator wants no more: `GeneratorExit`."""


class Generator(StandIn):
    """A call of a generator function whose body has not begun.

    Args:
        start: runs the body in a frame of its own; gives what it returns.
        frame: that frame.
    """

    def __init__(self, start: Callable[[], Any], frame: Frame) -> None:
        self.start, self.frame, self.is_used = start, frame, False

    def drive(self, ev: Evaluator, take: Taker) -> Any:
        """Runs the body and gives each member to the consumer, whose frame is the one we are in."""
        if self.is_used:
            raise ev.refuse("generator", "a generator goes on later")
        self.is_used = True
        here, consumer, forks, graph = ev.here, ev.frame, ev.heap.forks, tf.compat.v1.get_default_graph()

        def taken(member: Any) -> None:
            ev.frames.append(consumer)
            try:
                with ev.at(here):
                    stops = take(member)
            finally:
                ev.frames.pop()
            if stops and ev.heap.forks != forks:
                raise ev.refuse("generator", "a tensor decides whether a generator goes on")
            if stops and tf.compat.v1.get_default_graph() is not graph:  # what was taken belongs to a round of the loop
                raise ev.refuse("generator", "a generator ends within a loop of the graph")
            if stops:
                raise Closed

        self.frame.taker = taken
        try:
            return self.start()
        except Closed:
            return None


@rule(ast.Yield)
def _yield(ev: Evaluator, node: ast.Yield) -> None:
    member = None if node.value is None else ev.value(node.value)
    _taker(ev)(member)


@rule(ast.YieldFrom)
def _yield_from(ev: Evaluator, node: ast.YieldFrom) -> Any:
    inner, taker = iterators.begun(ev, ev.value(node.value)), _taker(ev)
    if isinstance(inner, Generator):
        return inner.drive(ev, lambda member: taker(member) or False)
    for member in iterators.of(ev, inner):
        taker(member)
    return None


def _taker(ev: Evaluator) -> Any:
    if ev.frame.taker is None:
        raise ev.refuse("generator", "a generator or coroutine")
    return ev.frame.taker


def members(ev: Evaluator, generator: Generator) -> list[Any]:
    """All members, where nothing happens between one and the next."""
    with state.held(ev, [], ev.here) as found:

        def take(member: Any) -> bool:
            found.append(member)
            if len(found) > 2000:
                raise ev.refuse("trips", "a generator without end")
            return False

        generator.drive(ev, take)
    return found


def expanded(ev: Evaluator, generator: Generator) -> list[Any]:
    """All members, though something may happen in between: neither side may notice."""
    given = [value for name, value in generator.frame.locals.items()]
    if not all(map(_is_constant, given)) or not _reads_constants(generator.frame):
        raise ev.refuse("generator", "a generator that may see what happens while it waits")
    before = state.State(ev)
    found = members(ev, generator)
    if before.changes():
        raise ev.refuse("generator", "a generator that changes something while others wait")
    return found


def _is_constant(value: Any) -> bool:
    return isinstance(value, Residual | types.FunctionType) or is_symbolic(value) or is_plain(value)


def _reads_constants(frame: Frame) -> bool:
    cells = frame.function.__closure__ or ()
    reads = [
        part for part in ast.walk(frame.syntax.node) if isinstance(part, ast.Attribute | ast.Nonlocal | ast.Global)
    ]
    return frame.outer is None and not cells and not reads
