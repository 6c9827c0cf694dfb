"""A network over nested JSON records: it learns to tell overloaded boxes, which takes all levels of the nesting.

A record is a box with a limit and a list of items: things, so many of a kind, and boxes again. The answer is whether
some box, at any depth, holds more than its limit. The function says what one JSON value means, given what is in it; in
PyTorch or plain TensorFlow, somebody writes loops over levels, and works out their indices for each batch.

    python examples/nested_records.py
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

import recgraph as rg

import keras
import numpy as np
import tensorflow as tf

WEIGHTS = {"feather": 0.1, "book": 1.0, "stone": 3.0}
OBJECT, LIST, NUMBER, STRING = range(4)
BUCKETS, SIZE = 64, 32


def box(depth: int, rng: np.random.Generator) -> tuple[dict[str, Any], float, bool]:
    """A box with boxes of so many levels in it, its weight, and whether one of them is overloaded."""
    items, weight, overloaded = [], 0.0, False
    for number in range(int(rng.integers(1, 4))):
        if depth and (number == 0 or rng.random() < 0.4):
            item, more, inner = box(depth - 1, rng)
            overloaded |= inner
        else:
            item = {"thing": str(rng.choice(list(WEIGHTS))), "count": int(rng.integers(1, 4))}
            more = WEIGHTS[item["thing"]] * item["count"]
        items.append(item)
        weight += more
    bad = rng.random() < 0.5 / (depth + 1)
    limit = round(weight * (rng.uniform(0.3, 0.8) if bad else rng.uniform(1.25, 2.5)), 2)
    members = [("limit", limit), ("items", items)]
    return dict(members if rng.random() < 0.5 else members[::-1]), weight, overloaded or limit < weight


def records(count: int, depths: Sequence[int], seed: int) -> tuple[list[str], np.ndarray]:
    """So many records as JSON, as many overloaded as not, and which are."""
    rng = np.random.default_rng(seed)
    texts: list[str] = []
    answers: list[bool] = []
    while len(texts) < count:
        record, _, overloaded = box(int(rng.choice(depths)), rng)
        if answers.count(overloaded) < count // 2:
            texts.append(json.dumps(record))
            answers.append(overloaded)
    return texts, np.array(answers, np.float32)


def flat(value: Any) -> list[Any]:
    """The things, counts and limits of a record without the boxes that they are in."""
    return [value] if "thing" in value else [value["limit"], *[part for item in value["items"] for part in flat(item)]]


def bucket(text: str) -> int:
    """A number for a string."""
    return zlib.crc32(text.encode()) % BUCKETS


def arrays(texts: Sequence[str]) -> dict[str, np.ndarray]:
    """The values of JSON texts as rows: (type, key, string, first value in it, next value beside it), and numbers."""
    rows: list[list[int]] = []
    numbers: list[float] = []

    def add(key: int, value: Any) -> int:
        number = len(rows)
        kind = {dict: OBJECT, list: LIST, str: STRING}.get(type(value), NUMBER)
        rows.append([kind, key, bucket(value) if kind == STRING else 0, -1, -1])
        numbers.append(float(value) if kind == NUMBER else 0.0)
        inside = value.items() if kind == OBJECT else [("", each) for each in value] if kind == LIST else []
        before, place = number, 3
        for each_key, each in inside:
            rows[before][place] = len(rows)
            before, place = add(bucket(each_key), each), 4
        return number

    roots = [add(0, json.loads(text)) for text in texts]
    return {"rows": np.array(rows, np.int32), "numbers": np.array(numbers, np.float32), "roots": np.array(roots)}


class Reader(keras.Model):
    """How likely each record is overloaded, as logits float32 `[B]`."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds, self.keys, self.strings = (keras.layers.Embedding(n, SIZE) for n in (4, BUCKETS, BUCKETS))
        self.mix = keras.layers.Dense(2 * SIZE, "relu")
        self.new, self.out = keras.layers.Dense(SIZE), keras.layers.Dense(1)

    def call(self, data: dict[str, tf.Tensor]) -> tf.Tensor:
        state, number = tf.TensorSpec([1, SIZE]), tf.TensorSpec([], tf.int32)
        with rg.SubGraph("values", number, state, engine="batched") as values:
            node = values.declared_arguments()
            kind, key, string, first, following = tf.unstack(tf.gather(data["rows"], node), num=5)
            amount = tf.reshape(tf.gather(data["numbers"], node), [1, 1])

            def sum_from(value: tf.Tensor) -> tf.Tensor:
                return tf.cond(value < 0, lambda: tf.zeros([1, SIZE]), lambda: values(value))

            names = [self.kinds(kind[None]), self.keys(key[None]), self.strings(string[None])]
            below = sum_from(first)
            mixed = self.mix(tf.concat([below, amount, *names], 1))
            values.output(self.new(tf.concat([mixed, below, amount], 1)) + sum_from(following))
        roots = tf.cast(data["roots"], tf.int32)
        return tf.reshape(self.out(tf.reshape(values.map(roots), [-1, SIZE])), [-1])


def main(steps: int = 800, nested: bool = True) -> dict[str, float]:
    """Trains on boxes of up to 3 levels; gives the accuracy on others, and on those of 4 and 5 levels.

    Without `nested`, the network gets the same values as one list; it shows how much is known without the nesting.
    """
    keras.utils.set_random_seed(1)
    model, loss = Reader(), keras.losses.BinaryCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.004, steps))

    def read(texts: Sequence[str]) -> dict[str, np.ndarray]:
        return arrays(texts if nested else [json.dumps(flat(json.loads(text))) for text in texts])

    @tf.function(reduce_retracing=True)
    def step(data: dict[str, tf.Tensor], answers: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            value = loss(answers, model(data))
        optimizer.apply(tape.gradient(value, model.trainable_weights), model.trainable_weights)

    texts, answers = records(4000, [0, 1, 2], seed=1)
    rng, found = np.random.default_rng(1), {}
    for _ in range(steps):
        chosen = rng.choice(len(texts), 64, replace=False)
        step(read([texts[i] for i in chosen]), answers[chosen])
    for name, depths in {"as deep as those seen": [0, 1, 2], "two levels deeper": [3, 4]}.items():
        texts, answers = records(600, depths, seed=2)
        found[name] = float(np.mean((model(read(texts)).numpy() > 0) == answers))
    return found


if __name__ == "__main__":
    for nested in (True, False):
        for name, value in main(nested=nested).items():
            print(f"accuracy on records {name}{'' if nested else ', read as one list'}: {value:.3f}")
