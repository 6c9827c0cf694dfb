"""In which order Python evaluates, how often it asks, and what it asks first."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import with_tensor


@program
def key_before_value() -> Any:
    def step(x: tf.Tensor) -> Any:
        it = iter([1, 2, 3, 4])
        return {next(it): next(it), next(it): x * 2.0}

    return step, with_tensor, None


@program
def decorators_before_defaults() -> Any:
    log: list[str] = []

    def noting(name: str) -> Any:
        log.append(name)

        def apply(function: Any) -> Any:
            log.append(f"apply {name}")
            return function

        return apply

    def step(x: tf.Tensor) -> Any:
        @noting("a")
        @noting("b")
        def inner(y: Any = log.append("default")) -> Any:
            return x * 2.0

        return inner()

    return step, with_tensor, log


@program
def truths_are_asked_once() -> Any:
    log: list[str] = []

    class Flag:
        def __init__(self, name: str, value: bool) -> None:
            self.name, self.value = name, value

        def __bool__(self) -> bool:
            log.append(self.name)
            return self.value

    a, b = Flag("a", False), Flag("b", True)

    def step(x: tf.Tensor) -> Any:
        if a and b:
            x = x + 1.0
        assert b or a
        return x * (2.0 if not (a and b) else 3.0)

    return step, with_tensor, log


@program
def names_of_builtins_are_the_programs() -> Any:
    def step(x: tf.Tensor) -> Any:
        bool = 0
        if x is not None:
            bool = 1
        return x * float(bool)

    return step, with_tensor, None


@program
def names_are_bound_by_whole_patterns() -> Any:
    held = {"k": 1, "m": 2, "n": 3}

    def step(x: tf.Tensor) -> Any:
        a, k, rest = 5.0, "before", None
        match (7.0, 2):
            case [a, 1]:
                x = x + 1.0
        match held:
            case {"k": k, "m": 5, **rest}:
                x = x + 1.0
        return x * a, k, rest

    return step, with_tensor, held


@program
def derived_class_without_a_reflected_method_of_its_own() -> Any:
    class A:
        def __init__(self, v: Any) -> None:
            self.v = v

        def __add__(self, other: Any) -> Any:
            return self.v * 10.0 + other.v

        def __radd__(self, other: Any) -> Any:
            return self.v * 1000.0 + other.v

    class B(A):
        pass

    class C(A):
        def __radd__(self, other: Any) -> Any:
            return self.v * 7.0 + other.v

    return lambda x: (A(x) + B(x + 1.0), A(x) + C(x + 1.0)), with_tensor, None


@program
def contains_gives_a_bool() -> Any:
    class Box:
        def __contains__(self, v: Any) -> Any:
            return v

    box = Box()
    return lambda x: (x * 1.0, 5 in box, "" in box, operator_contains(box)), with_tensor, None


def operator_contains(box: Any) -> bool:
    return (3 in box) is True


class Options:
    """A mapping of the program's."""

    def __init__(self) -> None:
        self.scale, self.asked = 2.0, 0

    def keys(self) -> list[str]:
        self.asked += 1
        return ["scale", "shift"]

    def __getitem__(self, key: str) -> float:
        return self.scale if key == "scale" else 1.0


@program
def mappings_of_the_programs() -> Any:
    options = Options()

    def scaled(x: tf.Tensor, scale: float, shift: float) -> tf.Tensor:
        return x * scale + shift

    def step(x: tf.Tensor) -> Any:
        updated: dict[str, Any] = {}
        updated.update(options)
        options.scale = options.scale + 1.0
        return scaled(x, **options), {"a": 1, **options}, dict(options), updated

    return step, with_tensor, options


@program
def members_of_the_programs() -> Any:
    log: list[int] = []

    class Source:
        def __init__(self) -> None:
            self.values = [1.0, 2.0]

        def __iter__(self) -> Any:
            log.append(len(self.values))
            return iter(self.values)

    source = Source()

    def step(x: tf.Tensor) -> Any:
        members = {0.0}
        members.update(source)
        return x * max(members), members

    return step, with_tensor, log


@program(eager="it raises", feature="RAISES", line="return x + 1.0, scaled(x, scale=2.0, **more)")
def a_keyword_twice() -> Any:
    more = {"scale": 3.0}

    def scaled(x: tf.Tensor, scale: float) -> tf.Tensor:
        return x * scale

    def step(x: tf.Tensor) -> Any:
        try:
            return x + 1.0, scaled(x, scale=2.0, **more)
        except TypeError:
            return x - 1.0

    return step, with_tensor, None


class Base:
    def __init__(self, v: float) -> None:
        self.v = v

    def value(self) -> float:
        return self.v


class Child(Base):
    def run(self, x: tf.Tensor, other: Child) -> Any:
        def of(one: Child) -> float:
            return super().value()

        return x * of(other)


@program(eager="it asks the inner function's argument", feature="SUPER", line="return super().value()")
def super_in_an_inner_function() -> Any:
    a, b = Child(2.0), Child(30.0)
    return lambda x: a.run(x, b), with_tensor, None


@program
def functions_outlive_their_rounds() -> Any:
    def step(x: tf.Tensor) -> Any:
        functions: list[Any] = []
        seen = []
        for k in range(3):
            v = tf.add(x, float(k)) * 2.0
            functions.append(lambda: v)
            seen.append(functions[0]())
        return [function() for function in functions], seen

    return step, with_tensor, None


@program(eager="it looks at its names", feature="FOREIGN_FUNCTION", line="return sorted(locals())")
def inner_function_looks_at_its_names() -> Any:
    held = [0]

    def step(x: tf.Tensor) -> Any:
        def inner(y: tf.Tensor) -> Any:
            y += 1.0
            held[0] += 1
            return sorted(locals())

        return x * 2.0, inner(x)

    return step, with_tensor, held


@program
def iterators_end_with_their_loops() -> Any:
    log: list[str] = []

    def numbers(x: tf.Tensor) -> Any:
        try:
            yield x
            yield x + 1.0
        finally:
            log.append("closed")

    def step(x: tf.Tensor) -> Any:
        total = x
        for y in numbers(x):
            total = tf.add(total, y)
            break
        log.append("after")
        return total

    return step, with_tensor, log
