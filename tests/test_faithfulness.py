"""What TensorFlow's graph optimizer would make something else of: graphs of ours compute what the operations do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import tf_private

Sum: TypeAlias = "str | tuple[str, Sum, Sum]"

VALUES = [-1.25, 0.625, 0.0, np.inf, -np.inf, np.nan]
MAXIMA: dict[str, Callable[[Any], Any]] = {
    "above one": lambda x: tf.maximum(x * 2.0, x),
    "the other way round": lambda x: tf.maximum(x, 2.0 * x),
    "of shape [1]": lambda x: tf.maximum(x * tf.constant([2.0]), x),
    "zero": lambda x: tf.maximum(x * 0.0, x),
    "infinite": lambda x: tf.maximum(x * np.inf, x),
    "not a number": lambda x: tf.maximum(x * np.nan, x),
    "a sum": lambda x: tf.maximum(x + x, x),
    "a quotient": lambda x: tf.maximum(x / 0.5, x),
    "computed": lambda x: tf.maximum(x * (tf.constant(1.0) + tf.constant(1.0)), x),
    "half": lambda x: tf.maximum(tf.cast(x, tf.float16) * 2.0, tf.cast(x, tf.float16)),
    "leaky": lambda x: tf.maximum(x * 0.5, x),
    "leaky above one": lambda x: tf.nn.leaky_relu(x, 2.0),
    "in a loop": lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, tf.maximum(v * 2.0, v)), (0, x))[1],
    "in a branch": lambda x: tf.cond(x[0] < 0.0, lambda: tf.maximum(x * 2.0, x), lambda: x),
}
SMALL = 1e-8


def as_graph(function: Any, inputs: list[tf.Tensor]) -> np.ndarray:
    """What a function gives as a graph of ours."""
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs]
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    return tf_private.fast_call(concrete)(inputs)[0].numpy()


@pytest.mark.parametrize("name", MAXIMA)
def test_a_maximum_is_no_leaky_rectifier(name: str) -> None:
    x = tf.constant(VALUES)
    np.testing.assert_array_equal(as_graph(MAXIMA[name], [x]), MAXIMA[name](x).numpy())


@pytest.mark.parametrize("mode", ["auto", "speculate", "coexec"])
def test_functions_in_every_mode_take_the_maximum(mode: str) -> None:
    x = tf.constant(VALUES)
    function = rg.function(MAXIMA["above one"], mode=mode)
    for _ in range(8):
        np.testing.assert_array_equal(function(x).numpy(), MAXIMA["above one"](x).numpy())


def test_a_constant_of_one_dimension_gives_the_result_its_shape() -> None:
    def function(x: Any) -> Any:
        return tf.maximum(x * tf.constant([0.5]), x)

    assert as_graph(function, [tf.constant(-1.0)]).shape == function(tf.constant(-1.0)).shape == (1,)


def sums(count: int) -> Iterator[Sum]:
    """All sums and differences of so many: of x, of y, and of a small constant c."""
    if count == 1:
        yield from "xyc"
    for first in range(1, count):
        yield from itertools.product("+-", sums(first), sums(count - first))


def value(of: Sum, x: Any, y: Any) -> Any:
    """Of a sum."""
    if isinstance(of, str):
        return {"x": x, "y": y, "c": tf.constant(SMALL)}[of]
    sign, one, other = of
    left, right = value(one, x, y), value(other, x, y)
    return left + right if sign == "+" else left - right


def differing(inputs: list[tf.Tensor], run: Callable[[Any, list[tf.Tensor]], Any]) -> list[Sum]:
    """The sums of three that come out otherwise."""

    def differs(of: Sum) -> bool:
        def function(x: Any, y: Any) -> Any:
            return value(of, x, y)

        return not np.array_equal(run(function, inputs), function(*inputs))

    return [of for of in sums(3) if differs(of)]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_small_constants_stay_where_they_are_in_sums(sign: float) -> None:
    x = tf.constant([1.0, 3.0, 1e30, -2.0])
    assert differing([x, sign * x], as_graph) == []


def test_the_comparison_sees_what_tensorflow_makes_of_sums() -> None:
    x = tf.constant([1.0, 3.0, 1e30, -2.0])
    found = differing([x, x], lambda function, inputs: tf.function(function, autograph=False)(*inputs))
    assert ("+", ("-", "x", "y"), "c") in found


def test_constants_that_are_computed_count_as_well() -> None:
    def function(x: Any) -> Any:
        return tf.sqrt(tf.reduce_mean(x * x) - tf.square(tf.reduce_mean(x)) + 1e-12 * tf.ones([]))

    x = tf.ones([4])
    np.testing.assert_array_equal(as_graph(function, [x]), function(x).numpy())
    assert function(x) > 0.0
