"""Gradient tapes of every use, and what flows through a call from a tape around it."""

from __future__ import annotations

import types
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.keras_programs import _Values


@program
def a_persistent_tape() -> Any:
    a, b = tf.Variable(tf.ones([3])), tf.Variable(tf.ones([3]) * 2.0)

    def step(x: tf.Tensor) -> tuple[Any, Any]:
        with tf.GradientTape(persistent=True) as tape:
            first = tf.reduce_sum(x * a * b)
            second = first * first
        one, two = tape.gradient(first, [a, b]), tape.gradient(second, {"a": a})
        del tape
        a.assign_sub(0.01 * one[0])
        return one, two

    return step, with_tensor, [a, b]


@program
def nested_tapes() -> Any:
    w = tf.Variable(2.0)

    def step(x: tf.Tensor) -> tuple[Any, Any]:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = tf.reduce_sum(w**3 * x)
            first = inner.gradient(y, w)
        return first, outer.gradient(first, w)

    return step, with_tensor, w


@program
def a_watched_tensor() -> Any:
    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.sin(x))
        return tape.gradient(y, x)

    return step, with_tensor, None


@program
def stopped_recording() -> Any:
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = x * w
            with tape.stop_recording():
                z = y * w
            loss = tf.reduce_sum(y * tf.stop_gradient(y) + z)
        return tape.gradient(loss, w)

    return step, with_tensor, w


@program
def a_jacobian() -> Any:
    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(x * x, 1)
        return tape.jacobian(y, x)

    return step, with_tensor, None


@program
def unconnected_gradients() -> Any:
    w, unused = tf.Variable(tf.ones([3])), tf.Variable(1.0)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * w)
        gradients = tape.gradient(loss, [w, unused])
        return [g for g in gradients if g is not None], gradients[1] is None

    return step, with_tensor, None


@program
def slices_of_an_embedding() -> Any:
    table = tf.Variable(tf.random.stateless_normal([10, 3], [1, 2]))

    def step(words: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, words) ** 2)
        slices = tape.gradient(loss, table)
        table.scatter_sub(tf.IndexedSlices(slices.values * 0.1, slices.indices))
        return loss, slices

    return step, lambda i: (tf.constant([i % 10, 3, 3]),), table


@program
def clipped_gradients() -> Any:
    ws = [tf.Variable(tf.ones([3, 3])), tf.Variable(tf.ones([3]))]

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ ws[0] + ws[1]) ** 2)
        gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, ws), 1.0)
        for w, g in zip(ws, gradients, strict=True):
            w.assign_sub(0.1 * g)
        return loss, norm

    return step, with_tensor, ws


@program
def a_custom_gradient() -> Any:
    w = tf.Variable(tf.ones([3]))

    @tf.custom_gradient
    def reversed_(x: tf.Tensor) -> Any:
        def grad(upstream: tf.Tensor) -> tf.Tensor:
            return -upstream

        return x * 1.0, grad

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(reversed_(x * w))
        return tape.gradient(loss, w)

    return step, with_tensor, w


@program
def a_custom_gradient_of_more_than_tensors() -> Any:
    """Eagerly the function inside gets numbers, flags and names as they are, in a graph TensorFlow makes tensors."""
    w = tf.Variable([1.0, 2.0, 3.0])

    @tf.custom_gradient
    def scaled(x: tf.Tensor, by: Any, pair: Any, is_up: bool = True) -> Any:
        y = x * by + pair[0] if isinstance(by, float) and is_up else x / by
        return y, lambda upstream: (upstream * by, None, [None, upstream * pair[0]])

    def step(x: tf.Tensor, by: Any, number: float) -> Any:
        with tf.GradientTape() as tape:
            loss = scaled(x * w, by, [0.5, w], is_up=number > 2.0)
        return loss, tape.gradient(loss, w), scaled(x, 2, [number, x]), scaled(x, number, [by, x]), type(by).__name__

    return step, lambda i: (tensor(i)[0], np.float64(0.5 + i), i / 4), w


@program
def a_custom_gradient_of_numbers_that_reads_a_variable() -> Any:
    w = tf.Variable([1.0, 2.0, 3.0])

    @tf.custom_gradient
    def scaled(x: tf.Tensor, by: float) -> Any:
        def gradient(upstream: tf.Tensor, variables: Any = None) -> Any:
            return (upstream * by, None), [upstream * 3.0 for _ in variables]

        return x * by * w, gradient

    def step(x: tf.Tensor, by: float) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = scaled(x, by)
        return loss, tape.gradient(loss, [x, w])

    return step, lambda i: (tensor(i)[0], 0.5 * i), w


def _recomputed() -> tuple[tf.Variable, Any]:
    """A block whose gradient TensorFlow cannot make where it is in a loop of a graph: it reads a variable."""
    w = tf.Variable(tf.eye(3) * 0.5)
    return w, tf.recompute_grad(lambda x: tf.tanh(x @ w))


@program
def a_block_that_is_recomputed_in_rounds_that_vary() -> Any:
    w, block = _recomputed()

    def step(x: tf.Tensor, rounds: int) -> Any:
        with tf.GradientTape() as tape:
            for _ in range(rounds):
                x = block(x)
            loss = tf.reduce_sum(x)
        return loss, tape.gradient(loss, w)

    return step, lambda i: (tensor(i)[None], 1 + i % 3 if i > 3 else 2), w


@program
def a_block_that_is_recomputed_until_a_tensor_says_so() -> Any:
    w, block = _recomputed()

    def step(x: tf.Tensor, rounds: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            while rounds > 0:
                x, rounds = block(x), rounds - 1
            loss = tf.reduce_sum(x)
        return loss, tape.gradient(loss, w)

    return step, lambda i: (tensor(i)[None], tf.constant(1 + i % 3)), w


@program(eager="what tf.custom_gradient wraps counts its calls", feature="WRAPPED_FUNCTION", line="return twice(x)")
def a_custom_gradient_that_counts() -> Any:
    state = types.SimpleNamespace(n=0)

    @tf.custom_gradient
    def twice(x: tf.Tensor) -> Any:
        state.n += 1
        return x * 2.0, lambda upstream: upstream * 2.0

    def step(x: tf.Tensor) -> Any:
        return twice(x)

    return step, with_tensor, state


@program
def a_tape_around_the_call() -> Any:
    """The corpus calls `outer`; what is converted in it is a function of its own, see test_function.py."""
    w = tf.Variable(tf.ones([3]))

    def loss(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum((x * w) ** 2)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            value = loss(x)
        w.assign_sub(0.01 * tape.gradient(value, w))
        return value

    return step, with_tensor, w


@program
def a_forward_accumulator() -> Any:
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor) -> Any:
        with tf.autodiff.ForwardAccumulator(w, tf.ones([3])) as accumulator:
            loss = tf.reduce_sum(x * w**2)
        return accumulator.jvp(loss)

    return step, with_tensor, w


@program
def gradients_of_gradients_penalty() -> Any:
    w = tf.Variable(tf.ones([3, 1]))

    def critic(x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x @ w)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                scores = critic(x)
            slope = inner.gradient(scores, x)
            penalty = tf.reduce_mean((tf.norm(slope, axis=1) - 1.0) ** 2)
        w.assign_sub(0.1 * tape.gradient(penalty, w))
        return penalty

    return step, with_tensor, w


@program
def a_rate_that_changes() -> Any:
    state = types.SimpleNamespace(rate=0.1, steps=0)
    w = tf.Variable(tf.ones([3, 2]))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w - 1.0) ** 2)
        w.assign_sub(state.rate * tape.gradient(loss, w))
        state.steps += 1
        if state.steps % 5 == 0:
            state.rate *= 0.5
        return loss

    return step, with_tensor, [state, w]


@program
def not_a_number() -> Any:
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.math.log(x * w))
        gradient = tape.gradient(loss, w)
        if tf.reduce_any(tf.math.is_nan(gradient)):
            return tf.constant(-1.0)
        w.assign_sub(gradient)
        return loss

    return step, lambda i: (tf.abs(tensor(i)) if i != 9 else tensor(i) * float("nan"),), w


@program
def past_a_number() -> Any:
    """A tape does not see what goes through Python: `float`, `.numpy()`, `.item()`."""
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            seen = w * 2.0
            scale = tf.constant(float(tf.reduce_sum(seen))) + seen.numpy()[1] + tf.reduce_max(seen).numpy().item()
            loss = tf.reduce_sum((x * w) ** 2) * scale + float(w[0])
        gradient = tape.gradient(loss, w)
        w.assign_sub(0.01 * tf.tanh(gradient))
        return gradient

    return step, with_tensor, w


@program
def nothing_but_numbers() -> Any:
    """What only goes through Python has no gradient."""
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            loss = tf.convert_to_tensor((w * x).numpy()) * 3.0
        return tape.gradient(loss, w), tape.gradient(loss, x, unconnected_gradients="zero")

    return step, with_tensor, w


@program
def numbers_that_go_round() -> Any:
    """In loops and branches of tensors, too."""
    w = tf.Variable(0.5)

    def step(x: tf.Tensor) -> Any:
        best = 0.0
        with tf.GradientTape() as tape:
            total = tf.constant(0.0)
            for row in x:
                value = tf.reduce_sum(row * w)
                if value > 0.0:
                    best = float(value)
                total += value * w * best
        return tape.gradient(total, w), best

    return step, with_tensor, w


def _kind_of(gradient: Any) -> Any:
    """Slices are told one by one: optimizers take two of one row differently from their sum."""
    if isinstance(gradient, tf.IndexedSlices):
        return "slices", gradient.indices, gradient.values
    return "dense", gradient


def _lengths(i: int) -> tuple[tf.Tensor]:
    """Numbers of rows, two or three, the same one among them."""
    return (tf.constant([1, 1, 2][: 2 + i % 2]),)


@program(graphs=2)
def rows_of_a_table_that_rounds_look_up() -> Any:
    table = tf.Variable(tf.reshape(tf.range(12.0), [4, 3]))

    def step(rows: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            x = tf.ones([3])
            for row in rows:
                x = x + tf.gather(table, row) * 0.1 * x
            loss = tf.reduce_sum(x)
        return _kind_of(tape.gradient(loss, table))

    return step, _lengths, table


@program(eager="a loop", feature="TRIPS", line="for i in tf.range(n):")
def rows_that_an_unknown_number_of_rounds_look_up() -> Any:
    table = tf.Variable(tf.reshape(tf.range(12.0), [4, 3]))

    def step(rows: tf.Tensor, n: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            x = tf.ones([3])
            for i in tf.range(n):
                x = x + tf.gather(table, rows[i]) * 0.1 * x
            loss = tf.reduce_sum(x)
        return _kind_of(tape.gradient(loss, table))

    return step, lambda i: (tf.constant([0, 1, 1, 2, 0]), tf.constant(2 + i % 4)), table


@program(graphs=1)
def a_table_that_rounds_look_up_and_that_is_summed() -> Any:
    """Its gradient is dense in any case."""
    table = tf.Variable(tf.reshape(tf.range(12.0), [4, 3]))

    def step(rows: tf.Tensor, n: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            x = tf.reduce_sum(table * 0.01, 0)
            for i in tf.range(n):
                x = x + tf.gather(table, rows[i]) * 0.1 * x
            loss = tf.reduce_sum(x)
        return _kind_of(tape.gradient(loss, table))

    return step, lambda i: (tf.constant([0, 1, 1, 2, 0]), tf.constant(2 + i % 4)), table


@program(graphs=1)
def rows_that_both_ways_look_up() -> Any:
    table = tf.Variable(tf.reshape(tf.range(12.0), [4, 3]))

    def step(rows: tf.Tensor, s: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            x = tf.gather(table, rows) * 2.0 if s > 1.5 else tf.gather(table, rows + 1)
            loss = tf.reduce_sum(x * x)
        return _kind_of(tape.gradient(loss, table))

    return step, lambda i: (tf.constant([0, 1, 1]), tf.constant(float(i % 4))), table


@program(graphs=2)
def rows_that_one_way_looks_up() -> Any:
    table = tf.Variable(tf.reshape(tf.range(12.0), [4, 3]))

    def step(rows: tf.Tensor, s: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            x = tf.gather(table, rows) * 2.0 if s > 1.5 else table * 0.5
            loss = tf.reduce_sum(x * x)
        return _kind_of(tape.gradient(loss, table))

    return step, lambda i: (tf.constant([0, 1, 1]), tf.constant(float(i % 4))), table


@program
def columns_of_a_table_that_rounds_look_up() -> Any:
    table = tf.Variable(tf.reshape(tf.range(12.0), [3, 4]))

    def step(columns: tf.Tensor, n: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            x = tf.ones([3])
            for i in tf.range(n):
                x = x + tf.gather(table, columns[i], axis=1) * 0.1 * x
            loss = tf.reduce_sum(x)
        return _kind_of(tape.gradient(loss, table))

    return step, lambda i: (tf.constant([0, 1, 1, 2, 0]), tf.constant(2 + i % 4)), table


@program(graphs=2)
def an_embedding_of_keras_in_rounds() -> Any:
    keras.utils.set_random_seed(0)
    embedding, optimizer = keras.layers.Embedding(4, 3), keras.optimizers.Adam(0.1)
    embedding.build([None])
    optimizer.build(embedding.trainable_variables)

    def step(rows: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            x = tf.ones([3])
            for row in rows:
                x = x + embedding(row) * x
            loss = tf.reduce_sum(x * x)
        optimizer.apply(tape.gradient(loss, embedding.trainable_variables), embedding.trainable_variables)
        return loss

    return step, _lengths, _Values(embedding, optimizer)
