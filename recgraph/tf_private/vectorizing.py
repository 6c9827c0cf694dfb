"""What `tf.vectorized_map` is told of operations of ours; it has no public way to be told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.parallel_for import pfor as _pfor

# Raised where an operation is to be run in a loop over the iterations.
NotVectorized = _pfor.ConversionNotImplementedError


def register_vectorization(op_type: str, converter: Callable[[Any], list[Any]]) -> None:
    """Lets a function say what does an operation for all iterations: it is given TensorFlow's description of them."""
    _pfor.RegisterPFor(op_type)(converter)


def stacked(tensor: tf.Tensor, rows: bool = True) -> Any:
    """What an operation gives in all iterations: a tensor with a row for each, or one value that stands for them."""
    return _pfor.wrap(tensor, True, not rows)
