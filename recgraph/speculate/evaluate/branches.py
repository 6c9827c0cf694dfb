"""Branches that a tensor decides: both are converted, and what they change flows out of a `tf.cond`.

A branch may leave the block around it. Then what follows is a part of the branch, up to the end of the *scope*: of the
function, of a round of a loop, of the body of a `try` or `with`. How the branch has left it is a number beside its
result, on which what comes after the scope depends.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, Final

import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.machine.evaluator import Evaluator, Signal
from recgraph.speculate.machine.possible_aliases import are_lists, lists_in
from recgraph.speculate.observe.reasons import Inconvertible, ProgramException
from recgraph.speculate.passes import aliases, backward, ordering, randomness
from recgraph.speculate.script.contexts import Fork
from recgraph.speculate.script.symbolic import UNDEFINED, DynamicValue, is_of_graph
from recgraph.speculate.values import merging, state
from recgraph.speculate.values.merging import TreeSpec
from recgraph.speculate.values.state import ProgramState, Slot

Thunk = Callable[[], Any]
# How a scope was left, as a number; what leaves a loop is odd.
WAYS: Final[dict[str | None, int]] = {None: 0, "break": 1, "continue": 2, "return": state.RETURNS}
_WAY, _RESULT = state.RESULT_WAY, state.RESULT


def choose(
    ev: Evaluator,
    condition: tf.Tensor,
    then: Thunk,
    otherwise: Thunk,
    what: str = "truth",
    at: ast.AST | None = None,
) -> Any:
    """The value of one of two pieces of the program, whose changes are made.

    Where the two do not fit together, the one that ran last is assumed to run again: the profile has it at the node
    in work, or `at` another, under `what`.
    """
    place = ev.place_of(what, at)
    if place in ev.paths:
        return (then if ev.follow_last(condition, what, at) else otherwise)()

    def both(before: ProgramState) -> Any:
        with ev.within(Fork()):
            return _both(ev, before, condition, then, otherwise, place)

    try:
        return state.attempt(ev, both)
    except (Inconvertible, ProgramException) as reason:
        ev.paths.add(place)
        try:
            direction = ev.follow_last(condition, what, at)
        except Inconvertible as unknown:
            raise (unknown if isinstance(reason, ProgramException) else reason) from None
        return then() if direction else otherwise()


def tested(ev: Evaluator, node: ast.expr) -> Any:
    """The value of an expression of which only the truth is asked: operands of `and`, `or` need not be of one kind."""
    if not isinstance(node, ast.BoolOp):
        return ev.value(node)
    with ev.at(node):
        return _tested(ev, node.values, isinstance(node.op, ast.And))


def _tested(ev: Evaluator, operands: list[ast.expr], goes_on: bool) -> Any:
    first, *more = operands
    value = tested(ev, first)
    if not more:
        return value
    decided = ev.decide(value, at=first)
    if isinstance(decided, tf.Tensor):
        ways = [lambda: as_truth(ev, not goes_on), lambda: as_truth(ev, ev.truth(_tested(ev, more, goes_on)))]
        return choose(ev, decided, ways[goes_on], ways[not goes_on], at=first)
    return _tested(ev, more, goes_on) if decided is goes_on else decided


def as_truth(ev: Evaluator, truth: Any) -> DynamicValue:
    """What is true or not, as a value that can flow."""
    if is_of_graph(truth):
        return truth
    tensor = truth if isinstance(truth, tf.Tensor) else tf.constant(bool(ev.decide(truth)))
    return DynamicValue("", tensor=tensor, late=True)


class _BranchTrace:
    """A piece of the program in a graph of its own: what it gives and what it changes. Nothing is changed yet."""

    def __init__(self, ev: Evaluator, before: ProgramState, thunk: Thunk, name: str) -> None:
        self.value: Any = None
        self.changes: dict[Slot, Any] = {}
        self.lists: dict[Slot, Any] = {}
        first = len(ev.assertions)

        def build() -> None:
            self.value = thunk()
            randomness.refuse_draws(ev)
            self.changes = before.changes()
            self.lists = before.lists(self.changes)
            self.references = before.references()
            ordering.hold_back(tf_private.current_graph(), ev.assertions[first:])
            self.broken = ordering.broken(ev.assertions[first:])

        self.graph = tf_private.branch_graph(name, build)
        before.restore()

    def take_whole(self, slots: Iterable[Slot]) -> None:
        """Lists that grow on the other way change as a whole on this one, too."""
        for slot in slots:
            if slot in self.lists:
                self.changes = {s: value for s, value in self.changes.items() if s[0] != slot[0]}
                self.changes[slot] = self.lists[slot]


def _both(ev: Evaluator, before: ProgramState, condition: tf.Tensor, then: Thunk, otherwise: Thunk, place: Any) -> Any:
    """Each piece is converted once; then both graphs get the outputs that they have together."""
    sides = [_BranchTrace(ev, before, then, "then"), _BranchTrace(ev, before, otherwise, "otherwise")]
    slots = _changed(ev, before, *sides)
    untouched = {slot: before.get(slot) for slot in slots}
    ends = [[side.changes.get(slot, untouched[slot]) for slot in slots] for side in sides]
    several = _lists_of_several(ev, sides, slots, ends)
    pattern = [before.merged(slot, *both) for slot, *both in zip(slots, *ends, strict=True)]
    result = merging.template(ev, *(side.value for side in sides))
    if any(part.grows for part in [*pattern, result]):
        ev.growing.add(place)
    flat = [_outputs(ev, side, [*pattern, result], [*end, side.value]) for side, end in zip(sides, ends, strict=True)]
    made = tf_private.conditional(condition, [side.graph for side in sides], flat)
    ev.conditionals[backward.deciding(made[-1])] = place
    outputs = iter(made)
    for slot, p in zip(slots, pattern, strict=True):
        before.set(slot, p.filled(outputs))
    value = result.filled(outputs)
    ev.assertions.append(next(outputs))
    for at, shared in several:
        ev.twins.add(shared, place)
        ev.twins.add(value if at is None else before.get(at), place)
    for slot, *both in zip(slots, *ends, strict=True):
        ev.twins.follow(both, before.get(slot))
    ev.twins.follow([side.value for side in sides], value)
    return value


def _changed(ev: Evaluator, before: ProgramState, one: _BranchTrace, other: _BranchTrace) -> list[Slot]:
    """The slots that one of two pieces changes, or both.

    Raises:
        Inconvertible: the pieces add keys or names in another order.
    """
    one.take_whole(other.changes)
    other.take_whole(one.changes)
    slots = list({**one.changes, **other.changes})
    before.check_opened(slots)
    if before.new_keys(one.changes) != before.new_keys(other.changes):
        raise merging.another_order(ev)
    return slots


def _lists_of_several(
    ev: Evaluator, sides: list[_BranchTrace], slots: list[Slot], ends: list[list[Any]]
) -> list[tuple[Slot | None, Any]]:
    """Lists to which several names refer on one way, and which are others on the other way; without a slot, results.

    Raises:
        Inconvertible: they are no lists, or were there before, or are changed.
    """
    found: list[tuple[Slot | None, Any]] = [
        (slot, value)
        for side, end, others in zip(sides, ends, reversed(ends), strict=True)
        for slot, value, another in zip(slots, end, others, strict=True)
        if value is not another and side.references.are_several(value)
    ]
    if sides[0].value is not sides[1].value:
        found += [(None, side.value) for side in sides if side.references.are_several(side.value, 0)]
    changed = {slot[0] for slot in slots}
    for _, value in found:
        if not are_lists(value) or any(id(one) in changed or ev.heap.name_of(one) for one in lists_in(value)):
            raise merging.two_names(ev)
    return found


def _outputs(ev: Evaluator, side: _BranchTrace, templates: list[TreeSpec], values: list[Any]) -> list[tf.Tensor]:
    """What a piece gives for the holes of templates, and last whether its assumptions hold."""
    first = len(ev.assertions)
    with side.graph.as_default():
        found = [t for one, value in zip(templates, values, strict=True) for t in one.tensors(ev, value)]
        if aliases.COPIES in ev.paths:
            found = aliases.apart(ev.conditionals, found)
        found.append(ordering.broken([side.broken, *ev.assertions[first:]]))
    del ev.assertions[first:]
    return found


def tried(before: ProgramState, thunk: Thunk) -> tuple[Any, dict[Slot, Any]]:
    """What a piece of the program gives and changes, found in a graph that is thrown away."""
    with scratch():
        value = thunk()
        changes = before.changes()
    before.restore()
    before.forget_ways()
    return value, changes


def scratch() -> Any:
    """A graph to try something in."""
    return tf_private.FuncGraph("try").as_default()


def fork(
    ev: Evaluator, condition: tf.Tensor, then: Thunk, otherwise: Thunk, leaves: bool, at: ast.AST | None = None
) -> Signal | None:
    """One of two blocks of statements: how it ends. `leaves` says whether one may leave the block around it."""
    if not leaves:
        choose(ev, condition, then, otherwise, at=at)
        return None
    return _to_the_end(ev, condition, then, otherwise, at=at)


def _to_the_end(
    ev: Evaluator,
    condition: tf.Tensor,
    then: Thunk,
    otherwise: Thunk,
    what: str = "truth",
    at: ast.AST | None = None,
) -> Signal:
    """Two blocks, each with the rest of the scope."""
    frame = ev.frame
    base = frame.scopes[-1]
    in_function = len(frame.scopes) == 1
    slots = frame.locals

    def whole(block: Thunk) -> Thunk:
        def run() -> None:
            signal = block()
            for depth in reversed(range(base, len(frame.rests))):
                if signal is not None:
                    break
                rest = frame.rests[depth]
                with frame.at(depth):
                    signal = _rest(ev, rest)
            _leave(slots, signal, in_function)

        return run

    slots[_WAY] = slots[_RESULT] = UNDEFINED
    choose(ev, condition, whole(then), whole(otherwise), what, at)
    way, result = slots.pop(_WAY), slots.pop(_RESULT)
    return ("return", result) if way == WAYS["return"] else ("left", (way, result))


def _rest(ev: Evaluator, rest: list[ast.stmt]) -> Signal | None:
    try:
        return ev.run(rest)
    except ProgramException as raised:
        raised.in_rest = True
        raise


def _leave(slots: dict[str, Any], signal: Signal | None, in_function: bool) -> None:
    if signal is None and in_function:
        signal = ("return", None)
    if signal is None or signal[0] != "left":
        slots[_WAY] = WAYS[signal[0] if signal else None]
        slots[_RESULT] = signal[1] if signal and signal[0] == "return" else UNDEFINED
    else:
        slots[_WAY], slots[_RESULT] = signal[1]
        if in_function:  # nothing but a return leaves it
            slots[_WAY] = WAYS["return"]


def scope(ev: Evaluator, block: Thunk) -> Signal | None:
    """Runs a block that something follows which belongs to no branch in it."""
    scopes = ev.frame.scopes
    scopes.append(len(ev.frame.rests))
    try:
        signal: Signal | None = block()
    finally:
        scopes.pop()
    return signal


def resume(ev: Evaluator, signal: Signal | None, at: ast.AST | None = None) -> Signal | None:
    """Goes on after a scope: with what follows it, or by leaving the scope around it, too."""
    if signal is None or signal[0] != "left":
        return signal
    way, result = signal[1]
    if not isinstance(way, DynamicValue):
        return {0: None, 1: ("break", None), 2: ("continue", None), 3: ("return", result)}[way]
    ev.seen("after", at)
    return _to_the_end(ev, tf.equal(way.tensor, 0), lambda: None, lambda: signal, "after", at)


def way_of(signal: Signal | None) -> tuple[Any, Any]:
    """How a scope was left, as a number or a tensor of one, and the result of a return."""
    if signal is not None and signal[0] == "left":
        return signal[1]
    kind, value = signal or (None, None)
    return WAYS[kind], value if kind == "return" else UNDEFINED


def may_leave(statements: Iterable[ast.AST]) -> bool:
    """Whether a branch may leave the block: by `return`, or by `break` or `continue` of a loop around it."""
    return any(_leaves(statement, True) for statement in statements)


def _leaves(node: ast.AST, with_loop: bool) -> bool:
    if isinstance(node, ast.Return) or (with_loop and isinstance(node, ast.Break | ast.Continue)):
        return True
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        return False
    inside = with_loop and not isinstance(node, ast.For | ast.While)
    return any(_leaves(child, inside) for child in ast.iter_child_nodes(node))
