"""Names, arguments, closures, assignments."""

from __future__ import annotations

import contextlib
import functools
import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number

G1 = 0


@program
def star_targets_in_for() -> Any:

    def step(x, n):
        out = []
        for i, (a, *b), *c in [(1, (2, 3, 4), 5, 6), (n, (7,))]:
            out.append((i, a, b, c))
        [*head], tail = ((1, 2, n), 3)
        (p, (q, *r)), s = ((1, "abc"), n)
        return (x * out[0][0], out, head, tail, p, q, r, s)

    return (step, with_number, None)


@program
def default_conditional() -> Any:
    k = [2]

    def step(x, a=1 if k else 2, *, b=len(k)):
        return x * a + b

    return (step, lambda i: (tensor(i),) if i % 2 else (tensor(i), 2.0), None)


@program
def posonly_kwonly() -> Any:

    def f(a, b=2, /, c=3, *, d, e=5):
        return a * b + c * d - e

    def step(x):
        return (f(x, d=1), f(x, 3, d=2, c=4), f(x, 1, 2, d=3, e=1))

    return (step, with_tensor, None)


@program
def forward_args() -> Any:

    def inner(*a, **k):
        return (sum(a) + sum(k.values()), list(k), len(a))

    def outer(*a, **k):
        return inner(0, *a, z=1, **k)

    def step(x, n):
        return (outer(x, n, y=2, w=x), outer(*(x, x), **{"q": n}))

    return (step, with_number, None)


@program
def wraps_stack() -> Any:

    def add(k):

        def deco(f):

            @functools.wraps(f)
            def w(*a, **kw):
                return f(*a, **kw) + k

            return w

        return deco

    @add(1)
    @add(2.0)
    def g(x, *, s=1.0):
        """doc"""
        return x * s

    def step(x):
        return (g(x, s=3.0), g.__name__, g.__doc__)

    return (step, with_tensor, None)


@program
def nested_nonlocal() -> Any:

    def step(x, n):
        a = 1

        def f():
            nonlocal a
            b = a

            def g():
                nonlocal a, b
                a += n
                b *= 2
                return b

            return g() + b

        r = f()
        return (x * a, r, a)

    return (step, with_number, None)


@program
def walrus_many() -> Any:

    def step(x, n):
        if (k := (n * 2)) > 3 and (m := (k + 1)):
            pass
        else:
            m = 0
        row = [(y := 1), y**2, (z := n)]
        while (t := len(row)) < 6:
            row.append(t)
        return (x, k, m, row, y, z, [w for v in range(4) if (w := (v + n)) > 2], w)

    return (step, with_number, None)


@program
def while_else() -> Any:

    def step(x, n):
        i = 0
        r = []
        while i < 5:
            i += 1
            if i == n:
                break
            if i % 2:
                continue
            r.append(i)
        else:
            r.append("else")
        for k in range(3):
            for j in range(3):
                if j == n:
                    break
                if j == k:
                    continue
                r.append((k, j))
            else:
                r.append("e")
                continue
            break
        else:
            r.append("done")
        return (x * i, r, k, j)

    return (step, with_number, None)


@program
def glob_counter() -> Any:
    global G1
    G1 = 0

    def bump(k=1):
        global G1
        G1 += k
        return G1

    def step(x):
        return (x * bump() + bump(2), G1)

    return (step, with_tensor, None)


@program
def closures_of_closures() -> Any:

    def outer(a):
        b = [a]

        def mid(c):

            def inner(d):
                b[0] += c
                return b[0] * d

            return inner

        return mid

    f = outer(1.0)(2.0)

    def step(x):
        g = outer(3.0)(1.0)
        return (f(x), g(x), g(x))

    return (step, with_tensor, None)


@program
def aliasing() -> Any:
    o = types.SimpleNamespace()
    o.a = o.b = [1]
    o.t = (o.a, [2])

    def step(x, n):
        p = q = []
        p.append(n)
        o.a += [n]
        o.b.append("z")
        o.t[1].append(x)
        o.t[0].pop(0)
        if len(o.a) > 4:
            o.a = o.a[-2:]
        r = [[0] * 2] * 2
        r[0][1] = n
        u = [[0] * 2 for _ in range(2)]
        u[0][1] = n
        return (x * len(q), p is q, o.a is o.b, r, u, o.a)

    return (step, with_number, o)


@program
def aug_everything() -> Any:
    o = types.SimpleNamespace(w=tf.zeros([3]), d={"t": tf.ones([3])}, l=[1, 2], s={1}, n=1, t=(1,))

    def step(x, n):
        o.w += x[0]
        o.d["t"] *= 2.0
        o.l += (n % 2,)
        o.l *= 1
        o.s |= {n % 3}
        o.n <<= 1
        o.n %= 1000
        o.n //= 1
        o.t += (n,)
        o.t = o.t[-2:]
        o.l[0] -= 1
        o.l[-1:] += [7]
        o.l = o.l[-4:]
        y = x
        y += 1.0
        o.s -= {0}
        o.s &= {1, 2, 3}
        return (x, y, o.w)

    return (step, with_number, o)


@program
def kwonly_defaults_kw() -> Any:

    def step(x, *a, k=2, **kw):
        return (x * k, a, kw)

    def args(i):
        return (tensor(i),) + tuple(range(i % 3))

    return (step, args, None)


@program
def nested_functions_rec() -> Any:

    def step(x, n):

        def fact(k):
            return 1 if k <= 1 else k * fact(k - 1)

        def even(k):
            return True if k == 0 else odd(k - 1)

        def odd(k):
            return False if k == 0 else even(k - 1)

        def ack(m, k):
            return k + 1 if m == 0 else ack(m - 1, 1) if k == 0 else ack(m - 1, ack(m, k - 1))

        return (x * fact(4), even(6), ack(1, 2), fact(n % 4))

    return (step, with_number, None)


@program
def introspection() -> Any:

    def step(x: int, n=1):
        """Doc."""
        return (x, step.__name__, step.__doc__, step.__defaults__, type(step).__name__, __name__)

    return (step, with_number, None)


@program(
    eager="builtins: eval is not known",
    feature="FOREIGN_FUNCTION",
    line='return (x * eval("a+1"), sorted(locals()), len(dir(x)) > 3)',
)
def locals_eval() -> Any:

    def step(x, n):
        a = n
        return (x * eval("a+1"), sorted(locals()), len(dir(x)) > 3)

    return (step, with_number, None)


@program
def lambda_tricks() -> Any:

    def step(x, n):
        t = {"f": lambda *a, **k: (a, k), "c": lambda *fs: functools.reduce(lambda a, b: lambda v: b(a(v)), fs)}
        g = (lambda y=n: y)()
        h = t["c"](lambda v: v + 1.0, lambda v: v * 2.0)
        return (
            t["f"](1, *[n], k=2),
            g,
            h(x),
            (lambda x, /, *, y: x + y)(1, y=n),
            [*map(lambda t: t[0] + t[1], {"a": "b"}.items())],
        )

    return (step, with_number, None)


@program
def unpack_calls() -> Any:

    def f(a, b, *c, d=0, **e):
        return (a, b, c, d, e)

    def step(x, n):
        t = (1, 2)
        d = {"d": n}
        return (
            x,
            f(*t, *[3], **d, **{"z": 1}),
            f(*"ab"),
            f(*range(3), d=n),
            f(*{"k": 1, "j": 2}),
            [*t, *"ab", n],
            {*t, 5},
            {**d, "q": 0},
            (*t,),
            print(*t, sep="-"),
        )

    return (step, with_number, None)


@program
def multi_assign() -> Any:
    o = types.SimpleNamespace(a=0, l=[0, 0])

    def step(x, n):
        a = o.a = o.l[0] = n
        o.a, o.l[1] = (o.l[1], o.a)
        i = 0
        arr = [0, 1, 2]
        i, arr[i] = (1, 9)
        (p, q), [r, *s] = ((1, 2), "abc")
        for o.a in range(2):
            pass
        for arr[0], z in [(7, 8)]:
            pass
        [o.l[0] for _ in range(1)]
        with contextlib.nullcontext((1, 2)) as (u, v):
            pass
        return (x, a, i, arr, p, q, r, s, z, u, v)

    return (step, with_number, o)


@program
def format_table() -> Any:
    rows = []

    def step(x, n):
        s = "|".join((f"{v:>6.2f}" for v in [1.5, n * 0.1]))
        rows.append(s)
        h = f"{'name':<8}{n:^5}"
        print(h, s, sep="\n")
        print(f"{float(tf.reduce_sum(x)):.1f}" if n > 100 else "small")
        return (x, s)

    return (step, with_number, rows)
