"""Kernels of ours in place of TensorFlow's: the same results, gradients and errors, and that they are chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import tf_private
from recgraph.speculate.passes import rewrites as kernels

set_it = tf_private.set_attribute


def loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """float32 `[B]`."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def by_our_kernel(logits: Any, labels: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Loss and gradient."""

    @tf.function(autograph=False)
    def run(logits: tf.Tensor, labels: tf.Tensor) -> Any:
        made = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=logits, labels=labels)
        kernels.choose_kernels(tf.compat.v1.get_default_graph())
        assert made.loss.op.get_attr("_kernel") == b"recgraph"
        return made

    made = run(logits, labels)
    return made.loss, made.backprop


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("shape", [(0, 100), (1, 64), (7, 101), (40, 10_000)])
def test_losses_and_gradients_are_tensorflows(shape: tuple[int, int], dtype: tf.DType) -> None:
    random = np.random.default_rng(3)
    logits = tf.constant(random.normal(size=shape, scale=5.0, loc=-300.0).astype(np.float32))
    labels = tf.constant(random.integers(0, shape[1], shape[0]), dtype)
    wanted = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=logits, labels=labels)
    for one, other in zip(by_our_kernel(logits, labels), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def test_rows_that_are_no_numbers_stay_so() -> None:
    logits = np.zeros((4, 70), np.float32)
    logits[1, 3], logits[2, 69], logits[3] = np.nan, np.inf, -np.inf
    logits[3, 5] = 0.0
    labels = tf.constant([0, 0, 0, 5])
    found, gradient = by_our_kernel(logits, labels)
    wanted = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=logits, labels=labels)
    np.testing.assert_allclose(found, wanted.loss, rtol=1e-6)
    np.testing.assert_allclose(gradient, wanted.backprop, rtol=1e-5)
    assert np.isnan(found[1])
    assert np.isnan(found[2])
    assert found[3] == 0.0


@pytest.mark.parametrize("scale", [0.1, 5.0, 40.0])
@pytest.mark.parametrize("mean", [0.0, -300.0, 9000.0])
def test_losses_and_gradients_have_all_digits(scale: float, mean: float) -> None:
    """Also a loss that is almost zero, where TensorFlow's is zero."""
    random = np.random.default_rng(5)
    logits = random.normal(size=(50, 101), scale=scale, loc=mean).astype(np.float32)
    labels = random.integers(0, 101, 50)
    labels[::2] = logits[::2].argmax(1)
    rows = np.arange(50)
    above = logits.astype(np.float64) - logits[rows, labels].astype(np.float64)[:, None]
    others = np.exp(above)
    others[rows, labels] = 0.0
    sums = others.sum(1)
    gradient = others / (1.0 + sums)[:, None]
    gradient[rows, labels] = -sums / (1.0 + sums)
    for found, exact in zip(by_our_kernel(logits, labels), (np.log1p(sums), gradient), strict=True):
        normal = np.abs(exact) > 1.2e-38  # TensorFlow's threads have no others
        units = np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32))
        assert units[normal].max() <= 4.0
        assert not np.any(np.abs(found)[~normal] > 1.2e-38)


@pytest.mark.parametrize("label", [-1, 100])
def test_a_label_that_is_no_class_is_an_error(label: int) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"label {label} of row 1 is outside of \[0, 100\)"):
        by_our_kernel(tf.zeros([2, 100]), [0, label])


def test_a_converted_program_has_them_and_tapes_around_it_go_through_them(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    monkeypatch.setattr(kernels.tf_private, "set_attribute", lambda *given: chosen.append(given) or set_it(*given))
    weights = tf.Variable(np.random.default_rng(0).normal(size=[8, 100]).astype(np.float32))

    @rg.function(mode="speculate")
    def step(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(loss(x @ weights, labels))

    def derivatives(run: Any, x: tf.Tensor) -> list[Any]:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                tape.watch(x)
                outer.watch(x)
                value = run(x, tf.constant([1, 99, 5]))
            first = tape.gradient(value, x)
        return [value, first, outer.gradient(first, weights)]

    x = tf.constant(np.random.default_rng(1).normal(size=[3, 8]).astype(np.float32))
    for _ in range(6):
        found = derivatives(step, x)
    assert step.calls["graph"] > 0, step.explain()
    assert [name for _, name, _ in chosen] == ["_kernel"]
    for one, other in zip(found, derivatives(lambda x, y: tf.reduce_mean(loss(x @ weights, y)), x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_few_classes_other_dtypes_and_devices_of_the_users_stay() -> None:
    graph = tf_private.FuncGraph("losses")
    with graph.as_default():
        loss(tf.zeros([2, 10]), tf.zeros([2], tf.int32))
        loss(tf.zeros([2, 100], tf.float64), tf.zeros([2], tf.int32))
        with tf.device("/CPU:0"):
            loss(tf.zeros([2, 100]), tf.zeros([2], tf.int32))
    kernels.choose_kernels(graph)
    losses = [op for op in graph.get_operations() if op.type == "SparseSoftmaxCrossEntropyWithLogits"]
    assert len(losses) == 3
    for op in losses:
        with pytest.raises(ValueError, match="_kernel"):
            op.get_attr("_kernel")
