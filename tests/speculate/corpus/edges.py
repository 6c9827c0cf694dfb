"""Classes at the edges: containers with methods of their own, `super()`, objects without a place for an attribute."""

from __future__ import annotations

import collections
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import with_tensor
from tests.speculate.corpus.containers import with_number


@program(eager="methods of its own that write", feature="CONTAINER", line="super().__setitem__(key, value * 2)")
def a_dict_that_writes_its_own_way() -> Any:
    class Doubling(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            super().__setitem__(key, value * 2)

    table = Doubling()

    def step(x: tf.Tensor, n: int) -> Any:
        table["k"] = n
        table["k"] += 1
        return x * table["k"]

    return step, with_number, table


@program
def what_super_has() -> Any:
    class Base:
        def twice(self, x: Any) -> Any:
            return x * 2.0

    class Derived(Base):
        def twice(self, x: Any) -> Any:
            found = super().twice(x) if hasattr(super(), "twice") else x
            return found if hasattr(super(), "thrice") else -found

    one = Derived()

    def step(x: tf.Tensor) -> Any:
        return one.twice(x), hasattr(x, "numpy"), getattr(x, "numpy", None) is None

    return step, with_tensor, []


@program
def no_place_for_an_attribute() -> Any:
    class Small:
        __slots__ = ("value",)

        def __init__(self) -> None:
            self.value = 1.0

        def method(self) -> None:
            return None

    one = Small()

    def step(x: tf.Tensor, n: int) -> Any:
        one.value += n
        try:
            if n == 2:
                one.other = 1  # type: ignore[attr-defined]
            if n == 1:
                one.method = 1  # type: ignore[assignment, method-assign]
        except AttributeError as error:
            return str(error)
        return x * one.value

    return step, with_number, one


@program
def attributes_of_collections() -> Any:
    recent: Any = collections.deque([1.0], maxlen=2)
    order = collections.OrderedDict(a=1, b=2, c=3)
    made = collections.defaultdict(lambda: 2.0)

    def step(x: tf.Tensor, n: int) -> Any:
        recent.append(float(n))
        order.move_to_end("abc"[n % 3], last=n % 3 != 1)
        full = len(recent) == recent.maxlen
        return x * (3.0 if full else 1.0), list(order), made.default_factory is None, recent.maxlen

    def arguments(i: int) -> Any:
        if i == 8:
            made.default_factory = None
        return with_number(i)

    return step, arguments, [recent, order]
