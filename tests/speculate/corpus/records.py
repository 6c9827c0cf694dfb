"""Named tuples, data classes, enumerations, namespaces, types."""

from __future__ import annotations

import abc
import argparse
import collections
import dataclasses
import enum
import functools
import types
import typing
from typing import Any, NamedTuple

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number


class Pt(NamedTuple):
    x: Any
    y: Any = 1.0

    @property
    def norm(self):
        return self.x * self.x + self.y

    def scaled(self, k):
        return self._replace(x=self.x * k)


@dataclasses.dataclass
class DC:
    a: Any
    b: list = dataclasses.field(default_factory=list)
    c: Any = 3.0
    d: Any = dataclasses.field(init=False, default=None)

    def __post_init__(self):
        self.d = self.a * 2


@dataclasses.dataclass(frozen=True, order=True)
class FO:
    k: int
    v: float = 0.0


@dataclasses.dataclass(slots=True)
class SL:
    a: Any
    n: int = 0


class Color(enum.Enum):
    RED = 1
    GREEN = 2

    @property
    def nice(self):
        return self.name.lower()


class IE(enum.IntEnum):
    ONE = 1
    TWO = 2


class Flag(enum.IntFlag):
    A = 1
    B = 2


@program
def named_tuple_class() -> Any:

    def step(x, n):
        p = Pt(x)
        q = p._replace(y=n)
        a, b = q
        return (
            p.norm,
            q,
            q.scaled(2.0).x,
            Pt._make([1, 2]),
            p._fields,
            q[0],
            len(q),
            q._asdict(),
            Pt(x=1, y=2) == Pt(1, 2),
            (1, 2) == Pt(1, 2),
        )

    return (step, with_number, None)


@program
def dataclass_factory() -> Any:

    def step(x, n):
        o = DC(x)
        o.b.append(n)
        p = DC(1.0, c=n)
        p.b.append(x)
        return (o, p, o.b is not p.b, repr(DC(1)))

    return (step, with_number, None)


@program
def dataclass_frozen_order() -> Any:

    def step(x, n):
        a, b = (FO(1, 2.0), FO(n))
        o = dataclasses.replace(a, v=5.0)
        return (
            x,
            a < b,
            a == FO(1, 2.0),
            max(a, b).k,
            sorted([b, a, o])[0].v,
            hash(a) == hash(FO(1, 2.0)),
            {a: 1}[FO(1, 2.0)],
            dataclasses.asdict(o),
            dataclasses.astuple(a),
        )

    return (step, with_number, None)


@program
def dataclass_slots() -> Any:
    o = SL(tf.zeros([3]))

    def step(x):
        o.n += 1
        o.a = o.a + x[0]
        p = SL(x, 2)
        p.n *= 3
        return (o.a * o.n, p)

    return (step, with_tensor, o)


@program
def enums() -> Any:

    def step(x, c):
        if c is Color.RED:
            x = x * 2.0
        elif c == Color.GREEN:
            x = x * 3.0
        return (
            x,
            c.name,
            c.value,
            c.nice,
            Color(1) is Color.RED,
            Color["GREEN"],
            IE.TWO + 1,
            len(list(Color)),
            {Color.RED: 1}[Color.RED],
            Flag.A | Flag.B,
            isinstance(c, Color),
        )

    return (step, lambda i: (tensor(i), Color.RED if i % 3 else Color.GREEN), None)


@program
def enum_attr() -> Any:
    m = types.SimpleNamespace(mode=Color.RED)

    def step(x, n):
        m.mode = Color.GREEN if m.mode is Color.RED else Color.RED
        return x * m.mode.value

    return (step, with_number, m)


@program
def type_checks() -> Any:

    class K:
        pass

    class K2(K):
        z = 1

    o = K2()

    def step(x, n):
        return (
            x,
            isinstance(o, K),
            issubclass(K2, K),
            type(o) is K2,
            type(n)(3.7),
            type(o).__name__,
            o.__class__.__name__,
            hasattr(o, "z"),
            getattr(o, "q", None),
            callable(step),
            isinstance(x, tf.Tensor),
            isinstance(n, (int, str)),
            isinstance(x, tf.Variable),
            type(x) is type(x),
            isinstance(step, types.FunctionType),
            type([1])([2, n]),
            type(None) is type(None),
            bool(K),
        )

    return (step, with_number, None)


@program
def set_del_attr() -> Any:
    o = types.SimpleNamespace()

    def step(x, n):
        setattr(o, "k%d" % (n % 2), n)
        setattr(o, "z", x)
        if hasattr(o, "z"):
            delattr(o, "z")
        o.__dict__["w"] = n
        v = vars(o)["w"]
        return (x * v, getattr(o, "w"), sorted(o.__dict__), o.__dict__.get("nope"))

    return (step, with_number, o)


@program
def argparse_ns() -> Any:
    a = argparse.Namespace(lr=0.1, name="q")

    def step(x):
        return (x * a.lr, a.name, hasattr(a, "zz"), vars(a)["lr"])

    def args(i):
        if i == 6:
            a.lr = 0.5
        if i == 9:
            a.name = "r"
        return with_tensor(i)

    return (step, args, a)


@program
def cached_prop() -> Any:

    class M:
        def __init__(self):
            self.n = 0

        @functools.cached_property
        def w(self):
            self.n += 1
            return self.n * 2.0

    def step(x):
        m = M()
        return (x * m.w * m.w, m.n)

    return (step, with_tensor, None)


@program
def cached_prop_heap() -> Any:

    class M:
        def __init__(self):
            self.n = 0

        @functools.cached_property
        def w(self):
            self.n += 1
            return self.n * 2.0

    m = M()

    def step(x):
        return x * m.w

    def args(i):
        if i == 6:
            del m.__dict__["w"]
        return with_tensor(i)

    return (step, args, m)


@program
def singledispatch() -> Any:

    @functools.singledispatch
    def f(v):
        return "obj"

    @f.register
    def _(v: int):
        return "int"

    @f.register
    def _(v: str):
        return "str"

    def step(x, v):
        return (x, f(v))

    return (step, lambda i: (tensor(i), [1, "a", 2.0][i % 3]), None)


@program
def abc_class() -> Any:

    class Base(abc.ABC):
        @abc.abstractmethod
        def f(self, x): ...

        def g(self, x):
            return self.f(x) + 1.0

    class D(Base):
        def f(self, x):
            return x * 2.0

    d = D()

    def step(x):
        return (d.g(x), D().f(x), isinstance(d, Base))

    return (step, with_tensor, None)


@program
def typing_stuff() -> Any:
    V = typing.TypeVar("V")

    class Box(typing.Generic[V]):
        def __init__(self, v: V) -> None:
            self.v: V = v

    class TD(typing.TypedDict):
        a: int

    def step(x: tf.Tensor, n: int) -> Any:
        b: Box[int] = Box(n)
        z: typing.Optional[int] = None
        d: TD = {"a": n}
        e = TD(a=1)
        return (x * typing.cast(float, b.v), d, z, e)

    return (step, with_number, None)


@program(eager="mul of SymbolicTensor and F", feature="OPERATOR", line="return Int(int(self) * 10 + o)")
def subclass_numbers() -> Any:

    class Int(int):
        def __add__(self, o):
            return Int(int(self) * 10 + o)

    class F(float):
        pass

    class S(str):
        def shout(self):
            return self.upper() + "!"

    i = Int(3)
    f = F(2.0)
    t = S("ab")

    def step(x, n):
        return (x * f, i + n, t.shout(), t + "c", i * 2, f"{t}", isinstance(i, int), int(i), t == "ab", f > 1)

    return (step, with_number, None)


SCALE = 1.0


@program
def records_and_members_with_operators() -> Any:
    calls: list[str] = []

    class Vector(collections.namedtuple("Vector", "x y")):
        def __add__(self, other: Any) -> Any:
            calls.append("add")
            return Vector((self.x + other.x) * SCALE, (self.y + other.y) * SCALE)

        def __rmul__(self, other: Any) -> Any:
            return Vector(self.x * other, self.y * other)

        @property
        def y(self) -> Any:
            return self[1] * 10.0

    class Size(enum.Enum):
        S = 1
        L = 3

        def __lt__(self, other: Any) -> Any:
            calls.append("lt")
            return self.value < other.value

        @enum.property
        def scaled(self) -> float:
            return self._value_ * SCALE

    def arguments(i: int) -> Any:
        global SCALE
        SCALE = 3.0 if i > 8 else 1.0
        return (tensor(i),)

    def step(x: tf.Tensor) -> Any:
        v = Vector(x, x * 2.0) + 2.0 * Vector(x, 1.0)
        return v.x, v.y, tuple(v), Size.S < Size.L, x * Size.L.scaled

    return step, arguments, calls


@program(eager="the record gives its members itself", feature="CONTAINER", line="a, b = Doubled(x, x + 1.0)")
def record_with_an_iterator_of_its_own() -> Any:
    class Doubled(collections.namedtuple("Doubled", "x y")):
        def __iter__(self) -> Any:
            return iter([self[0] * 2.0, self[1] * 2.0])

    def step(x: tf.Tensor) -> Any:
        a, b = Doubled(x, x + 1.0)
        return a, b

    return step, with_tensor, None
