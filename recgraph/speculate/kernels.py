"""Operations of TensorFlow's for which this library has a faster kernel: the graph asks for it by an attribute.

The operation stays what it is, with its shapes and gradients; results differ in the last place.
"""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from recgraph import tf_private

# So many classes a row of logits has to have; losses of fewer keep TensorFlow's kernel, and its rounding.
CLASSES: Final = 64


def choose_kernels(graph: tf.Graph) -> None:
    """Has the losses of a finished graph computed by `cc/kernels/softmax_loss_op.cc`."""
    for op in graph.get_operations():
        if op.type == "SparseSoftmaxCrossEntropyWithLogits" and not op.device and _is_wide(op.inputs[0]):
            tf_private.set_attribute(op, "_kernel", tf.compat.v1.AttrValue(s=b"recgraph"))


def _is_wide(logits: tf.Tensor) -> bool:
    return logits.dtype == tf.float32 and logits.shape.rank == 2 and (logits.shape[1] or CLASSES) >= CLASSES
