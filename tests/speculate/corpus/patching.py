"""What a program changes between calls of what its functions and classes are made of: methods that operators ask for,
properties, bodies, defaults, builtins.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import PROGRAMS, Program, program
from tests.speculate.corpus.basics import tensor


class _Special:
    """Has methods for operators and builtins."""

    factor = 2.0

    def __init__(self) -> None:
        self.weight = 1.5

    @property
    def doubled(self) -> float:
        return self.weight * 2.0

    def __add__(self, other: Any) -> Any:
        return other * self.weight

    def __radd__(self, other: Any) -> Any:
        return other * 3.0

    def __iadd__(self, other: Any) -> Any:
        self.weight += other
        return self

    def __neg__(self) -> float:
        return self.weight

    def __eq__(self, other: object) -> bool:
        return True

    def __lt__(self, other: Any) -> bool:
        return True

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        return iter([1.0, 2.0])

    def __reversed__(self) -> Any:
        return iter([3.0, 1.0])

    def __contains__(self, other: Any) -> bool:
        return True

    def __getitem__(self, key: int) -> float:
        return key + 2.0

    def __setitem__(self, key: int, value: float) -> None:
        self.weight = value

    def __delitem__(self, key: int) -> None:
        self.weight = 2.0

    def __call__(self, x: Any) -> Any:
        return x * self.weight

    def __enter__(self) -> float:
        return 2.0

    def __exit__(self, *_: Any) -> None:
        return None

    def __index__(self) -> int:
        return 1

    def __int__(self) -> int:
        return 4

    def __float__(self) -> float:
        return 5.0

    def __abs__(self) -> float:
        return 6.0

    def __str__(self) -> str:
        return "first"

    def __repr__(self) -> str:
        return "<first>"

    def __format__(self, specification: str) -> str:
        return "formatted"

    def method(self, x: Any) -> Any:
        return x * 3.0

    @staticmethod
    def static(x: Any) -> Any:
        return x * 4.0

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * cls.factor


def _weight_is_nine(self: Any) -> None:
    self.weight = 9.0


def _item_is_nine(self: Any, *_: Any) -> None:
    self.weight = 9.0


def _by_arithmetic(thing: Any, x: Any) -> Any:
    sum_of = thing
    sum_of += 0.25
    return (thing + x) * -thing + (1.0 + thing)


def _by_comparison(thing: Any, x: Any) -> Any:
    equal, less, true = thing == 3, thing < 3, bool(thing)
    return (x if equal else -x) + (1.0 if less else 2.0) + (3.0 if true else 4.0) + (5.0 if 3 in thing else 6.0)


def _by_members(thing: Any, x: Any) -> Any:
    thing[1] = 3.0
    del thing[0]
    return x * sum([*thing, *reversed(thing), len(thing), thing[2], [7.0, 8.0][thing]])


def _by_conversion(thing: Any, x: Any) -> Any:
    print(thing, str(thing), repr(thing), f"{thing}")
    return x * int(thing) + float(thing) + abs(thing)


def _by_call(thing: Any, x: Any) -> Any:
    with thing as held:
        made = type(thing)()
        return thing(x) * held * made.weight * thing.doubled


def _by_method(thing: Any, x: Any) -> Any:
    return thing.method(x) + thing.static(x) + thing.of_class(x) + getattr(thing, "more", 0.5)


def _patched(name: str, use: Callable[[Any, Any], Any], patches: list[tuple[str, Any]]) -> None:
    """Registers a program whose class gets something else every other call, from the sixth on."""

    def make() -> Any:
        kind: Any = type("Patched", (_Special,), {"__module__": __name__})
        thing = kind()

        def step(x: tf.Tensor) -> Any:
            return use(thing, x)

        def arguments(i: int) -> tuple[tf.Tensor]:
            if i >= 5 and i % 2 and patches[(i - 5) // 2 :]:
                setattr(kind, *patches[(i - 5) // 2])
            return (tensor(i),)

        return step, arguments, thing

    PROGRAMS[name] = Program(name, make, True)


_patched(
    "methods_of_arithmetic_are_patched",
    _by_arithmetic,
    [
        ("__add__", lambda self, other: other * 7.0),
        ("__radd__", lambda self, other: 9.0),
        ("__neg__", lambda self: 8.0),
        ("__iadd__", lambda self, other: self),
    ],
)
_patched(
    "methods_of_comparison_are_patched",
    _by_comparison,
    [
        ("__eq__", lambda self, other: False),
        ("__lt__", lambda self, other: False),
        ("__bool__", lambda self: False),
        ("__contains__", lambda self, other: False),
    ],
)
_patched(
    "methods_of_iteration_are_patched",
    _by_members,
    [
        ("__iter__", lambda self: iter([4.0])),
        ("__reversed__", lambda self: iter([0.5])),
        ("__len__", lambda self: 5),
        ("__index__", lambda self: 0),
    ],
)
_patched(
    "methods_of_items_are_patched",
    _by_members,
    [("__getitem__", lambda self, key: 9.0), ("__setitem__", _item_is_nine), ("__delitem__", _item_is_nine)],
)
_patched(
    "methods_of_conversion_are_patched",
    _by_conversion,
    [
        ("__str__", lambda self: "second"),
        ("__int__", lambda self: 7),
        ("__float__", lambda self: 8.0),
        ("__abs__", lambda self: 9.0),
        ("__format__", lambda self, specification: "again"),
    ],
)
_patched(
    "methods_of_calls_are_patched",
    _by_call,
    [
        ("__call__", lambda self, x: x * 5.0),
        ("__enter__", lambda self: 6.0),
        ("__init__", _weight_is_nine),
        ("doubled", property(lambda self: 7.0)),
    ],
)
_patched(
    "methods_of_all_kinds_are_patched",
    _by_method,
    [
        ("method", lambda self, x: x * 5.0),
        ("static", staticmethod(lambda x: x * 6.0)),
        ("of_class", classmethod(lambda cls, x: x * 7.0)),
        ("more", 2.0),
        ("__getattr__", lambda self, name: 3.0),
    ],
)


@program
def methods_are_added() -> Any:
    """Truth, equality and the setting of attributes are as all objects have them, until the class says more."""

    class Plain:
        def __init__(self) -> None:
            self.weight = 1.5

    one = Plain()
    patches: dict[int, tuple[str, Any]] = {
        6: ("__len__", lambda self: 0),
        8: ("__bool__", lambda self: True),
        10: ("__eq__", lambda self, other: False),
        12: ("weight", property(lambda self: 9.0, lambda self, value: None)),
    }

    def step(x: tf.Tensor) -> Any:
        one.weight = 3.0
        same = one == one
        return (x if one else -x) * (2.0 if same else 3.0) * one.weight

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i in patches:
            setattr(Plain, *patches[i])
        return (tensor(i),)

    return step, arguments, []


@program
def what_super_finds_is_patched() -> Any:
    class First:
        def twice(self, x: tf.Tensor) -> Any:
            return x * 2.0

    class Second(First):
        pass

    class Third(Second):
        def twice(self, x: tf.Tensor) -> Any:
            return super().twice(x) + 1.0

    third = Third()

    def step(x: tf.Tensor) -> Any:
        return third.twice(x)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 7:
            First.twice = lambda self, x: x * 9.0  # type: ignore[method-assign]
        if i == 10:
            Second.twice = lambda self, x: x * 5.0  # type: ignore[method-assign]
        return (tensor(i),)

    return step, arguments, []


@program
def a_descriptor_and_a_metaclass_are_patched() -> Any:
    class Constant:
        def __init__(self, value: float) -> None:
            self.value = value

        def __get__(self, owner: Any, kind: Any) -> float:
            return self.value

    class Meta(type):
        def __len__(cls) -> int:
            return 2

        @property
        def size(cls) -> float:
            return 3.0

    class Holder(metaclass=Meta):
        constant = Constant(2.0)

    holder = Holder()

    def step(x: tf.Tensor) -> Any:
        return x * holder.constant + len(Holder) * Holder.size

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 6:
            Holder.constant = Constant(5.0)
        if i == 8:
            Constant.__get__ = lambda self, owner, kind: 9.0  # type: ignore[method-assign]
        if i == 10:
            Meta.__len__ = lambda cls: 4  # type: ignore[method-assign]
        if i == 12:
            Meta.size = property(lambda cls: 5.0)  # type: ignore[method-assign, assignment]
        return (tensor(i),)

    return step, arguments, []


@program
def what_follows_the_init_of_a_dataclass_is_patched() -> Any:
    @dataclasses.dataclass
    class Record:
        value: float = 1.0

        def __post_init__(self) -> None:
            self.value += 1.0

    def more(self: Any) -> None:
        self.value += 5.0

    def step(x: tf.Tensor) -> Any:
        return Record().value * x

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 8:
            Record.__post_init__ = more  # type: ignore[method-assign]
        return (tensor(i),)

    return step, arguments, []


@program
def builtins_are_replaced() -> Any:
    """By a global name of the module, and for everybody."""
    names, own = globals(), builtins.divmod

    def step(x: tf.Tensor) -> Any:
        return tf.reduce_sum(x) * divmod(7, 2)[0] + max(3, 2)

    def arguments(i: int) -> tuple[tf.Tensor]:
        builtins.divmod = own if i != 6 else lambda *_: (9, 9)
        if i == 9:
            names["max"] = lambda *values: min(values)
        if i == 12:
            del names["max"]
        return (tensor(i),)

    return step, arguments, []


def _bodies() -> tuple[Any, Any]:
    def doubled(x: Any, factor: float = 1.0, *, more: float = 0.0) -> Any:
        return x * 2.0 * factor + more

    def other(x: Any, factor: float = 1.0, *, more: float = 0.0) -> Any:
        return x * 5.0 - factor + more

    return doubled, other


@program
def defaults_and_a_body_are_replaced() -> Any:
    callee, other = _bodies()

    def step(x: tf.Tensor) -> Any:
        return callee(x)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 6:
            callee.__defaults__ = (3.0,)
        if i == 8:
            callee.__kwdefaults__["more"] = 2.0
        if i == 10:
            callee.__code__ = other.__code__
        if i == 12:
            callee.__kwdefaults__ = {"more": 4.0}
        return (tensor(i),)

    return step, arguments, []


@program
def defaults_and_body_of_the_step_are_replaced() -> Any:
    step, other = _bodies()

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 6:
            step.__defaults__ = (3.0,)
        if i == 10:
            step.__code__ = other.__code__
        return (tensor(i),)

    return step, arguments, []
