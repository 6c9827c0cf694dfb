"""Which operations of a call may fail, from the graph around them, and which SubGraphs have effects."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.core import invoke_gradient
from recgraph.core.subgraph import SubGraph


def subgraph_writes(subgraph: SubGraph) -> bool:
    """Whether the body of a SubGraph has effects, or one that it calls."""
    found: dict[str, SubGraph] = {subgraph.identity: subgraph}
    queue = [subgraph]
    while queue:
        body = queue.pop().finished_body()
        if any(map(ops.effects, body.get_operations())):
            return True
        queue += [callee for identity, callee in body.callees.items() if identity not in found]
        found.update(body.callees)
    return False


def may_fail(op: tf.Operation) -> bool:
    """Whether an operation can fail when it runs."""
    return ops.may_fail(op, lambda one: backward_cannot_fail(one) or row_write_cannot_fail(one))


# Their result has some of the numbers of their first input.
_KEEPS_NUMBERS: Final = (ops.Form.SAME, ops.Form.REARRANGES)
# Their result has as many rows as the one input that is no scalar.
_KEEPS_ROWS: Final = (ops.Form.SAME, ops.Form.ELEMENTWISE, ops.Form.BROADCASTS)


def row_write_cannot_fail(op: tf.Operation) -> bool:
    """Whether an operation writes to rows of a table, finds all of them there, and has values that fit.

    The read that has come before fails where a row is not there, and what writes waits for what may fail.
    """
    known = ops.facts(op.type)
    if known.fails is not ops.Fails.ROWS or known.rows != 1:
        return False
    table, indices, values = op.inputs
    data = tf_private.handle_data(table)
    if data is None or indices.shape.rank != 1:
        return False
    shape = tf.TensorShape(data.shape)
    if not shape.is_fully_defined() or not values.shape[1:].is_fully_defined() or values.shape[1:] != shape[1:]:
        return False
    return _were_read(table, indices) and (_is_as_long(values, indices) or _are_one_gradient(values, indices))


def _were_read(table: tf.Tensor, indices: tf.Tensor) -> bool:
    source = _numbers(indices)
    if source.op.type == "ConcatV2":
        return all(_were_read(table, part) for part in source.op.inputs[:-1])
    if source.op.type == "Recgraph>InvokeGradient":
        return invoke_gradient.table_of(source) is table
    reads = (user for user in table.consumers() if user.type == "ResourceGather")
    return any(_numbers(read.inputs[1]) is source and read.get_attr("batch_dims") == 0 for read in reads)


def _numbers(tensor: tf.Tensor) -> tf.Tensor:
    while ops.facts(tensor.op.type).form in _KEEPS_NUMBERS and tensor.value_index == 0:
        tensor = tensor.op.inputs[0]
    return tensor


def _is_as_long(values: tf.Tensor, indices: tf.Tensor) -> bool:
    return values.shape[0] is not None and values.shape[0] == indices.shape[0]


def _are_one_gradient(values: tf.Tensor, indices: tf.Tensor) -> bool:
    """Whether values are, scaled perhaps, the rows that come with these indices."""
    while ops.facts(values.op.type).form in _KEEPS_ROWS:
        rows = [tensor for tensor in values.op.inputs if tensor.shape.rank != 0]
        if len(rows) != 1:
            return False
        values = rows[0]
    is_pair = values.op is indices.op and values.value_index == indices.value_index + 1
    return is_pair and indices.op.type == "Recgraph>InvokeGradient"


_LIBRARIES: Final = ("tensorflow.", "keras.", "recgraph.")
_found: weakref.WeakKeyDictionary[tf.Graph, set[str]] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def noted(called: Any, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Iterator[None]:
    """Notes the operations that a method of a tape makes in the block, where they are the gradients of a forward pass.

    They are not where the program gives the gradients of its results, which may have any shape, or has a gradient
    function of its own.

    Args:
        called: the object whose method is called; nothing is noted if that is no tape.
        name: of the method.
        arguments, named: what it is given.
    """
    is_given = len(arguments) > 2 or named.get("output_gradients") is not None
    graph = tf_private.current_graph()
    if not isinstance(called, tf.GradientTape) or name != "gradient" or is_given or _has_users_gradients(graph):
        yield
        return
    before = {op.name for op in graph.get_operations()}
    yield
    _found.setdefault(graph, set()).update(op.name for op in graph.get_operations() if op.name not in before)


def backward_cannot_fail(op: tf.Operation) -> bool:
    """Whether an operation is of a backward pass, and fails at most where a forward pass has failed.

    That has checked the indices, too.
    """
    if not is_noted(op):
        return False
    return ops.facts(op.type).fails is ops.Fails.INDICES or ops.fails_only_in_shape(op.type, is_integer=False)


def is_noted(op: tf.Operation) -> bool:
    """Whether an operation is of the backward pass of a forward pass in the graph."""
    return op.name in _found.get(op.graph, ())


def _has_users_gradients(graph: Any) -> bool:
    """Whether something in the graph, or in one around it, has a gradient function that is not of the libraries."""
    while graph is not None:
        if not all(_is_of_libraries(op) for op in graph.get_operations()):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


def _is_of_libraries(op: tf.Operation) -> bool:
    try:
        functions = tf_private.wrapped_gradient_functions(op)
    except LookupError:  # it has no gradient
        return True
    return all(str(function.__module__).startswith(_LIBRARIES) for function in functions)
