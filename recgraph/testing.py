"""Helpers for tests of recursive models, ours and users': counters, scheduling policies, a gradient check."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import native, tf_private

POLICIES = ("fifo", "depth_first", "random")
BATCH_POLICIES = ("agenda", "depth", "height", "random")


@dataclasses.dataclass(frozen=True)
class Counters:
    """State of the whole process.

    Attributes:
        invocations: how many there have been.
        live_invocations: how many have begun and not ended.
        peak_invocations: the most that were live at once since the last reset; where several threads count, it may be
            too large by a few dozen.
        live_frames: entries of the activation store.
        live_bytes: bytes that they hold; a tensor that two frames hold counts twice.
    """

    invocations: int
    live_invocations: int
    peak_invocations: int
    live_frames: int
    live_bytes: int


def counters(reset_peak: bool = False) -> Counters:
    """The counters now.

    Args:
        reset_peak: after reading, the peak starts again from what is live.
    """
    with tf_private.eagerly():
        values = native.ops().recgraph_counters(reset_peak=reset_peak).numpy()
    return Counters(*(int(value) for value in values))


def policy(name: str) -> contextlib.AbstractContextManager[None]:
    """Runs the steps that start inside of it with a scheduling policy of the parallel engine, one of `POLICIES`.

    "random" picks a ready task at random after a random delay: a program whose results depend on the order of
    its invocations is found out.

    Raises:
        tf.errors.InvalidArgumentError: no such policy.
    """
    return _policy(native.ops().recgraph_set_policy, name)


def batch_policy(name: str) -> contextlib.AbstractContextManager[None]:
    """Runs the steps that start inside of it with a policy of the batched engine, one of `BATCH_POLICIES`.

    Raises:
        tf.errors.InvalidArgumentError: no such policy.
    """
    return _policy(native.ops().recgraph_set_batch_policy, name)


@contextlib.contextmanager
def _policy(exchange: Callable[[Any], tf.Tensor], name: Any) -> Iterator[None]:
    with tf_private.eagerly():
        previous = exchange(name)
    try:
        yield
    finally:
        with tf_private.eagerly():
            exchange(previous)


def check_gradients(
    function: Callable[..., tf.Tensor],
    arguments: Sequence[tf.Tensor | np.ndarray | float],
    tolerance: float = 1e-3,
    step: float = 1e-5,
) -> None:
    """Compares gradients with central differences, in float64.

    Args:
        function: of float64 tensors, to a float64 tensor of any shape; its sum is differentiated.
        arguments: where to differentiate, each converted to float64.
        tolerance: how much they may differ, relative to the larger of 1 and the gradient.
        step: of the differences.

    Raises:
        AssertionError: they differ; says in which argument and where.
    """
    points = [np.array(argument, np.float64) for argument in arguments]
    tensors = [tf.constant(point) for point in points]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = tf.reduce_sum(function(*tensors))
    gradients = tape.gradient(result, tensors, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    for i, gradient in enumerate(gradients):
        expected = _differences(function, points, i, step)
        actual = tf.convert_to_tensor(gradient).numpy()
        error = np.abs(actual - expected) / np.maximum(1.0, np.abs(expected))
        worst = np.unravel_index(np.argmax(error), error.shape) if error.size else ()
        if error.size and error[worst] > tolerance:
            raise AssertionError(
                f"gradient of argument {i} at {worst}: {actual[worst]!r}, central differences give {expected[worst]!r}"
            )


def _differences(function: Callable[..., tf.Tensor], points: list[np.ndarray], index: int, step: float) -> np.ndarray:
    expected = np.zeros_like(points[index])
    for place in np.ndindex(points[index].shape):
        values = []
        for sign in (1.0, -1.0):
            moved = [point.copy() for point in points]
            moved[index][place] += sign * step
            values.append(float(tf.reduce_sum(function(*[tf.constant(point) for point in moved]))))
        expected[place] = (values[0] - values[1]) / (2 * step)
    return expected


def random_tree(leaves: int, rng: np.random.Generator, words: int = 100) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random binary tree as arrays `(word, left, right)`, int32 `[2 * leaves - 1]`, nodes in post-order.

    Args:
        leaves: how many, at least 1.
        rng: source of shape and words.
        words: size of the vocabulary.

    Returns:
        word: of each leaf, -1 at inner nodes. left, right: node numbers, -1 at leaves. The root is the last node.
    """
    word, left, right = [], [], []
    stack: list[tuple[str, int]] = [("grow", leaves)]
    finished: list[int] = []
    while stack:
        what, count = stack.pop()
        if what == "join":
            below_right, below_left = finished.pop(), finished.pop()
            word.append(-1)
            left.append(below_left)
            right.append(below_right)
            finished.append(len(word) - 1)
        elif count == 1:
            word.append(int(rng.integers(0, words)))
            left.append(-1)
            right.append(-1)
            finished.append(len(word) - 1)
        else:
            first = int(rng.integers(1, count))
            stack += [("join", 0), ("grow", count - first), ("grow", first)]
    return np.array(word, np.int32), np.array(left, np.int32), np.array(right, np.int32)
