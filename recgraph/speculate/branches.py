"""Branches that a tensor decides: both are converted, and what they change flows out of a `tf.cond`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate import state
from recgraph.speculate.evaluator import Evaluator, Signal

Thunk = Callable[[], Any]
_NONE = -1  # the number of no broken assumption


def run(ev: Evaluator, condition: tf.Tensor, then: Thunk, otherwise: Thunk, node: ast.AST) -> None:
    """Runs one of two pieces of the program."""
    choose(ev, condition, then, otherwise, node)


def choose(ev: Evaluator, condition: tf.Tensor, then: Thunk, otherwise: Thunk, node: ast.AST) -> Any:
    """The value of one of two pieces of the program, whose changes are made."""
    before = state.State(ev)
    tries = [_tried(ev, before, thunk) for thunk in (then, otherwise)]
    slots = list({**tries[0][1], **tries[1][1]})
    untouched = {slot: before.get(slot) for slot in slots}
    pattern = [state.template(ev, *(values.get(slot, untouched[slot]) for _, values in tries)) for slot in slots]
    result = state.template(ev, tries[0][0], tries[1][0])

    def traced(thunk: Thunk) -> Callable[[], list[tf.Tensor]]:
        def branch() -> list[tf.Tensor]:
            first = len(ev.assertions)
            value = thunk()
            flat = [t for p, slot in zip(pattern, slots, strict=True) for t in state.tensors(ev, p, before.get(slot))]
            flat += state.tensors(ev, result, value)
            flat.append(broken(ev.assertions[first:]))
            before.restore()
            return flat

        return branch

    outputs = iter(tf.cond(condition, traced(then), traced(otherwise)))
    for slot, p in zip(slots, pattern, strict=True):
        before.set(slot, state.filled(p, outputs))
    value = state.filled(result, outputs)
    ev.assertions.append(next(outputs))
    return value


def _tried(ev: Evaluator, before: state.State, thunk: Thunk) -> tuple[Any, dict[state.Slot, Any]]:
    """What a piece of the program gives and changes, found in a graph that is thrown away."""
    with scratch():
        value = thunk()
        changes = before.changes()
    before.restore()
    return value, changes


def scratch() -> Any:
    """A graph to try something in."""
    return tf_private.FuncGraph("try").as_default()


def broken(assertions: list[tf.Tensor]) -> tf.Tensor:
    """The number of an assumption that is broken, -1 if none is; of several the largest."""
    if not assertions:
        return tf.constant(_NONE)
    return assertions[0] if len(assertions) == 1 else tf.reduce_max(tf.stack(assertions))


def leaves(node: ast.If) -> bool:
    """Whether a branch may leave the block: by `return`, or by `break` or `continue` of a loop around it."""
    return any(_leaves(statement, True) for statement in [*node.body, *node.orelse])


def _leaves(node: ast.AST, with_loop: bool) -> bool:
    if isinstance(node, ast.Return) or (with_loop and isinstance(node, ast.Break | ast.Continue)):
        return True
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        return False
    inside = with_loop and not isinstance(node, ast.For | ast.While)
    return any(_leaves(child, inside) for child in ast.iter_child_nodes(node))


def leave(ev: Evaluator, condition: tf.Tensor, node: ast.If) -> Signal:
    """A branch that may return: the rest of the function is a part of each branch."""
    frame = ev.frame
    if frame.in_loop:
        raise ev.refuse("loop exit", "a tensor decides whether an unrolled loop is left", node)
    rests = list(frame.rests)

    def to_the_end(body: list[ast.stmt]) -> Thunk:
        def thunk() -> Any:
            signal = ev.run(body)
            for rest in reversed(rests):
                if signal is not None:
                    break
                signal = ev.run(rest)
            return None if signal is None else signal[1]

        return thunk

    return ("return", choose(ev, condition, to_the_end(node.body), to_the_end(node.orelse), node))
