"""Names, numbers, attributes, containers, printing."""

from __future__ import annotations

import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program


def tensor(i: int) -> tf.Tensor:
    """Another one for every call."""
    return tf.random.stateless_normal([4, 3], [7, i])


def with_tensor(i: int) -> tuple[tf.Tensor]:
    """The arguments of most programs."""
    return (tensor(i),)


@program
def a_loss() -> Any:
    def step(x: tf.Tensor) -> tf.Tensor:
        y = 0.5 * x + 1.5
        return tf.reduce_mean((y - x) ** 2)

    return step, with_tensor, None


@program
def a_training_step() -> Any:
    w = tf.Variable(tf.ones([3, 2]))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w - 1.0) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    return step, with_tensor, w


@program
def an_attribute_counts() -> Any:
    model = types.SimpleNamespace(count=0)

    def step(x: tf.Tensor) -> tf.Tensor:
        model.count += 1
        return x * model.count

    return step, with_tensor, model


@program
def state_passed_on() -> Any:
    class Cell:
        def __init__(self) -> None:
            self.state = tf.zeros([4, 3])

        def step(self, x: tf.Tensor) -> tf.Tensor:
            self.state = tf.tanh(self.state + x)
            return self.state

    cell = Cell()
    return cell.step, with_tensor, cell


@program
def a_list_grows() -> Any:
    history: list[float] = []

    def step(x: tf.Tensor) -> tf.Tensor:
        loss = tf.reduce_sum(x)
        history.append(float(loss))
        return loss

    return step, with_tensor, history


@program
def printing() -> Any:
    numbers = types.SimpleNamespace(step=0)

    def step(x: tf.Tensor) -> None:
        numbers.step += 1
        print("step", numbers.step, f"loss {float(tf.reduce_sum(x)):.3f}", sep=": ")

    return step, with_tensor, numbers


@program
def a_branch_flips() -> Any:
    def step(x: tf.Tensor, flag: tf.Tensor) -> tf.Tensor:
        if flag > 0:
            y = x * 2.0
        else:
            y = x - 1.0
        return y

    return step, lambda i: (tensor(i), tf.constant(1 if i < 8 else -1)), None


@program
def a_shape_grows() -> Any:
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(x * 2.0, 1)

    return step, lambda i: (tf.ones([3 + i // 4, 2]) * i,), None


@program
def an_early_return() -> Any:
    def step(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        if n > 2:
            return x * 2.0
        y = x + 1.0
        return y * y

    return step, lambda i: (tensor(i), tf.constant(i % 5)), None


@program
def a_while_loop_of_tensors() -> Any:
    def step(x: tf.Tensor, n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        i = tf.constant(0)
        while i < n:
            x = x * 0.5 + 1.0
            i += 1
        return x, i

    return step, lambda i: (tensor(i), tf.constant(i % 4)), None


@program
def an_exception_half_way() -> Any:
    state = types.SimpleNamespace(n=0)

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        state.n += 1
        if n == 9:
            raise ValueError("nine")
        return x * 2.0

    return step, lambda i: (tensor(i), i), state


@program
def a_function_is_replaced() -> Any:
    space = types.SimpleNamespace(calls=0)

    def double(x: tf.Tensor) -> tf.Tensor:
        return x * 2.0

    def triple(x: tf.Tensor) -> tf.Tensor:
        return x * 3.0

    space.f = double

    def step(x: tf.Tensor) -> tf.Tensor:
        return space.f(x)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 8:
            space.f = triple
        return with_tensor(i)

    return step, arguments, None


@program
def comprehensions() -> Any:
    scales = [1.0, 2.0, 3.0]

    def step(x: tf.Tensor) -> Any:
        parts = [x * s for s in scales if s > 1.0]
        named = {f"p{i}": tf.reduce_sum(p) for i, p in enumerate(parts)}
        return named

    return step, with_tensor, scales


@program
def a_generator() -> Any:
    def rows(x: tf.Tensor) -> Any:
        for i in range(3):
            yield x[i] * 2.0

    def step(x: tf.Tensor) -> Any:
        return list(rows(x))

    return step, with_tensor, None
