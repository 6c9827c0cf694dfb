"""Random bodies, rewritten and not: equal to rounding, in both engines, with gradients, and after saving."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg

SIZE = 5
BODIES = int(os.environ.get("RECGRAPH_TEST_PROGRAMS", "3"))
SEED = int(os.environ.get("RECGRAPH_TEST_SEED", "0"))


class RandomNetwork(tf.Module):
    """A chain or a tree of invocations, each of which computes a random graph of rows and weights."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        random = np.random.default_rng(seed)

        def weight(*shape: int) -> tf.Variable:
            return tf.Variable(random.normal(0, 0.4, shape).astype(np.float32))

        self.matrices = [weight(SIZE, SIZE) for _ in range(4)]
        self.vectors = [weight(SIZE) for _ in range(2)]
        self.constant = tf.constant(random.normal(0, 0.4, (SIZE, SIZE)).astype(np.float32))

    def cell(self, *inputs: tf.Tensor) -> tf.Tensor:
        """A random graph; the same for the same inputs."""
        random = np.random.default_rng(self.seed + 1)
        rows = list(inputs)

        def some() -> tf.Tensor:
            return rows[random.integers(len(rows))]

        for _ in range(12):
            match random.integers(9):
                case 0 | 1 | 2:
                    weight = [*self.matrices, self.constant][random.integers(5)]
                    made = tf.matmul(some(), weight, transpose_b=bool(random.integers(2)))
                case 3:
                    weights = [self.matrices[random.integers(4)] for _ in range(2)]
                    made = some() @ weights[0] + some() @ weights[1]
                case 4:
                    vector = self.vectors[random.integers(2)]
                    made = some() + vector if random.integers(2) else tf.nn.bias_add(some(), vector)
                case 5:
                    made = [tf.sigmoid, tf.tanh, tf.nn.relu, tf.negative][random.integers(4)](some())
                case 6:
                    made = [tf.add, tf.multiply, tf.subtract, tf.maximum][random.integers(4)](some(), some())
                case 7:
                    made = tf.split(tf.concat([some(), some()], 1), [SIZE, SIZE], 1)[random.integers(2)]
                case _:
                    made = some() * self.vectors[random.integers(2)]
            rows.append(made)
        return tf.tanh(tf.add_n(rows[-3:]))

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


def assert_close(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Equal to rounding."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("number", range(BODIES))
def test_random_bodies_compute_the_same(number: int, tmp_path: Path) -> None:
    """RECGRAPH_TEST_PROGRAMS asks for more of them."""
    network = RandomNetwork(SEED + number)
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
