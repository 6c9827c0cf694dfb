"""Calls of what makes iterators or goes through them: `zip`, `map`, `next`, `any`, and `itertools`."""

from __future__ import annotations

import ast
import builtins
import contextlib
import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.evaluate import branches
from recgraph.speculate.library import SPECIAL, Arguments, Special, draws, special
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.reasons import Feature, Inconvertible, ProgramException, RestartConversion
from recgraph.speculate.script.contexts import Fork
from recgraph.speculate.script.symbolic import (
    HELD,
    MISSING,
    DynamicValue,
    Generator,
    Iteration,
    IterationSpace,
    is_symbolic,
)
from recgraph.speculate.values import iterators, lists, objects
from recgraph.speculate.values.state import ProgramState


def _lazily(function: Callable[..., Any]) -> Special:
    """One that only moves the members of its arguments, as Python's own does; its other arguments are known numbers."""

    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
        known = {name: ev.concrete(value) for name, value in named.items()}
        if function is zip and (rows := _columns(ev, arguments)) is not None:
            if known.get("strict"):
                lists.assume(ev, _are_equally_long(rows), "the arguments of zip() have the same length")
            return iterators.made(ev, _side_by_side(rows))
        columns = [iterators.argument(ev, a) for a in arguments]
        return iterators.made(ev, _guarded(ev, function(*columns, **known)))

    return convert


def _guarded(ev: Evaluator, members: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from members
    except ValueError as error:  # of `zip` where it is strict
        raise ev.raised(error) from error


def _rows(ev: Evaluator, values: Arguments) -> IterationSpace | None:
    """Tuples of one member of each value, if only the graph knows how many there are."""
    columns = _columns(ev, values)
    return None if columns is None else _side_by_side(columns)


def _columns(ev: Evaluator, values: Arguments) -> list[IterationSpace] | None:
    """The members of each value, if only the graph knows how many one of them has."""
    columns = [ev.rows(value) for value in values]
    if all(column is None or column.begins for column in columns):
        return None

    def listed(value: Any) -> IterationSpace:
        return lists.rows(ev, iterators.collected(ev, iterators.argument(ev, value)))

    pairs = zip(columns, values, strict=True)
    return [listed(value) if column is None else column for column, value in pairs]


def _side_by_side(columns: list[IterationSpace]) -> IterationSpace:
    count = functools.reduce(tf.minimum, (column.count for column in columns))
    sources = tuple(source for column in columns for source in column.sources)
    return IterationSpace(count, lambda i: tuple(column.row(i) for column in columns), sources=sources)


def _are_equally_long(columns: list[IterationSpace]) -> tf.Tensor:
    first, *others = (column.count for column in columns)
    return tf.reduce_all([tf.equal(first, count) for count in others])


SPECIAL.update({f: _lazily(f) for f in (
    zip, itertools.chain, itertools.pairwise, itertools.product, itertools.zip_longest,
)})  # fmt: skip
SPECIAL[itertools.chain.from_iterable] = lambda ev, arguments, named: iterators.made(
    ev, (member for part in iterators.argument(ev, arguments[0]) for member in ev.iterator(part))
)


def _of_one(function: Callable[..., Any]) -> Special:
    """One that moves the members of its first argument; the others are numbers."""

    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
        numbers = [ev.concrete(a) for a in arguments[1:]]
        return iterators.made(ev, _guarded(ev, function(iterators.argument(ev, arguments[0]), *numbers)))

    return convert


SPECIAL.update({f: _of_one(f) for f in (
    itertools.islice, itertools.combinations, itertools.permutations, itertools.combinations_with_replacement,
)})  # fmt: skip


@special(builtins.enumerate)
def _enumerate(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
    start = named.get("start", [*arguments, 0][1])
    if (rows := _rows(ev, arguments[:1])) is not None:
        first = ev.tensor(start)

        def numbered(i: tf.Tensor) -> Any:
            return DynamicValue("", tensor=first + i, late=True, limit=HELD), rows.row(i)[0]

        return iterators.made(ev, dataclasses.replace(rows, row=numbered))
    members = iterators.argument(ev, arguments[0])
    return iterators.made(ev, zip(_counted(ev, start, 1), members, strict=False))


def _counted(ev: Evaluator, start: Any, step: Any) -> Iterator[Any]:
    number = start
    while True:
        yield number
        number = ev.operate(operator.add, [number, step])


@special(itertools.count)
def _count(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
    start = named.get("start", [*arguments, 0][0])
    step = named.get("step", [*arguments, 0, 1][1] if len(arguments) > 1 else 1)
    return iterators.made(ev, _counted(ev, start, step))


@special(itertools.repeat)
def _repeat(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
    times = [ev.concrete(a) for a in [*arguments[1:], *named.values()]]
    return iterators.made(ev, itertools.repeat(arguments[0], *times))


SPECIAL[itertools.cycle] = lambda ev, arguments, named: iterators.made(
    ev, itertools.cycle(iterators.argument(ev, arguments[0]))
)


@special(itertools.accumulate)
def _accumulate(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
    function = named.get("func", [*arguments, operator.add][1] if len(arguments) > 1 else operator.add)
    members = iterators.argument(ev, arguments[0])
    if named.get("initial") is not None:
        members = itertools.chain([named["initial"]], members)
    return iterators.made(ev, itertools.accumulate(members, _caller(ev, function or operator.add)))


def _caller(ev: Evaluator, function: Any) -> Callable[..., Any]:
    return lambda *values: ev.call(function, list(values), {})


def _chooser(ev: Evaluator, function: Any) -> Callable[[Any], bool]:
    return lambda member: ev.decided(ev.call(function, [member], {}))


def _choosing(function: Callable[..., Any]) -> Special:
    """One whose first argument is asked about each member."""

    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
        asked = bool if arguments[0] is None else arguments[0]
        return iterators.made(ev, function(_chooser(ev, asked), iterators.argument(ev, arguments[1])))

    return convert


SPECIAL.update({f: _choosing(f) for f in (filter, itertools.filterfalse, itertools.takewhile, itertools.dropwhile)})


@special(itertools.compress)
def _compress(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
    pairs = zip(*(iterators.argument(ev, a) for a in arguments), strict=False)
    return iterators.made(ev, (member for member, wanted in pairs if ev.decided(wanted)))


@special(builtins.map)
def _map(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
    if (rows := _rows(ev, arguments[1:])) is not None:
        call = _caller(ev, arguments[0])
        return iterators.made(ev, dataclasses.replace(rows, row=lambda i: call(*rows.row(i))))
    columns = [iterators.argument(ev, a) for a in arguments[1:]]
    return iterators.made(ev, map(_caller(ev, arguments[0]), *columns))


@special(itertools.starmap)
def _starmap(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
    rows = (iterators.collected(ev, ev.iterator(row)) for row in iterators.argument(ev, arguments[1]))
    return iterators.made(ev, itertools.starmap(_caller(ev, arguments[0]), rows))


@special(itertools.groupby)
def _groupby(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
    key = named.get("key", [*arguments, None][1] if len(arguments) > 1 else None)

    def known(member: Any) -> Any:
        found = ev.concrete(member if key is None else ev.call(key, [member], {}))
        if is_symbolic(found):
            raise ev.refuse(Feature.KEY_FUNCTION, "tensors are used as keys")
        return found

    groups = itertools.groupby(iterators.argument(ev, arguments[0]), known)
    return iterators.made(ev, ((found, iterators.made(ev, group)) for found, group in groups))


@special(functools.reduce)
def _reduce(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    members = itertools.chain(arguments[2:], iterators.argument(ev, arguments[1]))
    for first in members:
        return functools.reduce(_caller(ev, arguments[0]), members, first)
    raise ev.raised(TypeError("reduce() of empty iterable with no initial value"))


@special(builtins.iter)
def _iter(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
    if len(arguments) != 1:
        raise ev.refuse(Feature.ITERATOR, "iter with a callable")
    if isinstance(arguments[0], Iteration):
        return arguments[0]
    if (error := iterators.why_not(ev, arguments[0])) is not None:
        raise ev.raised(error)
    if (rows := _rows(ev, arguments)) is not None:
        return iterators.made(ev, dataclasses.replace(rows, row=lambda i: rows.row(i)[0]))
    return iterators.made(ev, iterators.argument(ev, arguments[0]))


@special(builtins.next)
def _next(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    owner = arguments[0]
    following = objects.method(ev, type(owner), "__next__") if objects.is_object(owner) else None
    if following is not None and len(arguments) == 1:
        return ev.call(following, [owner], {})
    if isinstance(owner, Generator) and isinstance(ev.here, ast.Call) and isinstance(ev.here.args[0], ast.Call):
        return _first(ev, owner, arguments[1:])
    if tf_private.is_iterator(owner) and len(arguments) == 1:
        return draws.take(ev, owner)
    if not isinstance(owner, Iteration):
        raise ev.refuse(Feature.ITERATOR, f"next() of a {type(owner).__name__}")
    for member in iterators.argument(ev, arguments[0]):
        return member
    if len(arguments) > 1:
        return arguments[1]
    raise ev.raised(StopIteration())


def _first(ev: Evaluator, generator: Generator, default: Arguments) -> Any:
    """The first member of a generator that nobody else has."""
    found = iterators.first(ev, generator, 1)
    if not found and not default:
        raise ev.raised(StopIteration())
    return [*found, *default][0]


@special(builtins.reversed)
def _reversed(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Iteration:
    own = ev.of_class(type(arguments[0]), "__reversed__")
    if own is not None and hasattr(own, "__code__"):
        return _iter(ev, [ev.call(own, [arguments[0]], {})], {})
    if (rows := _rows(ev, arguments)) is not None:
        return iterators.made(ev, dataclasses.replace(rows, row=lambda i: rows.row(rows.count - 1 - i)[0]))
    return iterators.made(ev, iterators.collected(ev, iterators.argument(ev, arguments[0]))[::-1])


def _quantifier(wanted: bool) -> Special:
    """`any` looks for what is true, `all` for what is false."""

    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        place = ("members", ev.place_of())
        members = iterators.argument(ev, arguments[0])
        if place in ev.paths:
            return _one_by_one(ev, members, wanted)
        return _together(ev, members, wanted, place)

    return convert


def _together(ev: Evaluator, members: Iterator[Any], wanted: bool, place: Any) -> Any:
    """All members, also those after one of which only the graph knows whether it decides.

    Raises:
        RestartConversion: they do something that would be noticed.
    """
    truths: list[tf.Tensor] = []
    before: tuple[ProgramState, int] | None = None
    try:
        while True:
            with ev.within(Fork()) if before else contextlib.nullcontext():
                member = next(members, MISSING)
            if member is MISSING:
                decided = not wanted
                break
            decided = ev.decide(member)
            if decided is wanted:
                truths += [tf.constant(wanted)] if truths else []
                break
            if isinstance(decided, tf.Tensor):
                truths.append(decided)
                before = before or (ProgramState(ev), ev.graph.draws)
    except (Inconvertible, ProgramException):
        if before is not None:
            raise RestartConversion({place}) from None
        raise
    if before is None:
        return decided
    if iterators.has_changed(ev, *before):
        raise RestartConversion({place})
    reduce = tf.reduce_any if wanted else tf.reduce_all
    return DynamicValue("", tensor=reduce(tf.stack(truths)), late=True)


def _one_by_one(ev: Evaluator, members: Iterator[Any], wanted: bool) -> Any:
    for member in members:
        decided = ev.decide(member)
        if decided is wanted:
            return wanted
        if isinstance(decided, tf.Tensor):
            rest = _once(ev, lambda: _one_by_one(ev, members, wanted))
            ways = [rest, lambda: wanted]
            return branches.choose(ev, decided, ways[wanted], ways[not wanted])
    return not wanted


def _once(ev: Evaluator, thunk: Callable[[], Any]) -> Callable[[], Any]:
    """A thunk that uses up an iterator."""
    runs: list[None] = []

    def run() -> Any:
        if runs:
            raise ev.refuse(Feature.ITERATOR, "a tensor decides how far an iterator advances")
        runs.append(None)
        return thunk()

    return run


SPECIAL.update({any: _quantifier(True), all: _quantifier(False)})
