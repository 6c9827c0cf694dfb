"""Numbers that TensorFlow asks for their type or value, where one differs from call to call."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program

_NUMBERS = (1, 2, 3, 1, 2, 3, 0, 2.0, 1, 2.5, 3, True, 2, -1, 1)
_RATES = (0.5, 0.25, 0.75, 0.5, 0.25, 0.125, 0.0, 0.5, 1.5, 0.5, 1, 0.25, -0.5, 0.75, 0.5)


def with_tried(step: Any, numbers: tuple[Any, ...]) -> Any:
    """A program whose step gets one of the numbers in each call."""
    return step, lambda i: (tf.range(4.0), numbers[i]), None


@program
def indices_that_come_to_be_floats() -> Any:
    return with_tried(lambda x, n: (x[n], x[:n], x[-1:n]), _NUMBERS)


@program
def a_bound_of_a_slice_beyond_32_bits() -> Any:
    return with_tried(lambda x, n: x[: (n + 5) << 33], _NUMBERS[:6] * 3)


@program
def sizes_that_come_to_be_floats() -> Any:
    return with_tried(lambda x, n: (tf.zeros([n]), tf.tile(x, [n]), tf.pad(x, [[1, n]])), _NUMBERS)


@program
def sizes_of_a_matrix_that_come_to_be_floats() -> Any:
    return with_tried(lambda x, n: (tf.eye(n), x * 2.0), _NUMBERS)


@program
def numbers_beside_a_flag() -> Any:
    return with_tried(lambda x, n: (tf.stack([n, 2]), x * 2.0), _NUMBERS)


@program
def dropout_at_a_rate_that_varies() -> Any:
    tf.random.set_seed(3)
    return with_tried(lambda x, rate: (tf.nn.dropout(x, rate), tf.random.normal([])), _RATES)


@program
def dropout_at_a_rate_that_the_graph_computes() -> Any:
    tf.random.set_seed(3)
    return with_tried(lambda x, rate: (tf.nn.dropout(x, float(x[1] * rate)), tf.random.normal([])), _RATES)


@program
def dropout_at_a_rate_of_zero_draws() -> Any:
    """Eagerly, the next operation draws what it would without it."""
    tf.random.set_seed(3)
    return with_tried(lambda x, rate: (tf.nn.dropout(x, 0.0), tf.random.normal([])), _RATES)


@program
def a_generator_that_begins_at_a_number() -> Any:
    generator = tf.random.Generator.from_seed(1)

    def step(x: tf.Tensor, n: int) -> Any:
        generator.reset_from_seed(n)
        return x * generator.normal([4]), generator.state.read_value()

    return with_tried(step, (1, 2, 3, 1, -1, 5, -7, 0, 2, 1, 3, 3, 2, 1, -2))


_SHARES = (0.1, 0.2, 0.3, 0.7, 0.9)


def beyond_float32(step: Any) -> Any:
    """A program whose step gives numbers of 64 bits, of which 32 would not be enough for the difference."""

    def differing(r: float, n: int) -> Any:
        return [(value - tf.constant(r, tf.float64)) * 1e9 for value in step(r, n)], r

    return differing, lambda i: (_SHARES[i % 5], i % 4), None


@program
def floats_that_keras_takes_as_64_bits() -> Any:
    variable, one = keras.Variable(1.0, dtype="float64"), keras.Variable(1.0, dtype="float64")

    def step(r: float, n: int) -> Any:
        variable.assign(r)
        full = keras.ops.full((), r, dtype="float64")
        return variable.value, full, keras.ops.multiply(one, r), keras.ops.convert_to_tensor(r, dtype="float64")

    return beyond_float32(step)


@program
def floats_whose_dtype_is_named() -> Any:
    def step(r: float, n: int) -> Any:
        hinted = tf.convert_to_tensor(r, dtype_hint=tf.float64)
        return tf.range(0.0, 1.0, r, dtype=tf.float64)[1], hinted, tf.multiply(x=tf.constant(1.0, tf.float64), y=r)

    return beyond_float32(step)


@program
def a_cast_rounds_before_it() -> Any:
    return beyond_float32(lambda r, n: (tf.cast(r, tf.float64), tf.cast(r, dtype="float64")))


@program
def numbers_beside_keras_variables_of_few_bits() -> Any:
    whole, half = keras.Variable([1, 2], dtype="int8"), keras.Variable([1.0, 2.0], dtype="bfloat16")

    def step(r: float, n: int) -> Any:
        results = keras.ops.subtract(whole, n), keras.ops.multiply(half, r)
        return [(tf.cast(result, tf.float32), result.dtype.name) for result in results]

    return step, lambda i: (_SHARES[i % 5], i % 4), None


@program
def integers_beside_one_of_many_bits() -> Any:
    return with_tried(lambda x, n: (tf.constant([n, 1 << 40]), x), _NUMBERS[:7] * 3)


@program
def bounds_that_tensorflow_checks_eagerly() -> Any:
    def step(x: tf.Tensor, rate: float) -> Any:
        image = tf.reshape(tf.tile(x, [12]), [4, 4, 3]) / 4.0
        return tf.image.adjust_hue(image, rate), tf.image.central_crop(image, rate)

    return with_tried(step, _RATES)


@program
def arrays_of_functions_of_keras() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        return x * 2.0, keras.utils.normalize(np.ones([2, 2]) * n), keras.utils.to_categorical([n % 3], 3)

    return with_tried(step, _NUMBERS[:7] * 3)
