"""All or nothing: in the graph, what writes waits for everything that may fail."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from recgraph import tf_private

# Calls of SubGraphs that a recursive function became: its body has no effects.
_NO_WRITES = frozenset({"Assert", "Placeholder", "Recgraph>Invoke", "Recgraph>InvokeGradient"})
_READS = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp"})


def hold_back_writes(graph: tf.Graph) -> list[tf.Operation]:
    """Makes the operations with effects wait for all that do not come after them.

    Returns:
        What can fail although something was written before: assertions that depend on writes.
    """
    operations = graph.get_operations()
    writers = [op for op in operations if writes(op)]
    if not writers:
        return []
    after = _reached_from(writers)
    before = [op for op in operations if op not in after and op.type not in ("Placeholder", "Const", "NoOp")]
    last = [op for op in before if not any(c in after or c in _set(before) for c in _consumers(op))] or before
    pending = [op for op in before if all(c in after for c in _consumers(op))]
    with graph.as_default(), tf.control_dependencies(None):
        barrier = tf.raw_ops.NoOp()
    barrier = barrier if isinstance(barrier, tf.Operation) else graph.get_operations()[-1]
    tf_private.add_control_inputs(barrier, list({*last, *pending}))
    for writer in writers:
        tf_private.add_control_inputs(writer, [barrier])
    return [op for op in after if op.type == "Assert"]


def _set(operations: Iterable[tf.Operation]) -> set[tf.Operation]:
    return set(operations)


def writes(op: tf.Operation) -> bool:
    """Whether an operation changes a resource or has another effect."""
    if op.type in _READS or op.type in _NO_WRITES:
        return False
    resources = any(tensor.dtype == tf.resource for tensor in op.inputs)
    return resources and bool(op.op_def is None or op.op_def.is_stateful)


def _consumers(op: tf.Operation) -> list[tf.Operation]:
    return [c for output in op.outputs for c in output.consumers()] + list(op._control_outputs)


def _reached_from(start: list[tf.Operation]) -> set[tf.Operation]:
    found: set[tf.Operation] = set(start)
    stack = list(start)
    while stack:
        for consumer in _consumers(stack.pop()):
            if consumer not in found:
                found.add(consumer)
                stack.append(consumer)
    return found
