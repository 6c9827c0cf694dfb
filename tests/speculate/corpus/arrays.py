"""NumPy: scalars, arrays, dtypes."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number


@program
def np_scalars() -> Any:

    def step(x, v):
        return (
            x * v,
            v + 1,
            float(v),
            int(v),
            v.dtype.name,
            v > 1,
            str(v),
            np.float32(2) * v,
            isinstance(v, np.floating),
            isinstance(v, float),
            v.item(),
            round(float(v), 2),
        )

    return (step, lambda i: (tensor(i), np.float32(i * 0.5)), None)


@program
def np_arrays() -> Any:

    def step(x, a):
        return (
            x * a,
            a.sum(),
            a[0],
            a.shape,
            a.mean(axis=0),
            a.T,
            a[:, 1:],
            np.dot(a.T, a),
            a.dtype,
            a.max(),
            len(a),
            a + 1,
            np.concatenate([a, a]),
            a.reshape(-1),
            a.astype("int32"),
            a[0, 0] > 0,
            [r.sum() for r in a],
            a.tolist(),
        )

    return (step, lambda i: (tensor(i), np.arange(12, dtype=np.float32).reshape(4, 3) + i), None)


@program(eager="an item is assigned under a key that is a tensor", feature="INDEX", line="a[0] += 1")
def np_write() -> Any:
    a = np.zeros([3], np.float32)

    def step(x, n):
        a[0] += 1
        a[1:] = n
        return x * a

    return (step, with_number, a)


@program
def np_accumulate() -> Any:
    o = types.SimpleNamespace(a=np.zeros([3], np.float32))

    def step(x):
        o.a = o.a + x.numpy().sum(0)
        return x * 2.0

    return (step, with_tensor, o)


@program
def np_buffer_outside() -> Any:
    a = np.zeros([3], np.float32)

    def step(x):
        return x + a

    def args(i):
        a[:] = i
        return with_tensor(i)

    return (step, args, None)


@program
def dtype_args() -> Any:

    def step(x, d):
        return (tf.cast(x, d), d == tf.float32, d.name if hasattr(d, "name") else str(d))

    return (step, lambda i: (tensor(i), [tf.float32, tf.int32][i % 2]), None)


@program
def dtype_changes_attr() -> Any:
    o = types.SimpleNamespace(s=tf.constant(1.0))

    def step(x):
        return tf.cast(x, o.s.dtype) * o.s

    def args(i):
        if i == 6:
            o.s = tf.constant(2)
        if i == 9:
            o.s = tf.constant([1.0, 2.0, 3.0])
        if i == 12:
            o.s = tf.constant(1.0, tf.float64)
        return with_tensor(i)

    return (step, args, None)


@program
def numpy_scalar_state() -> Any:
    o = types.SimpleNamespace(v=np.float32(1.0), m=np.float64(0.0))

    def step(x):
        o.v = o.v * np.float32(2.0) if o.v < 100 else np.float32(1.0)
        return (x * o.v, o.v)

    return (step, with_tensor, o)


@program
def flags_beside_a_tensor() -> Any:
    """What says which games are over, multiplied with their values."""
    over = np.arange(40) % 3 == 0

    def step(x: tf.Tensor) -> Any:
        flags = over[np.random.choice(40, 3)]
        return x * flags, tf.ones([3], tf.int32) + flags

    def args(i: int) -> Any:
        np.random.seed(i)
        return (tf.constant([1.0, 2.0, float(i)]),)

    return step, args, None


@program
def arrays_as_tensors_of_other_kinds() -> Any:
    """A batch of what was played: actions, and whether a game was over."""
    actions, over = np.arange(-20, 20), np.arange(40) % 3 == 0

    def step(x: tf.Tensor) -> Any:
        batch = np.random.choice(40, 3)
        picked = tf.convert_to_tensor(actions[batch], dtype=tf.int32)
        ended = tf.convert_to_tensor(over[batch], dtype=tf.float32)
        return x * ended, picked, tf.constant(actions[batch], tf.float32), tf.constant(over[batch], tf.int64)

    def args(i: int) -> Any:
        np.random.seed(i)
        return (tf.constant([1.0, 2.0, float(i)]),)

    return step, args, None


@program
def buffers_that_are_filled_again() -> Any:
    """What is made of an array has memory of its own, also where TensorFlow could use that of the array."""
    memory = np.zeros(1024 + 16, np.float32)
    first = (-memory.ctypes.data % 64) // 4
    buffer, variable, kept = memory[first : first + 1024], tf.Variable(tf.zeros([1024])), [tf.zeros([1024])]

    def step(batch: Any) -> Any:
        before = tf.reduce_sum(variable), tf.reduce_max(kept[0])
        kept[0] = tf.convert_to_tensor(batch)
        variable.assign(batch)
        return before

    def args(i: int) -> Any:
        buffer[:] = float(i)
        return (buffer,)

    return step, args, variable


def _with_decision(i: int) -> Any:
    return tensor(i), tf.constant(float((i * 7) % 5) - 2.0)


@program
def an_array_of_the_call_is_changed_on_one_way() -> Any:
    """What was in it is there again on the other way: by items, operators, functions, and views of it."""

    def step(x, s):
        a, b, c = np.zeros(3, np.float32), np.array([3.0, 1.0, 2.0], np.float32), np.zeros((2, 3), np.float32)
        if s > 0.0:
            a[1] = 1.0
            b += 1.0
            np.add(a, 2.0, out=a)
            c[1][0], c.T[1], c.flat[5] = 4.0, 5.0, 6.0
        return x * 0.0 + a, b, c

    return step, _with_decision, None


@program
def an_array_of_the_call_that_a_callee_changes() -> Any:

    class Holder:
        pass

    def fill(holder: Any) -> None:
        holder.a[0] = 3.0

    def step(x, s):
        holder, parts = Holder(), np.split(np.zeros(4, np.float32), 2)
        holder.a = np.ones(3, np.float32)
        if s > 0.0:
            fill(holder)
            parts[0][1] = 2.0
        return x * 0.0 + holder.a, parts[0]

    return step, _with_decision, None


@program
def an_array_of_an_argument_is_changed_on_one_way() -> Any:
    """One that the script makes, and one of the graph."""

    def step(x, s, n):
        a, b = np.full(3, n, np.float32), x.numpy()
        if s > 0.0:
            a += 1.0
            b += 2.0
        return x * 0.0 + a, b

    return step, lambda i: (*_with_decision(i), 0.5 * i), None


@program
def an_array_that_each_round_makes() -> Any:

    def step(x, s):
        for _ in tf.range(tf.cast(s + 3.0, tf.int32)):
            a = np.zeros(3, np.float32)
            a[0] = 1.0
            x = x + a
        return x

    return step, _with_decision, None


@program(
    eager="how many rounds change it is known in the graph only",
    feature="MERGE",
    line="for _ in tf.range(tf.cast(s + 3.0, tf.int32)):",
)
def an_array_that_rounds_change() -> Any:

    def step(x, s):
        a = np.zeros(3, np.float32)
        for _ in tf.range(tf.cast(s + 3.0, tf.int32)):
            x = x + a
            a[0] += 1.0
        return x

    return step, _with_decision, None


@program(
    eager="TensorFlow calls the function once for all members",
    feature="EFFECT_IN_CALLBACK",
    line="return tf.map_fn(count, x[:, 0]), a",
)
def an_array_that_a_function_changes_which_tensorflow_calls() -> Any:

    def step(x):
        a = np.zeros(3, np.float32)

        def count(v: Any) -> Any:
            a[0] += 1.0
            return v + a[0]

        return tf.map_fn(count, x[:, 0]), a

    return step, with_tensor, None


@program
def views_of_arrays_that_are_kept() -> Any:
    """Each call leaves memory of its own behind."""
    kept: list[Any] = []

    def step(x):
        a = np.zeros((1, 4), np.float32)
        kept.append(a.T)
        kept.append(np.split(np.ones(4, np.float32), 2)[1])
        return x * 2.0

    def args(i: int) -> Any:
        for array in kept:
            array += 1.0
        return with_tensor(i)

    return step, args, kept


@program(eager="they share memory", feature="ESCAPE")
def an_array_and_a_view_of_it_that_are_kept() -> Any:
    kept: list[Any] = []

    def step(x):
        a = np.zeros(3)
        kept.append([a, a[1:]])
        return x * 2.0

    def args(i: int) -> Any:
        for array, _ in kept:
            array += 1.0
        return with_tensor(i)

    return step, args, kept


@program
def an_array_that_cannot_be_written_because_of_a_view() -> Any:
    """What NumPy says of an array of ours is not what the program sees."""

    def step(x, n):
        a = np.zeros(3, np.float32)
        b = np.broadcast_to(a, (n, 3))
        try:
            a[0] = 1.0
        except ValueError:
            return x * 100.0, 0
        return x * 0.0 + a, len(b)

    return step, lambda i: (tensor(i), i % 3 + 1), None
