"""Blocks that are alike are traced once; each computes what is its own, and errors name its operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.batch import blocks

TREE = tf.constant([[1, 2, 3], [3, -1, 2], [-1, -1, -1], [-1, -1, -1]])
Child = Callable[[int, tf.Tensor], tf.Tensor]


def _recursion(of: Child, engine: str = "batched") -> rg.SubGraph:
    """A sum over three children, each in a branch: `of(i, state)` is what the i-th adds."""
    spec = tf.TensorSpec([1, 2])
    with rg.SubGraph("tree", inputs=(tf.TensorSpec([], tf.int32),), outputs=spec, engine=engine) as tree:
        node = tree.input(tf.int32)
        state = tf.cast(tf.fill([1, 2], node), tf.float32) * 0.1 + 0.3
        for i in range(3):
            child = TREE[node, i]
            state += tf.cond(child < 0, lambda: tf.zeros([1, 2]), lambda i=i, child=child: of(i, tree(child)))
        tree.output(state)
    return tree


def _both(of: Child, variables: list[tf.Variable]) -> list[list[np.ndarray]]:
    """Results and gradients of both engines."""
    found = []
    for engine in ("parallel", "batched"):
        tree = _recursion(of, engine)
        with tf.GradientTape() as tape:
            result = tree.map(tf.constant([0, 1]))
        slopes = tape.gradient(result, variables)
        found.append([each.numpy() for each in (result, *map(tf.convert_to_tensor, slopes))])
    return found


def _weights(*shape: int) -> list[tf.Variable]:
    rng = np.random.default_rng(0)
    return [tf.Variable(rng.normal(size=shape).astype("f")) for _ in range(3)]


def _blocks(tree: rg.SubGraph) -> tuple[int, int]:
    """How many functions of blocks were made, and how many are copies."""
    plan: Any = tree.program(gradient=True).plan
    return len(plan.functions), len(plan.copies)


def test_children_have_weights_of_their_own() -> None:
    weights, biases = _weights(2, 2), _weights(2)

    def of(i: int, state: tf.Tensor) -> tf.Tensor:
        return tf.tanh(state @ weights[i] + biases[i])

    for parallel, batched in zip(*_both(of, [*weights, *biases]), strict=True):
        assert np.abs(parallel).max() > 0
        np.testing.assert_allclose(batched, parallel, rtol=1e-5, atol=1e-6)


def test_a_child_more_has_nothing_traced_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three children are copies, in each function that has them."""
    traced: list[Any] = []
    trace = blocks._BlockGraph.trace
    monkeypatch.setattr(blocks._BlockGraph, "trace", lambda graph: traced.append(graph) or trace(graph))
    weights = _weights(2, 2)
    made, copied = _blocks(_recursion(lambda i, state: tf.tanh(state @ weights[i])))
    alone = len(traced)
    more_made, more_copied = _blocks(_recursion(lambda i, state: (1.0 + i) * tf.tanh(state @ weights[i])))
    assert copied > made
    assert more_made + more_copied == made + copied
    assert more_made > made  # a constant is another one
    assert len(traced) - alone > alone


@pytest.mark.parametrize("is_same", [False, True])
def test_the_same_variable_twice_is_not_two(is_same: bool) -> None:
    """Blocks that read one variable twice differ from those that read two."""
    first, second = _weights(2), _weights(2)

    def of(i: int, state: tf.Tensor) -> tf.Tensor:
        other = first[i] if is_same or i == 1 else second[i]
        return tf.tanh(state * first[i] + other)

    for parallel, batched in zip(*_both(of, [*first, second[0]] if not is_same else first), strict=True):
        np.testing.assert_allclose(batched, parallel, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "factors", [(1.0, 2.0, 3.0), ([[1.0, 2.0]], [[3.0, 4.0]], 1.0), ([1.0, 2.0], [1.0, 2.0], [2.0, 1.0])]
)
def test_constants_tell_blocks_apart(factors: tuple[Any, ...]) -> None:
    """By value and shape."""
    weights = _weights(2, 2)

    def of(i: int, state: tf.Tensor) -> tf.Tensor:
        return tf.sin(state @ weights[i]) * tf.constant(factors[i])

    for parallel, batched in zip(*_both(of, weights), strict=True):
        np.testing.assert_allclose(batched, parallel, rtol=1e-5, atol=1e-6)


def test_names_that_meet_are_kept_apart() -> None:
    """Those of one child may be such that those of the block that it is like become equal."""
    weights = _weights(2, 2)

    def of(i: int, state: tf.Tensor) -> tf.Tensor:
        names = (("a", "b"), ("a/b", "a"), ("b", "a/MatMul"))[i]
        return tf.tanh(tf.sin(tf.matmul(state, weights[i], name=names[0]), name=names[1]))

    for parallel, batched in zip(*_both(of, weights), strict=True):
        np.testing.assert_allclose(batched, parallel, rtol=1e-5, atol=1e-6)


def test_an_error_names_the_operation_and_the_line_of_its_own_block() -> None:
    """Here of the second of two that are alike."""
    tables, places = _weights(3, 2), [tf.Variable(1), tf.Variable(9), tf.Variable(1)]

    def of(i: int, state: tf.Tensor) -> tf.Tensor:
        index = tf.cast(state[0, :1] * 0.0, tf.int32) + places[i]
        if i == 1:
            return tf.gather(tables[i], index, name="second")
        return tf.gather(tables[i], index, name="first")

    tree = _recursion(of)
    made, copied = _blocks(tree)
    assert copied > made
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tree.map(tf.constant([0]))
    _, start = inspect.getsourcelines(of)
    told = next(line for line in str(caught.value).splitlines() if line.strip().startswith("operation:"))
    assert "second" in told
    assert told.endswith(f"test_alike.py:{start + 3})")
