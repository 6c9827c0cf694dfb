"""Products of half precision: TensorFlow's fused operation is a hundred times as slow, so graphs of ours have none."""

from __future__ import annotations

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import tf_private


@pytest.mark.parametrize(("dtype", "fuses"), [(tf.float16, False), (tf.float32, True), (tf.bfloat16, True)])
def test_products_of_halves_are_not_fused(dtype: tf.DType, fuses: bool) -> None:
    """The product and what follows it stay operations of their own."""

    @tf.function
    def layer(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.nn.elu(tf.nn.bias_add(x @ w, b))

    concrete = layer.get_concrete_function(*(tf.TensorSpec(shape, dtype) for shape in ([4, 3], [3, 2], [2])))
    config = tf.compat.v1.ConfigProto.FromString(tf_private.call_options(concrete))
    graph_def = concrete.graph.as_graph_def()
    names = [node.name for node in graph_def.node if node.op == "Identity"]
    optimized = tf_private.run_grappler(graph_def, names, config)
    assert (not any(node.op == "_FusedMatMul" for node in optimized.node)) or fuses
    rewrites = config.graph_options.rewrite_options
    assert ("remap" in [part.name for part in rewrites.custom_optimizers]) == fuses


def test_a_step_in_half_precision_is_eagers() -> None:
    """Its graph gives what eager execution does, to the last bit of a half."""
    tf.random.set_seed(0)
    w = tf.Variable(tf.random.normal([128, 64]))

    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(tf.nn.bias_add(x @ tf.cast(w, tf.float16), tf.zeros([64], tf.float16)))

    x = tf.cast(tf.random.normal([8, 128]), tf.float16)
    converted = rg.function(step, mode="speculate")
    results = [converted(x) for _ in range(6)]
    assert converted.calls["graph"] >= 2
    for result in results:
        assert tf.reduce_all(result == step(x))
