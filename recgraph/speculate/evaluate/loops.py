"""Loops: unrolled, or in the graph, over rows of a tensor, numbers, members of a list that only the graph knows."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.evaluate import branches
from recgraph.speculate.evaluate.branches import WAYS, as_truth
from recgraph.speculate.machine.evaluator import UNROLL, Evaluator, Signal
from recgraph.speculate.observe.reasons import Feature, Inconvertible, ProgramException, RestartConversion
from recgraph.speculate.observe.syntax import names_of_block, site_of
from recgraph.speculate.passes import aliases, backward, ordering, randomness
from recgraph.speculate.script.assumptions import HOLDS, SamePath
from recgraph.speculate.script.contexts import CalledBack, LoopRound, RecursiveBody
from recgraph.speculate.script.symbolic import (
    HELD,
    MISSING,
    UNDEFINED,
    DynamicValue,
    Generator,
    Iteration,
    IterationSpace,
    MaybeUnbound,
    Missing,
    has_run,
    is_symbolic,
)
from recgraph.speculate.values import iterators, lists, merging, objects, state
from recgraph.speculate.values.merging import OptionalSpec, SpecLeaf, TreeSpec
from recgraph.speculate.values.state import WHOLE, ProgramState, Slot

# How often the state of a loop may become more general before it is given up.
_ROUNDS = 4
# A loop over so many numbers is not unrolled where that makes too many operations.
_MANY = 8
Start = Callable[[], None]


class ConvertedLoop:
    """A loop that is being converted. How it was left so far is in the frame's locals, so that it can be merged.

    Args:
        ev: the conversion.
        node: the loop, or an expression that is one.
        block: runs its body; that of the node if it is not given.
    """

    def __init__(self, ev: Evaluator, node: Any, block: Callable[[], Signal | None] | None = None) -> None:
        self.ev, self.node, self.slots = ev, node, ev.frame.locals
        self._block = block or (lambda: ev.run(node.body))
        names = (state.name_of(what, node) for what in ("way", "result", "go", "round"))
        self._way, self._result, self.go, self.counter = names
        self.stay()

    @property
    def way(self) -> Any:
        """How it was left: a number, or a dynamic value."""
        return self.slots[self._way]

    def left(self) -> bool | tf.Tensor:
        """Whether a round has left the loop."""
        way = self.way
        return tf.equal(tf.math.floormod(way.tensor, 2), 1) if isinstance(way, DynamicValue) else bool(way % 2)

    def round(self, start: Start) -> None:
        """One round more, unless the loop was left."""
        left = self.left()
        if isinstance(left, bool):
            self._round(start)
            return
        runs = tf.logical_not(left)
        branches.choose(self.ev, runs, lambda: self._round(start), lambda: None, "round", at=self.node)

    def _round(self, start: Start) -> None:
        start()
        signal = branches.scope(self.ev, self._block)
        self.slots[self._way], self.slots[self._result] = branches.way_of(signal)

    def unless_left(self, then: Callable[[], DynamicValue]) -> DynamicValue | bool:
        """Whether there is another round, which is asked only while the loop was not left."""
        left = self.left()
        if isinstance(left, bool):
            return False if left else then()
        found: DynamicValue = branches.choose(self.ev, tf.logical_not(left), then, lambda: False, "round", at=self.node)
        return found

    def next(self) -> None:
        """One round more, for the profile; the end counts as one, too."""
        self.ev.seen("round", at=self.node)

    def finish(self) -> Signal | None:
        """The `else` clause, and how the loop as a whole ends."""
        left, orelse = self.left(), self.node.orelse
        if isinstance(left, tf.Tensor) and orelse:
            leaves = branches.may_leave(orelse) or _returns(self.node)
            run = self.ev.run
            signal = branches.fork(self.ev, left, self._ending, lambda: run(orelse), leaves, at=self.node)
        elif left is False:
            signal = self.ev.run(orelse)
        else:
            signal = self._ending()
        self.close()
        return signal

    def stay(self) -> None:
        """It is assumed that no round has left it."""
        self.slots[self._way], self.slots[self._result] = WAYS[None], UNDEFINED

    def close(self) -> None:
        """Forgets the names of ours."""
        for name in (self._way, self._result, self.go, self.counter):
            self.slots.pop(name, None)

    def _ending(self) -> Signal | None:
        """What a `return` in the loop means for what follows it."""
        way, result = self.way, self.slots[self._result]
        if not isinstance(way, DynamicValue):
            return ("return", result) if way == WAYS["return"] else None
        if not _returns(self.node):
            return None
        returned = tf.where(way.tensor == WAYS["return"], way.tensor, 0)
        return branches.resume(
            self.ev, ("left", (DynamicValue("", tensor=returned, late=True, limit=3), result)), at=self.node
        )


def _returns(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        return False
    return isinstance(node, ast.Return) or any(map(_returns, ast.iter_child_nodes(node)))


def run_for(ev: Evaluator, node: ast.For) -> Signal | None:
    """A `for` loop."""
    iterable = ev.value(node.iter)
    loop = ConvertedLoop(ev, node)
    if isinstance(iterable, tf.Variable):
        iterable = iterable.read_value()
    if objects.is_object(iterable):
        with ev.at(node.iter):
            iterable = ev.begin(iterable)
    site = site_of(ev.frame.syntax, node, "round")
    # Of what a library calls, eager calls have seen nothing: there a range that varies is taken to vary in length.
    varies = ev.profile.trips_vary(site) or (isinstance(iterable, DynamicValue) and not ev.profile.occurrences(site))
    varies = varies or (ev.is_rolled and type(iterable) is range and len(iterable) >= _MANY)
    with ev.at(node.iter):
        rows = ev.rows(iterable, varies)
    if rows is not None and _over_rows(loop, rows, lambda member: _binding(loop, member)()):
        return loop.finish()
    if isinstance(iterable, Generator):
        iterable.drive(ev, lambda member: _taken(loop, member))
    else:
        with ev.at(node.iter):
            _unrolled(loop, iterable)
    return loop.finish()


def _taken(loop: ConvertedLoop, member: Any) -> bool:
    """A round for what a generator yields; whether it was the last."""
    loop.next()
    loop.round(_binding(loop, member))
    left = loop.left()
    if isinstance(left, tf.Tensor):
        raise loop.ev.refuse(Feature.GENERATOR, "a tensor decides whether a generator continues", at=loop.node)
    return left


def _binding(loop: ConvertedLoop, member: Any) -> Start:
    return lambda: loop.ev.assign(loop.node.target, member)


def _unrolled(loop: ConvertedLoop, iterable: Any) -> None:
    members = iterators.alone(loop.ev, iterable, loop.node.iter)
    left = len(iterable) if isinstance(iterable, list | tuple | range) else 0
    is_first = True
    while loop.left() is not True:
        loop.next()
        member = _next(loop, iterable, members)
        if member is MISSING:
            return
        built, looped = loop.ev.built, loop.ev.looped
        loop.round(_binding(loop, member))
        left -= 1
        if is_first and loop.ev.looped > looped and loop.left() is False and _rest_in_graph(loop, iterable):
            return
        loop.ev.check_operations(0 if is_first else max(left, 0) * (loop.ev.built - built))
        is_first = False


def _rest_in_graph(loop: ConvertedLoop, numbers: Any) -> bool:
    """All rounds but the first as a loop of the graph, if it fits there: they have loops of the graph in them, each of
    which takes long to convert, to derive and to optimise.
    """
    ev, node = loop.ev, loop.node
    if type(numbers) is not range or len(numbers) < _MANY:
        return False
    place, paths = ev.place_of("round", at=node), set(ev.paths)
    if not _over_rows(loop, iterators.known_range(numbers[1:]), lambda member: _binding(loop, member)()):
        ev.paths.intersection_update(paths)
        return False
    if loop.left() is False and isinstance(node.target, ast.Name) and _keeps(loop, node.target.id):
        _binding(loop, numbers[-1])()
    ev.rolled.add(("unrolled", place))
    return True


def _keeps(loop: ConvertedLoop, name: str) -> bool:
    """Whether a name has after a round what it had at its beginning."""
    declared = (one for one in ast.walk(loop.ev.frame.syntax.node) if isinstance(one, ast.Nonlocal | ast.Global))
    return name not in names_of_block(loop.node.body).bound and not any(name in one.names for one in declared)


def _next(loop: ConvertedLoop, iterable: Any, members: Iterator[Any]) -> Any:
    """The next member, or `MISSING`. Python takes none any more from an iterator once the loop was left.

    Where a tensor decides that, one is taken all the same if nobody can notice; else it is assumed whether it is.
    """
    ev, left = loop.ev, loop.left()
    if isinstance(left, bool) or not isinstance(iterable, Iteration):
        return next(members, MISSING)
    place = "members", site_of(ev.frame.syntax, loop.node, "round")
    goes_on = place in ev.paths and ev.last("round", at=loop.node)
    if not goes_on:
        tried = iterators.tried(ev, members)
        if tried is None and place not in ev.paths:
            raise RestartConversion({place})
        if tried is not None and (place not in ev.paths or tried[0] is MISSING):
            return tried[0]
        assert not isinstance(iterable.members, IterationSpace)
        iterable.members = itertools.chain(tried or (), iterable.members)
    ev.follow_last(tf.logical_not(left), "round", at=loop.node)
    if not goes_on:
        return MISSING
    loop.stay()
    return next(members, MISSING)


def run_while(ev: Evaluator, node: ast.While) -> Signal | None:
    """A `while` loop."""
    loop = ConvertedLoop(ev, node)
    varies = not ev.optimizations.unrolling or any(
        seen.varies for seen in ev.profile.occurrences(site_of(ev.frame.syntax, node.test, "truth"))
    )
    for _ in range(UNROLL):
        loop.next()
        go = _test(loop, varies or not isinstance(loop.left(), bool))
        if isinstance(go, tf.Tensor):
            go = _dynamic_or_path(loop, go)
        if not go:
            return loop.finish()
        loop.round(lambda: None)
        if loop.left() is True:
            return loop.finish()
    raise ev.refuse(Feature.TRIPS, f"a loop of more than {UNROLL} rounds is not unrolled")


def _test(loop: ConvertedLoop, varies: bool) -> bool | tf.Tensor:
    """Whether there is one more round. Where calls differ in the number of rounds, none is assumed for a tensor."""
    ev, test = loop.ev, loop.node.test
    value = branches.tested(ev, test) if loop.left() is False else loop.unless_left(lambda: _truth_of_test(loop))
    if varies and isinstance(truth := ev.truth(value, at=test), tf.Tensor):
        ev.seen("truth", at=test)
        return truth
    return ev.decide(value, at=test)


def _dynamic_or_path(loop: ConvertedLoop, go: tf.Tensor) -> bool:
    """The rest of the loop in the graph; or, if it does not fit there, whether there is another round."""
    ev, place = loop.ev, loop.ev.place_of("round", at=loop.node)
    if ("unrolled", place) in ev.paths or not _is_entered(loop, go):
        return ev.follow_last(go, "round", at=loop.node)

    def body() -> None:
        loop.round(lambda: None)
        loop.slots[loop.go] = as_truth(loop.ev, loop.unless_left(lambda: _truth_of_test(loop)))

    def whole(_: ProgramState) -> None:
        with ev.within(LoopRound()):
            dynamic(loop, go, body)

    try:
        state.attempt(ev, whole)
    except (Inconvertible, ProgramException) as reason:
        ev.paths.add(("unrolled", place))
        try:
            return ev.follow_last(go, "round", at=loop.node)
        except Inconvertible:
            raise reason from None
    return False


def _is_entered(loop: ConvertedLoop, go: tf.Tensor) -> bool:
    """Whether the loop may have a round: where gradients depend on it, or may do so, that is assumed."""
    ev = loop.ev
    place = "entered", ev.place_of("round", at=loop.node)
    if place not in ev.paths:
        if not (tf_private.a_tape_is_listening() and _was_entered(loop)):
            return True
        ev.paths.add(place)
    if isinstance(loop.node, ast.For | ast.While) and ev.last("round", at=loop.node) is not None:
        return ev.follow_last(go, "round", at=loop.node)
    # The profile sees statements only, and not those of functions that a library calls.
    ev.assert_in_graph(go, ev.noted(SamePath, "there is a round", at=loop.node))
    return True


def _was_entered(loop: ConvertedLoop) -> bool:
    """Whether the loop had a round in all eager calls, as far as they were seen."""
    seen = loop.ev.profile.seen(*loop.ev.place_of("round", at=loop.node))
    if loop.ev.inside(CalledBack, RecursiveBody):
        return False
    kinds = (ast.For, ast.While) if loop.ev.has_tape_around else (ast.For,)
    return bool(isinstance(loop.node, kinds) and seen.count and not seen.varies and seen.last)


def _truth_of_test(loop: ConvertedLoop) -> DynamicValue:
    test = loop.node.test
    return as_truth(loop.ev, loop.ev.truth(branches.tested(loop.ev, test), at=test))


def each(ev: Evaluator, rows: IterationSpace, take: Callable[[Any], None]) -> bool:
    """Gives each row to a piece of the program, in the graph. What that changes has to be in a slot.

    Returns:
        Whether it fits there; else nothing was done.
    """
    loop = ConvertedLoop(ev, ev.here, lambda: None)
    try:
        return _over_rows(loop, rows, take)
    finally:
        loop.close()


def collected(ev: Evaluator, rows: IterationSpace) -> list[Any]:
    """All rows as members of a list."""
    with state.held(ev, [], ev.here) as found:
        if not each(ev, rows, found.append):
            raise ev.refuse(Feature.TRIPS, "the number of iterations depends on a tensor")
    return found


def _over_rows(loop: ConvertedLoop, rows: IterationSpace, bind: Callable[[Any], None]) -> bool:
    """A loop over rows in the graph, which alone may know how many there are; False if it does not fit there."""
    ev, slots, counter = loop.ev, loop.slots, loop.counter
    if ("unrolled", ev.place_of("round", at=loop.node)) in ev.paths:
        return _refused(loop, rows)
    slots[counter] = DynamicValue("", tensor=tf.constant(int(rows.begins), tf.int64), late=True, limit=int(rows.begins))

    def body() -> None:
        index = slots[counter].tensor
        loop.round(lambda: bind(rows.row(index)))
        slots[counter] = DynamicValue("", tensor=index + 1, late=True, limit=HELD)
        loop.slots[loop.go] = as_truth(ev, loop.unless_left(lambda: as_truth(ev, index + 1 < rows.count)))

    ev.seen("round", at=loop.node)
    go = slots[counter].tensor < rows.count
    if not _is_entered(loop, go):
        slots.pop(counter)
        return True

    def whole(before: ProgramState) -> None:
        if rows.begins:
            branches.tried(before, lambda: _after_first(loop, rows, bind, body))
            _after_first(loop, rows, bind, body)
        else:
            with ev.within(LoopRound()):
                dynamic(loop, go, body, _known(rows.count))

    try:
        state.attempt(ev, whole)
    except (Inconvertible, ProgramException):
        if not rows.is_known:
            raise
        return False
    finally:
        slots.pop(counter, None)
    with ev.at(loop.node):
        lists.check_sources(ev, rows)
    return True


def _refused(loop: ConvertedLoop, rows: IterationSpace) -> bool:
    """For a loop that may not be one of the graph."""
    if rows.is_known:
        return False
    raise loop.ev.refuse(Feature.TRIPS, "the number of iterations depends on a tensor", at=loop.node)


def _after_first(
    loop: ConvertedLoop, rows: IterationSpace, bind: Callable[[Any], None], body: Callable[[], None]
) -> None:
    """The first round, after which names have values and numbers have become tensors; the others in the graph."""
    counter = loop.slots[loop.counter]
    loop.round(lambda: bind(rows.row(tf.constant(0, tf.int64))))
    left = loop.left()
    if left is True:
        return
    go = counter.tensor < rows.count
    with loop.ev.within(LoopRound()):
        goes_on = go if left is False else tf.logical_and(go, tf.logical_not(left))
        dynamic(loop, goes_on, body, _known(rows.count, 1))


def _known(count: tf.Tensor, done: int = 0) -> int | None:
    """How many rounds are left of so many, where that is known."""
    found = tf.get_static_value(count)
    return None if found is None else int(found) - done


def dynamic(loop: ConvertedLoop, go: tf.Tensor, body: Callable[[], None], rounds: int | None = None) -> None:
    """A loop in the graph: what its body changes are the loop's variables.

    Args:
        loop: it.
        go: whether it has a round.
        body: one round.
        rounds: how many it has unless it is left, where that is known.
    """
    loop.slots[loop.go] = DynamicValue("", tensor=go, late=True)
    site, _ = loop.ev.place_of("round", at=loop.node)
    variables = _Variables(loop.ev)
    if variables.begin_as(site):
        try:
            return _with_variables(loop, go, body, variables, rounds)
        except (Inconvertible, ProgramException):  # what varied before may not vary here
            variables.before.undo()
            loop.slots[loop.go] = DynamicValue("", tensor=go, late=True)
            variables = _Variables(loop.ev)
    _with_variables(loop, go, body, variables, rounds)
    variables.remember(site)


def _with_variables(
    loop: ConvertedLoop, go: tf.Tensor, body: Callable[[], None], variables: _Variables, rounds: int | None
) -> None:
    """The loop with these variables or, if they do not fit, with more general ones."""
    while True:
        is_known = False
        while not is_known and variables.need_attempt():
            with branches.scratch():
                variables.put_placeholders()
                body()
                is_known = variables.hold()
        with contextlib.suppress(_CarryTypesWidened):
            return _Building(loop, go, body, variables, rounds).build()


class _Building:
    """A loop that is being built with known variables.

    Args:
        loop: it.
        go: whether it has a round.
        body: one round.
        variables: what changes in it.
        rounds: how many it has unless it is left, where that is known.
    """

    def __init__(
        self, loop: ConvertedLoop, go: tf.Tensor, body: Callable[[], None], variables: _Variables, rounds: int | None
    ) -> None:
        self._ev, self._loop, self._go, self._body, self._rounds = loop.ev, loop, go, body, rounds
        self._variables, self._before, self._patterns = variables, variables.before, dict(variables.patterns)
        self._new = {slot for slot, pattern in self._patterns.items() if _is_new(self._before, slot, pattern)}
        self._growth = _AppendCount(self._before, self._patterns)

    def build(self) -> None:
        """Puts it into the graph.

        Raises:
            _CarryTypesWidened: a round needs more general variables. Everything is as before the loop.
        """
        ev, node, patterns = self._ev, self._loop.node, self._patterns
        first = [t for slot, p in patterns.items() for t in p.tensors(ev, self._before.get(slot))]
        invariants = [tf.TensorShape([]), *(hole.shape for p in patterns.values() for hole in p.holes())]
        start = [tf.constant(HOLDS), *first]
        number, *last = tf.while_loop(self._condition, self._round, start, invariants, parallel_iterations=1)
        place = ev.place_of("round", at=node)
        if isinstance(node, ast.While) or ev.profile.seen(*place).varies:
            ev.uncertain.add(("entered", place))
        ev.in_graph.add(("unrolled", place))
        if any(pattern.grows for pattern in patterns.values()):
            ev.growing.add(("unrolled", place))
        ev.conditionals[backward.deciding(number)] = "entered", place
        self._enter(last, True)
        ev.looped += 1
        ev.assertions.append(number)

    def _enter(self, flat: Iterable[tf.Tensor], at_end: bool = False) -> None:
        """A name that was not set before the loop is set only at its end, if there was a round."""
        ev, before, twins = self._ev, self._before, self._variables.twins
        values = iter(flat)
        for slot, pattern in self._patterns.items():
            value, is_new = pattern.filled(values), slot in self._new
            if at_end and is_new and not isinstance(value, Missing):
                value = MaybeUnbound(value, self._go)
            if at_end and (count := self._growth.count(slot, self._rounds)) is not None:
                value = lists.expanded(ev, value, count)
            if slot in twins:
                ev.twins.add(value.value if isinstance(value, MaybeUnbound) else value, twins[slot])
            before.set(slot, MISSING if is_new and not at_end else value)

    def _condition(self, number: tf.Tensor, *flat: tf.Tensor) -> tf.Tensor:
        self._enter(flat)
        more = self._loop.slots[self._loop.go].tensor
        self._before.restore()
        return tf.logical_and(more, number < 0)

    def _round(self, number: tf.Tensor, *flat: tf.Tensor) -> list[tf.Tensor]:
        ev = self._ev
        self._enter(flat)
        count = len(ev.assertions)
        self._growth.begin()
        self._body()
        if self._loop.left() is False:
            self._growth.end()
        randomness.refuse_draws(ev)
        made = self._variables.tensors(self._patterns)
        if aliases.COPIES in ev.paths:
            made = aliases.apart(ev.conditionals, made)
        ordering.hold_back(tf_private.current_graph(), ev.assertions[count:])
        number = tf.maximum(number, ordering.broken(ev.assertions[count:]))
        if not self._variables.hold():
            raise _CarryTypesWidened
        return [number, *made]


class _CarryTypesWidened(Exception):
    """The variables of a loop are more general now."""


class _AppendCount:
    """Lists to which each round of a loop adds so many members: where the rounds are known, their lengths are, too."""

    def __init__(self, before: ProgramState, slots: Iterable[Slot]) -> None:
        values = ((slot, before.get(slot)) for slot in slots)
        self._lengths = {slot: len(value) for slot, value in values if type(value) is list and not has_run(value)}
        self._before = before
        self._runs: dict[Slot, Any] = {}
        self._added: dict[Slot, int] = {}

    def begin(self) -> None:
        """A round begins: what was there before it is one run in each list."""
        lists_now = ((slot, self._before.get(slot)) for slot in self._lengths)
        self._runs = {slot: value[0] for slot, value in lists_now if type(value) is list and has_run(value[:1])}

    def end(self) -> None:
        """The round has ended: what comes after that run is new."""
        for slot, run in self._runs.items():
            value = self._before.get(slot)
            if type(value) is list and value and value[0] is run and not has_run(value[1:]):
                self._added[slot] = len(value) - 1

    def count(self, slot: Slot, rounds: int | None) -> int | None:
        """How many members a list has after so many rounds; None where only the graph knows."""
        if rounds is None or slot not in self._added:
            return None
        return self._lengths[slot] + rounds * self._added[slot]


class _Variables:
    """What the body of a loop changes.

    Attributes:
        before: the state before the loop.
        patterns: of each slot, what its values have in common from round to round, as far as is known.
        twins: of slots that have lists which may be one with another, the place of the branch.
    """

    def __init__(self, ev: Evaluator) -> None:
        self._ev, self.before = ev, ProgramState(ev)
        self.patterns: dict[Slot, TreeSpec] = {}
        self.twins: dict[Slot, Any] = {}
        self._first, self._rounds = self.before.references(), 0

    def remember(self, site: Any) -> None:
        """Keeps the patterns for when the loop at this site is converted again, in a round or call around it."""
        depths = {id(frame.locals): depth for depth, frame in enumerate(reversed(self._ev.frames))}
        patterns = [(depths.get(key), self.before.holder(key), place, p) for (key, place), p in self.patterns.items()]
        self._ev.loops[site] = [one for one in patterns if one[-1].holes()]

    def begin_as(self, site: Any) -> bool:
        """Takes the patterns that the loop at this site had when it was converted before; whether there are any.

        They hold for what comes into the loop now, and for any value that they held for before.
        """
        ev, before = self._ev, self.before
        frames = ev.frames[::-1]
        with branches.scratch():
            for depth, holder, place, pattern in ev.loops.get(site, ()):
                key = id(holder if depth is None else frames[depth].locals)
                if before.has((key, place)):
                    value = pattern.filled(map(_placeholder, pattern.holes()))
                    with contextlib.suppress(Inconvertible):
                        self.patterns[key, place] = _merged(ev, before, (key, place), value)
        self._rounds = int(bool(self.patterns))
        before.check_opened(self.patterns)
        return bool(self.patterns)

    def need_attempt(self) -> bool:
        """Whether a round has to be tried in a graph that is thrown away: the first, and others where lists grow. What
        would be left of these in the graph of the call, if they turned out not to fit, may fail.
        """
        return not self._rounds or any(pattern.grows for pattern in self.patterns.values())

    def put_placeholders(self) -> None:
        """The slots have any values of their patterns."""
        for slot, pattern in self.patterns.items():
            if not _is_new(self.before, slot, pattern):
                value = pattern.filled(map(_placeholder, pattern.holes()))
                if slot in self.twins:
                    self._ev.twins.add(value, self.twins[slot])
                self.before.set(slot, value)

    def tensors(self, patterns: dict[Slot, TreeSpec]) -> list[tf.Tensor]:
        """What a round has left in the slots.

        Raises:
            _CarryTypesWidened: it does not fit.
        """
        try:
            return [t for slot, p in patterns.items() for t in p.tensors(self._ev, self.before.get(slot))]
        except Inconvertible:
            if self.hold():
                raise
            raise _CarryTypesWidened from None

    def hold(self) -> bool:
        """After a round: whether its changes fit; else the patterns are more general now. The state is put back.

        Raises:
            Inconvertible: they never will.
        """
        ev, before, patterns = self._ev, self.before, self.patterns
        changes, last = before.changes(), before.references()
        twins = {slot: place for slot, v in changes.items() if (place := ev.twins.place_of(v)) is not None}
        before.restore()
        first = {slot: ev.twins.place_of(before.get(slot)) for slot in changes}
        twins |= {slot: place for slot, place in first.items() if place is not None}
        has_more = not twins.keys() <= self.twins.keys()
        self.twins |= twins
        if any(last.are_several(v) or self._first.are_several(before.get(slot)) for slot, v in changes.items()):
            raise merging.two_names(ev)
        wholes = {key for key, place in changes if place is WHOLE}
        known = {slot: p for slot, p in patterns.items() if slot[0] not in wholes or slot[1] is WHOLE}
        more = {slot: _merged(ev, before, slot, value) for slot, value in changes.items()}
        grown = {slot: merging.wider(ev, known.get(slot), pattern) for slot, pattern in more.items()}
        self._rounds += 1
        if all(slot in known and known[slot].holes() == pattern.holes() for slot, pattern in grown.items()):
            return not has_more
        if self._rounds >= _ROUNDS:
            raise ev.refuse(Feature.LOOP, "a value that a loop changes has another shape or type in each iteration")
        self.patterns = known | grown
        before.check_opened(self.patterns)
        return False


def _placeholder(hole: SpecLeaf) -> tf.Tensor:
    return tf_private.placeholder(tf.TensorSpec(hole.shape, hole.dtype))


def _is_new(before: ProgramState, slot: Slot, pattern: TreeSpec) -> bool:
    """Whether a name that was not there before the loop is set in every round."""
    return isinstance(before.get(slot), Missing) and not isinstance(pattern, OptionalSpec)


def _merged(ev: Evaluator, before: ProgramState, slot: Slot, value: Any) -> TreeSpec:
    first = before.get(slot)
    if isinstance(first, Missing) and before.is_name(slot) and not isinstance(value, Missing | MaybeUnbound):
        return merging.template(ev, UNDEFINED, value)
    return before.merged(slot, first, value)


def total(ev: Evaluator, rows: IterationSpace, start: Any) -> Any:
    """`sum`: members are added one after the other. That there is one is assumed where that decides about the type."""
    if not is_symbolic(start):
        ev.assert_in_graph(rows.count > 0, ev.noted(SamePath, "there is something to add up"))
        row = rows.row
        start = ev.operate(operator.add, [start, row(tf.constant(0, tf.int64))])
        rows = dataclasses.replace(rows, count=rows.count - 1, row=lambda number: row(number + 1))
    with state.held(ev, [start], ev.here) as held:

        def add(member: Any) -> None:
            held[0] = ev.operate(operator.add, [held[0], member])

        if not each(ev, rows, add):
            raise ev.refuse_runs("sum() does not fit into a loop of the graph")
    return held[0]
