"""Loops, `try` and `with` that tensors leave in every way, and names that are set on one way only."""

from __future__ import annotations

import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.control import with_scalar


def rows(i: int) -> tuple[tf.Tensor]:
    """A tensor with another number of rows in every call."""
    return (tf.random.stateless_normal([1 + i % 5, 3], [7, i]),)


@program
def the_last_row_is_used_after_the_loop() -> Any:
    def step(x: tf.Tensor) -> Any:
        total = tf.zeros([3])
        for row in x:
            total = total + row
        return total, row

    return step, rows, None


@program
def a_name_set_on_one_way() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        if s > 1.5:
            y = x * 2.0
        if s > 1.5:
            return y
        return x

    return step, with_scalar, None


@program
def an_unbound_name_raises() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        if s > 0.5:
            y = x * 2.0
        return y

    return step, lambda i: (tensor(i), tf.constant(0.0 if i in (6, 9) else 1.0)), None


@program
def finally_runs_before_the_rest() -> Any:
    box = types.SimpleNamespace(order=0.0)

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        try:
            if s > 2.5:
                return x * box.order
            box.order = box.order + 1.0
        finally:
            box.order = box.order * 0.5
        box.order = box.order + 10.0
        return x - box.order

    return step, with_scalar, box


@program
def finally_overrides_the_return() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        for i in range(3):
            try:
                if s > float(i):
                    return x
            finally:
                break
        return -x

    return step, with_scalar, None


@program
def a_tensor_returns_from_nested_loops() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        for i in range(2):
            for j in range(2):
                if s == float(2 * i + j):
                    return x * (i + 1.0), i
                x = x + j
            else:
                x = x * 0.5
        return x, 9

    return step, with_scalar, None


@program
def a_tensor_continues_a_while_loop() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        n, odd = tf.constant(0.0), 0
        while n < s * 2.0:
            n += 1.0
            if n % 2.0 == 0.0:
                continue
            odd += 1
            x = x + n
        else:
            x = -x
        return x, odd

    return step, with_scalar, None


@program
def a_tensor_returns_from_a_while_loop() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        n = tf.constant(0.0)
        while n < 4.0:
            n += 1.0
            x = x * 0.5
            if n > s:
                return x, n
        return x, -n

    return step, lambda i: (tensor(i), tf.constant(float(i % 6))), None


@program
def a_while_loop_without_end_breaks() -> Any:
    def step(x: tf.Tensor) -> Any:
        rounds = 0
        while True:
            x = x * 0.5
            rounds += 1
            if tf.reduce_max(tf.abs(x)) < 0.3:
                break
        return x, rounds

    return step, with_tensor, None


@program
def a_list_grows_in_a_loop_of_tensors() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        kept, n = [], tf.constant(0.0)
        while n < s:
            kept.append(x * n)
            n += 1.0
        return kept

    return step, with_scalar, None


@program
def a_loop_of_tensors_prints() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        n = tf.constant(0.0)
        while n < s:
            print("round", float(n))
            n += 1.0
        return x * n

    return step, with_scalar, None


@program
def a_closure_changes_a_name_in_a_branch() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        count, last = 0, x

        def change(y: tf.Tensor) -> None:
            nonlocal count, last
            count += 1
            last = y * 2.0

        if s > 1.0:
            change(x + 1.0)
        if s > 2.0:
            change(last)
        return last, count

    return step, with_scalar, None


@program
def a_branch_deletes_an_attribute() -> Any:
    box = types.SimpleNamespace(value=1.0, other=2.0)

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        box.value = 3.0
        if s > 1.5:
            del box.value
        return x, hasattr(box, "value")

    return step, with_scalar, box


@program
def a_branch_sets_what_was_not_read() -> Any:
    box = types.SimpleNamespace(value=1.0, items={"k": 0.0}, log=[0.0])

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        if s > 1.5:
            box.value = s * 2.0
            box.items["k"] = s
            box.log[0] = s
        return x

    def arguments(i: int) -> Any:
        box.value, box.items["k"], box.log[0] = tf.constant(1.0 * i), tf.constant(2.0 * i), tf.constant(3.0 * i)
        return with_scalar(i)

    return step, arguments, box


@program
def an_iterator_is_used_up() -> Any:
    def step(x: tf.Tensor) -> Any:
        pairs = zip([1.0, 2.0], [3.0, 4.0])
        first = [x * a + b for a, b in pairs]
        return first, list(pairs), sum(i for i in range(3))

    return step, with_tensor, None


@program
def a_with_is_left_by_a_tensor() -> Any:
    class Timer:
        entered = left = 0

        def __enter__(self) -> None:
            self.entered += 1

        def __exit__(self, *error: Any) -> None:
            self.left += 1

    timer = Timer()

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        with timer:
            if s > 1.5:
                return x * timer.entered
            x = x + timer.left
        return x * 2.0

    return step, with_scalar, timer


@program
def a_tape_is_left_by_a_tensor() -> Any:
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * w)
            if s > 1.5:
                return loss
            loss = loss * 2.0
        return tape.gradient(loss, w)

    return step, with_scalar, w
