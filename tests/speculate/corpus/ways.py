"""What a gradient is depends on the way that a tensor decides: `None` where nothing that was done leads to a source."""

from __future__ import annotations

import types
from typing import Any

import keras
import tensorflow as tf

from recgraph.speculate import Speculated
from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.keras_programs import _Values


def with_sign(i: int) -> tuple[tf.Tensor, tf.Tensor]:
    """A matrix, and -1, 0 or 1."""
    return tensor(i), tf.constant(float(i % 3) - 1.0)


def with_number(i: int) -> tuple[tf.Tensor, tf.Tensor]:
    """A matrix, and 0 to 4."""
    return tensor(i), tf.constant(i % 5)


@tf.custom_gradient
def no_zeros(x: tf.Tensor) -> Any:
    """What comes is never zero. TensorFlow enters this, too, when it builds a graph."""
    return tf.identity(x), lambda g: tf.where(tf.equal(g, 0.0), tf.ones_like(g) * 7.0, g)


def _two() -> list[tf.Variable]:
    return [tf.Variable(tf.ones([3])), tf.Variable(tf.ones([3]) * 2.0)]


@program
def a_variable_of_one_branch() -> Any:
    both = _two()

    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(x * both[0]) if sign > 0 else tf.reduce_sum(x * both[1])
        gradients = tape.gradient(y, both)
        for v, g in zip(both, gradients, strict=True):
            if g is not None:
                v.assign_sub(0.1 * g)
        return [g is None for g in gradients]

    return step, with_sign, both


@program
def an_optimizer_and_a_variable_of_one_branch() -> Any:
    """Adam leaves a variable without a gradient alone; one of zeros would move it on."""
    both = _two()
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(both)

    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * both[0])
            if sign > 0:
                loss = loss * tf.reduce_sum(both[1])
        pairs = zip(tape.gradient(loss, both), both, strict=True)
        optimizer.apply_gradients([(g, v) for g, v in pairs if g is not None])
        return loss

    return step, with_sign, [both, _Values(optimizer)]


@program
def a_mixture_of_experts() -> Any:
    experts = [tf.Variable(tf.ones([3, 2]) * i) for i in range(1, 5)]

    def step(x: tf.Tensor, which: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            if which == 0:
                y = x @ experts[0]
            elif which == 1:
                y = x @ experts[1]
            elif which == 2:
                y = x @ experts[2]
            else:
                y = x @ experts[3]
            loss = tf.reduce_mean(y**2)
        found = [(g, e) for g, e in zip(tape.gradient(loss, experts), experts, strict=True) if g is not None]
        for g, e in found:
            e.assign_sub(0.1 * g)
        return len(found)

    return step, lambda i: (tensor(i), tf.constant(i * i % 4)), experts


@program
def a_loop_without_a_round() -> Any:
    w, c = tf.Variable(tf.ones([3])), tf.Variable(1.0)

    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            h = tf.reduce_sum(x) * c
            i = tf.constant(0)
            while i < n:
                h = tf.tanh(h + tf.reduce_sum(w))
                i += 1
        return [g is None for g in tape.gradient(h, [w, c])]

    return step, with_number, None


@program
def a_persistent_tape_and_a_branch() -> Any:
    both = _two()

    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            y = tf.reduce_sum(x * both[0])
            z = y * tf.reduce_sum(both[1]) if sign > 0 else y
        zeros = tape.gradient(z, both[1], unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return tape.gradient(y, both[1]), tape.gradient(z, both), zeros

    return step, with_sign, None


@program
def a_jacobian_of_one_branch() -> Any:
    both = _two()

    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = x[0] * both[0] * both[1] if sign > 0 else x[0] * both[0]
        return tape.jacobian(y, both)

    return step, with_sign, None


@program
def a_source_that_a_branch_gives() -> Any:
    """On one way it is the very tensor that the other source is."""
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            h = x * w
            g = tf.tanh(h) if sign > 0 else h
            loss = tf.reduce_sum(g * h)
        return tape.gradient(loss, [h, g, w])

    return step, with_sign, None


@program
def a_tape_around_another_function() -> Any:
    both = _two()

    @Speculated
    def chosen(x: tf.Tensor, sign: tf.Tensor) -> Any:
        return tf.reduce_sum(x * both[0]) if sign > 0 else tf.reduce_sum(x * both[1])

    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = chosen(x, sign)
        return [g is None for g in tape.gradient(y, both)]

    return step, with_sign, None


@program
def a_branch_watches() -> Any:
    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = x * 2.0
            if sign > 0:
                tape.watch(y)
            z = tf.reduce_sum(y * y)
        return tape.gradient(z, y)

    return step, with_sign, None


@program
def a_branch_stops_recording() -> Any:
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = x * w
            if sign > 0:
                with tape.stop_recording():
                    y = y * w
            z = tf.reduce_sum(y * w)
        return tape.gradient(z, w)

    return step, with_sign, None


@program(
    eager="an item of a TensorArray that was not used: in the graph, its gradient is zero",
    breaks="the gradient is not zero everywhere",
)
def an_item_of_a_tensor_array() -> Any:
    both = _two()

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            items = tf.TensorArray(tf.float32, size=2).write(0, x[0] * both[0])
            items = items.write(1, x[1] * both[1])
            y = tf.reduce_sum(items.read(0))
        return [g is None for g in tape.gradient(y, both)]

    return step, with_tensor, None


@program
def functions_of_a_cond() -> Any:
    both = _two()
    state = types.SimpleNamespace(then=0)

    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        def then() -> Any:
            state.then += 1
            return tf.reduce_sum(x * both[0])

        with tf.GradientTape() as tape:
            y = tf.cond(sign > 0, then, lambda: tf.reduce_sum(x * both[1]))
        return [g is None for g in tape.gradient(y, both)]

    return step, with_sign, state


@program
def functions_of_a_switch() -> Any:
    both = _two()

    def step(x: tf.Tensor, which: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = tf.switch_case(which, [lambda: tf.reduce_sum(x * both[0]), lambda: tf.reduce_sum(x * both[1])])
        return [g is None for g in tape.gradient(y, both)]

    return step, with_number, None


@program
def a_step_that_is_skipped() -> Any:
    w = tf.Variable(tf.ones([3]))
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build([w])
    state = types.SimpleNamespace(skipped=0)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x * w - 1.0) ** 2)
        gradient = tape.gradient(loss, w)
        if tf.reduce_all(tf.math.is_finite(gradient)):
            optimizer.apply_gradients([(gradient, w)])
        else:
            state.skipped += 1
        return loss

    return step, lambda i: (tensor(i) * (float("nan") if i % 4 == 3 else 1.0),), [w, state, _Values(optimizer)]


@program
def a_tape_in_each_round() -> Any:
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        i, loss = tf.constant(0), tf.constant(0.0)
        while i < n:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x * w - 1.0) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            i += 1
        return loss

    return step, with_number, w


@program
def a_name_of_some_rounds() -> Any:
    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        i = tf.constant(0)
        while i < n:
            x = x + 1.0
            if tf.reduce_sum(x) > 12.0:
                why = 1
                break
            i += 1
        else:
            why = 2
        return x, why

    return step, with_number, None


@program
def three_loops() -> Any:
    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        i = tf.constant(0)
        while i < n:
            j = tf.constant(0)
            while j < i:
                k = tf.constant(0)
                while k < j:
                    x = x + 1.0
                    k += 1
                j += 1
            i += 1
        return x

    return step, lambda i: (tensor(i), tf.constant(i * 3 % 7)), None


@program
def random_numbers_in_a_branch() -> Any:
    tf.random.set_seed(1)

    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        if sign > 0:
            x = x + tf.random.normal([3])
        return x * tf.random.uniform([])

    return step, with_sign, None


@program
def random_numbers_in_a_loop() -> Any:
    tf.random.set_seed(1)

    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        i = tf.constant(0)
        while i < n:
            x = x + tf.random.normal([3])
            i += 1
        return x

    return step, lambda i: (tensor(i), tf.constant(i % 3)), None


@program
def a_callee_that_a_tensor_chooses() -> Any:
    functions = [lambda t: t * 2.0, lambda t: t + 1.0, lambda t: -t]
    counts = [0, 0, 0]

    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        which = int(n) % 3
        counts[which] += 1
        return functions[which](x)

    return step, with_number, counts


@program
def a_read_that_only_the_loss_needs() -> Any:
    """No gradient leads from the read of the second variable to its update but by a shape."""
    both = [tf.Variable(tf.ones([40, 40])), tf.Variable(2.0 * tf.ones([40, 40]))]

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x[0, 0] * both[0]) * tf.reduce_sum(both[1])
        for variable, gradient in zip(both, tape.gradient(loss, both), strict=True):
            variable.assign_sub(1e-5 * gradient)
        return loss

    return step, with_tensor, both


def _infinite(i: int) -> tuple[tf.Tensor]:
    """How often a logarithm is added."""
    return (tf.constant((1, 2, 0, 1, 3, 0, 2, 0, 1)[i % 9]),)


def _logarithm(add: Any) -> Any:
    """A tensor of which the gradient is infinite in two calls, in which it is not added."""
    weight = tf.Variable(0.5)

    def step(rounds: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = add(rounds, tf.math.log(weight), weight * 2.0)
        return tape.gradient(y, weight)

    def arguments(i: int) -> tuple[tf.Tensor]:
        weight.assign(0.0 if i in (5, 7) else 0.5)
        return _infinite(i)

    return step, arguments, weight


@program
def an_infinite_gradient_by_a_branch_that_is_not_taken() -> Any:
    def add(rounds: tf.Tensor, logarithm: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        if rounds > 0:
            y = y + logarithm
        return y

    return _logarithm(add)


@program
def an_infinite_gradient_by_a_loop_without_a_round() -> Any:
    def add(rounds: tf.Tensor, logarithm: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        while rounds > 0:
            y = y + logarithm
            rounds = rounds - 1
        return y

    return _logarithm(add)


@program
def an_infinite_gradient_by_a_branch_in_a_loop() -> Any:
    def add(rounds: tf.Tensor, logarithm: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        more = tf.constant(2)
        while more > 0:
            if rounds > more:
                y = y + logarithm
            more = more - 1
        return y

    return _logarithm(add)


@program
def an_infinite_gradient_in_a_loop() -> Any:
    """The logarithm is taken in each round, and added in some."""
    weight = tf.Variable(0.5)

    def step(rounds: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y, more = tf.constant(2.0), rounds + 1
            while more > 0:
                y, logarithm = y + weight, tf.math.log(weight)
                if more > 2:
                    y = y + logarithm
                more = more - 1
        gradient = tape.gradient(y, weight)
        return gradient is None, 0.0 if gradient is None else gradient

    def arguments(i: int) -> tuple[tf.Tensor]:
        weight.assign(0.0 if i in (5, 7) else 0.5)
        return _infinite(i)

    return step, arguments, weight
