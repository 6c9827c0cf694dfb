"""A Tree-LSTM as a Keras layer: it learns to evaluate logical formulas, trained by `fit`, saved and loaded.

The layer says what happens at one node; recgraph runs it for all nodes of a height, over all trees of a batch. Plain
TensorFlow would need a `tf.while_loop` over an order of the nodes that somebody works out for each batch, and PyTorch
either runs node by node or needs the same order by hand.

    python examples/keras_tree_lstm.py
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import recgraph as rg

import keras
import numpy as np
import tensorflow as tf

WORDS = ["false", "true", "not", "and", "or", "xor"]
FALSE, TRUE, NOT, AND, OR, XOR = range(len(WORDS))


@keras.saving.register_keras_serializable("recgraph_examples")
class TreeLSTM(rg.keras.TreeLayer):
    """The state at the root of each tree: float32 `[B, units]`.

    Trees are int32 `[B, N, 3]`, a row for each node: its word, its left and its right child or -1. The root is row 0.
    Source: Tai, Socher and Manning, "Improved Semantic Representations From Tree-Structured Long Short-Term Memory
    Networks" (ACL 2015), section 3.2.
    """

    def __init__(self, words: int, units: int, **options: Any) -> None:
        super().__init__(**options)
        self.words, self.units, self.output_size = words, units, (units, units)
        self.embedding = keras.layers.Embedding(words, units)
        self.gates = keras.layers.Dense(5 * units)

    def node(self, inputs: tf.Tensor, child: Callable[[tf.Tensor], Any]) -> tuple[tf.Tensor, tf.Tensor]:
        word, left, right = tf.unstack(inputs, axis=1)
        (hidden_left, cell_left), (hidden_right, cell_right) = child(left), child(right)
        gates = self.gates(tf.concat([self.embedding(word), hidden_left, hidden_right], 1))
        i, forget_left, forget_right, o, new = tf.split(gates, 5, 1)
        cell = tf.sigmoid(i) * tf.tanh(new)
        cell += tf.sigmoid(forget_left + 1.0) * cell_left + tf.sigmoid(forget_right + 1.0) * cell_right
        return tf.sigmoid(o) * tf.tanh(cell), cell

    def call(self, trees: tf.Tensor) -> tf.Tensor:
        hidden, _ = super().call(trees)
        return hidden

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "words": self.words, "units": self.units}


def formula(leaves: int, rng: np.random.Generator) -> tuple[list[list[int]], bool]:
    """A random formula with so many truth values, as rows of a tree, and what it is."""
    rows: list[list[int]] = []

    def add(leaves: int) -> bool:
        number = len(rows)
        rows.append([0, -1, -1])
        if rng.random() < 0.15:
            rows[number] = [NOT, len(rows), -1]
            return not add(leaves)
        if leaves == 1:
            rows[number][0] = int(rng.integers(2))
            return bool(rows[number][0])
        word, at = int(rng.integers(AND, XOR + 1)), int(rng.integers(1, leaves))
        rows[number][:2] = word, len(rows)
        left = add(at)
        rows[number][2] = len(rows)
        right = add(leaves - at)
        return {AND: left and right, OR: left or right, XOR: left != right}[word]

    value = add(leaves)
    return rows, value


def data(count: int, leaves: range, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Formulas as int32 `[count, N, 3]`, filled up with rows that nothing refers to, and what they are."""
    rng = np.random.default_rng(seed)
    made = [formula(int(rng.integers(leaves.start, leaves.stop)), rng) for _ in range(count)]
    trees = np.full([count, max(len(rows) for rows, _ in made), 3], -1, np.int32)
    for tree, (rows, _) in zip(trees, made, strict=True):
        tree[: len(rows)] = rows
    return trees, np.array([value for _, value in made], np.int32)


def main(epochs: int = 30) -> dict[str, float]:
    """Trains on formulas of up to 6 truth values, and evaluates on those of 7 to 20."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([TreeLSTM(len(WORDS), 32), keras.layers.Dense(1)])
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    accuracy = keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=[accuracy])
    stop = keras.callbacks.EarlyStopping("val_accuracy", patience=6, restore_best_weights=True, mode="max")
    model.fit(
        *data(4000, range(1, 7), seed=1),
        validation_data=data(500, range(1, 7), seed=2),
        epochs=epochs,
        batch_size=64,
        callbacks=[stop],
        verbose=2 if __name__ == "__main__" else 0,
    )
    deep = data(500, range(7, 21), seed=3)
    found = {"accuracy": model.evaluate(*data(500, range(1, 7), seed=4), verbose=0)[1]}
    found["accuracy of deeper formulas"] = model.evaluate(*deep, verbose=0)[1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        model.save(path)
        again = keras.models.load_model(path)
    before, after = (each.predict(deep[0], verbose=0) for each in (model, again))
    found["difference after loading"] = float(np.max(np.abs(before - after)))
    return found


if __name__ == "__main__":
    for name, value in main(*map(int, sys.argv[1:2])).items():
        print(f"{name}: {value:.4f}")
