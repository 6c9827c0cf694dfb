"""How far iterators and generators advance where their consumer leaves them, and what is left of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import with_tensor


def scalar(i: int) -> tuple[tf.Tensor]:
    """One of three numbers."""
    return (tf.constant([0.1, 1.5, 5.0][i % 3]),)


@program
def map_after_tensor_break() -> Any:
    log: list[float] = []

    def step(x: tf.Tensor) -> Any:
        def scaled(v: float) -> Any:
            log.append(v)
            return x * v

        total = x
        for y in map(scaled, [1.0, 2.0, 3.0]):
            if y > 2.0:
                break
            total = total + y
        return total

    return step, scalar, log


@program
def own_iterator_after_tensor_break() -> Any:
    class Numbers:
        def __init__(self) -> None:
            self.n = 0

        def __iter__(self) -> Any:
            self.n = 0
            return self

        def __next__(self) -> float:
            if self.n >= 3:
                raise StopIteration
            self.n += 1
            return float(self.n)

    numbers = Numbers()

    def step(x: tf.Tensor) -> Any:
        total = x
        for v in numbers:
            if x * v > 2.0:
                break
            total = total + v
        return total, numbers.n

    return step, scalar, numbers


@program
def iterator_left_after_tensor_break() -> Any:
    def step(x: tf.Tensor) -> Any:
        it = iter([1.0, 2.0, 3.0, 4.0])
        total = x
        for v in it:
            if x * v > 2.0:
                break
            total = total + v
        return total, len(list(it))

    return step, scalar, None


@program
def zipped_iterator_left_after_tensor_break() -> Any:
    def step(x: tf.Tensor) -> Any:
        it = iter([10.0, 20.0, 30.0, 40.0])
        total = x
        for a, _ in zip([1.0, 2.0, 3.0], it, strict=False):
            total = total + a
            if total > 3.0:
                break
        return total, list(it)

    return step, scalar, None


@program(graphs=1)
def enumerated_tensor_break() -> Any:
    """Nobody else has the iterators, and to take members changes nothing: one graph has all ways."""

    def step(x: tf.Tensor) -> Any:
        total = x
        for i, (a, b) in enumerate(zip([1.0, 2.0, 3.0], (k * 2.0 for k in range(3)), strict=True)):
            if total > 3.0:
                break
            total = total + a * b + float(i)
        return total

    return step, scalar, None


@program
def draws_after_tensor_break() -> Any:
    generator = np.random.default_rng(3)

    def step(x: tf.Tensor) -> Any:
        total = x
        for y in (generator.random() for _ in range(4)):
            total = total + y
            if x > 1.0:
                break
        return total, generator.random()

    return step, scalar, None


@program
def return_from_loop_over_map() -> Any:
    log: list[float] = []

    def note(v: float) -> float:
        log.append(v)
        return v

    def step(x: tf.Tensor) -> Any:
        for v in map(note, (1.0, 2.0, 3.0)):
            if x < v:
                return x * v
        return x * 100.0

    return step, scalar, log


@program(eager="how far any() goes", feature="ITERATOR", line="found = any(x * v > 2.0 for v in it)")
def any_uses_up_an_iterator() -> Any:
    def step(x: tf.Tensor) -> Any:
        it = iter([1.0, 2.0, 3.0, 4.0])
        found = any(x * v > 2.0 for v in it)
        return x, found, len(list(it))

    return step, scalar, None


@program
def groups_are_gone_when_the_next_is_asked_for() -> Any:
    def step(x: tf.Tensor) -> Any:
        it = iter([1, 1, 2, 2, 3, 3])
        _, group = next(itertools.groupby(it))
        groups = list(itertools.groupby([1, 1, 2]))
        return x * float(len(list(group))), list(it), [list(g) for _, g in groups]

    return step, with_tensor, None


@program
def generator_does_not_see_what_its_consumer_raises() -> Any:
    log: list[str] = []

    def numbers(x: tf.Tensor) -> Any:
        for k in range(3):
            try:
                yield x * float(k)
            except ValueError:
                log.append("generator")
            finally:
                log.append("closed")

    def step(x: tf.Tensor) -> Any:
        total = x
        try:
            for k, y in zip(range(3), [x, x, x], strict=True):
                total = total + y * float(k)
            for y in numbers(x):
                total = total + y
                raise ValueError("consumer")
        except ValueError:
            log.append("consumer")
        return total

    return step, with_tensor, log


@program
def delegating_generator_is_left() -> Any:
    log: list[str] = []

    def inner(x: tf.Tensor) -> Any:
        try:
            yield x
            yield x + 1.0
        finally:
            log.append("inner")

    def outer(x: tf.Tensor) -> Any:
        yield from inner(x)
        log.append("after")
        yield x * 100.0

    def step(x: tf.Tensor) -> Any:
        for y in outer(x):
            return y * 2.0
        return x

    return step, with_tensor, log


@program(eager="GeneratorExit is caught", feature="GENERATOR", line="try:")
def generator_catches_its_end() -> Any:
    log: list[str] = []

    def numbers(x: tf.Tensor) -> Any:
        try:
            yield x
            yield x + 1.0
        except GeneratorExit:
            log.append("exit")
            raise

    def step(x: tf.Tensor) -> Any:
        for y in numbers(x):
            return y * 2.0
        return x

    return step, with_tensor, log


@program(eager="its name keeps it", feature="GENERATOR", line="try:")
def named_generator_is_left() -> Any:
    log: list[str] = []

    def numbers(x: tf.Tensor) -> Any:
        try:
            yield x
            yield x + 1.0
        finally:
            log.append("closed")

    def step(x: tf.Tensor) -> Any:
        total, named = x, numbers(x)
        for y in named:
            total = total + y
            break
        log.append("after")
        return total

    return step, with_tensor, log


@program
def unpacking_takes_one_more() -> Any:
    def step(x: tf.Tensor) -> Any:
        it = iter([1.0, 2.0, 3.0, 4.0, 5.0])
        try:
            a, _ = it
        except ValueError:
            a = 0.0
        return x + a, list(it)

    return step, with_tensor, None
