"""Steps that take what they work on from an iterator over a dataset, which goes on between the calls."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program


def rows(count: int, batch: int) -> Any:
    """An iterator over batches."""
    data = tf.reshape(tf.range(3.0 * count), [count, 3])
    return iter(tf.data.Dataset.from_tensor_slices((data, tf.range(count))).batch(batch))


def scaled(i: int) -> tuple[tf.Tensor]:
    return (tf.constant(0.5 + i),)


@program
def takes_the_next_batch() -> Any:
    iterator, weights = rows(100, 2), tf.Variable(tf.ones([3]))

    def step(scale: tf.Tensor) -> Any:
        x, y = next(iterator)
        loss = tf.reduce_sum(x * weights * scale)
        weights.assign_sub(0.01 * tf.reduce_mean(x, 0))
        return loss, y

    return step, scaled, weights


@program
def takes_between_the_calls_too() -> Any:
    iterator = rows(100, 2)
    return lambda x: x + next(iterator)[0], lambda i: (next(iterator)[0],), None


@program
def takes_several_of_an_object() -> Any:
    class Trainer:
        def __init__(self) -> None:
            data = {"x": tf.reshape(tf.range(90.0), [45, 2]), "name": [str(i) for i in range(45)]}
            self.batches = iter(tf.data.Dataset.from_tensor_slices(data).repeat())
            self.others = iter(tf.data.Dataset.range(60))

        def step(self, scale: tf.Tensor) -> Any:
            total = scale
            for _ in range(3):
                batch = self.batches.get_next()
                total += tf.reduce_sum(batch["x"])
            return total, batch["name"], next(self.others)

    return Trainer().step, scaled, None


@program(graphs=2)
def the_last_batch_is_smaller() -> Any:
    data = tf.data.Dataset.range(5).batch(2).repeat()
    iterator = iter(data)
    return lambda scale: tf.cast(next(iterator), tf.float32) * scale, scaled, None


@program
def the_end_comes() -> Any:
    state, counts = {"iterator": rows(10, 2)}, {"epochs": 0}

    def step(scale: tf.Tensor) -> Any:
        try:
            x, _ = next(state["iterator"])
        except StopIteration:
            state["iterator"] = rows(10, 2)
            counts["epochs"] += 1
            x, _ = next(state["iterator"])
        return x * scale

    return step, scaled, counts


@program
def a_failure_gives_the_elements_back() -> Any:
    iterator = rows(100, 2)

    def step(scale: tf.Tensor) -> Any:
        x, _ = next(iterator)
        tf.debugging.assert_none_equal(scale, 8.5)
        return x * scale + next(iterator)[0]

    return step, scaled, None


@program
def what_broke_gives_the_elements_back() -> Any:
    iterator, state = rows(100, 2), {"rate": 1.0}

    def step(scale: tf.Tensor) -> Any:
        x, _ = next(iterator)
        return x * (state["rate"] if scale < 9.0 else 2.0)

    def arguments(i: int) -> tuple[tf.Tensor]:
        state["rate"] = 1.0 if i < 8 else 3.0
        return scaled(i)

    return step, arguments, state


@program
def a_tensor_decides_whether_to_go_on() -> Any:
    iterator = rows(100, 2)

    def step(scale: tf.Tensor) -> Any:
        if scale > 6.0:
            return next(iterator)[0]
        return tf.zeros([2, 3])

    return step, scaled, None
