"""Tensors of many sizes in programs that have to know them: each size that comes back has a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program

SIZES = (4, 6, 5)


def sized(i: int) -> tuple[tf.Tensor]:
    n = SIZES[i % 3]
    return (tf.sin(tf.reshape(tf.range(3.0 * n), [n, 3]) + i),)


@program(graphs=3)
def unstacks_rows() -> Any:
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor) -> Any:
        total = tf.zeros([3])
        for row in tf.unstack(x):
            total = tf.tanh(total * 0.5 + row * w)
        w.assign_sub(0.01 * total)
        return total

    return step, sized, w


@program(graphs=3)
def splits_by_a_length() -> Any:
    w, lengths = tf.Variable(tf.ones([3])), []

    def step(x: tf.Tensor) -> Any:
        n = len(x)
        lengths.append(n)
        places = tf.constant(np.arange(n)[:, None] / 10.0, tf.float32)
        return tf.reduce_sum(tf.split(x * places, n)[n // 2] * w)

    return step, sized, lengths


@program(graphs=3)
def unpacks_what_a_loop_has_collected() -> Any:
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor) -> Any:
        found = []
        for row in x:
            found.append(tf.tanh(row * w))
        found[0] = found[-1] * 2.0
        first, *rest = found
        return first, len(rest), tf.add_n(rest)

    return step, sized, None
