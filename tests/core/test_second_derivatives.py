"""Second and third derivatives equal those of the same recursion in eager TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.errors import DefinitionError

SCALAR = tf.TensorSpec([])
Function = Callable[..., Any]


def second(function: Function, sources: list[Any]) -> list[Any]:
    """The gradient of the squared norm of the gradient."""
    tensors = [source for source in sources if not isinstance(source, tf.Variable)]
    with tf.GradientTape() as outer:
        outer.watch(tensors)
        with tf.GradientTape() as inner:
            inner.watch(tensors)
            value = function()
        gradients = inner.gradient(value, sources)
        norm = tf.add_n([tf.reduce_sum(tf.convert_to_tensor(gradient) ** 2) for gradient in gradients])
    return [tf.convert_to_tensor(gradient) for gradient in outer.gradient(norm, sources)]


def check(function: Function, reference: Function, sources: list[Any]) -> None:
    """In eager mode, with both tapes in a tf.function, and with the SubGraph's call alone in one."""
    expected = second(reference, sources)
    traced = tf.function(function, autograph=False)
    both = tf.function(lambda: second(function, sources), autograph=False)
    for actual in (second(function, sources), second(traced, sources), both()):
        for a, b in zip(actual, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def make_branches(w: tf.Variable) -> tuple[rg.SubGraph, Function]:
    with rg.SubGraph("branches", outputs=SCALAR) as f:
        n, v = f.input(tf.int32), f.input()
        f.output(tf.cond(n <= 0, lambda: v * w, lambda: tf.sin(f(n - 1, v * w)) * f(n - 2, v) + w))

    def reference(n: int, v: tf.Tensor) -> tf.Tensor:
        return v * w if n <= 0 else tf.sin(reference(n - 1, v * w)) * reference(n - 2, v) + w

    return f, reference


def test_branches() -> None:
    w, x = tf.Variable(0.7), tf.constant(1.3)
    f, reference = make_branches(w)
    check(lambda: f(4, x), lambda: reference(4, x), [x, w])


def test_rows_of_a_captured_tensor() -> None:
    """Each of them several times, the last one also by its number from the end; their sum is dense."""
    w = tf.Variable(np.linspace(-1.0, 1.0, 80).reshape(10, 8).astype(np.float32))
    with rg.SubGraph("rows", outputs=tf.TensorSpec([8])) as f:
        n = f.input(tf.int32)
        f.output(tf.cond(n < 9, lambda: tf.sin(w[n] * f(n + 1) + w[-1]) * f(n + 3), lambda: w[n % 10]))

    def reference(n: int) -> tf.Tensor:
        return tf.sin(w[n] * reference(n + 1) + w[-1]) * reference(n + 3) if n < 9 else w[n % 10]

    check(lambda: f(4), lambda: reference(4), [w])
    assert [(total.kind, total.sparse) for total in f.program(gradient=True).contract.sums] == [("rows", False)]


def test_mapped_calls() -> None:
    w, x = tf.Variable(0.7), tf.constant([0.5, 1.5])
    f, reference = make_branches(w)
    check(
        lambda: tf.reduce_sum(f.map([3, 2], x) ** 2),
        lambda: reference(3, x[0]) ** 2 + reference(2, x[1]) ** 2,
        [x, w],
    )


def test_weights_and_embeddings() -> None:
    rng = np.random.default_rng(0)
    w = tf.Variable(rng.normal(size=(3, 3)).astype("f"))
    e = tf.Variable(rng.normal(size=(5, 3)).astype("f"))
    with rg.SubGraph("matrices", outputs=tf.TensorSpec([1, 3])) as f:
        n = f.input(tf.int32)
        f.output(tf.cond(n <= 0, lambda: tf.gather(e, [n + 1]), lambda: tf.tanh(f(n - 1) @ w) + f(n - 2)))

    def reference(n: int) -> tf.Tensor:
        return tf.gather(e, [n + 1]) if n <= 0 else tf.tanh(reference(n - 1) @ w) + reference(n - 2)

    check(lambda: tf.reduce_sum(f(3) ** 2), lambda: tf.reduce_sum(reference(3) ** 2), [w, e])


def test_loops() -> None:
    w, x = tf.Variable(0.7), tf.constant(1.3)
    with rg.SubGraph("loops", outputs=SCALAR) as f:
        n, v = f.input(tf.int32), f.input()
        body = lambda i, t: (i + 1, tf.sin(t * w) + f(i, t * 0.5) * v)  # noqa: E731
        f.output(tf.while_loop(lambda i, t: i < n, body, (0, v * w))[1])

    def reference(n: int, v: tf.Tensor) -> tf.Tensor:
        t = v * w
        for i in range(n):
            t = tf.sin(t * w) + reference(i, t * 0.5) * v
        return t

    check(lambda: f(3, x), lambda: reference(3, x), [x, w])


def test_third_derivatives() -> None:
    w, x = tf.Variable(0.7), tf.constant(1.3)
    f, reference = make_branches(w)

    def third(function: Function) -> float:
        with tf.GradientTape() as c:
            c.watch(x)
            with tf.GradientTape() as b:
                b.watch(x)
                with tf.GradientTape() as a:
                    a.watch(x)
                    value = function(3, x)
                first = a.gradient(value, x)
            second_ = b.gradient(first, x)
        return float(c.gradient(second_, x))

    assert third(f) == pytest.approx(third(reference), rel=1e-4)


def test_random_numbers_from_a_state_are_refused() -> None:
    """Running the body again would draw others."""
    with rg.SubGraph("noise", outputs=SCALAR) as f:
        x = f.input()
        f.output(x * x * tf.random.uniform([]))
    x = tf.constant(1.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        gradient = inner.gradient(y, x)
    with pytest.raises(DefinitionError, match=r"a second derivative runs the body a second time[\s\S]*stateless"):
        outer.gradient(gradient, x)


def _powers_of(weight: tf.Variable) -> Any:
    """weight * x ** n; two of them are one program."""
    with rg.SubGraph("power", outputs=tf.TensorSpec([])) as power:
        x, n = power.input(tf.float32), power.input(tf.int32)
        power.output(tf.cond(n < 1, lambda: weight * 1.0, lambda: x * power(x, n - 1)))
    return power


def _first_and_second(function: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            result = function(x)
        first = inner.gradient(result, x)
    return first, outer.gradient(first, x)


def test_subgraphs_that_are_defined_alike() -> None:
    """Each has variables of its own, also where only the program's key tells which they are: in a graph."""
    one, other = _powers_of(tf.Variable(2.0)), _powers_of(tf.Variable(100.0))
    x = tf.constant(3.0)
    both = lambda x: one(x, 3) + other(x, 2)  # noqa: E731
    graph = tf.function(both, autograph=False)
    whole = tf.function(lambda x: _first_and_second(both, x), autograph=False)
    for first, second in (_first_and_second(both, x), _first_and_second(graph, x), whole(x)):
        assert float(first) == 2.0 * 27.0 + 200.0 * 3.0
        assert float(second) == 12.0 * 3.0 + 200.0


def test_a_loaded_model_beside_its_definition(tmp_path: Path) -> None:
    """The same process has the SubGraph that was saved, and one more that is defined alike, with other values."""
    module, x = tf.Module(), tf.constant(3.0)
    module.weight = tf.Variable(2.0)
    power = _powers_of(module.weight)
    module.call = tf.function(lambda x: power(x, 3), input_signature=[tf.TensorSpec([])], autograph=False)
    tf.saved_model.save(module, str(tmp_path))
    later = _powers_of(tf.Variable(100.0))
    later(x, 2)
    loaded = tf.saved_model.load(str(tmp_path))
    loaded.weight.assign(50.0)
    whole = tf.function(lambda x: _first_and_second(loaded.call, x), autograph=False)
    for first, second in (_first_and_second(loaded.call, x), whole(x)):
        assert float(first) == 50.0 * 27.0
        assert float(second) == 50.0 * 18.0
