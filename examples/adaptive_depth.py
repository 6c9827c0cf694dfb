"""Thinking as long as it takes: a recurrent cell follows pointers and halts where a value that it computes says so.

A problem is a list of pointers and a place to start; the answer is where the pointers end. The cell sees one problem's
list and its own state, as in a tiny recursive model, and learns from answers alone when it is done. Problems of a batch
halt at different steps; recgraph runs those that still think as one batch. In PyTorch or plain TensorFlow, all think as
long as the slowest, under masks, or somebody packs the batch anew at each step.

    python examples/adaptive_depth.py
"""

from __future__ import annotations

import time

import recgraph as rg

import keras
import numpy as np
import tensorflow as tf

PLACES, LONGEST, SIZE = 10, 6, 64


def problems(count: int, longest: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pointers int32 `[count, PLACES]`, starts, ends, and how many pointers there are on the way, 1 to `longest`."""
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.tile(np.arange(PLACES), [count, 1]), axis=1)
    lengths = rng.integers(1, longest + 1, count)
    pointers = np.empty_like(order)
    for row, places, length in zip(pointers, order, lengths, strict=True):
        way, rest = places[: length + 1], places[length + 1 :]
        row[way[:-1]], row[way[-1]] = way[1:], way[-1]
        row[rest] = np.where(rng.random(len(rest)) < 0.3, rest, rng.integers(PLACES, size=len(rest)))  # other ends, too
    ends = order[np.arange(count), lengths]
    return pointers.astype(np.int32), order[:, 0].astype(np.int32), ends.astype(np.int32), lengths


class Thinker(keras.Model):
    """One step of thought, and what it says: the answer's logits and whether it is done."""

    def __init__(self) -> None:
        super().__init__()
        self.places = keras.layers.Embedding(PLACES, SIZE, keras.initializers.RandomNormal(stddev=0.5))
        self.query = keras.layers.Dense(SIZE, kernel_initializer="identity")  # looks for the place it thinks of
        self.cell, self.out = keras.layers.GRUCell(SIZE), keras.layers.Dense(PLACES)
        self.done = keras.Sequential([keras.layers.Dense(SIZE, "relu"), keras.layers.Dense(1)])

    def start(self, places: tf.Tensor) -> tf.Tensor:
        """The first states `[B, 1, SIZE]`, of places `[B]`."""
        return self.places(places)[:, None]

    def step(self, state: tf.Tensor, pointers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The next state `[1, SIZE]`, logits of the answer `[1, PLACES]`, and of being done `[1, 1]`."""
        keys, values = self.places(tf.range(PLACES)), self.places(pointers)
        attention = tf.nn.softmax(tf.matmul(self.query(state), keys, transpose_b=True))
        seen = tf.matmul(attention, values)
        state = self.cell(seen, [state])[0]
        return state, self.out(state), self.done(tf.concat([state, seen], 1))


def think_and_learn(
    model: Thinker, pointers: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, most: tf.Tensor
) -> tf.Tensor:
    """The losses `[B]`: of the answer after each step, and of saying that it is right; a problem ends where it is."""
    specs = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int32), tf.TensorSpec([1, SIZE])
    with rg.SubGraph("learn", specs, tf.TensorSpec([]), engine="batched") as learn:
        row, left, state = learn.declared_arguments()
        state, answer, done = model.step(state, tf.gather(pointers, row))
        end = tf.gather(ends, row)[None]
        right = tf.argmax(answer, 1, tf.int32) == end
        own = tf.nn.sparse_softmax_cross_entropy_with_logits(end, answer)
        own += tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(right, tf.float32), done[0])
        finished = (right[0] & (done[0, 0] > 0)) | (left <= 1)
        learn.output(own[0] + tf.cond(finished, lambda: 0.0, lambda: learn(row, left - 1, state)))
    rows = tf.range(tf.size(starts))
    return learn.map(rows, tf.fill(tf.shape(rows), most), model.start(starts))


def make_think(model: Thinker, pointers: tf.Tensor, most: int) -> rg.SubGraph:
    """`think(row, left, state)`: the answer to a problem and how many steps it took, int32; at most `left` steps."""
    number = tf.TensorSpec([], tf.int32)
    with rg.SubGraph("think", (number, number, tf.TensorSpec([1, SIZE])), (number, number), engine="batched") as think:
        row, left, state = think.declared_arguments()
        state, answer, done = model.step(state, tf.gather(pointers, row))

        def halt() -> tuple[tf.Tensor, tf.Tensor]:
            return tf.argmax(answer[0], 0, tf.int32), most - left + 1

        think.output(tf.cond((done[0, 0] > 0) | (left <= 1), halt, lambda: tuple(think(row, left - 1, state))))
    return think


def make_solve(model: Thinker, most: int = 20) -> tf.types.experimental.PolymorphicFunction:
    """Answers and steps of a batch of problems, int32 `[B]` each."""

    @tf.function(reduce_retracing=True)
    def solve(pointers: tf.Tensor, starts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows = tf.range(tf.size(starts))
        return make_think(model, pointers, most).map(rows, tf.fill(tf.shape(rows), most), model.start(starts))

    return solve


def train(steps: int) -> Thinker:
    """Learns from ways of 1 to `LONGEST` + 1 pointers; the longest, which come last, are not learned well yet."""
    keras.utils.set_random_seed(1)
    model, rate = Thinker(), keras.optimizers.schedules.CosineDecay(0.003, steps)
    optimizer = keras.optimizers.Adam(rate, clipnorm=1.0)

    @tf.function
    def step(pointers: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, most: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(think_and_learn(model, pointers, starts, ends, most))
        optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)

    for seed in range(steps):
        longest = min(LONGEST + 1, 1 + 10 * seed // steps)  # the short ones first
        step(*problems(64, longest, seed)[:3], tf.constant(longest + 1))
    return model


def main(steps: int = 3000) -> dict[str, np.ndarray]:
    """By length of the way, 1 to `LONGEST`: how often the answer is right, and steps; seconds for 512."""
    solve = make_solve(train(steps))
    pointers, starts, ends, lengths = problems(2048, LONGEST, seed=2 * 10**6)
    answers, taken = (each.numpy() for each in solve(pointers, starts))
    by_length = [lengths == length for length in range(1, LONGEST + 1)]
    found = {"accuracy": np.array([np.mean((answers == ends)[each]) for each in by_length])}
    found["steps"] = np.array([np.mean(taken[each]) for each in by_length])
    for name, size in {"one by one": 1, "batched": 512}.items():
        seconds = 0.0
        for first in range(-size, 512, size):  # the first is to warm up
            begin = time.perf_counter()
            solve(pointers[max(first, 0) :][:size], starts[max(first, 0) :][:size])
            seconds += time.perf_counter() - begin if first >= 0 else 0
        found[f"seconds {name}"] = np.array(seconds)
    return found


if __name__ == "__main__":
    for name, values in main().items():
        print(f"{name}: {np.round(values, 3)}")
