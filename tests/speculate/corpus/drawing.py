"""Random numbers of Python's and NumPy's generators. What each call is given is drawn between the calls, too."""

from __future__ import annotations

import collections
import random
import types
from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program


def drawn(i: int) -> tuple[tf.Tensor]:
    """An argument from NumPy's global generator: it shows where the call before has left it."""
    return (tf.constant(np.random.rand(6, 3), tf.float32),)


@program
def a_batch_is_picked() -> Any:
    np.random.seed(7)
    random.seed(7)
    weights = tf.Variable(tf.ones([3, 2]))

    def step(x: tf.Tensor) -> Any:
        rows = np.random.randint(0, 6, size=4)
        loss = tf.reduce_mean(tf.gather(x, rows) @ weights)
        weights.assign_sub(0.1 * tf.ones([3, 2]) * loss)
        return loss, rows

    return step, drawn, weights


@program(eager="a library draws", feature="RANDOM")
def a_library_draws_from_the_generator_of_the_program() -> Any:
    """Its seeds are NumPy's: to convert the call, or to try, must not draw one."""
    np.random.seed(8)
    tf.random.set_seed(8)  # forgets kernels, with their states

    def step(x: tf.Tensor) -> Any:
        return x + tf.keras.backend.random_normal(shape=(6, 3))

    return step, drawn, None


@program
def rows_are_picked_of_a_memory_that_grows() -> Any:
    np.random.seed(9)
    memory = types.SimpleNamespace(count=6, size=10)

    def step(x: tf.Tensor) -> Any:
        rows = np.random.choice(min(memory.count, memory.size), 3, replace=False)
        memory.count += 1
        return tf.reduce_sum(x) + tf.cast(tf.reduce_sum(rows), tf.float32), max(memory.count, 8), rows

    return step, drawn, memory


@program
def rows_of_an_array_are_picked() -> Any:
    np.random.seed(8)
    tf.random.set_seed(8)  # forgets kernels, with their states
    data = np.arange(24, dtype=np.float32).reshape(8, 3)

    def step(x: tf.Tensor) -> Any:
        rows = np.random.permutation(len(data))[:4]
        return tf.constant(data[rows]) @ tf.transpose(x), np.random.choice(8, 3, replace=False)

    return step, drawn, None


@program
def a_generator_of_an_object() -> Any:
    state = types.SimpleNamespace(rng=np.random.default_rng(5), total=0.0)

    def step(x: tf.Tensor) -> Any:
        noise = state.rng.normal(size=(6, 3)).astype(np.float32)
        state.total += float(state.rng.uniform(0.0, 2.0))
        return x + noise, state.rng.integers(10)

    return step, lambda i: (tf.constant(state.rng.random((6, 3)), tf.float32),), None


@program
def several_generators() -> Any:
    own, old = random.Random(3), np.random.RandomState(4)

    def step(x: tf.Tensor) -> Any:
        return x * own.uniform(1.0, 2.0) + old.randn(), own.randrange(5), old.rand(2)

    return step, lambda i: (tf.constant([own.random(), float(old.rand())]),), None


@program(graphs=2)
def a_number_decides() -> Any:
    np.random.seed(9)

    def step(x: tf.Tensor) -> Any:
        if np.random.rand() < 0.5:  # explores
            return tf.reduce_sum(x) * float(np.random.randint(1, 5))
        return tf.reduce_max(x)

    return step, drawn, None


@program
def members_of_a_list_are_picked() -> Any:
    random.seed(2)
    memory: list[Any] = [(tf.fill([2], float(i)), i) for i in range(9)]

    def step(x: tf.Tensor) -> Any:
        one, number = random.choice(memory)
        batch = random.sample(memory, 3)
        total = tf.add_n([row for row, _ in batch]) + one
        return tf.reduce_sum(x) + total, number, random.choices(memory, k=2)[1][1]

    return step, lambda i: (tf.fill([2], random.random()),), None


@program
def members_of_a_queue_that_grows() -> Any:
    random.seed(2)
    memory: collections.deque[Any] = collections.deque(maxlen=10)

    def arguments(i: int) -> Any:
        memory.append((tf.fill([2], float(i)), i % 3))
        return (tf.fill([2], random.random()),)

    def step(x: tf.Tensor) -> Any:
        batch = random.sample(memory, 1)
        return x + batch[0][0], batch[0][1]

    return step, arguments, None


@program
def a_member_is_picked_twice() -> Any:
    np.random.seed(3)
    memory: collections.deque[Any] = collections.deque([(tf.fill([2], float(i)), i) for i in range(4)], maxlen=9)

    def step(x: tf.Tensor) -> Any:
        rows = [memory[i] for i in np.random.randint(len(memory), size=3)]
        return x + tf.add_n([row for row, _ in rows]), [number for _, number in rows]

    return step, lambda i: (tf.fill([2], np.random.rand()),), None


@program
def an_order_is_drawn() -> Any:
    np.random.seed(1)
    random.seed(1)

    def step(x: tf.Tensor) -> Any:
        order = np.arange(6)
        np.random.shuffle(order)
        names = [0, 1, 2, 3]
        random.shuffle(names)
        return tf.gather(x, order), tf.gather(x, names[0]), order

    return step, drawn, None


@program
def a_seed_is_set() -> Any:
    random.seed(4)
    np.random.seed(4)

    def step(x: tf.Tensor) -> Any:
        np.random.seed(3)
        return x + np.random.rand(), random.gauss(0.0, 1.0)

    return step, drawn, None


@program
def many_rounds_draw() -> Any:
    np.random.seed(1)

    def step(x: tf.Tensor) -> Any:
        losses = []
        for _ in range(3):
            rows = np.random.randint(6, size=2)
            losses.append(tf.reduce_sum(tf.gather(x, rows)))
        return losses

    return step, drawn, None


@program
def a_failure_gives_back_what_was_drawn() -> Any:
    np.random.seed(5)

    def step(x: tf.Tensor) -> Any:
        noise = np.random.rand()
        tf.debugging.assert_less(tf.reduce_sum(x), 9.5)
        return x * noise

    return step, drawn, None


@program
def a_tensor_decides_about_what_was_drawn() -> Any:
    np.random.seed(6)

    def step(x: tf.Tensor) -> Any:
        noise = np.random.rand()
        return x * noise if tf.reduce_sum(x) > 9.0 else x - noise

    return step, drawn, None


@program
def a_tensor_decides_whether_a_number_is_drawn() -> Any:
    np.random.seed(6)

    def step(x: tf.Tensor) -> Any:
        if tf.reduce_sum(x) > 9.0:
            return x * np.random.rand()
        return x

    return step, drawn, None


@program
def the_size_of_what_is_drawn_varies() -> Any:
    np.random.seed(6)

    def step(x: tf.Tensor, count: int) -> Any:
        return x * np.random.rand(count), count

    return step, lambda i: (tf.fill([2, i % 3 + 1], np.random.rand()), i % 3 + 1), None


@program(eager="the graph gives the distribution", feature="RANDOM", line="return np.random.choice(3, p=p / p.sum())")
def a_distribution_of_the_graph() -> Any:
    np.random.seed(6)

    def step(x: tf.Tensor) -> Any:
        p = tf.nn.softmax(x[0]).numpy().astype(np.float64)
        return np.random.choice(3, p=p / p.sum())

    return step, lambda i: (tf.zeros([2, 3]),), None


@program(eager="an array from before", feature="RANDOM", line="np.random.shuffle(order)")
def an_array_from_before_is_shuffled() -> Any:
    np.random.seed(6)
    order = np.arange(4)

    def step(x: tf.Tensor) -> Any:
        np.random.shuffle(order)
        return tf.gather(x, order)

    return step, drawn, order
