"""Results that differ in size, as text inside and ragged outside: `map` stacks what its invocations give."""

from __future__ import annotations

import tensorflow as tf


def to_text(numbers: tf.Tensor) -> tf.Tensor:
    """A string for each row, string `[k]`, of int32 `[k, n]`."""
    return tf.strings.reduce_join(tf.strings.as_string(numbers), 1, separator=" ")


def to_numbers(texts: tf.Tensor) -> tf.RaggedTensor:
    """int32 `[B, (n)]` of B such strings."""
    return tf.ragged.map_flat_values(tf.strings.to_number, tf.strings.split(texts), tf.int32)
