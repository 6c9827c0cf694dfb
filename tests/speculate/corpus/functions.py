"""Functions: arguments, closures, lambdas, decorators, recursion, patched callees."""

from __future__ import annotations

import functools
import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor

COUNTER = 0
SCALE = 1.0
TABLE: dict[str, Any] = {}


def helper(x: tf.Tensor) -> tf.Tensor:
    """Replaced by a program."""
    return x + 1.0


def another_helper(x: tf.Tensor) -> tf.Tensor:
    """What replaces it."""
    return x - 1.0


@program
def a_global_counts() -> Any:
    global COUNTER
    COUNTER = 0

    def step(x: tf.Tensor) -> Any:
        global COUNTER
        COUNTER += 1
        return x * COUNTER, COUNTER

    return step, with_tensor, None


@program
def a_global_is_set_from_outside() -> Any:
    def step(x: tf.Tensor) -> Any:
        return x * SCALE

    def arguments(i: int) -> Any:
        global SCALE
        SCALE = 1.0 if i < 6 else 2.0 + (i > 10)
        return with_tensor(i)

    return step, arguments, None


@program
def a_global_is_deleted() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        global TEMPORARY
        TEMPORARY = x * n
        y = TEMPORARY + 1.0
        del TEMPORARY
        return y, "TEMPORARY" in globals()

    return step, lambda i: (tensor(i), i), None


@program
def a_global_function_is_patched() -> Any:
    original = helper

    def step(x: tf.Tensor) -> Any:
        return helper(x) * 2.0

    def arguments(i: int) -> Any:
        globals()["helper"] = another_helper if i in (6, 7, 11) else original
        return with_tensor(i)

    return step, arguments, None


@program
def nonlocal_and_closures() -> Any:
    count, last = 0, None

    def step(x: tf.Tensor) -> Any:
        nonlocal count, last
        count += 2
        last = x * count

        def inner(y: tf.Tensor) -> tf.Tensor:
            nonlocal count
            count -= 1
            return y + count

        return inner(x) * 2.0 + last

    return step, with_tensor, None


@program
def a_closure_made_and_called() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        def scaled(factor: float, offset: float = 1.0) -> Any:
            def apply(y: tf.Tensor) -> tf.Tensor:
                return y * factor + offset + n

            return apply

        functions = [scaled(2.0), scaled(3.0, offset=2.0)]
        for function in functions:
            x = function(x)
        return x

    return step, lambda i: (tensor(i), i), None


@program
def lambdas_see_the_last_round() -> Any:
    def step(x: tf.Tensor) -> Any:
        late = [lambda y: y * i for i in range(3)]
        early = [lambda y, i=i: y * i for i in range(3)]
        return [f(x) for f in late], [f(x) for f in early]

    return step, with_tensor, None


@program
def every_kind_of_argument() -> Any:
    def combine(a: Any, /, b: Any, c: Any = 3.0, *rest: Any, d: Any, e: Any = 5.0, **more: Any) -> Any:
        return a + b * c + sum(rest) * d + e + more.get("f", 0.0), len(rest), sorted(more)

    def step(x: tf.Tensor) -> Any:
        numbers, names = (1.0, 2.0), {"d": 2.0, "f": 7.0}
        return combine(x, 2.0, d=1.0), combine(x, *numbers, 4.0, **names), combine(x, b=x, d=x, g=1)

    return step, with_tensor, None


@program
def a_default_that_is_kept() -> Any:
    def collect(value: int, kept: list[int] = []) -> list[int]:
        kept.append(value)
        return kept

    def step(x: tf.Tensor, n: int) -> Any:
        return x * len(collect(n))

    return step, lambda i: (tensor(i), i), collect.__defaults__


@program
def a_decorated_function() -> Any:
    calls = types.SimpleNamespace(count=0)

    def counted(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*arguments: Any, **named: Any) -> Any:
            calls.count += 1
            return function(*arguments, **named)

        return wrapper

    @counted
    def double(x: tf.Tensor, by: float = 2.0) -> tf.Tensor:
        return x * by

    def step(x: tf.Tensor) -> Any:
        return double(x) + double(x, by=3.0)

    return step, with_tensor, calls


@program
def a_decorator_inside() -> Any:
    def step(x: tf.Tensor) -> Any:
        def twice(function: Any) -> Any:
            return lambda y: function(function(y))

        @twice
        def increase(y: tf.Tensor) -> tf.Tensor:
            return y + 1.0

        return increase(x)

    return step, with_tensor, None


@program
def partial_functions() -> Any:
    def affine(x: tf.Tensor, a: float, b: float) -> tf.Tensor:
        return x * a + b

    fixed = functools.partial(affine, b=2.0)

    def step(x: tf.Tensor) -> Any:
        return fixed(x, 3.0) + functools.partial(affine, x)(1.0, 2.0)

    return step, with_tensor, None


@program
def recursion_of_numbers() -> Any:
    def power(x: tf.Tensor, n: int) -> tf.Tensor:
        return x if n == 0 else x * power(x, n - 1) + n

    def step(x: tf.Tensor, n: int) -> Any:
        return power(x, n)

    return step, lambda i: (tensor(i), 3 + i // 8), None


@program
def recursion_of_a_closure() -> Any:
    def step(x: tf.Tensor) -> Any:
        def fold(items: list[float]) -> Any:
            if not items:
                return tf.zeros([4, 3])
            head, *tail = items
            return x * head + fold(tail)

        return fold([1.0, 2.0, 3.0])

    return step, with_tensor, None


@program
def an_argument_changes_its_type() -> Any:
    def step(x: tf.Tensor, n: Any) -> Any:
        return x * n, type(n).__name__, isinstance(n, float)

    return step, lambda i: (tensor(i), [i, float(i), tf.constant(2.0)][i // 5]), None


@program
def an_argument_becomes_none() -> Any:
    def step(x: tf.Tensor, mask: Any = None) -> Any:
        if mask is None:
            return tf.reduce_sum(x)
        return tf.reduce_sum(x * mask)

    return step, lambda i: (tensor(i), tf.ones([4, 3])) if i % 3 else (tensor(i),), None


@program
def arguments_by_name_and_star() -> Any:
    def step(x: tf.Tensor, *others: tf.Tensor, scale: float = 1.0) -> Any:
        for other in others:
            x = x + other
        return x * scale, len(others)

    return step, lambda i: (tensor(i), *[tensor(i + k) for k in range(i // 5)]), None


@program
def map_filter_and_key_functions() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        words = sorted(["bb", "a", "ccc"], key=lambda word: -len(word))
        scaled = list(map(lambda f: x * f, filter(lambda f: f > 1, [1, 2, 3])))
        return words, scaled, max([3, -4], key=abs) + n

    return step, lambda i: (tensor(i), i), None


@program
def a_function_in_a_table() -> Any:
    table = {"double": lambda x: x * 2.0, "negate": lambda x: -x}

    def step(x: tf.Tensor, name: str) -> Any:
        return table[name](x)

    return step, lambda i: (tensor(i), "double" if i % 2 else "negate"), None


@program
def a_function_made_is_returned() -> Any:
    def step(x: tf.Tensor) -> Any:
        return (lambda: x * 2.0)()

    return step, with_tensor, None


@program(eager="a function made during the call outlives it", feature="ESCAPE", line="")
def a_closure_escapes() -> Any:
    def step(x: tf.Tensor) -> Any:
        return lambda: x * 2.0

    return step, with_tensor, None


@program(eager="coroutines are not converted", feature="SYNTAX", line="async def rows() -> Any:")
def coroutines() -> Any:
    class Manager:
        async def __aenter__(self) -> float:
            return 2.0

        async def __aexit__(self, *error: Any) -> None:
            return None

    async def factor() -> float:
        return 3.0

    def step(x: tf.Tensor) -> Any:
        async def rows() -> Any:
            yield x[0]
            yield x[1]

        async def later() -> tf.Tensor:
            async with Manager() as total:
                async for row in rows():
                    total = total + row * await factor()
            return total

        try:
            later().send(None)
        except StopIteration as stop:
            return stop.value

    return step, with_tensor, None


@program
def a_generator_that_delegates() -> Any:
    def step(x: tf.Tensor) -> Any:
        def rows() -> Any:
            yield from [x[0], x[1]]

        return list(rows())

    return step, with_tensor, None


@program
def a_closure_loses_a_name() -> Any:
    last: Any = None

    def step(x: tf.Tensor, n: int) -> Any:
        nonlocal last
        last = x * n
        y = last + 1.0
        del last
        return y

    return step, lambda i: (tensor(i), i), None


@program(eager="an import", feature="SYNTAX", line="import math")
def an_import_inside() -> Any:
    def step(x: tf.Tensor) -> Any:
        import math
        from math import pi as number

        return x * math.pi + number

    return step, with_tensor, None
