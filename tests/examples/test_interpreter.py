"""The interpreter beside Python: values and gradients of random programs, and a program with fitted constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture(scope="module")
def example(load: Callable[[str], Any]) -> Any:
    return load("interpreter")


POWER = """
def power(x, n):
    half = power(x * x, n / 2) if n > 1 else scale
    if n < 1:
        return scale
    return half + x * 3
def both(x, y):
    x = x - y
    return power(x, 4) / power(y, 2) - x
"""


def random_expression(rng: np.random.Generator, depth: int, variables: list[str]) -> str:
    """Of `x`, `y`, numbers, operators and conditions; divisors are at least 1."""
    if depth == 0:
        return str(rng.choice([*variables, f"{rng.uniform(0.1, 2):.2f}"]))
    one, other, test = (random_expression(rng, depth - 1, variables) for _ in range(3))
    forms = [f"({one} + {other})", f"({one} - {other})", f"({one} * {other})", f"({one} / (1 + {other} * {other}))"]
    return str(rng.choice([*forms, f"({one} if {test} < {other} else {other})"]))


def run(example: Any, source: str, name: str, x: list[float], constants: dict[str, float]) -> list[np.ndarray]:
    """The value of a function of a program, and its gradient for the variables and the named constants."""
    program = example.Program(source, list(constants))
    numbers = tf.constant([*constants.values(), *program.constants[len(constants) :]])
    variables = tf.constant([*x, *[0.0] * (example.SLOTS - len(x))])
    with tf.GradientTape() as tape:
        tape.watch([numbers, variables])
        value = example.make_interpreter(tf.constant(program.rows), numbers)(program.roots[name], variables)
    slopes = map(tf.convert_to_tensor, tape.gradient(value, [variables, numbers], unconnected_gradients="zero"))
    return [value.numpy(), *(slope.numpy()[: len(each)] for slope, each in zip(slopes, (x, constants), strict=True))]


def by_python(source: str, name: str, x: list[float], constants: dict[str, float]) -> list[np.ndarray]:
    """The same by Python itself, which runs the program on eager tensors."""
    variables, named = [tf.constant(value) for value in x], {name: tf.constant(v) for name, v in constants.items()}
    with tf.GradientTape() as tape:
        tape.watch([variables, named])
        scope: dict[str, Any] = dict(named)
        exec(source, scope)
        value = tf.convert_to_tensor(scope[name](*variables), tf.float32)
    slopes = tape.gradient(value, [*variables, *named.values()], unconnected_gradients="zero")
    return [value.numpy(), np.array(slopes[: len(x)]), np.array(slopes[len(x) :])]


def assert_same(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_expressions(example: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (random_expression(rng, 4, variables) for variables in (["x", "y"], ["x", "y", "z", "k"]))
    source = f"def f(x, y):\n    z = {a}\n    return {b}\n"
    case = source, "f", [float(v) for v in rng.uniform(-2, 2, 2)], {"k": 0.7}
    assert_same(run(example, *case), by_python(*case))


@pytest.mark.parametrize("name", ["power", "both"])
def test_functions_that_call_themselves(example: Any, name: str) -> None:
    case = POWER, name, [1.7, 3.0], {"scale": 0.9}
    assert_same(run(example, *case), by_python(*case))


def test_it_finds_the_constants_of_a_program(example: Any) -> None:
    found = example.main(steps=120)
    np.testing.assert_allclose(found["constants"][-1], [9.81, 0.8], rtol=0.02)
    errors = ((found["curves"] - found["measured"]) ** 2).mean(1)
    assert errors[-1] < 0.02 * errors[0]


def test_what_is_not_in_the_language_is_refused(example: Any) -> None:
    with pytest.raises(SyntaxError, match="not in the language: x\\[0\\]"):
        example.Program("def f(x):\n    return x[0]\n")
