"""Patterns of every kind."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import enum
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number


class Col(enum.Enum):
    R = 1
    G = 2


@dataclasses.dataclass
class Pnt:
    x: Any
    y: Any = 0


class MA:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b


@program
def match_all() -> Any:

    def f(v):
        match v:
            case Col.R:
                return "red"
            case 0 | 1 as k:
                return ("small", k)
            case -1:
                return "neg"
            case 2.5:
                return "float"
            case True:
                return "never"
            case str(s) if len(s) > 3:
                return ("long", s)
            case "a" | "b" as s:
                return s
            case None:
                return "none"
            case bytes():
                return "bytes"
            case int(n) if n > 5:
                return ("big", n)
            case int():
                return "int"
            case _:
                return "other"

    vals = [Col.R, 0, 1, -1, 2.5, True, "abcd", "a", "zz", None, b"x", 9, 3, 4.5]

    def step(x, n):
        return (x * n, [f(v) for v in vals], f(n))

    return (step, with_number, None)


@program
def match_structures() -> Any:

    def f(v):
        match v:
            case [Pnt(x=1), *_]:
                return "point list"
            case Pnt(x, y=0):
                return ("xaxis", x)
            case Pnt(x=0, y=yy):
                return ("yaxis", yy)
            case MA(a, MA(b=c)):
                return ("nested", a, c)
            case {"k": [a, b, *r], **rest}:
                return (a, b, r, rest)
            case {"only": int(z)}:
                return z
            case {}:
                return "dict"
            case []:
                return "empty"
            case [x]:
                return ("one", x)
            case [x, [y, *z], *w]:
                return (x, y, z, w)
            case [x, y] if x == y:
                return "pair same"
            case [1 | 2, _] as t:
                return ("t", t)
            case _:
                return "other"

    vals = [
        [Pnt(1, 2), 3],
        Pnt(3),
        Pnt(0, 4),
        MA(1, MA(2, 3)),
        {"k": [1, 2, 3], "z": 1},
        {"only": 3},
        {"q": 1},
        [],
        [9],
        [1, [2, 3, 4], 5, 6],
        (3, 3),
        (1, 4),
        (7, 8),
    ]

    def step(x, n):
        return (x * n, [f(v) for v in vals], f((n, 2)))

    return (step, with_number, None)


@program
def match_seq_arg() -> Any:

    def step(x, cmd):
        match cmd:
            case ["mul", float(k)]:
                return x * k
            case ["add", k, *more] if not more:
                return x + k
            case ["add", *ks]:
                return x + sum(ks)
            case {"op": "neg"}:
                return -x
            case _:
                return x

    cs = [["mul", 2.0], ["add", 1], ["add", 1, 2], {"op": "neg"}, "mul"]
    return (step, lambda i: (tensor(i), cs[i % 5]), None)


@program
def match_tensor_class() -> Any:

    def step(x, v):
        match v:
            case tf.Tensor():
                return x + v
            case int() | float():
                return x * v
            case None:
                return x

    return (step, lambda i: (tensor(i), [tf.constant(2.0), 3, None, 0.5][i % 4]), None)


@program
def match_other_sequences() -> Any:
    """Deques and ranges are sequences for a pattern; texts, sets and iterators are none."""
    seen: list[Any] = []
    recent = collections.deque([0], maxlen=2)

    def step(x: tf.Tensor, n: int, name: str) -> Any:
        recent.append(n)
        for subject in (recent, range(n), name.split("-"), name, {1, 2}, b"ab"):
            match subject:
                case [a, b]:
                    seen.append(("two", a, b))
                case []:
                    seen.append("none")
                case [a, *others]:
                    seen.append((a, len(others)))
                case _:
                    seen.append("no sequence")
        return x

    return step, lambda i: (tensor(i), i % 3, "-".join("abc"[: 1 + i % 3])), [seen, recent]


@program
def match_what_the_graph_knows() -> Any:
    """True, False and several values at once of what comes out of the graph; identity as in an expression."""

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        positive, whole = bool(s > 0.0), int(s)
        match positive:
            case True:
                y = x
            case False:
                y = -x
        match whole:
            case -1 | 1:
                y = y * 2.0
            case 0:
                y = y + 1.0
        match float(s):
            case int():
                y = y * 100.0
            case float(value) if value < 0.0:
                y = y - 3.0
        return y * (2.0 if positive is True else 3.0) * (5.0 if positive is not False else 7.0)

    return step, lambda i: (tensor(i), tf.constant(float(i % 3) - 1.0)), []


class _Pair:
    __match_args__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


class _Integer(int):
    pass


@program
def match_classes() -> Any:
    """An attribute that is not there does not match, too many places raise, a subclass of int stands for itself."""
    seen: list[Any] = []
    things = [_Integer(3), frozenset([1]), {2}, 2.5, "text"]

    def step(x: tf.Tensor, n: int) -> Any:
        match _Pair(n, x):
            case _Pair(c=_):
                seen.append("c")
            case _Pair(1, _):
                seen.append("one")
            case _Pair(0, y) | _Pair(2, y):
                seen.append(tf.reduce_sum(y))
        for thing in things:
            match thing:
                case int(whole):
                    seen.append(type(whole).__name__)
                case frozenset(inside) | set(inside):
                    seen.append(len(inside))
                case str() | float() as other:
                    seen.append(other)
        try:
            match _Pair(1, 2):
                case _Pair(_, _, _):
                    seen.append("three")
        except TypeError as error:
            seen.append(str(error))
        return x * n

    return step, lambda i: (tensor(i), i % 3), seen


@program(eager="as a sequence", feature="MATCH", line="match members:")
def match_users_sequences() -> Any:
    class Members(collections.abc.Sequence[int]):
        def __init__(self, inside: list[int]) -> None:
            self.inside = inside

        def __getitem__(self, index: Any) -> Any:
            return self.inside[index]

        def __len__(self) -> int:
            return len(self.inside)

    members, seen = Members([1, 2, 3]), []

    def step(x: tf.Tensor) -> Any:
        match members:
            case [first, *others]:
                seen.append((first, others))
        return x

    return step, with_tensor, seen


@dataclasses.dataclass
class _Circle:
    radius: Any


@dataclasses.dataclass(frozen=True)
class _Box:
    width: Any
    height: Any


@program
def data_of_several_kinds() -> Any:
    """The method that a dataclass has for `==` leaves texts, tuples and other dataclasses to them."""
    things = [_Circle(2.0), _Box(2.0, tf.constant(3.0)), ("pair", 1.0, 2.0), "text"]

    def step(thing: Any, x: tf.Tensor) -> Any:
        match thing:
            case "text":
                found = x
            case ("pair", one, other):
                found = x * one + other
            case _Circle(radius):
                found = x * radius
            case _Box(width=2.0, height=height):
                found = x - height
        return found, thing == "text", ("pair",) == thing, thing != _Circle(1.0), thing in ("a", _Circle(2.0))

    return step, lambda i: (things[i % 4], tensor(i)), None
