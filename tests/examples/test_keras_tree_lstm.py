"""The Keras example: it learns, it is the network that it says, and `fit` gives what eager execution gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture(scope="module")
def example(load: Callable[[str], Any]) -> Any:
    return load("keras_tree_lstm")


def test_it_learns_to_evaluate_formulas(example: Any) -> None:
    found = example.main(epochs=3)
    assert found["accuracy"] > 0.98
    assert found["accuracy of deeper formulas"] > 0.95
    assert found["difference after loading"] == 0.0


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_a_state_is_what_plain_recursion_gives(example: Any) -> None:
    trees, _ = example.data(20, range(1, 9), seed=5)
    layer = example.TreeLSTM(len(example.WORDS), 4)
    found = layer(trees).numpy()
    embedding, kernel, bias = (weight.numpy() for weight in layer.weights)

    def state(tree: np.ndarray, node: int) -> tuple[np.ndarray, np.ndarray]:
        if node < 0:
            return np.zeros(4), np.zeros(4)
        word, left, right = tree[node]
        (hidden_left, cell_left), (hidden_right, cell_right) = state(tree, left), state(tree, right)
        gates = np.concatenate([embedding[word], hidden_left, hidden_right]) @ kernel + bias
        i, forget_left, forget_right, o, new = np.split(gates, 5)
        cell = sigmoid(i) * np.tanh(new) + sigmoid(forget_left + 1) * cell_left + sigmoid(forget_right + 1) * cell_right
        return sigmoid(o) * np.tanh(cell), cell

    np.testing.assert_allclose(found, [state(tree, 0)[0] for tree in trees], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "options", [{"run_eagerly": True}, {"steps_per_execution": 2}, {"jit_compile": "auto"}], ids=str
)
def test_histories_are_the_same(example: Any, options: dict[str, Any]) -> None:
    """Those of a graph for each step, and of other ways to run them."""
    histories = []
    for how in ({"jit_compile": False}, options):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([example.TreeLSTM(len(example.WORDS), 8), keras.layers.Dense(1)])
        model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"], **how)
        trees, values = example.data(64, range(1, 6), seed=6)
        stop = keras.callbacks.EarlyStopping("loss", patience=3)
        histories.append(model.fit(trees, values, epochs=2, batch_size=16, verbose=0, callbacks=[stop]).history)
    assert histories[0].keys() == histories[1].keys()
    for name, values in histories[0].items():
        np.testing.assert_allclose(histories[1][name], values, rtol=1e-4, err_msg=name)


def test_trees_of_a_data_set(example: Any) -> None:
    """Batches of other widths, and a last one that is smaller."""
    sets = [
        example.data(count, leaves, seed=7) for count, leaves in ((8, range(1, 4)), (8, range(5, 9)), (3, range(1, 2)))
    ]
    batches = tf.data.Dataset.from_generator(
        lambda: iter(sets), output_signature=(tf.TensorSpec([None, None, 3], tf.int32), tf.TensorSpec([None], tf.int32))
    )
    model = keras.Sequential([example.TreeLSTM(len(example.WORDS), 8), keras.layers.Dense(1)])
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    assert len(model.fit(batches, epochs=2, verbose=0).history["loss"]) == 2
    assert model.predict(batches.map(lambda trees, _: trees), verbose=0).shape == (19, 1)
