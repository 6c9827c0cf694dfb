"""Iterators: what `for`, `next` and the functions of `itertools` take their members from, one after the other.

An iterator of the program is an iterator of ours over values of the conversion: its next member is converted when the
program asks for it, in the order in which eager execution would do it.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import itertools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

from recgraph.cpython import messages
from recgraph.speculate.machine.evaluator import UNROLL, Evaluator
from recgraph.speculate.machine.protocol import Kind
from recgraph.speculate.observe.profile import is_plain
from recgraph.speculate.observe.reasons import Feature, Inconvertible, ProgramException, matches
from recgraph.speculate.observe.syntax import Frame
from recgraph.speculate.script.contexts import CalledBack, Catching, Fork
from recgraph.speculate.script.symbolic import (
    HELD,
    MISSING,
    DynamicValue,
    Generator,
    Iteration,
    IterationSpace,
    has_run,
    is_symbolic,
)
from recgraph.speculate.values import lists, objects, state
from recgraph.speculate.values.state import ProgramState


def made(ev: Evaluator, members: Iterable[Any] | IterationSpace) -> Iteration:
    """An iterator that the program has made."""
    return Iteration(members if isinstance(members, IterationSpace) else iter(members), _forks(ev), ev.here)


def _forks(ev: Evaluator) -> int:
    return ev.contexts.forks + len(ev.contexts.all(CalledBack))


def check_forks(ev: Evaluator, value: Iteration) -> None:
    """Checks that an iterator goes on in the branch, round or function called by TensorFlow in which it was made."""
    if value.forks != _forks(ev):
        ev.need_sequence("an iterator advances")
        raise ev.refuse(Feature.ITERATOR, "a tensor decides whether an iterator advances")


def advancing(ev: Evaluator, value: Iteration) -> Iterator[Any]:
    """The members of an iterator, each taken where no tensor decides whether it is."""
    while True:
        check_forks(ev, value)
        assert not isinstance(value.members, IterationSpace)
        member = next(value.members, MISSING)
        if member is MISSING:
            return
        yield member


def alone(ev: Evaluator, value: Any, *nodes: ast.AST) -> Iterator[Any]:
    """The members of something for the consumer of some nodes: nobody else has an iterator that one of them makes."""
    if (
        isinstance(value, Iteration)
        and not isinstance(value.members, IterationSpace)
        and any(n is value.node for n in nodes)
    ):
        check_forks(ev, value)
        return value.members
    return ev.iterator(value)


def argument(ev: Evaluator, value: Any) -> Iterator[Any]:
    """The members of an argument of the call in work."""
    return alone(ev, value, *(ev.here.args if isinstance(ev.here, ast.Call) else ()))


def tried(ev: Evaluator, members: Iterator[Any]) -> Any:
    """The next member, or `MISSING`, where only the graph knows whether the program takes it; None if it would notice.

    What is left of the iterator, and what was done to take the member, are of no more use then.
    """
    before, draws = ProgramState(ev), ev.graph.draws
    try:
        with ev.within(Fork()):
            member = next(members, MISSING)
    except (Inconvertible, ProgramException):
        before.undo()
        return None
    if has_changed(ev, before, draws):
        before.undo()
        return None
    return (member,)


def has_changed(ev: Evaluator, before: ProgramState, draws: int) -> bool:
    """Whether something happened since that would be noticed."""
    try:
        return ev.graph.draws != draws or bool(before.changes())
    except Inconvertible:  # what could not be merged after a branch
        return True


def rows_of(ev: Evaluator, value: Iteration) -> IterationSpace:
    """The members of an iterator of which only the graph knows how many there are; it has no more after that."""
    check_forks(ev, value)
    found, value.members = value.members, iter(())
    assert isinstance(found, IterationSpace)
    lists.check_sources(ev, found)
    return found


def begun(ev: Evaluator, value: Any) -> Any:
    """What `iter` gives: for an object of the user's by its methods `__iter__` and `__next__`, or `__getitem__`."""
    if not objects.is_object(value):
        return value
    begin, item = (objects.method(ev, type(value), name) for name in ("__iter__", "__getitem__"))
    if begin is not None:
        found = ev.call(begin, [value], {})
        following = objects.method(ev, type(found), "__next__") if objects.is_object(found) else None
        if following is None:
            return ev.begin(found)
        return made(ev, _until(ev, StopIteration, lambda i: ev.call(following, [found], {}), ev.here))
    if item is None:
        raise ev.refuse(Feature.ITERATOR, f"a loop iterates over a {type(value).__name__}")
    return made(ev, _until(ev, IndexError, lambda i: ev.call(item, [value, i], {}), ev.here))


def _until(ev: Evaluator, end: type, member: Callable[[int], Any], node: ast.AST) -> Iterator[Any]:
    for i in range(UNROLL):
        try:
            with ev.within(Catching()), ev.at(node):
                found = member(i)
        except ProgramException as raised:
            if not matches(raised.error, end):
                raise
            return
        yield found
    raise ev.refuse(Feature.TRIPS, f"more than {UNROLL} members of an iterator")


_NUMBERS = (bool, int, float, complex, type(None))


def why_not(ev: Evaluator, value: Any) -> TypeError | None:
    """What Python raises where somebody asks for the members of a number; None for anything else."""
    kind = type(value)
    if isinstance(value, DynamicValue) and not value.late and not value.is_array and type(value.example) in _NUMBERS:
        kind = ev.type_of(value)
    if kind in _NUMBERS:
        return TypeError(f"'{kind.__name__}' object is not iterable")
    if isinstance(value, tf.Tensor) and value.shape.rank == 0:
        return TypeError("Cannot iterate over a scalar tensor.")
    return None


def of_list(ev: Evaluator, members: list[Any]) -> Iterator[Any]:
    """The members of a list, which may grow and shrink meanwhile."""
    for i in itertools.count():
        if has_run(members):
            raise ev.refuse_runs("a list grows while a loop iterates over it")
        if i >= len(members):
            return
        if i >= UNROLL:
            raise ev.refuse(Feature.TRIPS, f"a loop of more than {UNROLL} rounds is not unrolled")
        yield members[i]


def of_table(ev: Evaluator, table: Any) -> Iterator[Any]:
    """The members of a dict, a view of one, a set or a deque, which may not change its size meanwhile.

    What is under a key may change: a member is the one that is there when its turn comes.
    """
    first = _places(table)
    for i in range(len(first) + 1):
        now = _places(table)
        if len(now) != len(first) and not isinstance(table, _ORDERED):
            raise ev.raised(messages.changed_size(table))
        if now != first:
            raise ev.refuse(Feature.ITERATOR, f"a {type(table).__name__} changes while a loop goes through it")
        if i < len(first):
            yield next(itertools.islice(table, i, None))


# What looks for another change than that of its size, and not at its end.
_ORDERED: Any = (
    collections.OrderedDict,
    *(type(getattr(collections.OrderedDict(), n)()) for n in ("keys", "values", "items")),
)


def _places(table: Any) -> list[Any]:
    """What tells where the members of a dict, a view of one, a set or a deque are."""
    if isinstance(table, collections.deque):
        return list(map(id, table))
    return [(key, type(key)) for key in getattr(table, "mapping", table)]


def collected(ev: Evaluator, members: Iterator[Any]) -> list[Any]:
    """All that is left of an iterator."""
    found = list(itertools.islice(members, UNROLL + 1))
    if len(found) > UNROLL:
        raise ev.refuse(Feature.TRIPS, f"more than {UNROLL} members of an iterator")
    return found


def known_range(numbers: range, begins: bool = False) -> IterationSpace:
    """A `range` that is known."""
    rows = range_rows([tf.constant(part, tf.int64) for part in (numbers.start, numbers.stop, numbers.step)], True)
    return dataclasses.replace(rows, count=tf.constant(len(numbers), tf.int64), begins=begins)


def range_rows(parts: list[tf.Tensor], is_known: bool = False) -> IterationSpace:
    """A `range` of numbers from the graph."""
    start, stop, step = parts
    count = tf.maximum((stop - start + step - tf.sign(step)) // step, 0)
    return IterationSpace(count, lambda i: DynamicValue("", tensor=start + i * step, late=True, limit=HELD), is_known)


class Single(Kind):
    """What can be gone through once: an iterator or a generator."""

    def truth(self) -> bool:
        """As every object without a length."""
        return True

    def contains(self, member: Any) -> Any:
        """Uses it up as far as the member."""
        return any(objects.is_or_equals(self.ev, one, member) for one in self.iterator())

    def opened(self) -> Any:
        """A list of all that is left."""
        return self.members()

    def lift(self) -> Any:
        """The same, lifted."""
        return self.ev.lift(self.members())


class Iterating(Single):
    """An iterator that the program has made."""

    name = "an iterator"
    of = Iteration

    def item(self, index: Any) -> Any:
        """Raises in eager execution, too."""
        raise self.ev.refuse(Feature.RAISES, "an iterator has no items")

    def length(self) -> Any:
        """Raises in eager execution, too."""
        raise self.ev.refuse(Feature.RAISES, "an iterator has no length")

    def members(self) -> list[Any]:
        """All that is left of it."""
        return collected(self.ev, self.iterator())

    def pieces(self) -> list[Any]:
        """The same, also where only the graph knows how many there are."""
        if isinstance(self.it.members, IterationSpace):
            return self.ev.collect(rows_of(self.ev, self.it))
        return self.members()

    def rows(self, varies: bool) -> IterationSpace | None:
        """Where only the graph knows how many there are."""
        return rows_of(self.ev, self.it) if isinstance(self.it.members, IterationSpace) else None

    def iterator(self) -> Iterator[Any]:
        """Itself."""
        check_forks(self.ev, self.it)
        if isinstance(self.it.members, IterationSpace):
            raise self.ev.refuse_runs("the number of iterations is known only in the graph")
        return advancing(self.ev, self.it)


class GraphRows(Kind):
    """What a loop in the graph goes through: as many rows as the graph says."""

    name = "a sequence of which only the graph knows the length"
    of = IterationSpace

    def truth(self) -> Any:
        """Whether there is a row."""
        return self.it.count > 0

    def item(self, index: Any) -> Any:
        """The row of a known number."""
        if not isinstance(index, int):
            raise self._cannot("an item")
        return self.it.row(tf.constant(index, tf.int64) if index >= 0 else self.it.count + index)

    def length(self) -> Any:
        """How many rows there are."""
        return DynamicValue("", tensor=self.it.count, late=True, limit=HELD)

    def rows(self, varies: bool) -> IterationSpace:
        """Itself."""
        rows: IterationSpace = self.it
        return rows

    def pieces(self) -> list[Any]:
        """All rows, as a loop of the graph gives them."""
        return self.ev.collect(self.it)

    def members(self) -> list[Any]:
        """Are refused."""
        raise self.ev.refuse(Feature.TRIPS, "the number of iterations depends on a tensor")


def first(ev: Evaluator, generator: Generator, count: int) -> list[Any]:
    """As many members as are wanted, or fewer if there are no more; nobody gets others."""
    with state.held(ev, [], ev.here) as found:

        def take(member: Any) -> bool:
            found.append(member)
            return len(found) == count

        generator.drive(ev, take)
    return _one_by_one(ev, found)


def _one_by_one(ev: Evaluator, found: list[Any]) -> list[Any]:
    """Members, none of which is a run of as many as only the graph knows."""
    if ev.with_runs(found) is not None:
        raise ev.refuse_runs("the number of iterations is known only in the graph")
    return found


def members(ev: Evaluator, generator: Generator) -> list[Any]:
    """All members, with runs, where nothing happens between one and the next."""
    with state.held(ev, [], ev.here) as found:

        def take(member: Any) -> bool:
            found.append(member)
            if len(found) > UNROLL:
                raise ev.refuse(Feature.TRIPS, "the generator does not end")
            return False

        generator.drive(ev, take)
    return found


def expanded(ev: Evaluator, generator: Generator) -> list[Any]:
    """All members, though something may happen in between: neither side may notice."""
    given = [value for name, value in generator.frame.locals.items()]
    if not all(map(_is_constant, given)) or not _reads_constants(generator.frame):
        raise ev.refuse(Feature.GENERATOR, "a generator may see changes that are made between two of its values")
    before = ProgramState(ev)
    found = members(ev, generator)
    if before.changes():
        raise ev.refuse(Feature.GENERATOR, "a generator changes something between two of its values")
    return found


def _is_constant(value: Any) -> bool:
    return isinstance(value, DynamicValue | types.FunctionType) or is_symbolic(value) or is_plain(value)


def _reads_constants(frame: Frame) -> bool:
    cells = frame.function.__closure__ or ()
    reads = [
        part for part in ast.walk(frame.syntax.node) if isinstance(part, ast.Attribute | ast.Nonlocal | ast.Global)
    ]
    return frame.outer is None and not cells and not reads


class Suspended(Single):
    """A call of a generator function of the user's."""

    name = "a generator"
    of = Generator

    def pieces(self) -> list[Any]:
        """All that it yields, with runs for what it yields in a loop of the graph."""
        return members(self.ev, self.it)

    def members(self) -> list[Any]:
        """All that it yields, one by one."""
        return _one_by_one(self.ev, members(self.ev, self.it))

    def iterator(self) -> Iterator[Any]:
        """The same, where neither side notices that all are made at once."""
        return iter(_one_by_one(self.ev, expanded(self.ev, self.it)))
