"""Classes: operators, descriptors, enumerations, data classes, what builtins ask objects for."""

from __future__ import annotations

import types
from typing import Any

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number


class PS:
    def __init__(self):
        self._v = 1.0
        self.sets = 0

    @property
    def v(self):
        return self._v

    @v.setter
    def v(self, value):
        self._v = value
        self.sets += 1

    @v.deleter
    def v(self):
        self._v = 0.0


class CM:
    count = 0
    reg = {}

    @classmethod
    def make(cls, k):
        cls.count += 1
        o = cls()
        o.k = k
        return o

    @staticmethod
    def twice(a):
        return a * 2

    def apply(self, x):
        return self.twice(x) * self.k


class CM2(CM):
    @classmethod
    def make(cls, k):
        o = super().make(k)
        o.k += 1
        return o


class Vec:
    __slots__ = ("d",)

    def __init__(self, d):
        self.d = list(d)

    def __getitem__(self, i):
        return self.d[i]

    def __setitem__(self, i, v):
        self.d[i] = v

    def __delitem__(self, i):
        del self.d[i]

    def __len__(self):
        return len(self.d)

    def __contains__(self, v):
        return v in self.d

    def __iter__(self):
        return iter(self.d)

    def __add__(self, o):
        return Vec((a + b for a, b in zip(self, o)))

    def __radd__(self, o):
        return Vec((o + a for a in self))

    def __iadd__(self, o):
        self.d = [a + o for a in self.d]
        return self

    def __mul__(self, k):
        return Vec([a * k for a in self])

    __rmul__ = __mul__

    def __matmul__(self, o):
        return sum((a * b for a, b in zip(self, o)))

    def __neg__(self):
        return self * -1

    def __eq__(self, o):
        return isinstance(o, Vec) and self.d == o.d

    def __hash__(self):
        return hash(tuple(self.d))

    def __bool__(self):
        return any(self.d)

    def __call__(self, x):
        return x * self.d[0]

    def __repr__(self):
        return f"Vec({self.d})"

    def __lt__(self, o):
        return self.d < o.d

    def __abs__(self):
        return sum(map(abs, self.d))

    def __reversed__(self):
        return iter(self.d[::-1])

    def __int__(self):
        return int(self.d[0])

    def __float__(self):
        return float(self.d[0])

    def __index__(self):
        return int(self.d[0])

    def __round__(self, n=0):
        return round(self.d[0], n)

    def __divmod__(self, o):
        return divmod(self.d[0], o)


class Desc:
    def __set_name__(self, owner, name):
        self.n = "_" + name

    def __get__(self, o, t=None):
        return self if o is None else o.__dict__.get(self.n, 0) + 100

    def __set__(self, o, v):
        o.__dict__[self.n] = v


class HasDesc:
    f = Desc()


class Meta(type):
    registry = []

    def __new__(m, n, b, d):
        c = super().__new__(m, n, b, d)
        m.registry.append(n)
        return c

    @property
    def desc(cls):
        return cls.__name__ + "!"

    def __len__(cls):
        return 7


class WithMeta(metaclass=Meta):
    scale = 2.0


class A0:
    def f(self, x):
        return (["A"], x + 1.0)


class B0(A0):
    def f(self, x):
        row, y = super().f(x)
        return (["B"] + row, y * 2.0)


class C0(A0):
    def f(self, x):
        row, y = super().f(x)
        return (["C"] + row, y * 3.0)


class D0(B0, C0):
    def f(self, x):
        row, y = super().f(x)
        return (["D"] + row, y - 1.0)


@program
def prop_set_del() -> Any:
    o = PS()

    def step(x):
        o.v += 1.0
        y = x * o.v
        if o.v > 5:
            del o.v
        return y

    return (step, with_tensor, o)


@program
def classmethods() -> Any:
    CM.count = 0
    if "count" in CM2.__dict__:
        del CM2.count

    def step(x):
        return (CM2.make(2.0).apply(x) + CM.make(1.0).apply(x), CM.count, CM2.count)

    return (step, with_tensor, None)


@program
def vec_ops() -> Any:
    v = Vec([1.0, 2.0])

    def step(x, n):
        global w
        w = v + Vec([n, n])
        u = 2.0 * w
        t = w @ u
        r = 1.0 + w
        w += 1.0
        v[0] = v[0] + 1.0
        a, b = w
        return (x * t, a, b, r.d, u.d, len(v), 2.0 in v, v == Vec([1, 2]), bool(v), not Vec([0]), v(x), -u[0])

    return (step, with_number, v)


@program
def vec_more() -> Any:

    def step(x, n):
        v = Vec([3.0, n])
        return (
            x * abs(v),
            list(reversed(v)),
            int(v),
            float(v),
            [1, 2, 3, 4, 5][v],
            round(v, 1),
            divmod(v, 2),
            v < Vec([9]),
            repr(v),
            str(v),
            f"{v}",
            sorted([Vec([2]), Vec([1])])[0].d,
        )

    return (step, with_number, None)


@program(eager="the class Vec has a hash of its own", feature="KEY", line="d = {Vec([1]): x, Vec([2]): 2.0}")
def vec_hash() -> Any:

    def step(x):
        d = {Vec([1]): x, Vec([2]): 2.0}
        s = {Vec([1]), Vec([1])}
        return (d[Vec([1])], len(s), Vec([2]) in d)

    return (step, with_tensor, None)


@program
def descriptors() -> Any:
    o = HasDesc()

    def step(x, n):
        o.f = n
        return x * o.f

    return (step, with_number, o)


@program
def metaclass() -> Any:

    def step(x):
        return (x * WithMeta.scale, WithMeta.desc, len(WithMeta), Meta.registry[0], WithMeta().scale)

    return (step, with_tensor, None)


@program
def diamond() -> Any:
    d = D0()

    def step(x):
        return (d.f(x), super(B0, d).f(x), isinstance(d, C0), [k.__name__ for k in D0.__mro__])

    return (step, with_tensor, None)


@program(eager="builtins: id is not known", feature="FOREIGN_FUNCTION", line="id(a) == id(b),")
def identity_id() -> Any:
    a = [1]
    b = a

    def step(x, n):
        c = [1]
        t = (a, c)
        return (
            x,
            a is b,
            a is c,
            id(a) == id(b),
            a is not None,
            t[0] is a,
            x is x,
            None is n,
            () == (),
            c == a,
            n is True,
        )

    return (step, with_number, None)


@program
def identity_of_attrs() -> Any:
    o = types.SimpleNamespace(a=[1], b=[1])

    def step(x):
        return (x * 2.0 if o.a is o.b else x, o.a == o.b)

    def args(i):
        if i == 6:
            o.b = o.a
        if i == 9:
            o.b = [2]
        return with_tensor(i)

    return (step, args, o)


@program
def identity_of_tensors() -> Any:

    def step(x, y):
        return x * 2.0 if x is y else x + y

    def args(i):
        t = tensor(i)
        return (t, t) if i in (6, 7, 9) else (t, tensor(i + 1))

    return (step, args, None)


@program
def shadowing() -> Any:

    class M:
        k = 1.0
        row = []

        def f(self, x):
            return x * self.k

    m = M()
    M.l = []
    M.k = 1.0

    def step(x, n):
        if n == 7:
            m.k = 5.0
        if n == 10:
            del m.k
        m.l.append(n)
        y = m.f(x)
        if n % 4 == 1:
            M.k += 1.0
        return (y, "k" in m.__dict__, M.k)

    return (step, with_number, [m, M.l])


@program
def method_in_dict() -> Any:

    class M:
        def __init__(self):
            self.n = 0
            self.t = {"a": self.inc, "b": M.dec}

        def inc(self, k=1):
            self.n += k
            return self.n

        def dec(self):
            self.n -= 1
            return self.n

    m = M()

    def apply(f, *a):
        return f(*a)

    def step(x):
        m.t["a"]()
        apply(m.inc, 3)
        m.t["b"](m)
        f = m.inc
        f(2)
        return (x * m.n, m.inc.__name__, f == m.inc)

    return (step, with_tensor, types.SimpleNamespace(m_n=m))


@program
def callable_class_state() -> Any:

    class C:
        def __init__(self):
            self.c = 0

        def __call__(self, x, *, k=1):
            self.c += k
            return x * self.c

    c = C()

    def step(x):
        return (c(x) + c(x, k=2), callable(c))

    return (step, with_tensor, c)
