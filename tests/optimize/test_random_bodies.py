"""Random bodies, rewritten and not: equal to rounding, in both engines, with gradients, and after saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from optimize.random_networks import SIZE, RandomNetwork, assert_close

import recgraph as rg
from tests import sampling

BODIES = sampling.count("programs", 3)
SEED = sampling.seed(0)


class Recursive(RandomNetwork):
    """A tree of invocations, each of which computes the random graph."""

    def recursion(self, engine: str, optimize: bool) -> rg.SubGraph:
        """Each invocation calls two others, down to depth 0."""
        row = tf.TensorSpec([1, SIZE])
        with rg.SubGraph("random", outputs=row, engine=engine, optimize=optimize) as made:
            n, x = made.input(tf.int32), made.input(shape=row.shape)
            made.output(tf.cond(n > 0, lambda: self.cell(made(n - 1, x), made(n - 2, tf.tanh(x))), lambda: x))
        return made


def computed(network: RandomNetwork, call: Any) -> list[np.ndarray]:
    """The results of a call, and all gradients."""
    x = tf.constant(np.random.default_rng(9).normal(size=(3, 1, SIZE)).astype(np.float32))
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = call(tf.constant([2, 3, 1]), x)
    gradients = tape.gradient(result, [x, *network.trainable_variables], unconnected_gradients="zero")
    return [np.asarray(one) for one in (result, *gradients)]


@pytest.mark.parametrize("number", range(BODIES))
def test_random_bodies_compute_the_same(number: int, tmp_path: Path) -> None:
    """`--programs` asks for more of them."""
    network = Recursive(SEED + number)
    expected = computed(network, network.recursion("parallel", optimize=False).map)
    for engine in ("parallel", "batched"):
        assert_close(computed(network, network.recursion(engine, optimize=True).map), expected)
    rows = tf.TensorSpec([None, 1, SIZE])
    network.call = tf.function(
        network.recursion("batched", optimize=True).map, input_signature=[tf.TensorSpec([None], tf.int32), rows]
    )
    tf.saved_model.save(network, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    loaded.trainable_variables = [*loaded.matrices, *loaded.vectors]
    wanted = {id(v): g for v, g in zip(network.trainable_variables, expected[2:], strict=True)}
    own = [*network.matrices, *network.vectors]
    assert_close(computed(loaded, loaded.call), [*expected[:2], *(wanted[id(v)] for v in own)])
