"""Objects in containers, printed, compared, counted."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import with_tensor
from tests.speculate.corpus.containers import with_number


@program
def config_dataclass() -> Any:

    @dataclasses.dataclass
    class Cfg:
        lr: float = 0.1
        layers: list = dataclasses.field(default_factory=lambda: [3, 2])
        opts: dict = dataclasses.field(default_factory=dict)

        @property
        def depth(self):
            return len(self.layers)

        @classmethod
        def small(cls, **k):
            return cls(lr=1.0, **k)

    c = Cfg()

    def step(x, n):
        d = Cfg.small(opts={"a": n})
        e = dataclasses.replace(c, lr=c.lr * 2)
        return (
            x * c.lr * c.depth,
            d,
            e.lr,
            dataclasses.asdict(d),
            [f.name for f in dataclasses.fields(c)],
            dataclasses.is_dataclass(c),
            d == Cfg.small(opts={"a": n}),
            dataclasses.astuple(e),
        )

    def args(i):
        if i == 6:
            c.layers.append(5)
        if i == 9:
            c.lr = 0.5
        return with_number(i)

    return (step, args, c)


@program
def counter_in_class() -> Any:

    class M:
        inst = []
        total = 0

        def __init__(self):
            type(self).inst.append(self)
            M.total += 1
            self.id = M.total

        def __repr__(self):
            return f"M{self.id}"

    M.inst = []

    def step(x):
        m = M()
        if len(M.inst) > 3:
            M.inst.clear()
        return (x * m.id, repr(m), str(m))

    return (step, with_tensor, types.SimpleNamespace(l=M.inst))


@program
def context_stack_state() -> Any:

    class Scope:
        stack = []

        def __init__(self, n):
            self.n = n

        def __enter__(self):
            Scope.stack.append(self.n)
            return "/".join(Scope.stack)

        def __exit__(self, *a):
            Scope.stack.pop()

    def step(x, n):
        with Scope("a") as p:
            with Scope("b%d" % (n % 2)) as q:
                r = q
        return (x, p, r, len(Scope.stack))

    return (step, with_number, Scope.stack)


@program
def getattr_hook() -> Any:

    class P:
        def __init__(self):
            self.a = 1.0

        def __getattr__(self, k):
            if k.startswith("_"):
                raise AttributeError(k)
            return len(k)

    p = P()

    def step(x):
        return (x * p.a * p.abc, getattr(p, "_z", 5), hasattr(p, "_q"), hasattr(p, "zz"))

    return (step, with_tensor, p)


@program
def eq_hash_default() -> Any:

    class N:
        pass

    a, b = (N(), N())

    def step(x):
        d = {a: 1, b: 2}
        s = {a, b, a}
        return (x * d[a], len(s), a in s, a == b, a != b, [a, b].index(b), d.get(N(), 0), (a, 1) == (a, 1))

    return (step, with_tensor, None)


@program
def inst_in_list_ops() -> Any:

    class N:
        def __init__(self, v):
            self.v = v

        def __eq__(self, o):
            return isinstance(o, N) and self.v == o.v

    def step(x, n):
        row = [N(1), N(n)]
        return (x, N(n) in row, row.count(N(1)), row.index(N(n)), row == [N(1), N(n)])

    return (step, with_number, None)


@program(eager="print looks into an object of N", feature="TEXT", line="print([o])")
def print_objects() -> Any:

    class N:
        def __init__(self, v):
            self.v = v

        def __str__(self):
            return f"N<{self.v}>"

        def __repr__(self):
            return f"N({self.v})"

    h = N(1)

    def step(x, n):
        o = N(n)
        print(o, h)
        print([o])
        print(f"{o} {o!r}", end="")
        h.v += 1
        return (x, "%s" % o, str([h]))

    return (step, with_number, h)


@program
def heap_method_sort_key() -> Any:

    class Q:
        def __init__(self, p):
            self.p = p

    qs = [Q(3), Q(1), Q(2)]

    def step(x):
        qs.sort(key=lambda q: q.p)
        return x * qs[0].p

    def args(i):
        if i == 6:
            qs[2].p = 0
        return with_tensor(i)

    return (step, args, qs)


@program
def obj_in_list_eq_changes() -> Any:

    class Q:
        def __init__(self, p):
            self.p = p

        def __eq__(self, o):
            return self.p == o.p

    qs = [Q(1), Q(2)]
    t = Q(2)

    def step(x):
        return (x * float(qs.index(t)), t in qs, qs.count(t))

    def args(i):
        if i == 6:
            t.p = 1
        if i == 9:
            qs[1].p = 1
        return with_tensor(i)

    return (step, args, None)


@program
def print_after_write() -> Any:

    class Q:
        def __init__(self):
            self.p = 0

        def __repr__(self):
            return f"Q{self.p}"

    q = Q()
    row = [1]

    def step(x, n):
        q.p = n
        print(q)
        row.append(n)
        print(row)
        q.p = -1
        row.clear()
        print(q, row, {"a": row})
        row.append(0)
        return x

    return (step, with_number, [q, row])


@program
def vars_update() -> Any:

    class C:
        def __init__(self, **k):
            self.__dict__.update(k)

    c = C(a=1)

    def step(x, n):
        d = C(b=n, x=x)
        vars(c).update(z=n)
        c.__dict__["a"] += 1
        return (x * c.a, d, sorted(vars(c)), {k: v for k, v in vars(d).items() if k != "x"})

    return (step, with_number, c)


@program
def kwargs_mutated() -> Any:

    def f(**kw):
        kw["z"] = 1
        kw.pop("a", None)
        return kw

    def g(*a):
        a = a + (1,)
        return a

    base = {"a": 1, "b": 2}

    def step(x, n):
        base["b"] = n
        return (x, f(**base), base, g(*[n]), f(a=n))

    return (step, with_number, base)


@program
def property_counts_reads() -> Any:

    class P:
        def __init__(self):
            self.reads = 0

        @property
        def v(self):
            self.reads += 1
            return self.reads

    p = P()

    def step(x):
        return (x * p.v, p.v, hasattr(p, "v"), getattr(p, "v", 0), p.reads)

    return (step, with_tensor, p)
