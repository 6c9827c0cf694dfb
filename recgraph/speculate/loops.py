"""Loops: unrolled where the number of rounds is known or assumed, a `tf.while_loop` where a tensor decides it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recgraph.speculate import attributes, branches, containers, state
from recgraph.speculate.evaluator import Evaluator, Signal
from recgraph.speculate.values import Residual

# How often the state of a loop may become more general before it is given up.
_ROUNDS = 4


def run_for(ev: Evaluator, node: ast.For) -> Signal | None:
    """A `for` loop."""
    iterable = ev.value(node.iter)
    if isinstance(iterable, tf.Variable):
        iterable = iterable.read_value()
    if isinstance(iterable, tf.Tensor) and iterable.shape.rank and iterable.shape[0] is None:
        return _over_tensor(ev, node, iterable)
    for member in containers.iterate(ev, iterable, node.iter):
        attributes.assign(ev, node.target, member)
        signal = _round(ev, node)
        if signal is not None:
            if signal[0] == "break":
                return None
            return signal
    return ev.run(node.orelse)


def _round(ev: Evaluator, node: ast.For | ast.While) -> Signal | None:
    frame = ev.frame
    frame.in_loop += 1
    try:
        signal = ev.run(node.body)
    finally:
        frame.in_loop -= 1
    return None if signal is not None and signal[0] == "continue" else signal


def run_while(ev: Evaluator, node: ast.While) -> Signal | None:
    """A `while` loop."""
    site = (*ev.frame.syntax.key, getattr(node, "site", -1))
    if any(seen.varies for seen in ev.profile.occurrences(site)):
        with branches.scratch():
            is_tensor = isinstance(ev.truth(ev.value(node.test), node), tf.Tensor)
        if is_tensor:
            return _while_tensor(ev, node)
    for _ in range(containers.UNROLL):
        decided = ev.decide(ev.value(node.test), node)
        if isinstance(decided, tf.Tensor):
            return _while_tensor(ev, node)
        if not decided:
            return ev.run(node.orelse)
        signal = _round(ev, node)
        if signal is not None:
            return None if signal[0] == "break" else signal
    raise ev.refuse("trips", f"a loop of more than {containers.UNROLL} rounds is not unrolled", node)


def _while_tensor(ev: Evaluator, node: ast.While) -> Signal | None:
    def test() -> tf.Tensor:
        truth = ev.truth(ev.value(node.test), node)
        return truth if isinstance(truth, tf.Tensor) else tf.constant(bool(ev.decide(truth, node)))

    dynamic(ev, test, lambda: _plain_round(ev, node), node)
    return ev.run(node.orelse)


def _plain_round(ev: Evaluator, node: ast.For | ast.While) -> None:
    if ev.run(node.body) is not None:
        raise ev.refuse("loop exit", "a loop whose rounds a tensor decides is left", node)


def _over_tensor(ev: Evaluator, node: ast.For, tensor: tf.Tensor) -> Signal | None:
    """A loop over the rows of a tensor whose length is not known."""
    frame, counter = ev.frame, f"<round of line {node.lineno}>"
    frame.locals[counter] = Residual("", tensor=tf.constant(0, tf.int64), late=True)

    def test() -> tf.Tensor:
        return frame.locals[counter].tensor < tf.shape(tensor, tf.int64)[0]

    def body() -> None:
        index = frame.locals[counter].tensor
        attributes.assign(ev, node.target, tensor[index])
        _plain_round(ev, node)
        frame.locals[counter] = Residual("", tensor=index + 1, late=True)

    dynamic(ev, test, body, node)
    del frame.locals[counter]
    return ev.run(node.orelse)


def dynamic(ev: Evaluator, test: Callable[[], tf.Tensor], body: Callable[[], None], node: ast.AST) -> None:
    """A loop in the graph: what its body changes are the loop's variables."""
    before = state.State(ev)
    patterns = _variables(ev, before, test, body)
    slots = list(patterns)
    first = [t for slot in slots for t in state.tensors(ev, patterns[slot], before.get(slot))]
    shapes = [hole.shape for slot in slots for hole in state.holes(patterns[slot])]

    def enter(flat: tuple[tf.Tensor, ...]) -> None:
        values = iter(flat)
        for slot in slots:
            before.set(slot, state.filled(patterns[slot], values))

    def condition(_: tf.Tensor, *flat: tf.Tensor) -> tf.Tensor:
        enter(flat)
        result = test()
        before.restore()
        return result

    def round_(number: tf.Tensor, *flat: tf.Tensor) -> list[tf.Tensor]:
        enter(flat)
        count = len(ev.assertions)
        body()
        made = [t for slot in slots for t in state.tensors(ev, patterns[slot], before.get(slot))]
        number = tf.maximum(number, branches.broken(ev.assertions[count:]))
        before.restore()
        return [number, *made]

    start = [tf.constant(-1), *first]
    invariants = [tf.TensorShape([]), *shapes]
    number, *last = tf.while_loop(condition, round_, start, invariants, parallel_iterations=1)
    enter(tuple(last))
    ev.assertions.append(number)


def _variables(
    ev: Evaluator, before: state.State, test: Callable[[], tf.Tensor], body: Callable[[], None]
) -> dict[state.Slot, Any]:
    """What the body changes, each with what it has in common from round to round."""
    patterns: dict[state.Slot, Any] = {}
    for _ in range(_ROUNDS):
        with branches.scratch():
            for slot, pattern in patterns.items():
                before.set(slot, state.filled(pattern, _placeholders(pattern)))
            test()
            body()
            changes = before.changes()
        before.restore()
        more = {slot: state.template(ev, before.get(slot), value) for slot, value in changes.items()}
        wider = {slot: _wider(ev, patterns.get(slot), pattern) for slot, pattern in more.items()}
        if all(_alike(patterns.get(slot), pattern) for slot, pattern in wider.items()):
            return patterns
        patterns.update(wider)
    raise ev.refuse("loop", "what a loop changes has another shape in each round")


def _placeholders(pattern: Any) -> Any:
    from recgraph import tf_private

    return (tf_private.placeholder(tf.TensorSpec(hole.shape, hole.dtype)) for hole in state.holes(pattern))


def _wider(ev: Evaluator, known: Any, found: Any) -> Any:
    """A template that covers two."""
    if known is None or not isinstance(known, state.Hole) or not isinstance(found, state.Hole):
        return found
    shape = known.shape if known.shape == found.shape else state._common(known.shape, found.shape)
    return state.Hole(known.dtype, shape, known.is_number)


def _alike(one: Any, other: Any) -> bool:
    ours, theirs = state.holes(one), state.holes(other)
    return one is not None and [(h.dtype, h.shape.as_list() if h.shape.rank is not None else None) for h in ours] == [
        (h.dtype, h.shape.as_list() if h.shape.rank is not None else None) for h in theirs
    ]
