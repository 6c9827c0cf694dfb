"""What a tape around a converted call has to know: which inputs each of its outputs depends on.

Eagerly, the gradient with respect to a variable that a result does not depend on is None, which an optimizer passes
over; TensorFlow takes every output of a function to depend on every input, which gives zeros.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import tensorflow as tf

from recgraph import tf_private

# Operations with functions in them, which asking for their gradients changes: all that goes in may come out.
_WITH_FUNCTIONS: Final = ("While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase")
_CALLS: Final = ("PartitionedCall", "StatefulPartitionedCall", "Recgraph>")


def by_dependencies(concrete: Any) -> Any:
    """The function, as tapes should record it."""
    tf_private.record_in_groups(concrete, functools.partial(groups, concrete.graph, list(concrete.graph.outputs)))
    return concrete


def groups(graph: Any, outputs: list[tf.Tensor], watched: tf_private.Watched) -> list[tf_private.Group]:
    """The numbers of outputs that depend on the same watched inputs, with the numbers of these."""
    is_plain = not any(op.type.startswith((*_WITH_FUNCTIONS, *_CALLS)) for op in graph.get_operations())
    found: dict[tuple[int, ...], list[int]] = {}
    for i, output in enumerate(outputs):
        if _has_gradients(output):
            needed = (tf_private.connected_inputs if is_plain else _reached)(graph, output, watched)
            found.setdefault(tuple(j for j, is_needed in enumerate(needed) if is_needed), []).append(i)
    return [(given, list(taken)) for taken, given in found.items()]


def _has_gradients(tensor: tf.Tensor) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex or tensor.dtype in (tf.resource, tf.variant))


def _reached(graph: Any, output: tf.Tensor, watched: tf_private.Watched) -> list[bool]:
    """Of each watched input, whether a way leads from it to an output that gradients may take."""
    reached: set[str] = set()
    waiting = [output]
    while waiting:
        tensor = waiting.pop()
        if tensor.name not in reached and _has_gradients(tensor):
            reached.add(tensor.name)
            if tensor.op.type != "StopGradient":
                waiting.extend(tensor.op.inputs)
    return [is_watched and t.name in reached for t, is_watched in zip(graph.inputs, watched, strict=True)]
