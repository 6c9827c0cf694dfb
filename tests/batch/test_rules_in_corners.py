"""Rows whose sizes are not known, or whose operations have rare attributes: never the numbers of another row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg

unknown = tf.TensorSpec([None])


def batched(body: Callable[..., Any], outputs: Any, *specs: tf.TensorSpec) -> rg.SubGraph:
    with rg.SubGraph("f", outputs=outputs, engine="batched") as f:
        f.output(body(*(f.input(spec.dtype, spec.shape) for spec in specs)))
    return f


def test_rows_are_not_cut_up_otherwise() -> None:
    """Where two rows would make one of the shape that is asked for."""
    w = tf.ones([4, 3])
    pairs = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    sums = batched(lambda x, y: tf.reduce_sum(tf.reshape(x, [2, 2])) + y, tf.TensorSpec([]), unknown, tf.TensorSpec([]))
    with pytest.raises(tf.errors.InvalidArgumentError):
        sums.map(pairs, [10.0, 20.0])
    products = batched(lambda x, y: (x[None] @ w)[0] + y, tf.TensorSpec([3]), unknown, tf.TensorSpec([3]))
    with pytest.raises(tf.errors.InvalidArgumentError):
        products.map(pairs, tf.ones([2, 3]))
    losses = batched(
        lambda s, t: tf.nn.softmax_cross_entropy_with_logits(labels=t, logits=s), tf.TensorSpec([1]),
        tf.TensorSpec([1, None]), tf.TensorSpec([1, None]),
    )  # fmt: skip
    with pytest.raises(tf.errors.InvalidArgumentError):
        losses.map(tf.ones([2, 1, 4]), tf.ones([2, 1, 2]))


def test_a_sum_of_a_tensor_that_does_not_fit_is_refused() -> None:
    """It does not broadcast for one row, either."""
    c = tf.ones([1])
    f = batched(lambda x: tf.raw_ops.AddN(inputs=[x, x, c]), unknown, unknown)
    with pytest.raises(tf.errors.InvalidArgumentError):
        f.map(tf.ones([2, 3]))


def matrix(*shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32))


def indices(most: int, *shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(most).integers(0, most, shape), tf.int32)


table = tf.Variable(matrix(2, 5))
CASES: dict[str, tuple[Callable[..., Any], list[tf.Tensor]]] = {
    "gathers with negative batch_dims": (
        lambda x, i: tf.gather(x, i, axis=1, batch_dims=-1), [matrix(2, 3, 4), indices(4, 2, 3, 2)]
    ),
    "gathers of rows of a variable with batch_dims": (
        lambda i: tf.raw_ops.ResourceGather(resource=table.handle, indices=i, dtype=tf.float32, batch_dims=1),
        [indices(2, 2, 2, 3)],
    ),
    "gathers that ignore bad indices": (
        lambda x, i: tf.gather_nd(x, i, bad_indices_policy="IGNORE"),
        [matrix(2, 3), tf.constant([[[0], [7]], [[-1], [2]]])],
    ),
    "scatters that ignore bad indices": (
        lambda x, i: tf.scatter_nd(i, x, [3], bad_indices_policy="IGNORE"),
        [matrix(2, 2), tf.constant([[[0], [7]], [[-1], [2]]])],
    ),
    "products of another type": (
        lambda a, b: tf.matmul(a, b, output_type=tf.int32),
        [tf.fill([2, 2, 2, 3], tf.constant(100, tf.int8)), tf.fill([2, 2, 3, 2], tf.constant(90, tf.int8))],
    ),
    "triangular systems that broadcast": (
        lambda a, b: tf.linalg.triangular_solve(a, b),
        [tf.linalg.band_part(matrix(2, 3, 3), -1, 0) + 5.0 * tf.eye(3), matrix(2, 2, 3, 1)],
    ),
    "half of a sum of squares that overflows": (tf.nn.l2_loss, [tf.fill([2, 200], tf.constant(20.0, tf.float16))]),
    "long sums": (lambda x: tf.reduce_sum(x), [tf.fill([2, 1 << 20], 0.1)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_rare_attributes(case: str) -> None:
    body, rows = CASES[case]
    wanted = tf.stack([body(*one) for one in zip(*map(tf.unstack, rows), strict=True)])
    specs = [tf.TensorSpec(one.shape[1:], one.dtype) for one in rows]
    found = batched(body, tf.TensorSpec(wanted.shape[1:], wanted.dtype), *specs).map(*rows)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)
