"""Python's and NumPy's numbers that come out of the graph, and decide."""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


@program
def an_array_decides() -> Any:
    def step(x: tf.Tensor) -> Any:
        total = tf.reduce_sum(x)
        if total.numpy() > 0:
            x = x * 2.0
        if np.isnan(total) or np.any(x.numpy() > 3.0):
            x = x * 0.5
        return x

    return step, with_tensor, None


@program
def halved_until_small() -> Any:
    def step(x: tf.Tensor) -> Any:
        total, n = tf.reduce_sum(x * x), 0
        while float(total) > 0.5:
            total, n = total * 0.5, n + 1
        return total, n

    return step, with_tensor, None


@program
def the_place_of_the_largest() -> Any:
    def step(x: tf.Tensor) -> Any:
        action = int(np.argmax(x[0].numpy()))
        if action == 0:
            y = x
        elif action == 1:
            y = x * 2.0
        else:
            y = x * 3.0
        return y, action, np.argmax(x[1]), x[2].numpy().max()

    return step, with_tensor, None


@program
def items_of_arrays() -> Any:
    state = types.SimpleNamespace(best=1e9, all=[])

    def step(x: tf.Tensor) -> Any:
        loss = tf.reduce_mean(x * x)
        value = loss.numpy().item()
        if value < state.best:
            state.best = value
        state.all.append(loss.numpy())
        return value, loss.numpy().tolist(), x[0].numpy()[1], len(x.numpy()), list(x[0].numpy())

    return step, with_tensor, state


@program
def arithmetic_of_arrays() -> Any:
    def step(x: tf.Tensor) -> Any:
        a = x[0, 0].numpy()
        return a * 2.0, a + 1, a > 0.1, a * a, -a, a / 3, a**2, x * a, a + np.float64(1.0), a if a > 0 else 0.0

    return step, with_tensor, None


@program
def an_array_that_is_changed() -> Any:
    def step(x: tf.Tensor) -> Any:
        a = x.numpy()
        b = a
        a += 1.0
        a[0] = 5.0
        b.sort()
        return a, b, a is b

    return step, with_tensor, None


@program
def an_array_of_a_variable() -> Any:
    v = tf.Variable(0.0)

    def step(x: tf.Tensor) -> Any:
        v.assign_add(tf.reduce_sum(x))
        before = v.numpy()
        if v.numpy() > 0:
            v.assign(0.0)
        return before, v.numpy(), float(v)

    return step, with_tensor, v


@program
def a_string_decides() -> Any:
    def step(x: tf.Tensor, word: tf.Tensor) -> Any:
        return x * 2.0 if word.numpy() == b"b" else x

    return step, lambda i: (tensor(i), tf.constant("abc"[i % 3])), None


@program
def divisions_of_floats() -> Any:
    def step(x: tf.Tensor) -> Any:
        a, b, n = float(x[0, 0]) * 7.0, float(x[1, 1]), int(x[0, 2] * 10)
        return a // b, a % b, a // 2.0, a % -0.3, 5.0 // b, -a // b, a / b, n // 3, n % -3, n / 3

    return step, with_tensor, None


@program
def a_division_by_zero() -> Any:
    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        a, d = float(x[0, 0]), int(n)
        return a // d, a % d

    return step, lambda i: (tensor(i), tf.constant(0 if i in (6, 9) else i + 1)), None


@program
def rounded_numbers() -> Any:
    def step(x: tf.Tensor) -> Any:
        a, b, n = float(x[0, 0]), float(x[0, 1]), int(x[0, 2] * 10)
        if max(a, b) > 0.5 and not math.isnan(a):
            x = x + 1.0
        kinds = type(a), type(n), isinstance(n, int)
        return x, kinds, round(a * 10), round(a, 2), max(a, b), min(a, b, 0.0), math.floor(a), n & 3, n | 8, not n

    return step, with_tensor, None


@program
def integers_that_grow_too_large() -> Any:
    """For the last call they do not; those in between run eagerly."""

    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        k = int(n)
        k = k * k * k + 7
        return x * 2.0 if k > 10**6 else x, k

    def arguments(i: int) -> tuple[tf.Tensor, tf.Tensor]:
        return tensor(i), tf.constant(10**i if i < 10 else i, tf.int64)

    return step, arguments, None


@program
def a_power_by_a_loop() -> Any:
    def step(n: tf.Tensor) -> Any:
        k, i = 1, tf.constant(0)
        while i < n:
            k = k * 3
            i += 1
        return k

    return step, lambda i: (tf.constant([3, 10, 50, 5][i % 4] if i < 14 else 4),), None


@program
def not_an_integer() -> Any:
    def step(x: tf.Tensor) -> Any:
        return int(tf.reduce_sum(x))

    factors = {7: float("nan"), 9: float("inf"), 10: 1e30}
    return step, lambda i: (tensor(i) * factors.get(i, 1.0),), None


@program
def variables_as_text() -> Any:
    v = tf.Variable(1.0)

    def step(x: tf.Tensor) -> Any:
        print("first", v)
        v.assign_add(1.0)
        print(f"then {v}", [v], file=sys.stdout)
        v.assign_add(tf.reduce_sum(x))
        return str(v)

    return step, with_tensor, v


@program
def early_stopping() -> Any:
    state = types.SimpleNamespace(best=float("inf"), wait=0, stopped=False)
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor) -> Any:
        if state.stopped:
            return None
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x * w) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        if float(loss) < state.best - 1e-3:
            state.best, state.wait = float(loss), 0
        else:
            state.wait += 1
            if state.wait >= 4:
                state.stopped = True
        return float(loss)

    return step, with_tensor, [state, w]


@program
def a_line_search() -> Any:
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor) -> Any:
        def cost(v: Any) -> tf.Tensor:
            return tf.reduce_sum((x * v - 1.0) ** 2)

        with tf.GradientTape() as tape:
            loss = cost(w)
        g, rate = tape.gradient(loss, w), 1.0
        while cost(w - rate * g) > loss - 1e-4 * rate * tf.reduce_sum(g * g):
            rate *= 0.5
            if rate < 1e-6:
                break
        w.assign_sub(rate * g)
        return loss, rate

    return step, with_tensor, w


@program
def numbers_that_are_moved_in_structures() -> Any:
    """They are Python's still when they come out."""

    def step(x, n):
        named = {"a": n, "b": (x, n + 1)}
        return (
            tf.nest.flatten([n, (x, 0.5 * n)]),
            tf.nest.map_structure(lambda v: v * 2, [n, (x, n + 1)]),
            tf.nest.map_structure(lambda v, w: (v, w), named, named)["a"],
            tf.nest.pack_sequence_as([0, (0,)], [n, x]),
            keras.tree.map_structure(lambda v: v * 2, [n, x]),
            keras.tree.flatten([n, x]),
            tf.compat.dimension_value(n),
            tf.nest.flatten([float(x[0, 0])]),
        )

    return step, lambda i: (tensor(i), i), None


@program
def shapes_as_keras_says_them() -> Any:

    def step(x):
        rows, columns = keras.ops.shape(x)
        return keras.ops.shape(x), rows * 2, keras.ops.reshape(x, (columns, rows)), tf.nest.flatten([x.shape[0]])

    return step, lambda i: (tf.ones([i % 5 + 1, 3]),), None


@program
def numbers_beside_what_says_where() -> Any:
    """Sizes and indices of int64 do not make a number one."""

    def step(x, n):
        two = tf.constant([2, 2], tf.int64)
        first = tf.constant(0, tf.int64)
        return (
            tf.fill(two, n),
            tf.broadcast_to(n, two),
            tf.scatter_nd([[first]], [n], two[:1]),
            tf.tile([n], two[:1]),
            tf.gather([n, 5], two - 1),
            tf.reduce_sum([n, 2], axis=first),
            tf.add(two, n),
            tf.fill(two, 0.5 * n),
        )

    return step, lambda i: (tensor(i), i + (1 << 40 if i % 5 == 4 else 0)), None


@program
def truth_values_beside_small_integers() -> Any:
    """Eager execution does not take them."""

    def step(x, n):
        return tf.cast(x, tf.int8) * n

    return step, lambda i: (tensor(i), True if i > 3 and i % 3 == 0 else i), None


@program
def large_integers_of_the_graph_beside_floats() -> Any:
    """They become float64 first."""

    def step(x):
        return (tf.ones([2]) + int(x[0]) * ((1 << 60) + (1 << 36) + 1)) / float(1 << 60) - tf.cast(x[0], tf.float32)

    return step, lambda i: (tf.constant([1 + i % 2]),), None


@program
def floats_of_numpy_beside_tensors() -> Any:
    """They take the dtype of the tensor beside them, and have one of their own where there is none."""
    tensors = [tf.constant([1.0, -2.0, 3.0], dtype) for dtype in (tf.float16, tf.float32, tf.float64)]
    variable = tf.Variable([1.0, 2.0, 3.0])

    def step(by: np.float64, half: np.float16) -> Any:
        found = []
        for x in tensors:
            found += [x * by, by - x, x**by, tf.multiply(by, x), tf.maximum(x, half), tf.where(x > 0, x, by)]
            found += [tf.clip_by_value(x, -by, by), tf.stack([x[0], by]), tf.less(half, x)]
        variable.assign_add(variable * by)
        hinted = tf.convert_to_tensor(by, dtype_hint=tf.float32)
        return found, tf.convert_to_tensor(by), hinted, keras.ops.convert_to_tensor(half), tf.exp(by)

    return step, lambda i: (np.float64(1.0 + i / 8), np.float16(i)), variable
