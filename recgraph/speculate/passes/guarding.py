"""Guards: what may not end, or whose cost a value decides, begins only when the assumptions before it hold.

Where a branch was assumed to go one way, what follows in the graph is that way alone, and runs beside the check. A loop
may end on that way only, and a length be small on it only: eagerly neither is begun on the other way. So loops,
recursion and what makes tensors of a computed size wait for the assumptions that come before them in the program, and
for its own checks. The check fails the graph, which is cancelled then.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.ops import Form, bodies, is_call
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.passes import effects
from recgraph.speculate.script.contexts import CalledBack, Fork

MARK: Final = "recgraph: broken assumption"
_NONE: Final = -1  # the number of no broken assumption


def broken(assertions: Sequence[tf.Tensor]) -> tf.Tensor:
    """The number of an assumption that is broken, -1 if none is; of several the largest."""
    if not assertions:
        return tf.constant(_NONE)
    return assertions[0] if len(assertions) == 1 else tf.reduce_max(tf.stack(assertions))


def is_guarded(ev: Evaluator) -> bool:
    """Whether the graph decides if the program comes to this place, which the script does not know before it."""
    if ev.assertions or ev.inside(Fork, CalledBack):
        return True
    return any(map(_is_check, ev.graph.get_operations()))


def check(assertions: Sequence[tf.Tensor]) -> tf.Operation:
    """An operation that fails the graph, with its number, where one of these assumptions is broken."""
    number = broken(assertions)
    return tf.debugging.Assert(number < 0, [MARK, number], summarize=1)


def hold_back(graph: Any, assertions: Sequence[tf.Tensor]) -> None:
    """Makes what may not end, or become large, wait for the checks that come before it in the program.

    Args:
        graph: of a call, or of a branch or a round of a loop in it, whose operations are in the order of the program.
        assertions: the assumptions that are checked in it, as numbers.
    """
    operations = graph.get_operations()
    costly = [op for op in operations if is_costly(op)]
    if not costly:
        return
    places = {op: i for i, op in enumerate(operations)}
    numbers = sorted((t for t in assertions if t.op in places), key=lambda t: places[t.op])
    checks = [op for op in operations if _is_check(op)]
    guard: list[tf.Operation] = []
    for op in costly:
        before = list(itertools.takewhile(lambda t, op=op: places[t.op] < places[op], numbers))  # type: ignore[misc]
        done = list(itertools.takewhile(lambda other, op=op: places[other] < places[op], checks))  # type: ignore[misc]
        del numbers[: len(before)], checks[: len(done)]
        if before or done:
            guard = [_guard(graph, before, [*guard, *done])]
        if guard:
            tf_private.add_control_inputs(op, guard)


def _guard(graph: Any, assertions: Sequence[tf.Tensor], after: Sequence[tf.Operation]) -> tf.Operation:
    with graph.as_default(), tf.control_dependencies(None):
        made = check(assertions) if assertions else tf.no_op()
    tf_private.run_independently(made)  # its place is not that in which it was made
    tf_private.add_control_inputs(made, after)
    return made


def is_costly(op: tf.Operation) -> bool:
    """Whether an operation may not end, or values decide how large its result is."""
    known = ops.facts(op.type)
    if known.is_endless:
        return True
    if is_call(op):
        return any(is_costly(inner) for body, _ in bodies(op) for inner in body.get_operations())
    if effects.is_noted(op):
        return False
    if known.sized_by:
        return any(tf_private.constant_value(op.inputs[i]) is None for i in known.sized_by if i < len(op.inputs))
    if known.form is Form.PRODUCT:
        return op.outputs[0].shape.rank is None or op.outputs[0].shape[-2:].as_list() == [None, None]
    return known.form is Form.BROADCASTS and _grows(*(tensor.shape for tensor in op.inputs))


def _grows(one: tf.TensorShape, other: tf.TensorShape) -> bool:
    """Whether each of two operands is spread along a dimension of the other's whose size is not known."""
    if one.rank is None or other.rank is None:
        return False
    sizes = list(itertools.zip_longest(reversed(one.as_list()), reversed(other.as_list()), fillvalue=1))
    return (None, 1) in sizes and (1, None) in sizes


def _is_check(op: tf.Operation) -> bool:
    """Whether the program checks something by an operation: what comes after it does not begin where that fails."""
    if ops.facts(op.type).checks:
        return True
    return is_call(op) and any(_is_check(inner) for body, _ in bodies(op) for inner in body.get_operations())
