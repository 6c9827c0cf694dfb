"""What objects of the program hold that is no data: methods, partial functions, functions with a cache, values of the
standard library that cannot change.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import operator
import pathlib
import re
from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


class _Scaling:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def scaled(self, x: Any) -> Any:
        return x * self.factor


@program
def methods_that_are_held() -> Any:
    """A callback in a table is a method of an object that changes, then one of another object, then another method."""
    first, second = _Scaling(2.0), _Scaling(5.0)
    table: dict[str, Any] = {"call": first.scaled}

    def step(x: tf.Tensor) -> Any:
        return table["call"](x)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 6:
            first.factor = 3.0
        if i == 9:
            table["call"] = second.scaled
        if i == 12:
            table["call"] = tf.nn.relu
        return (tensor(i),)

    return step, arguments, []


@program
def methods_of_lists_that_are_held() -> Any:
    """The list is one that was there before, whoever's method it is that makes it longer."""
    losses: list[float] = []
    keep = losses.append

    def step(x: tf.Tensor) -> Any:
        keep(float(tf.reduce_sum(x)))
        return x * len(losses)

    return step, with_tensor, losses


@program
def partial_functions_that_are_held() -> Any:
    def product(a: Any, b: Any = 1.0) -> Any:
        return a * b

    held: list[Any] = [functools.partial(product, 2.0), functools.partial(product, b=3.0)]

    def step(x: tf.Tensor) -> Any:
        return held[0](x) + held[1](x)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 6:
            held[0] = functools.partial(product, 4.0)
        if i >= 9:
            held[1].keywords["b"] = float(i)
        return (tensor(i),)

    return step, arguments, []


@program
def a_function_with_a_cache_is_replaced() -> Any:
    @functools.lru_cache
    def squared(n: int) -> int:
        return n * n

    @functools.lru_cache
    def cubed(n: int) -> int:
        return n * n * n

    held = {"f": squared}

    def step(x: tf.Tensor) -> Any:
        return x * held["f"](3)

    def arguments(i: int) -> tuple[tf.Tensor]:
        held["f"] = squared if i < 8 else cubed
        return (tensor(i),)

    return step, arguments, []


class _Holder:
    def __init__(self, values: dict[str, Any]) -> None:
        vars(self).update(values)


@program
def values_that_are_held() -> Any:
    """Each is replaced by another of its type in some call."""
    holder = _Holder(
        {
            "numbers": range(2),
            "place": pathlib.Path("a/b"),
            "exact": decimal.Decimal("1.0"),
            "part": fractions.Fraction(1, 2),
            "day": datetime.date(2020, 1, 2),
            "pattern": re.compile("a+"),
            "kind": np.dtype("float32"),
            "rows": slice(0, 1),
        }
    )
    later: dict[int, tuple[str, Any]] = {
        5: ("numbers", range(3)),
        6: ("place", pathlib.Path("a/c")),
        7: ("exact", decimal.Decimal("1.00")),
        8: ("part", fractions.Fraction(1, 3)),
        9: ("day", datetime.date(2021, 1, 2)),
        10: ("pattern", re.compile("b+")),
        11: ("kind", np.dtype("int32")),
        12: ("rows", slice(1, 2)),
    }

    def step(x: tf.Tensor) -> Any:
        text = f"{holder.place.name} {holder.exact} {holder.part} {holder.day}"
        found = holder.pattern.sub("-", "aabb")
        return x[holder.rows] * float(sum(holder.numbers)), text, found, holder.kind.name

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i in later:
            setattr(holder, *later[i])
        return (tensor(i),)

    return step, arguments, []


@program
def callables_of_libraries_that_are_held() -> Any:
    held: dict[str, Any] = {"key": operator.itemgetter(0), "function": np.exp}

    def step(x: tf.Tensor) -> Any:
        return x * held["key"]([1.0, 2.0, 3.0]) + held["function"](2.0)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 7:
            held["key"] = operator.itemgetter(2)
        if i == 10:
            held["function"] = np.sqrt
        return (tensor(i),)

    return step, arguments, []
