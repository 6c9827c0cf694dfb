"""Generators of every kind, in loops, displays and builtins."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import with_tensor
from tests.speculate.corpus.containers import with_number


@program
def gen_for() -> Any:
    log = []

    def gen(n):
        for k in range(3):
            log.append(("y", k))
            yield (k * n)
        log.append("end")

    def step(x, n):
        for v in gen(n):
            log.append(v)
            if v == 4:
                break
            x = x + v
        return x

    return (step, with_number, log)


@program
def gen_list_sum() -> Any:

    def rows(x):
        for i in range(4):
            yield (x[i] * float(i))

    def step(x):
        return (
            sum(rows(x)),
            list(rows(x))[1],
            [r * 2 for r in rows(x)],
            {i: r for i, r in enumerate(rows(x))},
            max((tf.reduce_sum(r) for r in rows(x))),
            tuple(rows(x))[0],
            len([*rows(x)]),
        )

    return (step, with_tensor, None)


@program
def gen_zip_enum() -> Any:

    def g(n):
        yield n
        yield (n + 1)

    def step(x, n):
        out = []
        for i, v in enumerate(g(n)):
            out.append((i, v))
        for a, b in zip(g(n), "ab"):
            out.append((a, b))
        return (x, out, next(g(n)), sorted(g(n)), dict(zip("ab", g(n))), any((v > 3 for v in g(n))))

    return (step, with_number, None)


@program
def gen_method_and_return() -> Any:

    class M:
        def __init__(self):
            self.layers = [2.0, 3.0]

        def walk(self):
            for row in self.layers:
                yield row
            return len(self.layers)

        def all(self):
            n = yield from self.walk()
            yield n

        def __iter__(self):
            yield from self.layers

    m = M()

    def step(x):
        for row in m.all():
            x = x * row
        for row in m:
            x = x + row
        return (x, list(m), [*m.walk()])

    return (step, with_tensor, m)


@program
def gen_inside_closure() -> Any:

    def step(x, n):
        c = []

        def g():
            for i in range(3):
                c.append(i)
                yield (x * i)

        t = x
        for v in g():
            t = t + v
            c.append("b")
        return (t, c)

    return (step, with_number, None)


@program
def gen_try_finally_break() -> Any:
    log = []

    def g():
        try:
            yield 1.0
            yield 2.0
        finally:
            log.append("fin")

    def step(x):
        for v in g():
            x = x * v
            break
        return x

    return (step, with_tensor, log)


@program
def gen_infinite() -> Any:

    def count():
        k = 0
        while True:
            yield k
            k += 1

    def step(x, n):
        for k in count():
            if k > n % 4:
                break
            x = x + k
        return (x, k)

    return (step, with_number, None)


@program(eager="next of a Generator", feature="ITERATOR", line="next(c)")
def gen_send() -> Any:

    def g():
        t = 0
        while True:
            v = yield t
            if v is None:
                return
            t += v

    def step(x):
        c = g()
        next(c)
        c.send(1)
        return x * c.send(2)

    return (step, with_tensor, None)


@program
def gen_recursive() -> Any:

    def walk(t):
        if isinstance(t, tuple):
            for c in t:
                yield from walk(c)
        else:
            yield t

    def step(x, n):
        return (x, list(walk((1, (2, (n, 4))))), sum(walk((1, (n,)))))

    return (step, with_number, None)


@program
def gen_tensor_if() -> Any:

    def g(x):
        for i in range(4):
            if x[i, 0] > 0:
                yield x[i]
            else:
                yield (-x[i])

    def step(x):
        t = tf.zeros([3])
        for r in g(x):
            t = t + r
        return t

    return (step, with_tensor, None)


@program
def gen_state_shared() -> Any:

    def step(x, n):
        state = {"k": 0}

        def g():
            while state["k"] < 3:
                yield state["k"]
                state["k"] += 1

        out = []
        for v in g():
            out.append(v)
            if v == 1:
                state["k"] += n % 2
        return (x, out)

    return (step, with_number, None)


@program
def gen_two_interleaved() -> Any:

    def g(a):
        for i in range(2):
            yield (a + i)

    def step(x, n):
        return (x, [(p, q) for p in g(0) for q in g(p)], [*g(n), *g(1)], dict(enumerate(g(2))))

    return (step, with_number, None)


@program
def gen_nested_for() -> Any:
    log = []

    def g(k):
        log.append(("s", k))
        for i in range(k):
            yield i
        log.append(("e", k))

    def step(x, n):
        t = 0
        for a in g(2):
            for b in g(2):
                if b == a:
                    break
                t += 1
            else:
                t += 10
        return x * t

    return (step, with_number, log)


@program
def gen_return_in_loop() -> Any:
    log = []

    def g():
        try:
            for i in range(5):
                yield i
        finally:
            log.append("closed")

    def find(k):
        for v in g():
            if v == k:
                return v * 10
        return -1

    def step(x, n):
        return (x, find(2), find(9), next(g()))

    return (step, with_number, log)


@program
def gen_tape() -> Any:
    w = tf.Variable(2.0)

    def losses(x):
        for r in tf.unstack(x):
            yield tf.reduce_sum(r * w)

    def step(x):
        with tf.GradientTape() as t:
            row = sum(losses(x))
        g = t.gradient(row, w)
        w.assign_sub(0.01 * g)
        return (row, g)

    return (step, with_tensor, w)
