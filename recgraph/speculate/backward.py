"""The operations of backward passes, which cannot fail once that which they differentiate has run.

Gradient functions of TensorFlow make operations whose shapes fit and whose indices are in range, whatever the
dimensions are that the graph does not know: those of the forward pass did. What writes does not have to wait for them,
and those that nobody needs need not run to see whether they fail.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from recgraph import infallible, tf_private

# Beside what fails in shape only: the forward pass has checked the indices.
_WITH_INDICES: Final = frozenset(
    {"BroadcastGradientArgs", "DynamicStitch", "GatherV2", "InvertPermutation", "UnsortedSegmentSum"}
)
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


def cannot_fail(op: tf.Operation) -> bool:
    """Whether an operation is of a backward pass, and fails at most where a forward pass has failed."""
    return is_noted(op) and (op.type in _WITH_INDICES or infallible.fails_only_in_shape(op.type, is_integer=False))


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
