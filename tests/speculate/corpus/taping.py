"""What a tape has recorded: what was computed before it, while it stopped, or of what is not watched leads nowhere."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor
from tests.speculate.corpus.ways import no_zeros, with_sign


def _two() -> tuple[tf.Variable, tf.Variable]:
    return tf.Variable(tf.ones([3]) * 2.0), tf.Variable(tf.ones([3]) * 3.0)


def _rounds(i: int) -> tuple[tf.Tensor]:
    """At least one."""
    return (tf.constant((1, 2, 3)[i * i % 3]),)


def _sign(i: int) -> tuple[tf.Tensor]:
    return with_sign(i)[1:]


@program
def a_tensor_made_before_the_tape() -> Any:
    v, w = _two()

    def step(sign: tf.Tensor) -> Any:
        z = w * 2.0
        with tf.GradientTape() as tape:
            y = v * 1.0 + z
            if sign > 0:
                y = y * w
        return tape.gradient(y, [v, w])

    return step, _sign, None


@program
def a_tensor_made_before_a_reset() -> Any:
    v, w = _two()

    def step(sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            z = w * 2.0
            tape.reset()
            y = v * 1.0 + z
            if sign > 0:
                y = y * w
        return tape.gradient(y, [v, w])

    return step, _sign, None


@program
def a_tensor_made_before_it_is_watched() -> Any:
    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        z = x * 2.0
        with tf.GradientTape() as tape:
            tape.watch([x, z])
            y = z + 1.0
            if sign > 0:
                y = y * x
        return tape.gradient(y, [x, z])

    return step, with_sign, None


@program(
    eager="a branch has used what is watched afterwards",
    feature="TAPE",
    line="tape.watch(w)",
)
def a_variable_watched_after_a_branch() -> Any:
    v, w = _two()

    def step(sign: tf.Tensor) -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(v)
            y = v * w if sign > 0 else v * w * 2.0
            tape.watch(w)
            y = y + w
        return tape.gradient(y, [v, w])

    return step, _sign, None


@program
def a_branch_while_the_tape_stops() -> Any:
    v, _ = _two()

    def step(sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = v * 1.0
            with tape.stop_recording():
                if sign > 0:
                    y = y * 2.0
            z = y * 3.0
        return tape.gradient(z, v)

    return step, _sign, None


@program
def a_branch_before_the_tape() -> Any:
    """On one way the tape watches what it is computed of."""

    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        y = x
        if sign > 0:
            y = y * 2.0
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = y * 3.0
        return tape.gradient(z, x)

    return step, with_sign, None


@program
def a_loop_before_the_tape() -> Any:
    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        y = x
        while n > 0:
            y = y * 2.0
            n -= 1
        with tf.GradientTape() as tape:
            tape.watch(y)
            z = y * 3.0 + x
        return tape.gradient(z, x)

    return step, lambda i: (tensor(i), tf.constant(i % 2)), None


@program
def two_tapes_and_a_tensor_between() -> Any:
    v, w = _two()

    def step(sign: tf.Tensor) -> Any:
        with tf.GradientTape() as outer:
            z = w * 2.0
            with tf.GradientTape() as inner:
                y = v * z
                if sign > 0:
                    y = y * w
            gradients = inner.gradient(y, [v, w])
            y = y * w
        return gradients, outer.gradient(y, [v, w])

    return step, _sign, None


@program
def a_loop_that_replaces_what_there_was() -> Any:
    v, w = _two()

    def step(n: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = v * 1.0
            while n > 0:
                y = w * 2.0
                n -= 1
        return tape.gradient(y, [v, w])

    return step, _rounds, None


@program
def a_second_derivative_of_a_loop() -> Any:
    v, w = _two()

    def step(n: tf.Tensor) -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = v * 1.0
                while n > 0:
                    y = y * w
                    n -= 1
            gradient = inner.gradient(y, v)
        return gradient, outer.gradient(gradient, [v, w])

    return step, _rounds, None


@program
def an_input_that_a_function_does_not_use() -> Any:
    v, w = _two()

    @tf.function
    def first(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        return one * 2.0

    def step(sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = first(v, w)
            if sign > 0:
                y = y * w
        return tape.gradient(y, [v, w])

    return step, _sign, None


@program
def rows_and_a_sum_of_one_branch() -> Any:
    table = tf.Variable(tf.ones([4, 2]))

    def step(sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(table, [0, 1]))
            if sign > 0:
                y += tf.reduce_sum(table)
        return tape.gradient(y, table)

    return step, _sign, None


@program
def rows_and_a_sum_of_a_loop() -> Any:
    table = tf.Variable(tf.ones([4, 2]))

    def step(n: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(table, [0, 1]))
            while n > 0:
                y += tf.reduce_sum(table)
                n -= 1
        return tape.gradient(y, table)

    return step, lambda i: (tf.constant(i % 2),), None


@program
def a_gradient_of_its_own_before_a_loop() -> Any:
    v, w = _two()

    def step(n: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y, factor = w * 1.0, no_zeros(v)
            while n > 0:
                y = y * factor
                n -= 1
        return tape.gradient(y, [v, w])

    return step, lambda i: (tf.constant(i % 2),), None


@program
def a_gradient_of_its_own_that_nothing_uses() -> Any:
    v, _ = _two()

    def step(sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            if sign > 0:
                metric, y = no_zeros(v), v * 2.0
            else:
                metric, y = v * 3.0, v * 1.0
        return tape.gradient(y, v), metric

    return step, _sign, None


def _with_zeros(v: tf.Variable, arguments: Any) -> Any:
    def given(i: int) -> Any:
        v.assign(tf.zeros([3]) if i in (5, 7) else tf.ones([3]))
        return arguments(i)

    return given


@program
def a_logarithm_of_a_branch_that_nothing_uses() -> Any:
    v, _ = _two()

    def step(sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            if sign > 0:
                metric, y = tf.math.log(v), v * 2.0
            else:
                metric, y = v * 3.0, v * 1.0
        return tape.gradient(y, v), metric

    return step, _with_zeros(v, _sign), v


@program
def a_logarithm_of_a_loop_that_nothing_uses() -> Any:
    v, _ = _two()

    def step(n: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y, metric = v * 1.0, tf.zeros([3])
            while n > 0:
                metric, y = tf.math.log(v) + metric, y * 2.0
                n -= 1
        return tape.gradient(y, v, unconnected_gradients=tf.UnconnectedGradients.ZERO), metric

    return step, _with_zeros(v, _rounds), v


@program
def a_tangent_of_one_branch() -> Any:
    v, w = _two()

    def step(sign: tf.Tensor) -> Any:
        with tf.autodiff.ForwardAccumulator(v, tf.ones([3])) as accumulator:
            y = w * 1.0
            if sign > 0:
                y = v * w
        return accumulator.jvp(y)

    return step, _sign, None


@program
def a_conditional_of_tensorflows_before_the_tape() -> Any:
    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        y = tf.cond(sign > 0, lambda: x * 2.0, lambda: x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = y * 3.0
        return tape.gradient(z, x)

    return step, with_sign, None


@program(eager="a loop of TensorFlow's may give what it was given", feature="TAPE", line="return tape.gradient(z, x)")
def a_loop_of_tensorflows_before_the_tape() -> Any:
    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        y = tf.while_loop(lambda k, _: k < n, lambda k, y: (k + 1, y * 2.0), (0, x))[1]
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = y * 3.0
        return tape.gradient(z, x)

    return step, lambda i: (tensor(i), tf.constant(i % 3)), None
