"""Functions of TensorFlow's in which a number means something else than a tensor with that number."""

from __future__ import annotations

import types
from typing import Final

# No public function is where a list of tensors is packed into one, where a rate is compared with 0 and 1, or where a
# seed becomes the state of a generator.
from tensorflow.python.framework import constant_op
from tensorflow.python.ops import array_ops, image_ops_impl, linalg_ops_impl, nn_ops, stateful_random_ops

PACKING: Final[types.CodeType] = array_ops._autopacking_conversion_function.__code__
DROPPING: Final[types.CodeType] = nn_ops._dropout.__code__
MAKING_CONSTANT: Final[types.CodeType] = constant_op._constant_impl.__code__
CHANGING_HUE: Final[types.CodeType] = image_ops_impl.adjust_hue.__wrapped__.__code__
CROPPING: Final[types.CodeType] = image_ops_impl.central_crop.__wrapped__.__code__
SEEDING: Final[types.CodeType] = stateful_random_ops._make_1d_state.__code__
MAKING_EYE: Final[types.CodeType] = linalg_ops_impl.eye.__code__
