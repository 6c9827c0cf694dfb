"""A parser that learns from answers alone: it evaluates arithmetic modulo 5 and is told neither trees nor precedence.

An expression such as `2 - 3 * 4 + 1` is read by a Tree-LSTM over spans: a span is cut at one of its operators, and its
state is made of the operator and of both parts. Where to cut is learned for each pair of operators. First all cuts are
taken, weighted by their scores, so the answer's gradient says which are good; then each span is cut once. In PyTorch or
plain TensorFlow, somebody fills a chart of all spans in the right order, padded for a batch, even where one tree is all
that is wanted.

    python examples/parser.py
"""

from __future__ import annotations

import recgraph as rg

import keras
import numpy as np
import tensorflow as tf

OPERATORS = "+-*"
BASE, SIZE, LONGEST = 5, 64, 5  # numbers there are, size of a state, numbers in an expression of the training
LENGTHS = [2, 3, 5, 10, 20, 40]  # numbers in those of the evaluation


def expressions(count: int, lengths: range, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers int32 `[count, N]` and operators `[count, N]`, each behind its number and -1 after the last; answers."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(BASE, size=[count, lengths.stop - 1])
    operators = rng.integers(len(OPERATORS), size=numbers.shape)
    operators[np.arange(numbers.shape[1]) >= rng.integers(lengths.start, lengths.stop, [count, 1]) - 1] = -1
    answers = [eval(text(*each)) % BASE for each in zip(numbers, operators, strict=True)]
    return numbers.astype(np.int32), operators.astype(np.int32), np.array(answers, np.int32)


def text(numbers: np.ndarray, operators: np.ndarray) -> str:
    """An expression as Python writes it."""
    parts = [f"{number} {OPERATORS[operator]}" for number, operator in zip(numbers, operators, strict=True)]
    return " ".join(parts[: np.argmax(operators < 0) + 1])[:-2]


class Parser(keras.Model):
    """Logits of the answers, float32 `[B, BASE]`; with `soft`, of all trees at once."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers, self.operators = keras.layers.Embedding(BASE, 2 * SIZE), keras.layers.Embedding(3, SIZE)
        self.gates, self.out = keras.layers.Dense(5 * SIZE), keras.layers.Dense(BASE)
        self.rather = keras.layers.Embedding(9, 1)  # of two operators, whether to cut at the right one and not the left

    def compose(self, operator: tf.Tensor, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """States `[K, 2 * SIZE]`, hidden and memory, of operators `[K]` and what is on both sides of each."""
        (hidden_left, cell_left), (hidden_right, cell_right) = tf.split(left, 2, 1), tf.split(right, 2, 1)
        gates = self.gates(tf.concat([self.operators(operator), hidden_left, hidden_right], 1))
        i, f, g, o, new = tf.split(gates, 5, 1)
        cell = tf.sigmoid(i) * tf.tanh(new) + tf.sigmoid(f + 1) * cell_left + tf.sigmoid(g + 1) * cell_right
        return tf.concat([tf.sigmoid(o) * tf.tanh(cell), cell], 1)

    def make_read(self, numbers: tf.Tensor, operators: tf.Tensor, soft: bool) -> rg.SubGraph:
        """`read(row, first, last)`: the state `[1, 2 * SIZE]` of a span of an expression."""
        specs = (tf.TensorSpec([], tf.int32),) * 3
        with rg.SubGraph("read", specs, tf.TensorSpec([1, 2 * SIZE]), engine="batched") as read:
            row, first, last = read.declared_arguments()

            def parts() -> tf.Tensor:
                cuts = tf.range(first, last)
                found = tf.gather(tf.gather(operators, row), cuts)
                rather = self.rather(found[:, None] * 3 + found)[:, :, 0]
                later, nothing = cuts[:, None] < cuts, tf.zeros_like(rather)
                scores = tf.reduce_sum(tf.where(later, tf.math.log_sigmoid(rather), nothing), 0)
                scores += tf.reduce_sum(tf.where(later, tf.math.log_sigmoid(-rather), nothing), 1)
                if soft:
                    rows, one = tf.repeat(row, last - first), tf.ones_like(cuts)
                    left, right = read.map(rows, first * one, cuts), read.map(rows, cuts + 1, last * one)
                    states = self.compose(found, left[:, 0], right[:, 0])
                    return tf.reduce_sum(tf.nn.softmax(scores)[:, None] * states, 0, keepdims=True)
                best = tf.argmax(scores, 0, tf.int32)
                left, right = read(row, first, cuts[best]), read(row, cuts[best] + 1, last)
                return self.compose(found[best][None], left, right)

            number = tf.gather(tf.gather(numbers, row), first)
            read.output(tf.cond(first == last, lambda: self.numbers(number[None]), parts))
        return read

    def call(self, numbers: tf.Tensor, operators: tf.Tensor, soft: bool = False) -> tf.Tensor:
        rows = tf.range(tf.shape(numbers)[0])
        last = tf.argmax(operators < 0, 1, tf.int32)
        states = self.make_read(numbers, operators, soft).map(rows, tf.zeros_like(rows), last)
        return self.out(states[:, 0, :SIZE])


class LeftToRight(keras.Model):
    """The baseline: a recurrent network that reads numbers and operators as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = keras.layers.Embedding(BASE * 4, SIZE)
        self.read, self.out = keras.layers.GRU(2 * SIZE, return_sequences=True), keras.layers.Dense(BASE)

    def call(self, numbers: tf.Tensor, operators: tf.Tensor, soft: bool = False) -> tf.Tensor:
        states = self.read(self.tokens(numbers * 4 + operators + 1))
        return self.out(tf.gather(states, tf.argmax(operators < 0, 1), batch_dims=1))


def train(model: keras.Model, steps: int) -> None:
    """On expressions of 1 to `LONGEST` numbers, for a third of the steps with all cuts."""
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.003, steps), clipnorm=1.0)

    @tf.function
    def step(numbers: tf.Tensor, operators: tf.Tensor, answers: tf.Tensor, soft: bool) -> None:
        with tf.GradientTape() as tape:
            logits = model(numbers, operators, soft=soft)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(answers, logits))
        gradients = zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True)
        optimizer.apply_gradients([(g, weight) for g, weight in gradients if g is not None])  # none of where to cut

    for seed in range(steps):
        step(*expressions(64, range(1, LONGEST + 1), seed), seed < steps / 3)


def main(steps: int = 4500, others: int = 10000) -> dict[str, np.ndarray]:
    """How often each is right after so many steps, by the numbers in an expression (`LENGTHS`); where it is cut."""
    found = {}
    for name, make, most in (("left to right", LeftToRight, others), ("parser", Parser, steps)):
        keras.utils.set_random_seed(1)
        model = make()
        train(model, most)
        tests = [expressions(1000, range(length, length + 1), 10**6) for length in LENGTHS]
        found[name] = np.array([np.mean(model(*each[:2]).numpy().argmax(1) == each[2]) for each in tests])
    return found | {"cuts": model.rather.weights[0].numpy().reshape(3, 3)}


if __name__ == "__main__":
    for name, values in main().items():
        print(f"{name}: {np.round(values, 3).tolist()}")
