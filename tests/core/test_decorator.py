"""`@rg.subgraph`: recursive Python functions whose signature is inferred."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.core import base_case
from recgraph.errors import DefinitionError


def test_a_recursive_function_with_a_plain_if() -> None:
    """The outputs are inferred from what comes out."""

    @rg.subgraph
    def factorial(n):  # type: ignore[no-untyped-def]
        if n < 2:
            return tf.constant(1, tf.int64)
        return n * factorial(n - 1)

    assert int(factorial(tf.constant(10, tf.int64))) == 3628800
    assert [int(value) for value in factorial.map(tf.constant([1, 2, 3], tf.int64))] == [1, 2, 6]


def test_several_outputs_of_different_dtypes() -> None:
    """No single tensor will do as a guess: the base case shows the structure."""

    @rg.subgraph
    def fibonacci(n):  # type: ignore[no-untyped-def]
        if n < 2:
            return n, tf.cast(n, tf.float32)
        a, b = fibonacci(n - 1)
        c, d = fibonacci(n - 2)
        return a + c, b + 2.0 * d

    first, second = fibonacci(10)
    assert int(first) == 55
    assert float(second) == 341.0


def test_a_while_loop_around_the_recursive_call() -> None:
    """A loop over children, and the gradient through it."""

    @rg.subgraph
    def tree(n, x):  # type: ignore[no-untyped-def]
        total = x
        i = 0
        while i < n:
            total = total + tree(n - 1, x * 0.5)
            i += 1
        return total

    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tree(3, x)
    np.testing.assert_allclose(y, [4.75, 9.5])
    np.testing.assert_allclose(tape.gradient(y, x), [4.75, 4.75])


def test_a_shape_that_grows_with_the_recursion() -> None:
    """What differs from level to level becomes an unknown dimension."""

    @rg.subgraph
    def grow(n):  # type: ignore[no-untyped-def]
        if n == 0:
            return tf.zeros([0])
        return tf.concat([grow(n - 1), [1.0]], 0)

    np.testing.assert_allclose(grow(3), [1.0, 1.0, 1.0])
    assert grow.subgraphs[0].outputs.shape.as_list() == [None]


def test_a_recursive_function_shows_as_text() -> None:
    """With the names of its parameters, and the shape that the base case gives."""

    @rg.subgraph
    def power(x, exponents):  # type: ignore[no-untyped-def]
        if exponents["n"] < 1:
            return tf.ones_like(x)
        return x * power(x, {"n": exponents["n"] - 1})

    assert repr(power) == str(power) == "<recursive function 'power', not yet called>"
    power(2.0, {"n": 3})
    head = "power(x: float32[], exponents_n: int32[]) -> float32[]"
    assert repr(power) == f"<recursive function 'power', {head}>"
    assert repr(power.subgraphs[0]) == f"<SubGraph {head}>"
    assert str(power) == str(power.subgraphs[0])
    assert str(power).startswith(f"{head}\n")
    power.map([1.0, 2.0], {"n": [1, 2]})
    power([2.0], {"n": 3})
    assert str(power).count("Invoke power(") == 2
    assert [one.outputs.shape.as_list() for one in power.subgraphs] == [[], [1]]


def test_parameters_with_names_that_operations_cannot_have() -> None:
    """Python allows more: they are cut to what is left, and told apart."""

    @rg.subgraph
    def adding(_n, größe, __, *more):  # type: ignore[no-untyped-def]
        return _n + größe + __ + tf.add_n(more)

    assert int(adding(1, 2, 3, 4, 5)) == 15
    assert str(adding).startswith("adding(n: int32[], gre: int32[], input: int32[], more_0: int32[], more_1: int32[])")


def test_a_base_case_that_zeros_do_not_reach() -> None:
    """Division by zero, or no end: then the arguments are tried."""

    @rg.subgraph
    def dividing(n):  # type: ignore[no-untyped-def]
        quotient = 12 // n
        if n > 3:
            return quotient, n
        a, b = dividing(n + 1)
        return a, b

    assert [int(value) for value in dividing(1)] == [3, 4]

    @rg.subgraph
    def downwards(n):  # type: ignore[no-untyped-def]
        if n == 5:
            return n, 2.0
        a, b = downwards(n - 1)
        return a + 1, b * 2.0

    assert [float(value) for value in downwards(7)] == [7, 8]


def test_a_mapped_call_before_the_base_case() -> None:
    """The structure is found through `map`, too."""

    @rg.subgraph
    def bushy(n):  # type: ignore[no-untyped-def]
        if n < 1:
            return n, 1.0
        below, weights = bushy.map(tf.stack([n - 1, n - 2]))
        return tf.reduce_sum(below), tf.reduce_sum(weights)

    assert [float(value) for value in bushy(3)] == [-2, 5]


def test_no_base_case_at_all() -> None:
    """It ends, and the error says what was tried."""

    @rg.subgraph
    def never(n):  # type: ignore[no-untyped-def]
        if n > 1_000_000_000:
            return n, n
        a, b = never(n + 1)
        return a, b

    with pytest.raises(DefinitionError, match="on zeros: no base case within Python's recursion limit"):
        never(1)


def test_an_endless_loop_before_the_base_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zero never becomes one: five seconds, here half of one, are enough."""
    monkeypatch.setattr(base_case.specs_of, "__defaults__", (0.5,))

    @rg.subgraph
    def collatz(n):  # type: ignore[no-untyped-def]
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        a, b = collatz(n)
        return a, b + steps

    start = time.monotonic()
    with pytest.raises(DefinitionError, match=r"on zeros: no base case within 0\.5 seconds[\s\S]*declare the outputs"):
        collatz(6)
    assert time.monotonic() - start < 30
    assert sys.gettrace() is None


def test_a_recursion_past_the_decorator() -> None:
    """The function knows itself by the name of the undecorated one."""

    def plain(n):  # type: ignore[no-untyped-def]
        return 1 if n < 2 else n * plain(n - 1)

    with pytest.raises(
        DefinitionError, match=r"'plain' refers to the undecorated function[\s\S]*write @rg.subgraph above `def plain`"
    ):
        rg.subgraph(plain)(5)


def test_a_mistake_in_the_function_is_shown() -> None:
    """It is none of the guess's."""

    @rg.subgraph
    def mistaken(n):  # type: ignore[no-untyped-def]
        return n if n < 1 else mistaken(n - undefined_name)  # noqa: F821

    line = mistaken.__wrapped__.__code__.co_firstlineno + 2
    where = rf"test_decorator.py:{line}\n"
    with pytest.raises(
        DefinitionError, match=rf"{where}[\s\S]*NameError: name 'undefined_name' is not defined[\s\S]*fix the error or"
    ):
        mistaken(1)


def test_specs_as_the_annotation_of_what_is_returned() -> None:
    """They are the outputs, on one line or several, and an error names its line in the file."""

    @rg.subgraph
    def fibonacci(n) -> tf.TensorSpec([], tf.int32):  # type: ignore[no-untyped-def, valid-type]
        return tf.cond(n < 2, lambda: n, lambda: fibonacci(n - 1) + fibonacci(n - 2))

    @rg.subgraph
    def mistaken(
        n,
    ) -> (  # type: ignore[no-untyped-def, valid-type]
        tf.TensorSpec([], tf.int32),
        tf.TensorSpec(None, tf.float32),  # ä
    ):
        if n > 1:
            n = undefined_name  # noqa: F821
        return n, 1.0

    assert int(fibonacci(tf.constant(10))) == 55
    (made,) = fibonacci.subgraphs
    assert made.outputs == tf.TensorSpec([], tf.int32)
    with pytest.raises(NameError) as caught:
        mistaken(1)
    assert f"test_decorator.py:{mistaken.__wrapped__.__code__.co_firstlineno + 8}" in caught.value.__notes__[0]


def test_annotations_that_are_no_specs() -> None:
    """They say nothing of the outputs: types, strings that nobody can evaluate, calls of anything."""

    @rg.subgraph
    def typed(n) -> tf.Tensor:  # type: ignore[no-untyped-def]
        return n if n < 1 else typed(n - 1)

    @rg.subgraph
    def unknown(n) -> Unknown[tf.Tensor]:  # type: ignore[no-untyped-def, name-defined]  # noqa: F821
        return n if n < 1 else unknown(n - 1)

    @rg.subgraph
    def called(n) -> max(int, int, key=str):  # type: ignore[no-untyped-def, valid-type]
        return n if n < 1 else called(n - 1)

    assert [int(function(tf.constant(3))) for function in (typed, unknown, called)] == [0, 0, 0]


def test_what_cannot_be_inferred_says_what_to_declare() -> None:
    """A recursion without a base case gives no type."""

    @rg.subgraph
    def nothing(n):  # type: ignore[no-untyped-def]
        a, b = nothing(n)
        return a, b

    with pytest.raises(DefinitionError, match=r"cannot be inferred[\s\S]*test_decorator.py[\s\S]*declare the outputs"):
        nothing(1)
