"""The facts about an operation by its type: from the table or, if it has no row, from TensorFlow's registration."""

from __future__ import annotations

import functools
from collections.abc import Callable

import tensorflow as tf

from recgraph import tf_private
from recgraph.ops.facts import UNKNOWN, Facts, Fails
from recgraph.ops.table import DESCRIBED


def facts(name: str) -> Facts:
    """What is known about the operations of a type.

    A type without a row is a function of its inputs, which may fail, where TensorFlow registers it as one: not
    stateful, and without resources and references. Any other may do anything.
    """
    row = DESCRIBED.get(name)
    if row is not None:
        return row
    try:
        return Facts() if _is_registered_as_pure(name) else UNKNOWN
    except KeyError:  # not registered, so far
        return UNKNOWN


def described(condition: Callable[[Facts], bool]) -> frozenset[str]:
    """The types in the table of which something holds."""
    return frozenset(name for name, row in DESCRIBED.items() if condition(row))


def fails_only_in_shape(name: str, is_integer: bool) -> bool:
    """Whether operations of a type cannot fail where their shapes fit and indices, if they take any, are known.

    Args:
        name: the type.
        is_integer: whether it computes whole numbers.
    """
    when = facts(name).fails
    return when in (Fails.NEVER, Fails.SHAPES, Fails.ARGUMENTS) or (when is Fails.INTEGERS and not is_integer)


@functools.cache
def _is_registered_as_pure(name: str) -> bool:
    definition = tf_private.op_definition(name)
    resource = tf.resource.as_datatype_enum
    arguments = (*definition.input_arg, *definition.output_arg)
    return not definition.is_stateful and not any(one.is_ref or one.type == resource for one in arguments)
