"""What a thread has around a call that TensorFlow and Keras read: scopes that nobody can be asked for publicly."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context as _context
from tensorflow.python.framework import ops as _ops
from tensorflow.python.framework import tensor_util as _tensor_util
from tensorflow.python.ops import summary_ops_v2 as _summaries

from recgraph.tf_private.keras_settings import in_stateless_scope


def replaces_operations() -> bool:
    """Whether something around asks for each eager operation or variable itself, which the call of a graph has not.

    That is a `tf.variable_creator_scope`, a `keras.StatelessScope`, `tf.debugging.enable_check_numerics` and other
    callbacks for operations, and `tf.config.run_functions_eagerly`.
    """
    return bool(
        _context.context().op_callbacks
        or tf.config.functions_run_eagerly()
        or getattr(_ops.get_default_graph()._thread_local, "_variable_creator_stack", None)
        or in_stateless_scope()
    )


def name_scope() -> str:
    """The names of the `tf.name_scope`s around, each with a slash behind it."""
    name: str = _context.context().scope_name
    return name


def name_scope_in_graph() -> str:
    """Returns the name scopes around in a form that graphs allow: the first one may not begin with an underscore.

    Keras names the scope of a layer after its class, which may begin so.
    """
    return name_scope().lstrip("_\\/>-")


def may_record_summaries() -> bool:
    """Whether `tf.summary` may write something: there is a writer, and it is not said that it writes nothing."""
    state: Any = _summaries._summary_state
    if state.writer is None:
        return False
    if callable(state.is_recording):
        return True
    known = _tensor_util.constant_value(state.is_recording)
    return known is None or bool(known)
