"""What operations of a graph do, with the functions that they call, their shapes and their variables."""

from __future__ import annotations

import dataclasses
import graphlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import tensorflow as tf

from recgraph import tf_private
from recgraph.ops.facts import Calls, Fails, State
from recgraph.ops.lookup import facts, fails_only_in_shape

PHILOX: Final = 1  # TensorFlow's number of the algorithm


@dataclasses.dataclass(frozen=True)
class Effects:
    """What an operation writes.

    Attributes:
        handles: of the resources that it writes.
        others: what else can be seen: "" for nothing.
    """

    handles: tuple[Any, ...] = ()
    others: str = ""

    def __bool__(self) -> bool:
        return bool(self.handles or self.others)


def effects(op: tf.Operation) -> Effects:
    """What an operation writes, the functions that it calls included; this library's own calls are passed over."""
    known = facts(op.type)
    if is_call(op):
        return _effects_of_call(op)
    if known.is_invisible or known.state is State.OURS or not known.counts_as_stateful:
        return Effects()
    handles = tuple(tensor for tensor in op.inputs if tensor.dtype == tf.resource)
    return Effects(handles) if handles else Effects(others=op.type)


def _effects_of_call(op: tf.Operation) -> Effects:
    handles: dict[int, Any] = {}
    others = ""
    for body, inputs in bodies(op):
        places = {id(tensor): outer for tensor, outer in zip(body.inputs, inputs, strict=False)}
        for inner in body.get_operations():
            found = effects(inner)
            others = others or found.others
            for handle in found.handles:
                if id(handle) not in places:
                    others = inner.type
                else:
                    outer = places[id(handle)]
                    handles[id(outer)] = outer
    return Effects(tuple(handles.values()), others)


def in_order(graph: tf.Graph) -> list[tf.Operation]:
    """The operations of a graph, each after all that it waits for: those that were changed may wait for later ones."""
    before = {op: [*(tensor.op for tensor in op.inputs), *op.control_inputs] for op in graph.get_operations()}
    return list(graphlib.TopologicalSorter(before).static_order())


def is_call(op: tf.Operation) -> bool:
    """Whether an operation is a branch, a loop or a call of a function."""
    return facts(op.type).calls not in (Calls.NONE, Calls.FOR)


def called(op: tf.Operation) -> list[str]:
    """The names of the functions that a branch, a loop or a call of a function runs; none for other operations."""
    calls = facts(op.type).calls
    if calls is Calls.IF:
        return [op.get_attr("then_branch").name, op.get_attr("else_branch").name]
    if calls is Calls.CASE:
        return [branch.name for branch in op.get_attr("branches")]
    if calls is Calls.WHILE:
        return [op.get_attr("cond").name, op.get_attr("body").name]
    return [op.get_attr("f").name] if calls is Calls.FUNCTION else []


def bodies(op: tf.Operation) -> Iterator[tuple[Any, list[tf.Tensor]]]:
    """The graphs of the functions that an operation calls, each with what it is given."""
    given = list(op.inputs)[1 if facts(op.type).is_branch else 0 :]
    for name in called(op):
        yield tf_private.function_graph(op.graph, name), given


def may_fail(op: tf.Operation, cannot: Callable[[tf.Operation], bool]) -> bool:
    """Whether an operation can fail when it runs.

    Args:
        op: of a graph.
        cannot: what says of an operation, from the graph around it, that it does not fail there.
    """
    when = facts(op.type).fails
    if when is Fails.NEVER or cannot(op):
        return False
    if when in (Fails.ASSIGNS, Fails.UPDATES):
        return not _all_fit(op, when is Fails.UPDATES)
    if op.type == "RngReadAndSkip":
        return not draws_from_philox(*op.inputs[:2])
    if is_call(op):
        return any(may_fail(inner, cannot) for body, _ in bodies(op) for inner in body.get_operations())
    return not _is_safe_in_shape(op)


def draws_from_philox(state: tf.Tensor, algorithm: tf.Tensor) -> bool:
    """Whether `RngReadAndSkip` finds a state of the size that it needs, and gives all of it, as a read does."""
    data = tf_private.handle_data(state)
    is_of_three = data is not None and tf.TensorShape(data.shape) == [3]
    return is_of_three and bool(tf_private.constant_value(algorithm) == PHILOX)


def _is_safe_in_shape(op: tf.Operation) -> bool:
    """Whether everything is known that its kernel checks."""
    is_integer = any(tensor.dtype.is_integer for tensor in op.outputs)
    if not fails_only_in_shape(op.type, is_integer):
        return False
    takes_arguments = facts(op.type).fails is Fails.ARGUMENTS
    is_known = not takes_arguments or sum(tensor.op.type != "Const" for tensor in op.inputs) <= 1
    return is_known and all(tensor.shape.is_fully_defined() for tensor in (*op.inputs, *op.outputs))


def _all_fit(op: tf.Operation, with_scalars: bool) -> bool:
    """Whether the variables and the values of an assignment or update have one shape; scalars may be among them."""
    shapes = []
    for tensor in op.inputs:
        data = tf_private.handle_data(tensor) if tensor.dtype == tf.resource else None
        if tensor.dtype == tf.resource and data is None:
            return False
        shapes.append(tf.TensorShape(data.shape) if data is not None else tensor.shape)
    wanted = shapes[0]
    return wanted.is_fully_defined() and all(
        shape.is_fully_defined()
        and (shape == wanted or (with_scalars and shape.rank == 0 and tensor.dtype != tf.resource))
        for shape, tensor in zip(shapes, op.inputs, strict=True)
    )
