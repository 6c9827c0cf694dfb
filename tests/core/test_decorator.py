"""`@rg.subgraph`: recursive Python functions whose signature is inferred."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import time
import weakref

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


class Scaled(tf.Module):
    """A recursion as a method, which calls itself and another one."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = tf.Variable(factor)

    @rg.subgraph
    def total(self, n):  # type: ignore[no-untyped-def]
        """The factor times `n`."""
        if n < 1:
            return 0.0
        return self.factor + self.total(n - 1)

    @rg.subgraph(engine="batched")
    def further(self, n, least=1):  # type: ignore[no-untyped-def]
        """The sum of the totals to `n`."""
        if n < least:
            return 0.0
        return self.total(n) + self.further(n - 1)


class Squared(Scaled):
    """A method that calls the one of its base class, which calls this one."""

    @rg.subgraph
    def total(self, n):  # type: ignore[no-untyped-def]
        """Ten times what the base class has of it."""
        return 10.0 * super().total(n)


def test_methods() -> None:
    """Each object has its own, with gradients by its variables; so have copies."""
    one, other = Scaled(2.0), Scaled(3.0)
    with tf.GradientTape() as tape:
        total = one.total(tf.constant(4))
    (slope,) = tape.gradient(total, one.trainable_variables)
    copied = copy.deepcopy(other)
    copied.factor.assign(5.0)
    assert (float(total), float(slope), float(other.total(4)), float(copied.total(4))) == (8.0, 4.0, 12.0, 20.0)
    assert one.further.map(tf.constant([1, 2, 3])).numpy().tolist() == [2.0, 6.0, 12.0]
    assert float(one.further(3, least=4)) == 0.0
    assert one.total is one.total
    assert pickle.loads(pickle.dumps(Scaled.total)) is Scaled.total


def test_methods_of_base_classes() -> None:
    """`super()` finds that of the base class, which finds the object's."""
    assert float(Squared(2.0).total(3)) == 10 * (2 + 10 * (2 + 10 * 2))


def test_an_object_with_methods_is_collected() -> None:
    """Nothing outside of it refers to its SubGraphs."""
    one = Scaled(2.0)
    one.total(1)
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_objects_that_cannot_keep_subgraphs() -> None:
    """They have nowhere to put them."""

    class Bare:
        __slots__ = ()

        @rg.subgraph
        def same(self, n):  # type: ignore[no-untyped-def]
            return n

    with pytest.raises(DefinitionError, match=r"test_decorator.py[\s\S]*leave out __slots__"):
        Bare().same(1)


def test_options_that_there_are_not() -> None:
    """They are refused where they are written, with what there is."""
    with pytest.raises(DefinitionError, match=r"no option inputs[\s\S]*engine, gradient[\s\S]*leave inputs out"):
        rg.subgraph(inputs=tf.TensorSpec([]))
    with pytest.raises(DefinitionError, match=r"is for a function[\s\S]*by their names"):
        rg.subgraph(tf.TensorSpec([]))  # type: ignore[call-overload]
    with pytest.raises(
        DefinitionError, match=r"the name of a SubGraph is a string[\s\S]*@rg.subgraph above a function"
    ):
        rg.SubGraph(lambda n: n)  # type: ignore[arg-type]


def test_a_function_of_tensorflow_around_it() -> None:
    """The name in the body is then that of the outer one."""

    @tf.function
    @rg.subgraph
    def count(n):  # type: ignore[no-untyped-def]
        if n < 1:
            return 0
        return 1 + count(n - 1)

    with pytest.raises(DefinitionError, match=r"a tf.function around it[\s\S]*no other decorator above"):
        count(tf.constant(3))


def test_operations_are_of_the_lines_of_the_body() -> None:
    """An error while it runs names the line that AutoGraph's code was made from."""
    weights = tf.ones([3, 4])

    @rg.subgraph
    def scaled(n, x):  # type: ignore[no-untyped-def]
        if n < 1:
            return x
        return tf.matmul(scaled(n - 1, x), weights)

    line = scaled.__wrapped__.__code__.co_firstlineno + 4
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"test_decorator.py:{line}\)\n"):
        scaled(tf.constant(3), tf.ones([1, 2]))


def test_a_first_call_under_two_tapes_says_what_to_do() -> None:
    """TensorFlow differentiates the branches of a body that is traced then, before what they call is finished."""
    v, x = tf.Variable([[0.5, 0.25]]), tf.ones([1, 2])

    @rg.subgraph
    def halved(n: tf.int32, x: tf.Tensor) -> tf.Tensor:
        if n <= 0:
            return tf.tanh(x * v)
        return halved(n - 1, x) * 0.5

    def slopes() -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = halved(tf.constant(1), x)
            slope = inner.gradient(y, v)
        return slope, outer.gradient(slope, v)

    with pytest.raises(rg.errors.GradientError, match="call it once before the tapes are opened"):
        slopes()
    halved(tf.constant(1), x)
    slope, second = slopes()
    value = np.tanh(v.numpy())
    np.testing.assert_allclose(slope, 0.5 * (1 - value**2), rtol=1e-5)
    np.testing.assert_allclose(second, -value * (1 - value**2), rtol=1e-5)
