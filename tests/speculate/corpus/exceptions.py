"""Exceptions: raised, caught, half-way; `try`, `finally`, `assert`; and `match`."""

from __future__ import annotations

import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.objects import Point


def with_number(i: int) -> tuple[tf.Tensor, int]:
    """A tensor and the number of the call."""
    return tensor(i), i


@program
def try_and_finally() -> Any:
    box = types.SimpleNamespace(entered=0, left=0)

    def step(x: tf.Tensor, n: int) -> Any:
        try:
            box.entered += 1
            if n % 4 == 1:
                return x * 2.0
        finally:
            box.left += 1
        return x

    return step, with_number, box


@program
def an_exception_group() -> Any:
    table = {"a": 1.0}

    def step(x: tf.Tensor) -> Any:
        try:
            y = x * table["a"]
        except* KeyError:
            y = x
        return y

    return step, with_tensor, table


@program
def try_except_else() -> Any:
    table = {"a": 1.0}

    def step(x: tf.Tensor) -> Any:
        try:
            y = x * table["a"]
        except KeyError:
            y = x
        else:
            y = y + 1.0
        return y

    return step, with_tensor, table


@program
def an_exception_that_is_caught_sometimes() -> Any:
    table = {"a": 1.0}

    def step(x: tf.Tensor, key: str) -> Any:
        try:
            return x * table[key]
        except KeyError as error:
            return str(error)

    return step, lambda i: (tensor(i), "b" if i in (5, 6, 10) else "a"), table


@program
def a_tensor_decides_what_is_raised() -> Any:
    box = types.SimpleNamespace(n=0)

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        box.n += 1
        if s > 5.0:
            raise ValueError(f"too large: {s.numpy()}")
        return x * s

    return step, lambda i: (tensor(i), tf.constant(9.0 if i in (2, 6, 7, 11) else 1.0)), box


@program
def assertions_hold_and_fail() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        assert n != 8, "eight"
        assert tf.reduce_sum(x) < 100.0, "large"
        return x * n

    return step, lambda i: (tensor(i) + (1000.0 if i == 10 else 0.0), i), None


@program
def an_exception_of_tensorflow() -> Any:
    box = types.SimpleNamespace(n=0)

    def step(x: tf.Tensor, i: tf.Tensor) -> Any:
        box.n += 1
        tf.debugging.assert_less(i, 10)
        return tf.gather(x, i)

    return step, lambda i: (tensor(i), tf.constant(99 if i in (7, 8) else 1)), box


@program
def a_list_index_out_of_range() -> Any:
    members = [1.0, 2.0]

    def step(x: tf.Tensor, k: int) -> Any:
        members[0] += 1.0
        return x * members[k]

    return step, lambda i: (tensor(i), 5 if i in (6, 9) else i % 2), members


@program
def a_division_by_zero() -> Any:
    box = types.SimpleNamespace(n=0)

    def step(x: tf.Tensor, k: int) -> Any:
        box.n += 1
        return x * (6 // k)

    return step, lambda i: (tensor(i), 0 if i in (6, 9) else i + 1), box


@program
def raise_from_a_callee() -> Any:
    class Refused(Exception):
        pass

    def check(n: int) -> int:
        if n in (6, 7):
            raise Refused(n, "not this one") from None
        return n

    def step(x: tf.Tensor, n: int) -> Any:
        return x * check(n)

    return step, with_number, None


@program
def an_exception_caught_every_time() -> Any:
    def step(x: tf.Tensor) -> Any:
        try:
            {}["missing"]
        except KeyError:
            return x * 2.0

    return step, with_tensor, None


@program
def matching_values() -> Any:
    def step(x: tf.Tensor, command: Any) -> Any:
        match command:
            case "double":
                return x * 2.0
            case ("add", amount):
                return x + amount
            case {"scale": factor, **rest}:
                return x * factor, rest
            case [first, *others] if len(others) > 1:
                return first, others
            case Point(x=px, y=0.0):
                return x * px
            case int() | float() as number:
                return x - number
            case None:
                return None
            case _:
                return "unknown"

    commands = ["double", ("add", 2.0), {"scale": 3.0, "z": 1}, [1, 2, 3], Point(4.0), 5, None, "what"]
    return step, lambda i: (tensor(i), commands[i % 8 if i < 8 else 1]), None


@program
def matching_a_number() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        match n:
            case 0 | 1:
                x = x * 2.0
            case 2 if len(x) == 4:
                x = x * 3.0
            case other:
                x = x + other
        return x

    return step, lambda i: (tensor(i), i % 4), None


@program
def matching_a_tensor() -> Any:
    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        match int(n):
            case 0:
                y = x * 2.0
            case 1:
                y = x * 3.0
            case _:
                y = x
        return y

    return step, lambda i: (tensor(i), tf.constant(i % 3)), None


@program
def kept_exceptions_of_several_kinds() -> Any:
    kept: list[Any] = []

    def step(x: tf.Tensor) -> Any:
        found = [ValueError("a"), KeyError("b"), OSError("c")]
        kept[:] = found
        return x * 2.0, [repr(error) for error in found], found

    return step, with_tensor, kept
