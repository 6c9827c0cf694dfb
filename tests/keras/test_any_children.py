"""`TreeLayer` over nodes with any number of children, and the states of all nodes; compared with plain recursion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.errors import SignatureError

UNITS = 3
# A node: its number, and the positions of its children.
TREES: list[list[tuple[float, list[int]]]] = [
    [(0.5, [1, 3, 4]), (1.0, [2]), (-1.0, []), (2.0, []), (0.25, [2])],  # node 2 has two parents
    [],
    [(1.5, [])],
    [(-0.5, [2, 1, 2, -1]), (1.0, []), (0.75, [])],
]


@keras.saving.register_keras_serializable("tests_of_any_children")
class Mean(rg.keras.TreeLayer):
    """A state of a node's number, and the mean and the largest of its children's states."""

    output_size = UNITS

    def __init__(self, rate: float = 0.0, penalty: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.dense = keras.layers.Dense(UNITS, "tanh", activity_regularizer=keras.regularizers.L2(penalty))
        self.dropout = keras.layers.Dropout(rate, seed=1)

    def node(self, inputs: Any, child: Any) -> Any:
        below = child.map(inputs["children"])
        count = tf.cast(tf.maximum(tf.shape(below)[0], 1), tf.float32)
        mean, largest = tf.reduce_sum(below, 0) / count, tf.reduce_max(tf.concat([below, -tf.ones([1, UNITS])], 0), 0)
        return self.dropout(self.dense(tf.concat([inputs["x"], mean[None], largest[None]], 1)))


def ragged(trees: Any = TREES) -> dict[str, tf.RaggedTensor]:
    lengths = [len(tree) for tree in trees]
    nodes = [node for tree in trees for node in tree]
    children = tf.RaggedTensor.from_row_lengths(
        tf.constant([c for _, below in nodes for c in below], tf.int32), [len(below) for _, below in nodes]
    )
    numbers = tf.reshape(tf.constant([x for x, _ in nodes], tf.float32), [-1, 1])
    return {
        "x": tf.RaggedTensor.from_row_lengths(numbers, lengths),
        "children": tf.RaggedTensor.from_row_lengths(children, lengths),
    }


def dense(trees: Any = TREES) -> dict[str, tf.Tensor]:
    batch = ragged(trees)
    return {"x": batch["x"].to_tensor(), "children": batch["children"].to_tensor(-1)}


def plain(layer: Any, trees: Any = TREES) -> list[list[np.ndarray]]:
    """The states of all nodes, by recursion in Python."""
    kernel, bias = (weight.numpy() for weight in layer.dense.weights)

    def state(tree: Any, node: int) -> np.ndarray:
        x, children = tree[node]
        below = np.array([state(tree, child) for child in children if child >= 0]).reshape(-1, UNITS)
        largest = np.max(np.concatenate([below, -np.ones([1, UNITS])]), 0)
        return np.tanh(np.concatenate([[x], below.sum(0) / max(len(below), 1), largest]) @ kernel + bias)

    return [[state(tree, node) for node in range(len(tree))] for tree in trees]


@pytest.fixture
def layer() -> Mean:
    made = Mean()
    made(ragged())
    return made


@pytest.mark.parametrize("engine", ["batched", "parallel"])
def test_states_of_roots_and_of_all_nodes(layer: Mean, engine: str) -> None:
    expected = plain(layer)
    roots = [tree[0] if tree else np.zeros(UNITS) for tree in expected]
    flat = np.array([state for tree in expected for state in tree])
    of_roots, of_nodes = Mean(engine=engine), Mean(engine=engine, return_nodes=True)
    for made in (of_roots, of_nodes):
        made(ragged())
        made.set_weights(layer.get_weights())
    np.testing.assert_allclose(of_roots(ragged()), roots, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_nodes(ragged()), flat, rtol=1e-5, atol=1e-6)
    filled = of_nodes(dense()).numpy()
    assert filled.shape == (4, 5, UNITS)
    for rows, tree in zip(filled, expected, strict=True):
        np.testing.assert_allclose(rows[: len(tree)], np.reshape(tree, [-1, UNITS]), rtol=1e-5, atol=1e-6)
    assert of_nodes(ragged([])).shape == (0, UNITS)
    assert of_nodes(ragged([[]])).shape == (0, UNITS)


def test_gradients_are_those_of_the_nodes_one_by_one(layer: Mean) -> None:
    of_nodes = Mean(return_nodes=True)
    of_nodes(ragged())
    of_nodes.set_weights(layer.get_weights())
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(of_nodes(ragged()) ** 2)
    step = 1e-3
    gradients = tape.gradient(loss, of_nodes.trainable_weights)
    kernel = layer.dense.kernel
    for place in [(0, 0), (1, 2), (6, 1)]:
        values = []
        for sign in (1, -1):
            moved = kernel.numpy()
            moved[place] += sign * step
            layer.dense.kernel.assign(moved)
            values.append(sum(float((state**2).sum()) for tree in plain(layer) for state in tree))
            moved[place] -= sign * step
            layer.dense.kernel.assign(moved)
        np.testing.assert_allclose(gradients[0][place], (values[0] - values[1]) / (2 * step), rtol=2e-2, atol=1e-3)


def test_losses_count_once_for_each_node() -> None:
    trees = [[(0.5, [1, 2]), (1.0, []), (-1.0, [])], [(1.5, [])]]
    found = []
    for return_nodes in (False, True):
        layer = Mean(penalty=0.5, return_nodes=return_nodes)
        keras.utils.set_random_seed(1)
        layer(ragged(trees))
        layer.set_weights([np.full(w.shape, 0.3) for w in layer.weights])
        layer(ragged(trees))
        found.append(float(layer.losses[0]))
    expected = 0.5 * sum(float((state**2).sum()) for tree in plain(layer, trees) for state in tree)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_dropout_draws_once_for_each_node() -> None:
    """The state of a node is the same for itself and for the node above it."""
    layer = Mean(rate=0.5, return_nodes=True)
    keras.utils.set_random_seed(2)
    layer(ragged())
    drawn = layer(ragged([[(1.0, [1]), (1.0, [])]] * 20), training=True).numpy().reshape(20, 2, UNITS)
    kernel, bias = (weight.numpy() for weight in layer.dense.weights)
    for upper, lower in drawn:
        whole = np.tanh(np.concatenate([[1.0], lower, np.maximum(lower, -1.0)]) @ kernel + bias)
        kept = upper != 0
        np.testing.assert_allclose(upper[kept], 2 * whole[kept], rtol=1e-4, atol=1e-5)
    assert (drawn == 0).any()


def test_a_masked_child_is_none_of_the_children(layer: Mean) -> None:
    mask = tf.constant([[True, True, True, False, True], [False] * 5, [True] + [False] * 4, [True] * 3 + [False] * 2])
    without = [
        [(x, [c for c in below if c != 3]) for x, below in tree] if n == 0 else tree for n, tree in enumerate(TREES)
    ]
    expected = [tree[0] if tree else np.zeros(UNITS) for tree in plain(layer, without)]
    np.testing.assert_allclose(layer(dense(), mask=mask), expected, rtol=1e-5, atol=1e-6)
    of_nodes = Mean(return_nodes=True)
    of_nodes(dense())
    of_nodes.set_weights(layer.get_weights())
    assert not of_nodes(dense(), mask=mask)[0, 3].numpy().any()


def test_a_position_beyond_the_tree_is_an_error(layer: Mean) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        layer(ragged([[(1.0, [1])], [(1.0, [])]]))


def test_lists_of_lists_at_a_node_are_refused() -> None:
    rows = tf.ragged.constant([[[[1, 2], []]]], ragged_rank=3)
    with pytest.raises(SignatureError, match="the nodes of a tree have lists of lists"):
        Mean()({"x": tf.ragged.constant([[[1.0]]], ragged_rank=1), "children": rows})


def test_it_is_trained_saved_and_loaded(tmp_path: Path) -> None:
    model = keras.Sequential([Mean(return_nodes=True), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    data = tf.data.Dataset.from_tensors((ragged(), tf.ones([9, 1]), tf.ones([9])))
    assert len(model.fit(data, epochs=2, verbose=0).history["loss"]) == 2
    before = model.predict(ragged(), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.layers[0].return_nodes
    np.testing.assert_array_equal(again.predict(ragged(), verbose=0), before)
