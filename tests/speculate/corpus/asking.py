"""Numbers that TensorFlow asks for their type or value, where one differs from call to call."""

from __future__ import annotations

from typing import Any

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
