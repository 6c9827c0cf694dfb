"""What a tensor decides to change, and only a function, a partial or an exception holds that the call makes."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor


def _with_sign_and_rounds(i: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    return tensor(i)[0], tf.constant(i % 3 - 1.0), tf.constant((1, 2, 0, 3, 1, 0, 2)[i % 7])


def _count(counts: list[int]) -> int:
    counts[0] += 1
    return counts[0]


@program
def a_default_that_a_branch_changes() -> Any:
    def step(x: tf.Tensor, sign: tf.Tensor, rounds: tf.Tensor) -> Any:
        def count(counts: list[int] = [0], *, named: dict[str, int] = {}) -> int:
            counts[0] += 1
            named["count"] = named.get("count", 0) + 2
            return counts[0] + named["count"]

        if sign > 0:
            count()
        return count(), x

    return step, _with_sign_and_rounds, None


@program
def a_default_that_a_loop_changes() -> Any:
    def step(x: tf.Tensor, sign: tf.Tensor, rounds: tf.Tensor) -> Any:
        add = lambda kept=[x]: kept.append(x) or len(kept)  # noqa: E731
        while rounds > 0:
            add()
            rounds = rounds - 1
        return add()

    return step, _with_sign_and_rounds, None


@program
def arguments_of_a_partial_that_a_tensor_changes() -> Any:
    def step(x: tf.Tensor, sign: tf.Tensor, rounds: tf.Tensor) -> Any:
        one, other = functools.partial(_count, [0]), functools.partial(_count, counts=[5])
        if sign > 0:
            one()
        while rounds > 0:
            other()
            rounds = rounds - 1
        return one(), other(), x

    return step, _with_sign_and_rounds, None


@program
def arguments_of_an_exception_that_a_branch_changes() -> Any:
    def step(x: tf.Tensor, sign: tf.Tensor, rounds: tf.Tensor) -> Any:
        error = ValueError([x])
        if sign > 0:
            error.args[0].append(x * 2.0)
        return tf.add_n(error.args[0])

    return step, _with_sign_and_rounds, None
