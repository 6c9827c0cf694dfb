"""Bodies that substitutions rewrite compute what they did, in both engines, with gradients, and after saving."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.core import body_rewrites

SIZE = 6
LEFT, RIGHT = [-1, -1, 0, -1, 2], [-1, -1, 1, -1, 3]
ENGINES = ("parallel", "batched")


class Cell(tf.Module):
    """A tree cell as it is printed: a matrix for each gate and child."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        random = np.random.default_rng(seed)

        def weight(*shape: int) -> tf.Variable:
            return tf.Variable(random.normal(0, 0.5, shape).astype(np.float32))

        self.embedding = weight(5, SIZE)
        self.left = [weight(SIZE, SIZE) for _ in range(3)]
        self.right = [weight(SIZE, SIZE) for _ in range(3)]
        self.bias = [weight(SIZE) for _ in range(3)]

    def compose(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """Two gates and an update."""
        sums = [left @ a + right @ b + c for a, b, c in zip(self.left, self.right, self.bias, strict=True)]
        return tf.sigmoid(sums[0]) * tf.tanh(sums[1]) + tf.sigmoid(sums[2])

    def tree(self, engine: str = "parallel", optimize: bool | None = True, **options: Any) -> rg.SubGraph:
        """The recursion over a tree that is given as arrays of children."""
        left, right = tf.constant(LEFT), tf.constant(RIGHT)
        spec = tf.TensorSpec([1, SIZE])
        with rg.SubGraph("tree", outputs=spec, engine=engine, optimize=optimize, **options) as tree:
            node = tree.input(tf.int32)
            tree.output(
                tf.cond(
                    left[node] < 0,
                    lambda: tf.gather(self.embedding, node)[None],
                    lambda: self.compose(tree(left[node]), tree(right[node])),
                )
            )
        return tree


def products(subgraph: rg.SubGraph) -> int:
    """How many matrix products the functions of its forward program have."""
    library = tf.compat.v1.GraphDef().library
    library.ParseFromString(subgraph.program(gradient=False, batched=False).library)
    return sum(node.op in ("MatMul", "_FusedMatMul") for function in library.function for node in function.node_def)


def run(tree: rg.SubGraph, variables: Any, rows: bool = True) -> tuple[Any, list[Any]]:
    """The result of a call, and its gradients as dense tensors."""
    with tf.GradientTape() as tape:
        result = tree.map(tf.constant([4, 2])) if rows else tree(4)
        loss = tf.reduce_sum(result**2)
    gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
    return result, [tf.convert_to_tensor(one) for one in gradients]


def assert_same(one: tuple[Any, list[Any]], other: tuple[Any, list[Any]]) -> None:
    """Results and gradients agree to rounding."""
    np.testing.assert_allclose(one[0], other[0], rtol=2e-5, atol=1e-5)
    for a, b in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("in_graph", [False, True])
def test_a_cell_as_printed_becomes_one_product(engine: str, in_graph: bool) -> None:
    """With the same results and gradients by each of the original weights, the embedding's among them."""
    cell = Cell()
    plain, rewritten = cell.tree(engine, optimize=False), cell.tree(engine)
    assert (products(plain), products(rewritten)) == (6, 1)
    call: Callable[..., Any] = tf.function(run, autograph=False) if in_graph else run
    for rows in (True, False):
        assert_same(call(rewritten, cell.trainable_variables, rows), run(plain, cell.trainable_variables, rows))


def test_explain_says_what_was_done() -> None:
    text = Cell().tree().explain()
    assert "substitutions in tree" in text
    assert "matmul 6 -> 1" in text
    assert "substitutions: none" not in text


def test_weights_that_change_between_calls_are_read_anew() -> None:
    """What is made of captured tensors is made by each call, not once for ever."""
    cell = Cell()
    plain, rewritten = cell.tree(optimize=False), cell.tree()
    traced = tf.function(rewritten.map)
    for step in range(3):
        expected = plain.map(tf.constant([4]))
        np.testing.assert_allclose(rewritten.map(tf.constant([4])), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(traced(tf.constant([4])), expected, rtol=1e-5, atol=1e-6)
        for variable in cell.trainable_variables:
            variable.assign_add(tf.fill(variable.shape, 0.1 * (step + 1)))


def test_a_shared_weight_has_one_gradient() -> None:
    """One matrix in two gates and as a table of rows: its gradient is the sum of all."""
    cell = Cell()
    cell.left[1], cell.right[2] = cell.left[0], cell.left[0]
    table = cell.left[0]

    def tree(optimize: bool) -> rg.SubGraph:
        with rg.SubGraph("shared", outputs=tf.TensorSpec([1, SIZE]), optimize=optimize) as made:
            node = made.input(tf.int32)
            row = tf.gather(table, node)[None]
            made.output(tf.cond(node > 0, lambda: cell.compose(row, made(node - 1)), lambda: row))
        return made

    variables = cell.trainable_variables
    assert_same(run(tree(True), variables, rows=False), run(tree(False), variables, rows=False))


def test_a_weight_that_the_body_assigns_is_not_merged() -> None:
    """Its value differs from node to node."""
    weights = [tf.Variable(tf.eye(3) * (i + 1)) for i in range(2)]

    def body(optimize: bool) -> rg.SubGraph:
        with rg.SubGraph("changing", outputs=tf.TensorSpec([1, 3]), optimize=optimize) as made:
            n, x = made.input(tf.int32), made.input(shape=[1, 3])
            y = tf.tanh(x @ weights[0]) + tf.tanh(x @ weights[1])
            with tf.control_dependencies([weights[0].assign_add(tf.eye(3))]):
                y = tf.identity(y)
            made.output(tf.cond(n > 0, lambda: made(n - 1, y), lambda: y))
        return made

    expected = body(False)(3, tf.ones([1, 3]))
    weights[0].assign(tf.eye(3))
    np.testing.assert_allclose(body(True)(3, tf.ones([1, 3])), expected, rtol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_loops_and_unknown_numbers_of_rows(engine: str) -> None:
    """A loop in a body merges what it multiplies by, too."""
    random = np.random.default_rng(0)
    weights = [tf.Variable(random.normal(0, 0.5, (4, 4)).astype(np.float32)) for _ in range(3)]

    def body(optimize: bool) -> rg.SubGraph:
        spec = tf.TensorSpec([None, 4])
        with rg.SubGraph("looping", outputs=spec, engine=engine, optimize=optimize) as made:
            n, x = made.input(tf.int32), made.input(shape=[None, 4])

            def step(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                return i + 1, tf.tanh(y @ weights[0]) * tf.sigmoid(y @ weights[1]) + tf.tanh(y @ weights[2])

            y = tf.while_loop(lambda i, _: i < n, step, (0, x), shape_invariants=(tf.TensorShape([]), spec.shape))[1]
            made.output(tf.cond(n > 0, lambda: made(n - 1, y), lambda: y))
        return made

    plain, rewritten = body(False), body(True)
    assert products(plain) == 3
    assert products(rewritten) < 3
    x = tf.constant(random.normal(size=(2, 4)).astype(np.float32))

    def result(made: rg.SubGraph) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            y = made(3, x)
        return y, tape.gradient(y, weights)

    assert_same(result(rewritten), result(plain))


def test_a_saved_model_computes_the_same(tmp_path: Path) -> None:
    """And can be differentiated."""
    cell = Cell()
    tree = cell.tree()
    cell.call = tf.function(tree.map, input_signature=[tf.TensorSpec([None], tf.int32)])
    expected = run(cell.tree(optimize=False), cell.trainable_variables)
    tf.saved_model.save(cell, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    with tf.GradientTape() as tape:
        result = loaded.call(tf.constant([4, 2]))
        loss = tf.reduce_sum(result**2)
    assert len(loaded.trainable_variables if hasattr(loaded, "trainable_variables") else loaded.left) > 0
    gradients = tape.gradient(loss, [*loaded.left, *loaded.right, *loaded.bias])
    own = [*cell.left, *cell.right, *cell.bias]
    np.testing.assert_allclose(result, expected[0], rtol=1e-5, atol=1e-6)
    wanted = {id(v): g for v, g in zip(cell.trainable_variables, expected[1], strict=True)}
    for variable, gradient in zip(own, gradients, strict=True):
        np.testing.assert_allclose(gradient, wanted[id(variable)], rtol=2e-4, atol=2e-5)


def test_second_derivatives() -> None:
    cell = Cell()
    found = []
    for optimize in (False, True):
        tree = cell.tree(optimize=optimize)
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = tf.reduce_sum(tree(4) ** 2)
            first = inner.gradient(loss, cell.left[0])
            total = tf.reduce_sum(first**2)
        found.append(outer.gradient(total, [cell.left[0], cell.right[2], cell.bias[1]]))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_recomputing_gradients() -> None:
    cell = Cell()
    made = [cell.tree(optimize=optimize, gradient="recompute") for optimize in (True, False)]
    assert_same(*(run(tree, cell.trainable_variables) for tree in made))


def test_an_error_in_a_rewritten_body_names_the_users_line() -> None:
    """And the operation as the user named it."""
    weights = [tf.Variable(tf.eye(3)) for _ in range(2)]
    with rg.SubGraph("failing", outputs=tf.TensorSpec([1, 3]), optimize=True) as failing:
        n, x = failing.input(tf.int32), failing.input(shape=[1, 3])
        y = tf.sigmoid(x @ weights[0]) * tf.sigmoid(x @ weights[1])
        y += tf.cast(tf.gather([1, 2], n, name="out_of_reach"), tf.float32)
        failing.output(y)
    assert body_rewrites.prepared(failing) is not failing
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        failing(7, tf.ones([1, 3]))
    assert "out_of_reach" in str(caught.value)
    assert "test_bodies.py" in str(caught.value)


def test_what_is_switched_off_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell()
    monkeypatch.delenv("RECGRAPH_OPTIMIZE", raising=False)
    for optimize in (None, False):
        off = cell.tree(optimize=optimize)
        assert body_rewrites.prepared(off) is off
        assert "substitutions" not in off.explain()
    monkeypatch.setenv("RECGRAPH_OPTIMIZE", "1")
    asked, off = cell.tree(optimize=None), cell.tree(optimize=False)
    assert body_rewrites.prepared(asked) is not asked
    assert body_rewrites.prepared(off) is off
    monkeypatch.setenv("RECGRAPH_OPTIMIZE", "0")
    tree = cell.tree()
    assert body_rewrites.prepared(tree) is tree
    assert "RECGRAPH_OPTIMIZE=0" in tree.explain()


def test_a_body_with_a_gradient_of_its_own_stays_as_it_is() -> None:
    """Its code may refer to tensors of the body as it was."""
    weights = [tf.Variable(tf.eye(3)) for _ in range(2)]

    @tf.custom_gradient
    def doubled(x: tf.Tensor) -> Any:
        return x * 2.0, lambda dy: dy * 3.0

    with rg.SubGraph("custom", outputs=tf.TensorSpec([1, 3]), optimize=True) as custom:
        x = custom.input(shape=[1, 3])
        custom.output(doubled(tf.tanh(x @ weights[0]) * tf.tanh(x @ weights[1])))
    assert "has a gradient of its own" in custom.explain()


def test_a_body_with_nothing_to_gain_is_not_copied() -> None:
    weight = tf.Variable(tf.eye(3))
    with rg.SubGraph("plain", outputs=tf.TensorSpec([1, 3]), optimize=True) as plain:
        x = plain.input(shape=[1, 3])
        plain.output(tf.tanh(x @ weight))
    assert body_rewrites.prepared(plain) is plain


def test_products_that_wait_for_each_other_stay_apart() -> None:
    """The second one multiplies what a call has made of the first: they have the same row only by name."""
    weights = [tf.Variable(tf.eye(3) * (i + 0.5)) for i in range(2)]

    def body(optimize: bool) -> rg.SubGraph:
        with rg.SubGraph("waiting", outputs=tf.TensorSpec([1, 3]), optimize=optimize) as made:
            n, x = made.input(tf.int32), made.input(shape=[1, 3])
            first = tf.tanh(x @ weights[0])
            below = tf.cond(n > 0, lambda: made(n - 1, first), lambda: first)
            made.output(tf.tanh(below @ weights[1]) + tf.tanh(x @ weights[1]) + first)
        return made

    x = tf.constant([[0.1, 0.2, 0.3]])
    np.testing.assert_allclose(body(True)(3, x), body(False)(3, x), rtol=1e-5)
