"""Helpers for testing recursive models, ours and users': counters, scheduling policies, a gradient check."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import native, tf_private

__all__ = [
    "BATCH_POLICIES",
    "BATCH_WAYS",
    "Counters",
    "POLICIES",
    "batch_policy",
    "batch_way",
    "check_gradients",
    "counters",
    "policy",
    "random_tree",
]


POLICIES = ("fifo", "depth_first", "random")
"""The orders in which the parallel engine may start ready invocations."""
BATCH_POLICIES = ("agenda", "depth", "height", "random")
"""The orders in which the batched engine may run blocks that have rows."""
BATCH_WAYS = ("scheduled", "row_programs", "operations")
"""How the batched engine may compute: by schedules, by row programs alone, by TensorFlow's operations."""


@dataclasses.dataclass(frozen=True)
class Counters:
    """Counts for the whole process.

    Attributes:
        invocations: started so far.
        live_invocations: started and not finished.
        peak_invocations: the largest number that were live at once since the last reset; with several threads it may be
            a few dozen too large.
        live_frames: activation frames that are kept for gradients.
        live_bytes: bytes held by these frames; a tensor in two frames counts twice.
    """

    invocations: int
    live_invocations: int
    peak_invocations: int
    live_frames: int
    live_bytes: int


def counters(reset_peak: bool = False) -> Counters:
    """Reads the counters.

    Args:
        reset_peak: whether to reset `peak_invocations` to the live number after reading.

    Returns:
        The counts of this process.
    """
    with tf_private.eagerly():
        values = native.ops().recgraph_counters(reset_peak=reset_peak).numpy()
    return Counters(*(int(value) for value in values))


def policy(name: str) -> contextlib.AbstractContextManager[None]:
    """A context manager: steps that start inside it use this scheduling policy of the parallel engine.

    Args:
        name: one of `POLICIES`. "random" picks a random ready task after a random delay, which exposes programs whose
            results depend on the order of invocations.

    Raises:
        tf.errors.InvalidArgumentError: there is no such policy.
    """
    return _policy(native.ops().recgraph_set_policy, name)


def batch_policy(name: str) -> contextlib.AbstractContextManager[None]:
    """A context manager: steps that start inside it use this policy of the batched engine.

    Args:
        name: one of `BATCH_POLICIES`.

    Raises:
        tf.errors.InvalidArgumentError: there is no such policy.
    """
    return _policy(native.ops().recgraph_set_batch_policy, name)


def batch_way(name: str) -> contextlib.AbstractContextManager[None]:
    """A context manager: steps that start inside it are run by the batched engine in this way. Results are the same.

    Args:
        name: one of `BATCH_WAYS`. "scheduled" is the default, "operations" runs all blocks by TensorFlow's operations.

    Raises:
        tf.errors.InvalidArgumentError: there is no such way.
    """
    return _policy(native.ops().recgraph_set_batch_way, name)


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
    """Compares the gradients of a function with central differences, in float64.

    Args:
        function: takes float64 tensors and returns a float64 tensor of any shape, whose sum is differentiated.
        arguments: the point at which to differentiate; each is converted to float64.
        tolerance: the largest allowed difference, relative to the larger of 1 and the gradient.
        step: the step of the differences.

    Raises:
        AssertionError: a gradient differs; the message names the argument and the element.

    Examples:
        >>> check_gradients(lambda x, y: tf.tanh(x) * y, [[0.5, -1.0], 2.0])
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
    """Draws a random binary tree, as arrays of N = 2 * leaves - 1 nodes in post-order.

    Args:
        leaves: number of leaves, at least 1.
        rng: source of the shape and the words.
        words: size of the vocabulary.

    Returns:
        `(word, left, right)`, int32 `[N]` each: the words, in `[0, words)` at leaves and -1 at inner nodes, and the
        numbers of the children, -1 at leaves. The root is node N - 1.

    Examples:
        >>> word, left, right = random_tree(2, np.random.default_rng(0))
        >>> left, right
        (array([-1, -1,  0], dtype=int32), array([-1, -1,  1], dtype=int32))
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


def __dir__() -> list[str]:
    """What is public, for completion."""
    return sorted([*__all__, "__doc__", "__name__"])
