"""Which devices TensorFlow sees: what is ours runs on the host, and what TensorFlow runs goes where it places it."""

from __future__ import annotations

import functools

import tensorflow as tf


@functools.cache
def gpu_is_visible() -> bool:
    """Whether TensorFlow may place operations on a GPU. Settles which devices it has."""
    return bool(tf.config.list_logical_devices("GPU"))
