"""Shapes that grow: what Python sees of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program


def rows(i: int) -> tuple[tf.Tensor]:
    """More rows every three calls."""
    return (tf.random.stateless_normal([2 + i // 3, 3], [3, i]),)


@program
def a_batch_size_that_is_used() -> Any:
    def step(x: tf.Tensor) -> Any:
        noise = tf.ones([x.shape[0], 2])
        return tf.concat([x, noise], 1), x.shape[0], x.shape[1]

    return step, rows, None


@program
def a_shape_that_is_returned() -> Any:
    def step(x: tf.Tensor) -> Any:
        return x.shape, x.shape.rank, x.shape.as_list(), tuple(x.shape), len(x)

    return step, rows, None


@program
def a_mean_by_hand() -> Any:
    def step(x: tf.Tensor) -> Any:
        n, width = x.shape
        return tf.reduce_sum(x) / n / width, n * width

    return step, rows, None


@program
def a_shape_of_a_result() -> Any:
    def step(x: tf.Tensor) -> Any:
        y = tf.concat([x, x], 0)
        return tf.reshape(y, [y.shape[0] // 2, -1]), tf.zeros(y.shape), y.shape[0]

    return step, rows, None


@program
def a_shape_decides() -> Any:
    def step(x: tf.Tensor) -> Any:
        if x.shape[0] > 3:
            return x[:3]
        if x.shape == (2, 3):
            return x * 2.0
        return x

    return step, rows, None


@program
def a_shape_is_printed() -> Any:
    def step(x: tf.Tensor) -> None:
        print(x.shape, len(x.shape), f"{x.shape[0]} rows")

    return step, rows, None


@program
def as_many_results_as_rows() -> Any:
    """The list that grows has no form for any number of rows, so there is a graph for each."""

    def step(x: tf.Tensor) -> Any:
        found = []
        for row in x:
            found.append(tf.reduce_sum(row))
        return found

    return step, lambda i: (tf.ones([2 + (i // 2) % 2, 3]) * i,), None


@program
def a_shape_that_numpy_is_asked_for() -> Any:
    def step(x: tf.Tensor) -> Any:
        noise = tf.ones([*np.shape(x)[1:]])
        return x + noise, np.shape(x), np.ndim(x)

    return step, rows, None


@program
def get_shape_of_a_growing_tensor() -> Any:
    def step(x: tf.Tensor) -> Any:
        shape = x.get_shape()
        return shape.as_list(), x * 2.0 if shape[0] > 3 else x, x.__class__ is type(x)

    return step, rows, None
