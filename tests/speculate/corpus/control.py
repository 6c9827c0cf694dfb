"""Operators, decisions and loops."""

from __future__ import annotations

import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


def with_count(i: int) -> tuple[tf.Tensor, int]:
    """A tensor and a number that goes round."""
    return tensor(i), i % 4


def with_scalar(i: int) -> tuple[tf.Tensor, tf.Tensor]:
    """A tensor and a number in a tensor that goes round."""
    return tensor(i), tf.constant(float(i % 4))


@program
def every_operator_on_tensors() -> Any:
    def step(x: tf.Tensor) -> Any:
        y = x + 2.0
        return (
            x - y, 2 - x, x * 3, 1.0 / (y * y + 1), x // 2, x % 3, abs(x) ** 2, 2 ** x, x @ tf.transpose(y),
            -x, ~(x > 0), (x > 0) & (y > 0), (x > 0) | (y > 0), (x > 0) ^ (y > 0), x <= y, x >= y, x < y, x != y,
        )  # fmt: skip

    return step, with_tensor, None


@program
def every_operator_on_numbers() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        m = n + 3
        numbers = [n - m, n * m, n / m, n // m, n % m, n**2, n << 2, m >> 1, n & m, n | m, n ^ m, -n, +n, ~n, not n]
        comparisons = [n < m, n <= m, n == m, n != m, n > m, n >= m]
        return x * n, numbers, comparisons

    return step, lambda i: (tensor(i), i), None


@program
def every_augmented_assignment() -> Any:
    box = types.SimpleNamespace(a=1.5, b=[1, 2], c={"k": 2})

    def step(x: tf.Tensor, n: int) -> Any:
        y = x
        y += 1.0
        y -= 0.5
        y *= 3
        y /= 2.0
        y //= 0.25
        y %= 7
        y **= 2.0
        k = n
        k <<= 2
        k >>= 1
        k |= 5
        k &= 7
        k ^= 2
        box.a += 0.5
        box.b[0] += k
        box.c["k"] *= 2
        y @= tf.ones([3, 3])
        return y, k

    return step, lambda i: (tensor(i), i), box


@program
def a_chained_comparison_of_tensors() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        if 0.5 < s <= 2.5:
            return x * s
        return x - s

    return step, with_scalar, None


@program
def a_chained_comparison_of_numbers() -> Any:
    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        return x * 2.0 if 0 < n < 3 != 7 else x

    return step, with_count, None


@program
def and_or_not_of_tensors() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        small, odd = s < 2.0, s % 2.0 == 1.0
        if small and odd or not small and not odd:
            x = x + 1.0
        flag = not small
        return x, flag, small and odd, small or odd

    return step, with_scalar, None


@program
def and_or_of_numbers() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        name = n or "none"
        other = n and n - 1
        return x, name, other, n > 1 or None, None or x

    return step, with_count, None


@program
def elif_by_a_number() -> Any:
    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        if n == 0:
            return x
        elif n == 1:
            y = x * 2.0
        elif n == 2:
            y = x * 3.0
        else:
            y = x * 4.0
        return y + 1.0

    return step, with_count, None


@program
def elif_by_a_tensor() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        if s < 1.0:
            y = x
        elif s < 2.0:
            y = x * 2.0
        else:
            if s < 3.0:
                y = x * 3.0
            else:
                y = x * 4.0
            y = y + 0.5
        return y + 1.0

    return step, with_scalar, None


@program
def branches_change_everything() -> Any:
    model = types.SimpleNamespace(total=tf.zeros([]), steps=0, log=[0.0, 0.0], best={"loss": 9.0})

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        scale = 1.0
        parts = [x, x]
        if s > 1.5:
            scale = 2.0
            model.total = model.total + s
            model.steps += 1
            model.log[1] = float(s)
            model.best["loss"] = float(s) * 2
            parts[0] = x * 2.0
        else:
            model.steps -= 1
            parts[1] = x - 1.0
        return x * scale, parts

    return step, with_scalar, model


@program
def a_branch_appends() -> Any:
    history: list[Any] = []

    def step(x: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        if s > 1.5:
            history.append(float(s))
        return x * 2.0

    return step, with_scalar, history


@program
def a_branch_prints() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        if s > 1.5:
            print("large", s.numpy())
        return x * 2.0

    return step, with_scalar, None


@program
def branches_of_different_kinds() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        return {"large": x} if s > 1.5 else None

    return step, with_scalar, None


@program
def early_returns_by_tensors() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        if s < 1.0:
            return x
        y = x * s
        if s < 2.0:
            return y
        if s < 3.0:
            y = y + 1.0
        return y * 2.0

    return step, with_scalar, None


@program
def a_conditional_expression_of_tensors() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        return (x if s > 1.0 else -x) * (2.0 if s > 2.0 else 3.0)

    return step, with_scalar, None


@program
def a_tensor_breaks_a_range() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        rounds = 0
        for i in range(5):
            if s * 1.5 < float(i):
                break
            x = x * 0.5
            rounds += 1
        return x, rounds, i

    return step, with_scalar, None


@program
def a_tensor_breaks_a_while_loop() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        n = tf.constant(0)
        while n < 10:
            n += 1
            x = x + 1.0
            if tf.cast(n, tf.float32) > s:
                break
            x = x * 0.5
        return x, n

    return step, with_scalar, None


@program
def a_tensor_continues() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        total = 0.0
        for i in range(4):
            if s == float(i):
                continue
            total += i
            x = x + i
        return x, total

    return step, with_scalar, None


@program
def a_tensor_skips_the_else_of_a_loop() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        for i in range(3):
            if s == float(i):
                break
        else:
            x = -x
        return x

    return step, with_scalar, None


@program
def a_tensor_returns_from_a_loop() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        for i in range(4):
            x = x * 2.0
            if s == float(i):
                return x
        return x + 1.0

    return step, with_scalar, None


@program
def a_tensor_breaks_a_loop_over_rows() -> Any:
    def step(x: tf.Tensor) -> Any:
        total = tf.zeros([3])
        for row in x:
            if tf.reduce_sum(row) > 1.0:
                break
            total += row
        return total

    return step, lambda i: (tf.random.stateless_normal([2 + i % 3, 3], [7, i]),), None


@program
def a_tensor_breaks_and_a_list_grows() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        kept = []
        for i in range(4):
            if s < float(i):
                break
            kept.append(x * i)
        return kept

    return step, with_scalar, None


@program
def a_trip_count_changes() -> Any:
    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        for i in range(n):
            x = x * 0.5 + i
        return x

    return step, lambda i: (tensor(i), 3 if i < 8 else 5 - i % 2), None


@program
def a_while_loop_of_numbers() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        k = 0
        while k < n:
            x = x + 1.0
            k += 1
        else:
            x = x * 2.0
        return x, k

    return step, with_count, None


@program
def a_while_loop_that_breaks() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        while True:
            x = x + 1.0
            n -= 1
            if n < 1:
                break
            if n == 2:
                continue
            x = x * 2.0
        return x

    return step, with_count, None


@program
def nested_loops() -> Any:
    def step(x: tf.Tensor) -> Any:
        total = tf.zeros([])
        for i in range(3):
            for j in range(i, 3):
                if j == 2 and i == 1:
                    break
                total += x[i, j]
            else:
                total += 1.0
        return total

    return step, with_tensor, None


@program
def nested_loops_of_tensors() -> Any:
    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        i = tf.constant(0)
        while i < n:
            j = tf.constant(0)
            while j < i:
                x = x + 0.5
                j += 1
            i += 1
        return x

    return step, lambda i: (tensor(i), tf.constant(i % 4)), None


@program
def a_loop_over_rows_of_unknown_number() -> Any:
    def step(x: tf.Tensor) -> Any:
        total = tf.zeros([3])
        for row in x:
            total = total * 0.5 + row
        return total

    return step, lambda i: (tf.random.stateless_normal([1 + i % 5, 3], [7, i]),), None


@program
def enumerate_zip_reversed() -> Any:
    def step(x: tf.Tensor, y: tf.Tensor) -> Any:
        total = tf.zeros([3])
        for i, (a, b) in enumerate(zip(x, y), 1):
            total += a * b * i
        for row in reversed([x[0], x[1]]):
            total = total - row
        return total

    return step, lambda i: (tensor(i), tensor(i + 1)), None


@program
def a_loop_over_tf_range() -> Any:
    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        for i in tf.range(n):
            x = x + tf.cast(i, tf.float32)
        return x

    return step, lambda i: (tensor(i), tf.constant(i % 4)), None


@program
def a_loop_changes_an_attribute() -> Any:
    cell = types.SimpleNamespace(state=tf.zeros([3]), steps=0)

    def step(x: tf.Tensor) -> Any:
        for row in x:
            cell.state = tf.tanh(cell.state + row)
            cell.steps += 1
        return cell.state

    return step, lambda i: (tf.random.stateless_normal([1 + i % 5, 3], [7, i]),), cell


@program
def a_number_in_a_tensor_decides() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        n = int(s)
        return x * n if n > 1 else x - n

    return step, with_scalar, None


@program
def a_range_of_a_number_in_a_tensor() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        for _ in range(int(s)):
            x = x + 1.0
        return x

    return step, with_scalar, None


@program
def a_branch_that_never_varied_flips() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        return x * 2.0 if s > 0.0 else [x]

    return step, lambda i: (tensor(i), tf.constant(-1.0 if i in (7, 9, 10) else 1.0)), None
