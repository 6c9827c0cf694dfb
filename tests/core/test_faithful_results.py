"""What was once another result than TensorFlow's, in silence: second derivatives, sums with small constants, slices."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg

ENGINES = pytest.mark.parametrize("engine", ["parallel", "batched"])


def of_rows(engine: str, body: Callable[..., tf.Tensor], outputs: tf.TensorSpec, *specs: tf.TensorSpec) -> rg.SubGraph:
    with rg.SubGraph("f", outputs=outputs, engine=engine) as f:
        f.output(body(*(f.input(spec.dtype, spec.shape) for spec in specs)))
    return f


@ENGINES
def test_a_second_derivative_after_an_assignment_is_refused(engine: str) -> None:
    """It would be of the variable's value then; before the assignment it is right."""
    v, x = tf.Variable(3.0), tf.constant(2.0)
    with rg.SubGraph("f", outputs=tf.TensorSpec([]), engine=engine) as f:
        n, y = f.input(tf.int32), f.input()
        f.output(tf.cond(n > 0, lambda: tf.square(y) * v * f(n - 1, y), lambda: tf.ones([])))
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            value = f(tf.constant(2), x)
        slope = inner.gradient(value, x)
    np.testing.assert_allclose(outer.gradient(slope, [x, v]), [432.0, 192.0])
    v.assign(v * 1.0)  # to the same value
    np.testing.assert_allclose(outer.gradient(slope, [x, v]), [432.0, 192.0])
    v.assign(1000.0)
    with pytest.raises(tf.errors.FailedPreconditionError, match="take the derivative before you assign"):
        outer.gradient(slope, [x, v])


@ENGINES
@pytest.mark.parametrize("gradient", ["cache", "recompute"])
def test_a_gradient_has_the_rows_that_the_call_has_read(engine: str, gradient: str) -> None:
    """Also where it computes the body again, and the table was written meanwhile."""
    v = tf.Variable(tf.reshape(tf.range(1.0, 21.0), [10, 2]))
    with rg.SubGraph("f", outputs=tf.TensorSpec([]), gradient=gradient, engine=engine) as f:
        n, x = f.input(tf.int32), f.input()
        f.output(tf.cond(n > 0, lambda: tf.reduce_sum(tf.square(tf.gather(v, n))) * x + f(n - 1, x), lambda: 0.0 * x))
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(tf.constant(3), x)
    wanted = y / x
    v.assign(100.0 * v)
    np.testing.assert_allclose(tape.gradient(y, x), wanted)


@ENGINES
def test_small_constants_stay_in_sums(engine: str) -> None:
    """TensorFlow's optimizer makes `(x + 1e-8) - y` of `(x - y) + 1e-8`, which is 0 where x is y."""
    forms = list(itertools.product([tf.add, tf.subtract], [tf.add, tf.subtract], itertools.permutations("xyc"), [0, 1]))

    def body(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        given = {"x": x, "y": y, "c": tf.constant(1e-8)}
        made = []
        for outer, inner, (a, b, c), is_turned in forms:
            both = [inner(given[a], given[b]), given[c]]
            made.append(outer(*(reversed(both) if is_turned else both)))
        return tf.stack(made)

    scalar, x = tf.TensorSpec([]), tf.constant([1.0, 3.0])
    f = of_rows(engine, body, tf.TensorSpec([len(forms)]), scalar, scalar)
    np.testing.assert_array_equal(f.map(x, x), [body(one, one) for one in x])


@ENGINES
def test_an_epsilon_stays_under_a_root(engine: str) -> None:
    """Where all numbers are the same, their variance is 0, and without the epsilon its root has no gradient."""

    def deviation(x: tf.Tensor) -> tf.Tensor:
        return tf.sqrt(tf.reduce_mean(x * x) - tf.square(tf.reduce_mean(x)) + 1e-12 * tf.ones([]))

    f = of_rows(engine, deviation, tf.TensorSpec([]), tf.TensorSpec([4]))
    x = tf.ones([4])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_allclose(y, 1e-6)
    np.testing.assert_array_equal(tape.gradient(y, x), tf.zeros([4]))


@ENGINES
def test_a_maximum_keeps_its_shape_and_its_special_numbers(engine: str) -> None:
    """No leaky rectifier is made of it: of a constant of shape [1] that would lose the dimension."""

    def body(x: tf.Tensor) -> tf.Tensor:
        forms = [tf.maximum(x * tf.constant([factor]), x) for factor in (0.5, 2.0, 0.0, np.inf, -0.5)]
        more = tf.cond(x < 0.0, lambda: tf.maximum(2.0 * x, x), lambda: x)
        return tf.concat([*forms, more[None]], 0)

    x = tf.constant([-1.25, 0.625, 0.0, np.inf, -np.inf, np.nan])
    f = of_rows(engine, body, tf.TensorSpec([6]), tf.TensorSpec([]))
    np.testing.assert_array_equal(f.map(x), [body(one) for one in x])


@ENGINES
def test_zeros_in_sums_of_a_branch(engine: str) -> None:
    """Of `(0 + x) + x` TensorFlow's optimization of dependencies makes a result without a value."""

    def body(n: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        zero = tf.zeros([2])
        return tf.cond(n > 0, lambda: (zero + x) + x, lambda: (x + zero) + (zero + x) + zero)

    f = of_rows(engine, body, tf.TensorSpec([2]), tf.TensorSpec([], tf.int32), tf.TensorSpec([2]))
    np.testing.assert_array_equal(f.map([0, 1], [[1.0, -2.0]] * 2), [[2.0, -4.0]] * 2)


@ENGINES
def test_slices_of_one_tensor_are_told_apart(engine: str) -> None:
    """A variable's value may be a slice of a larger tensor, as its next value may be."""
    stack = tf.constant(np.random.default_rng(0).normal(size=(3, 16, 16)).astype(np.float32))
    v = tf.Variable(stack[0])
    f = of_rows(engine, lambda x: tf.squeeze(x[None] @ v, 0), tf.TensorSpec([16]), tf.TensorSpec([16]))
    x = tf.eye(16)
    for i in (0, 1, 2, 2, 0):
        v.assign(stack[i])
        np.testing.assert_allclose(f.map(x), stack[i], rtol=1e-6)


@ENGINES
def test_the_sizes_of_a_reshaped_capture(engine: str) -> None:
    """They are not those of the tensor that is captured."""

    @tf.function(input_signature=[tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int32)], autograph=False)
    def call(table: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
        def body(n: tf.Tensor) -> tf.Tensor:
            pairs = tf.reshape(table, [-1, 2])
            return tf.stack([tf.shape(pairs)[0] - n, tf.cast(n < tf.shape(pairs)[0], tf.int32)])

        return of_rows(engine, body, tf.TensorSpec([2], tf.int32), tf.TensorSpec([], tf.int32)).map(numbers)

    for rows in (3, 2, 5):
        wanted = [[2 * rows - n, int(n < 2 * rows)] for n in (0, 4, 7)]
        np.testing.assert_array_equal(call(tf.ones([rows, 4]), [0, 4, 7]), wanted)


@ENGINES
def test_a_read_waits_for_a_subgraph_with_captures_of_its_own_that_writes(engine: str) -> None:
    """What it captures of the body around it makes it a program of its own."""
    v = tf.Variable(1.0)
    with rg.SubGraph("outer", outputs=tf.TensorSpec([3]), engine=engine) as outer:
        step = 2.0 * outer.input()
        before = v.read_value()
        with rg.SubGraph("inner", outputs=tf.TensorSpec([]), engine=engine) as inner:
            n = inner.input(tf.int32)

            def more() -> tf.Tensor:
                with tf.control_dependencies([v.assign_add(step)]):
                    return 1.0 + inner(n - 1)

            inner.output(tf.cond(n > 0, more, lambda: 0.0 * step))
        count = inner(tf.constant(2))
        outer.output(tf.stack([before, count, v.read_value()]))
    np.testing.assert_array_equal(outer(1.0), [1.0, 2.0, 5.0])
    np.testing.assert_array_equal(outer(2.0), [5.0, 2.0, 13.0])
