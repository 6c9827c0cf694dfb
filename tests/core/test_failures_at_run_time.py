"""Steps that fail or are cancelled: the error that is seen, and that nothing is left behind."""

# ruff: noqa: PT012  (the statements before the one that fails are what makes it fail)

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from core import programs
from core.failing import nothing_is_left_behind, wait_until  # noqa: F401  (the fixture serves every test)

import recgraph as rg
from recgraph import testing

INT = tf.TensorSpec([], tf.int32)
FLOAT = tf.TensorSpec([])
HERE = os.path.basename(__file__)


def make_failing(at: int, **options: Any) -> rg.SubGraph:
    """Counts down from n and fails an assertion at `at`."""
    with rg.SubGraph("failing", outputs=INT, **options) as failing:
        n = failing.input(tf.int32)

        def deeper() -> tf.Tensor:
            left, right = n - 1, n - 2
            with tf.control_dependencies([tf.debugging.Assert(n != at, ["n must not be", n], name="check")]):
                return failing(left) + failing(right)

        failing.output(tf.cond(n > 1, deeper, lambda: n))
    return failing


def test_error_in_a_body_names_operation_line_and_path() -> None:
    """As the class of error that the operation raises."""
    for function in (make_failing(2), tf.function(make_failing(2))):
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            function(4)
        text = str(caught.value)
        assert "n must not be" in text
        assert re.search(rf"operation: .*[Cc]heck.* \(.*{HERE}:\d+\)", text), text
        assert re.search(r"call path: failing > (left > left|right), [23] levels", text), text


def test_error_in_a_gradient() -> None:
    """The backward run has call paths, too, and frees the rest of the activations."""

    @tf.custom_gradient
    def fragile(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return x * 1.0, lambda upstream: tf.debugging.check_numerics(upstream / 0.0, "broken gradient")

    for gradient in ("cache", "recompute"):
        with rg.SubGraph("fragile", outputs=FLOAT, gradient=gradient) as subgraph:
            n, x = subgraph.input(tf.int32), subgraph.input()
            subgraph.output(tf.cond(n > 0, lambda: x + subgraph(n - 1, x), lambda: fragile(x)))  # noqa: B023
        x = tf.constant(1.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = subgraph(3, x)
        with pytest.raises(tf.errors.InvalidArgumentError, match="broken gradient") as caught:
            tape.gradient(y, x)
        assert "call path:" in str(caught.value)
        del tape, y


CLASSES: dict[type[tf.errors.OpError], Callable[[tf.Tensor], tf.Tensor]] = {
    tf.errors.InvalidArgumentError: lambda n: tf.gather([1, 2], n + 10),
    tf.errors.NotFoundError: lambda n: tf.strings.length(tf.io.read_file("/no/such/file")) + n,
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_class_of_the_error(kind: type[tf.errors.OpError]) -> None:
    """What the operation raised, not what its siblings were told."""
    with rg.SubGraph("raising", outputs=INT) as raising:
        n = raising.input(tf.int32)
        raising.output(tf.cond(n > 0, lambda: raising(n - 1) + raising(n - 1), lambda: CLASSES[kind](n)))
    with pytest.raises(kind, match="call path: raising > n > n, 3 levels"):
        raising(2)


@pytest.mark.parametrize("policy", testing.POLICIES)
def test_many_failing_steps_give_the_original_error(policy: str) -> None:
    """Siblings are cancelled; that must never be what the user sees."""
    failing = make_failing(2)
    staged = tf.function(failing)
    with testing.policy(policy):
        for step in range(67 if policy != "random" else 20):
            with pytest.raises(tf.errors.InvalidArgumentError, match="n must not be"):
                (staged if step % 2 else failing)(7)


def test_a_mapped_row_that_fails() -> None:
    """The other rows are given up, the error is that of the row."""
    failing = make_failing(3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="call path: failing"):
        failing.map([1, 2, 4, 1])


def test_failure_with_a_tape_frees_what_was_recorded() -> None:
    """Frames that were finished before the error are dropped with it."""
    for gradient in ("cache", "recompute"):
        with rg.SubGraph("failing", outputs=FLOAT, gradient=gradient) as failing:
            n, x = failing.input(tf.int32), failing.input()
            checked = lambda: x * tf.gather([1.0, 2.0], n - 1)  # noqa: E731, B023
            more = lambda: x * failing(n - 1, x) + failing(n - 2, x)  # noqa: E731, B023
            failing.output(tf.cond(n > 1, more, checked))
        x = tf.constant(2.0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in"), tf.GradientTape() as tape:
            tape.watch(x)
            failing(6, x)


def test_nan_passes_through() -> None:
    """NaN is a value: it comes out, and so do NaN gradients."""
    fold = programs.make_list_fold()
    items = tf.constant([1.0, float("nan"), 2.0])
    with tf.GradientTape() as tape:
        tape.watch(items)
        y = fold(items, 0.5)
    assert bool(tf.math.is_nan(y))
    assert bool(tf.reduce_any(tf.math.is_nan(tape.gradient(y, items))))


def test_max_depth_is_the_last_that_works() -> None:
    """Not one less."""
    with rg.SubGraph("limited", outputs=INT, max_depth=5) as limited:
        n = limited.input(tf.int32)
        limited.output(tf.cond(n > 1, lambda: 1 + limited(n - 1), lambda: 1))
    assert int(limited(5)) == 5
    with pytest.raises(tf.errors.ResourceExhaustedError):
        limited(6)


@pytest.mark.parametrize("max_depth", [1, 20, 500])
def test_infinite_recursion(max_depth: int) -> None:
    """Ends with the limit, the path and the remedy."""
    with rg.SubGraph("endless", outputs=INT, max_depth=max_depth) as endless:
        n = endless.input(tf.int32)
        endless.output(endless(n + 1))
    for function in (endless, tf.function(endless)):
        with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
            function(0)
        text = str(caught.value)
        assert f"more than max_depth = {max_depth} invocations deep" in text
        assert f"{max_depth + 1} levels" in text
        assert "larger max_depth" in text
        assert ("... " in text) == (max_depth > 17)


def make_endless() -> rg.SubGraph:
    """Two calls a body, no two of them equal, as deep as memory would go: only cancelling ends it in time."""
    with rg.SubGraph("endless", outputs=INT) as endless:
        n = endless.input(tf.int64)
        endless.output(tf.cond(n > 1 << 60, lambda: 1, lambda: endless(2 * n + 1) + endless(2 * n + 2)))
    return endless


def test_a_session_with_a_timeout() -> None:
    """2^60 invocations are given up within seconds."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        result = make_endless()(0)
        start = time.monotonic()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(result, options=tf.compat.v1.RunOptions(timeout_in_ms=500))
    wait_until(lambda: testing.counters().live_invocations == 0)
    assert time.monotonic() - start < 30


def test_a_loop_of_calls_is_cancelled() -> None:
    """The step ends while a loop in a body still wants to go on."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with rg.SubGraph("spinning", outputs=INT) as spinning:
            n = spinning.input(tf.int32)
            trip = lambda i: [tf.cond(i % 2 > 2, lambda: spinning(i), lambda: (i + 2) % 1000)]  # noqa: E731
            spinning.output(tf.while_loop(lambda i: i >= 0, trip, [n])[0])
        result = spinning(0)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(result, options=tf.compat.v1.RunOptions(timeout_in_ms=500))
    wait_until(lambda: testing.counters().live_invocations == 0)
    assert testing.counters().live_invocations == 0


def test_a_data_set_that_is_dropped_while_it_runs() -> None:
    """The pipeline cancels what its iterator had started: here all elements but the first."""
    endless = make_endless()
    data = tf.data.Dataset.from_tensor_slices(tf.constant([1 << 61, 0, 0], tf.int64)).map(endless).prefetch(2)
    iterator = iter(data)
    assert int(next(iterator)) == 1
    wait_until(lambda: testing.counters().live_invocations > 0)
    assert testing.counters().live_invocations > 0
    start = time.monotonic()
    del iterator, data
    wait_until(lambda: testing.counters().live_invocations == 0)
    assert testing.counters().live_invocations == 0
    assert time.monotonic() - start < 30


def test_recovery() -> None:
    """After a failure the same SubGraph computes as before."""
    failing = make_failing(3)
    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError):
            failing(6)
        assert int(failing(2)) == 1


Contribution = Callable[[tf.Tensor], Any]


def _pair(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.matmul(a, b, transpose_a=True)


MISMATCHES: dict[str, tuple[Contribution, str, set[str]]] = {
    "outer, other width": (
        lambda n: _pair(tf.ones([1, n]), tf.ones([1, 2])),
        "rows of different width or dtype",
        {"float [1,2]", "float [1,3]"},
    ),
    "outer, no pair": (
        lambda n: _pair(tf.ones([n, 2]), tf.ones([2, 2])),
        "are a pair of different length",
        {"float [3,2]", "float [2,2]"},
    ),
    "rows, other width": (
        lambda n: tf.IndexedSlices(tf.ones([1, n]), tf.constant([0]), tf.constant([3, 2])),
        "rows of different width or dtype",
        {"float [1,2]", "float [1,3]"},
    ),
    "rows, no pair": (
        lambda n: tf.IndexedSlices(tf.ones([n, 2]), tf.constant([0, 1]), tf.constant([3, 2])),
        "are a pair of different length",
        {"int64 [2]", "float [3,2]"},
    ),
    "dense": (
        lambda n: tf.ones([n, 2]),
        "differ in shape or dtype",
        {"float [2,2]", "float [3,2]"},
    ),
}


@pytest.mark.parametrize("kind", MISMATCHES)
def test_gradients_of_one_capture_that_do_not_fit_together(kind: str) -> None:
    """Added up they would be copied beyond the end of the sum: seen as numbers out of nowhere, or not at all."""
    contribution, message, shapes = MISMATCHES[kind]

    @tf.custom_gradient
    def strange(x: tf.Tensor, n: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
        return tf.reduce_sum(x), lambda upstream: (contribution(n), None)

    weights = tf.Variable(tf.ones([3, 2]), shape=tf.TensorShape([None, None]))
    with rg.SubGraph("strange", outputs=FLOAT) as subgraph:
        n = subgraph.input(tf.int32)
        more = lambda: strange(weights.read_value(), n) + subgraph(n - 1)  # noqa: E731
        subgraph.output(tf.cond(n > 1, more, lambda: 0.0))
    with tf.GradientTape() as tape:
        y = subgraph(3)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tape.gradient(y, weights)
    text = str(caught.value)
    found = re.search(rf"gradients of one captured tensor \(slot 0\) .*{message}: (.*) and (.*)$", text, re.MULTILINE)
    assert found is not None, text
    assert set(found.groups()) == shapes  # whichever invocation came first
    assert "call path: strange" in text
    del tape, y
