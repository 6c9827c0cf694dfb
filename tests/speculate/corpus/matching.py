"""Patterns of every kind."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor
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
