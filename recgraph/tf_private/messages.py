"""Messages of TensorFlow's errors without what stands around them: functions and operations by names of its own."""

from __future__ import annotations

import re
from typing import Any, Final

import tensorflow as tf

_BEFORE: Final = re.compile(r"^(\{\{(function_node|node) [^}]*\}\} ?)+")
_AFTER: Final = re.compile(r" \[Op:[^\]]*\]( name:.*)?$")


def plain_message(error: tf.errors.OpError) -> str:
    """The message of an error of TensorFlow's as the operation has written it."""
    return _AFTER.sub("", _BEFORE.sub("", str(error.message)))


def with_message(error: tf.errors.OpError, message: str) -> tf.errors.OpError:
    """An error like this one with another message, which Keras passes on as it is."""
    made: Any = type(error)(error.node_def, error.op, message)
    made._keras_call_info_injected = True
    return made
