"""From one's own nested JSON to a trained network and to predictions on one's own objects.

The records are arithmetic expressions with any number of terms. `rg.trees` reads them, the layer says what happens at
one node, and the predictions are written beside the answers. Plain TensorFlow would need a loop over levels, and
somebody who works out the indices of children for each batch.

    python examples/own_trees.py
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from pathlib import Path
from typing import Any

import recgraph as rg

import keras
import numpy as np
import tensorflow as tf


def expression(depth: int, rng: random.Random) -> dict[str, Any]:
    """A sum, or the largest or smallest, of numbers and of such expressions."""
    if depth == 0 or rng.random() < 0.2:
        return {"value": round(rng.uniform(-1, 1), 2)}
    return {
        "op": rng.choice(["sum", "max", "min"]),
        "of": [expression(depth - 1, rng) for _ in range(rng.randint(1, 4))],
    }


def value(item: dict[str, Any]) -> float:
    """What an expression is."""
    if "value" in item:
        return float(item["value"])
    return {"sum": math.fsum, "max": max, "min": min}[item["op"]](map(value, item["of"]))


def write_records(path: Path, count: int, seed: int) -> None:
    """Writes expressions with their answers, one in each line."""
    rng = random.Random(seed)
    items = [expression(3, rng) for _ in range(count)]
    path.write_text("".join(json.dumps(item | {"answer": value(item)}) + "\n" for item in items), encoding="utf-8")


class Expression(rg.keras.TreeLayer):
    """A state for each expression: of its operator or number, and of the sum and the extremes of its parts' states."""

    def __init__(self, encoder: rg.trees.Encoder, units: int) -> None:
        super().__init__(output_size=units)
        self.op = keras.layers.Embedding(encoder.features["op"].size, units)
        self.inner, self.out = keras.layers.Dense(2 * units, "relu"), keras.layers.Dense(units)

    def node(self, inputs: dict[str, tf.Tensor], child: Any) -> tf.Tensor:
        parts = tf.pad(child.map(inputs["children"]), [[0, 1], [0, 0]])  # one more row, for those without parts
        summary = [tf.reduce_sum(parts, 0), tf.reduce_max(parts, 0), tf.reduce_min(parts, 0)]
        return self.out(self.inner(tf.concat([self.op(inputs["op"]), inputs["value"], *[s[None] for s in summary]], 1)))


def main(records: int = 2000, epochs: int = 30) -> dict[str, float]:
    """Trains on records in a file, and predicts others."""
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("train.jsonl", "test.jsonl")]
        for seed, path in enumerate(paths):
            write_records(path, records, seed)
        train, test = (rg.trees.from_json(path, children="of") for path in paths)
    encoder = rg.trees.Encoder(label="answer").adapt(train)
    model = keras.Sequential([Expression(encoder, 32), keras.layers.Dense(1)])
    steps = epochs * -(-records // 32)
    model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.003, steps)), "mse")
    data = encoder.dataset(train, 32, shuffle=1)  # in another order in each epoch, so that Keras has nothing to shuffle
    model.fit(data, epochs=epochs, shuffle=False, verbose=2 if __name__ == "__main__" else 0)
    test.write("predicted", model.predict(encoder.dataset(test, 32, labels=None), verbose=0))
    items = [test.objects[root] for root in test.roots]
    answers, predicted = (np.array([item[name] for item in items]) for name in ("answer", "predicted"))
    if __name__ == "__main__":
        print(json.dumps(items[0]))
    return {
        "error of the mean": float(np.mean(np.abs(answers - answers.mean()))),
        "error": float(np.mean(np.abs(answers - predicted))),
    }


if __name__ == "__main__":
    for name, found in main().items():
        print(f"{name}: {found:.3f}")
