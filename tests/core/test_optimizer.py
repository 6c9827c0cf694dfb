"""TensorFlow's graph optimizer reaches the bodies, and changes no value."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.core import graph_optimizer

ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "none": tf.identity,
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "elu": tf.nn.elu,
    "gelu": tf.nn.gelu,
    "add": lambda x: x + 1.3 * x,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_fused_products_have_a_kernel_and_the_same_values(name: str) -> None:
    """Some fusions exist for oneDNN only: a body with one of them must still run."""
    activation = ACTIVATIONS[name]
    rng = np.random.default_rng(0)
    w, b = tf.Variable(rng.normal(size=(3, 3)).astype("f") / 2), tf.Variable([0.1, 0.2, 0.3])
    with rg.SubGraph(name, outputs=tf.TensorSpec([1, 3])) as f:
        n, x = f.input(tf.int32), f.input(tf.float32, [1, 3])
        step = lambda: activation(tf.nn.bias_add(tf.matmul(f(n - 1, x), w), b)) + f(n - 2, x)  # noqa: E731
        f.output(tf.cond(n <= 0, lambda: x, step))

    def reference(n: int, x: tf.Tensor) -> tf.Tensor:
        if n <= 0:
            return x
        return activation(tf.nn.bias_add(tf.matmul(reference(n - 1, x), w), b)) + reference(n - 2, x)

    x = tf.constant([[0.1, 0.2, 0.3]])
    np.testing.assert_allclose(f(3, x), reference(3, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_product_and_a_matrix_of_one_row(rows: int) -> None:
    """Their sum is fused as if the matrix were a bias, for which there is no kernel."""
    w, b = tf.Variable([[1.0, 2.0], [3.0, 4.0]]), tf.Variable([[0.5, -0.5]])
    with rg.SubGraph("sums", outputs=tf.TensorSpec([rows, 2])) as f:
        x = f.input(tf.float32, [rows, 2])
        f.output(tf.sigmoid(tf.matmul(tf.sin(x), w) + b))
    x = tf.fill([rows, 2], 0.3)
    np.testing.assert_allclose(f(x), tf.sigmoid(tf.matmul(tf.sin(x), w) + b), rtol=1e-6)


@pytest.mark.parametrize("slope", [0.5, 2.0, float("inf")])
def test_a_maximum_stays_one(slope: float) -> None:
    """TensorFlow makes a leaky rectifier of it, which for slopes above 1 is the minimum."""
    with rg.SubGraph("maximum", outputs=tf.TensorSpec([2])) as f:
        n, x = f.input(tf.int32), f.input(tf.float32, [2])
        y = tf.maximum(slope * x, x)
        f.output(tf.cond(n <= 0, lambda: y, lambda: f(n - 1, tf.maximum(slope * y, y))))
    x = tf.constant([-1.25, 0.625])
    y = tf.maximum(slope * x, x)
    z = tf.maximum(slope * y, y)
    np.testing.assert_array_equal(f(0, x), y)
    np.testing.assert_array_equal(f(1, x), tf.maximum(slope * z, z))


@pytest.mark.parametrize("slope", [0.5, 2.0])
@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_a_maximum_in_a_branch_that_is_rewritten_stays_one(slope: float, engine: str) -> None:
    """The optimizer gives such a branch, and each operation in it, another name."""

    def both(call: Callable[..., tf.Tensor], n: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        def below() -> tf.Tensor:
            return tf.maximum(slope * x, x) + call(n - 1, 0.5 * x)

        return tf.cond(n > 0, below, lambda: tf.maximum(-slope * x, -x))

    with rg.SubGraph("maximum", outputs=tf.TensorSpec([2]), engine=engine) as f:
        n, x = f.input(tf.int32), f.input(tf.float32, [2])
        f.output(both(f, n, x))

    def eagerly(n: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return both(eagerly, n, x)

    x = tf.constant([-1.25, 0.625])
    np.testing.assert_array_equal(f(2, x), eagerly(tf.constant(2), x))


def test_a_leaky_rectifier_of_any_slope_stays_one() -> None:
    """Also where its branch is rewritten: what the user has written is no mistake of the optimizer."""
    with rg.SubGraph("leaky", outputs=tf.TensorSpec([2])) as f:
        n, x = f.input(tf.int32), f.input(tf.float32, [2])
        below = tf.cond(n > 0, lambda: tf.nn.leaky_relu(x, 2.0) + f(n - 1, 0.5 * x), lambda: tf.nn.leaky_relu(-x, 3.0))
        f.output(below)
    x = tf.constant([-1.0, 4.0])
    np.testing.assert_array_equal(f(1, x), tf.nn.leaky_relu(x, 2.0) + tf.nn.leaky_relu(-0.5 * x, 3.0))
    assert f.program(gradient=False).report.removed > 0


def test_constants_and_common_subexpressions_are_removed_and_reported() -> None:
    with rg.SubGraph("wasteful", outputs=tf.TensorSpec([])) as f:
        n, x = f.input(tf.int32), f.input()
        twice = tf.sin(x) * tf.sin(x) + tf.constant(2.0) * tf.constant(3.0)
        f.output(tf.cond(n <= 0, lambda: twice, lambda: f(n - 1, twice)))
    np.testing.assert_allclose(f(0, 1.0), np.sin(1.0) ** 2 + 6, rtol=1e-6)
    report = f.program(gradient=False).report
    assert report is not None
    assert report.removed > 0
    assert "wasteful" in f.report()


def test_a_body_and_its_branches_are_of_one_run() -> None:
    """The optimizer reorders the arguments of branches, in each run in another way; this body was made of two runs.

    The products of the cell in the branch are fused in a way that has no kernel, so they are optimized once more.
    """
    cell, kernel, size = keras.layers.GRUCell(4), tf.Variable(tf.ones([4, 3]) * 0.1), 4
    cell.build([1, size])
    table, embedding = tf.constant([[0, 1, -1], [1, -1, 2], [2, -1, -1]]), tf.Variable(tf.ones([3, size]) * 0.2)
    specs = tf.TensorSpec([], tf.int32), tf.TensorSpec([1, size])

    def loss(word: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(word[None], state @ kernel)[0]

    def values_and_gradients(engine: str) -> list[tf.Tensor]:
        one, more = (rg.SubGraph(name, specs, tf.TensorSpec([]), engine=engine) for name in ("one", "more"))
        with one:
            row, state = one.declared_arguments()
            word, first, _ = tf.unstack(tf.gather(table, row), num=3)
            one.output(loss(word, state) + more(first, state))
        with more:
            row, state = more.declared_arguments()
            word, _, following = tf.unstack(tf.gather(table, tf.maximum(row, 0)), num=3)

            def behind() -> tf.Tensor:
                down, on = (cell(tf.gather(embedding, word[None]), [state])[0] for _ in range(2))
                return one(row, down) + more(following, on)

            more.output(loss(word, state) + tf.cond(row < 0, lambda: 0.0, behind))
        weights = [embedding, kernel, *(weight.value for weight in cell.weights)]
        with tf.GradientTape() as tape:
            result = one(0, tf.ones([1, size]))
        return [result, *map(tf.convert_to_tensor, tape.gradient(result, weights))]

    for parallel, batched in zip(values_and_gradients("parallel"), values_and_gradients("batched"), strict=True):
        np.testing.assert_allclose(parallel, batched, rtol=1e-4, atol=1e-5)


def test_products_in_branches_are_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimizer gives operations in branches other names, by which the biases are still known for what they are."""
    optimized, run = list[str](), graph_optimizer._run
    monkeypatch.setattr(
        graph_optimizer, "_run", lambda library, device: optimized.append(device) or run(library, device=device)
    )
    w, b = tf.Variable([[1.0, 2.0], [3.0, 4.0]]), tf.Variable([0.5, -0.5])
    with rg.SubGraph("products", outputs=tf.TensorSpec([1, 2]), engine="parallel") as f:
        n, x = f.input(tf.int32), f.input(tf.float32, [1, 2])
        f.output(tf.cond(n <= 0, lambda: x, lambda: tf.tanh(tf.matmul(f(n - 1, tf.sin(x)), w) + b)))
    x = tf.fill([1, 2], 0.3)
    np.testing.assert_allclose(f(1, x), tf.tanh(tf.matmul(tf.sin(x), w) + b), rtol=1e-6)
    assert len(optimized) == 1
    library = tf.compat.v1.GraphDef().library
    library.ParseFromString(f.program(gradient=False).library)
    assert "_FusedMatMul" in {node.op for function in library.function for node in function.node_def}
