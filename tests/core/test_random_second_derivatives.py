"""Second derivatives of random bodies equal those of eager execution, and differences of the first ones.

A body reads several variables and a captured tensor, as a whole, by rows, by slices, in any order, and calls itself.
`--programs` asks for more bodies, `--random-seed` for others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from tests import sampling

PROGRAMS = sampling.count("programs", 12)
SEED = sampling.seed(0)
WIDTH = 2
VECTOR = tf.TensorSpec([WIDTH], tf.float64)

# What a body can be: a function of its argument and of how it calls itself.
Body = Callable[[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]], tf.Tensor]
Read = Callable[[Any], tf.Tensor]

# Ways to make a vector of a table with rows; the table is a variable or a tensor.
READS: list[Read] = [
    lambda table: tf.reduce_mean(table, 0),
    lambda table: tf.reduce_sum(tf.square(table), 0),
    lambda table: tf.gather(table, 1),
    lambda table: tf.reduce_sum(tf.gather(table, [0, 2, 0]), 0),
    lambda table: tf.gather_nd(table, [[2]])[0],
    lambda table: tf.nn.embedding_lookup(table, [1])[0] * tf.gather(table, 0),
    lambda table: table[1],
    lambda table: table[0:2, ::-1][1],
    lambda table: tf.linalg.matvec(tf.convert_to_tensor(table), tf.gather(table, 1))[:WIDTH],
]


class Sources:
    """What bodies capture, and what gradients are taken of."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.tables = [tf.Variable(rng.normal(size=(3, WIDTH)), name=f"table_{i}") for i in range(2)]
        self.constant = tf.constant(rng.normal(size=(3, WIDTH)))
        self.kernel = tf.Variable(rng.normal(size=(WIDTH, WIDTH)), name="kernel")
        self.scale = tf.Variable(rng.normal(), dtype=tf.float64, name="scale")
        self.x = tf.constant(rng.normal(size=WIDTH))

    def all(self) -> list[Any]:
        return [self.x, self.constant, *self.tables, self.kernel, self.scale]


def random_body(rng: np.random.Generator, sources: Sources, size: int, calls: bool) -> Body:
    """A random expression with about `size` operations."""
    if size <= 1:
        return _leaf(rng, sources)
    kind = rng.choice(["sum", "product", "sin", "tanh", "kernel", "scale", "branch", *(["call"] if calls else [])])
    left = random_body(rng, sources, size // 2, calls)
    right = random_body(rng, sources, size - 1 - size // 2, calls)
    forms: dict[str, Body] = {
        "sum": lambda x, call: left(x, call) + right(x, call),
        "product": lambda x, call: left(x, call) * right(x, call),
        "sin": lambda x, call: tf.sin(left(x, call)) - right(x, call),
        "tanh": lambda x, call: tf.tanh(left(x, call) * right(x, call)),
        "kernel": lambda x, call: (
            tf.linalg.matvec(tf.convert_to_tensor(sources.kernel), left(x, call)) + right(x, call)
        ),
        "scale": lambda x, call: left(x, call) * sources.scale + right(x, call),
        "branch": lambda x, call: tf.cond(x[0] > 0.0, lambda: left(x, call), lambda: right(x, call)),
        "call": lambda x, call: call(tf.tanh(left(x, call))) + right(x, call),
    }
    return forms[str(kind)]


def _leaf(rng: np.random.Generator, sources: Sources) -> Body:
    if rng.random() < 0.3:
        return lambda x, call: x
    table = [*sources.tables, sources.constant][rng.integers(3)]
    read = READS[rng.integers(len(READS))]
    return lambda x, call: read(table)


def as_recursion(leaf: Body, inner: Body) -> Callable[[int, tf.Tensor], tf.Tensor]:
    """In eager execution."""

    def f(n: int, x: tf.Tensor) -> tf.Tensor:
        return leaf(x, lambda v: v) if n <= 0 else inner(x, lambda v: f(n - 1, v))

    return f


def as_subgraph(leaf: Body, inner: Body, **options: str) -> rg.SubGraph:
    with rg.SubGraph("f", outputs=VECTOR, **options) as f:
        n, x = f.input(tf.int32), f.input(tf.float64, [WIDTH])
        f.output(tf.cond(n <= 0, lambda: leaf(x, lambda v: v), lambda: inner(x, lambda v: f(n - 1, v))))
    return f


def first_and_second(f: Callable[..., tf.Tensor], depth: int, sources: Sources, weights: np.ndarray) -> list[Any]:
    """Gradients of a scalar, and of a function of all these gradients, by every source; None as zeros."""
    everything = sources.all()
    watched = [source for source in everything if not isinstance(source, tf.Variable)]
    with tf.GradientTape() as outer:
        outer.watch(watched)
        with tf.GradientTape() as inner:
            inner.watch(watched)
            value = tf.reduce_sum(tf.sin(f(depth, sources.x)))
        first = inner.gradient(value, everything, unconnected_gradients="zero")
        first = [tf.convert_to_tensor(gradient) for gradient in first]
        total = tf.add_n([tf.reduce_sum(tf.sin(g) * w) for g, w in zip(first, weights, strict=True)])
    second = outer.gradient(total, everything, unconnected_gradients="zero")
    return [np.asarray(tf.convert_to_tensor(gradient)) for gradient in [*first, *second]]


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_random_bodies(number: int) -> None:
    rng = np.random.default_rng([SEED, number])
    sources = Sources(rng)
    leaf = random_body(rng, sources, int(rng.integers(1, 6)), calls=False)
    inner = random_body(rng, sources, int(rng.integers(2, 9)), calls=True)
    depth = int(rng.integers(0, 3))
    weights = rng.normal(size=len(sources.all()))
    expected = first_and_second(as_recursion(leaf, inner), depth, sources, weights)
    options = {"engine": ["parallel", "batched"][number % 2], "gradient": ["cache", "recompute"][number // 2 % 2]}
    actual = first_and_second(as_subgraph(leaf, inner, **options), depth, sources, weights)
    for mine, right in zip(actual, expected, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(right).max())))


def test_the_comparison_sees_a_second_derivative_that_is_wrong() -> None:
    """A gradient that is right with a derivative that is not, as a planted bug would give."""
    rng = np.random.default_rng(3)
    sources = Sources(rng)

    @tf.custom_gradient
    def detached(x: tf.Tensor) -> Any:
        return x * x, lambda dy: dy * tf.stop_gradient(2.0 * x)

    weights = rng.normal(size=len(sources.all()))
    right = first_and_second(lambda n, x: x * x, 0, sources, weights)
    wrong = first_and_second(lambda n, x: detached(x), 0, sources, weights)
    half = len(right) // 2
    for a, b in zip(right[:half], wrong[:half], strict=True):
        np.testing.assert_allclose(a, b)
    assert not np.allclose(right[half], wrong[half])


def sparse_gradient(use: Callable[[tf.IndexedSlices], tf.Tensor]) -> tf.Tensor:
    """The derivative of what `use` makes of a sparse gradient in which one row stands twice."""
    table, x = tf.Variable([[1.0, 2.0], [3.0, 4.0]]), tf.constant([3.0, 5.0])
    with rg.SubGraph("rows") as f:
        v = f.input(tf.float32, [2])
        f.output(tf.gather(table, 1) * v + tf.gather(table, 1) * v * v)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            value = tf.reduce_sum(f(x))
        gradient = inner.gradient(value, table)
        assert isinstance(gradient, tf.IndexedSlices)
        total = tf.reduce_sum(use(gradient) ** 2)
    return outer.gradient(total, x)


def test_a_sparse_gradient_with_a_row_twice_as_a_tensor() -> None:
    np.testing.assert_allclose(sparse_gradient(tf.convert_to_tensor), [2 * 12.0 * 7.0, 2 * 30.0 * 11.0])


def test_values_of_a_sparse_gradient_with_a_row_twice_are_refused() -> None:
    """What arrives for the two differs, and a dense gradient has room for one."""
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"a row several times; use tf\.convert_to_tensor"):
        sparse_gradient(lambda gradient: gradient.values)
