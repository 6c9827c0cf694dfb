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
