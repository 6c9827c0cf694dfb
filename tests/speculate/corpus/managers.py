"""Context managers of every kind."""

from __future__ import annotations

import contextlib
import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import with_tensor
from tests.speculate.corpus.containers import with_number


class Ctx:
    def __init__(self, log, sup=False):
        self.log = log
        self.sup = sup

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, t, v, tb):
        self.log.append(("out", t and t.__name__))
        return self.sup


@program
def ctx_own() -> Any:
    log = []

    def step(x, n):
        with Ctx(log) as a, Ctx(a.log, True):
            if n == 7:
                raise ValueError("7")
            log.append(n)
        return x

    return (step, with_number, log)


@program
def ctx_fresh_each() -> Any:

    def step(x, n):
        log = []
        with Ctx(log):
            with Ctx(log) as c:
                c.log.append(n)
        return (x, log)

    return (step, with_number, None)


@program
def ctx_contextmanager() -> Any:
    log = []

    @contextlib.contextmanager
    def scope(n):
        log.append(("in", n))
        try:
            yield (n * 2)
        finally:
            log.append("out")

    def step(x, n):
        with scope(n) as k:
            y = x * k
        return y

    return (step, with_number, log)


@program
def ctx_suppress() -> Any:
    d = {"a": 1.0}

    def step(x, n):
        with contextlib.suppress(KeyError):
            x = x * d["a"]
        with contextlib.nullcontext(3.0) as k:
            x = x + k
        return x

    return (step, with_number, None)


@program
def ctx_suppress_real() -> Any:

    def step(x, n):
        k = 0
        with contextlib.suppress(ZeroDivisionError):
            k = 6 // (n % 3)
        return x * k

    return (step, with_number, None)


@program(
    eager="contextlib: ExitStack is not known", feature="FOREIGN_FUNCTION", line="with contextlib.ExitStack() as st:"
)
def ctx_exitstack() -> Any:
    log = []

    def step(x, n):
        with contextlib.ExitStack() as st:
            st.enter_context(Ctx(log))
            st.callback(log.append, n)
            y = x * 2.0
        return y

    return (step, with_number, log)


@program
def cm_exception() -> Any:
    log = []

    @contextlib.contextmanager
    def guard(name):
        log.append(name)
        try:
            yield
        except ValueError as e:
            log.append(str(e))
        else:
            log.append("ok")
        finally:
            log.append("fin")

    def step(x, n):
        with guard("a"), guard("b"):
            if n % 3 == 0:
                raise ValueError("bad %d" % n)
            x = x * 2.0
        return x

    return (step, with_number, log)


@program
def cm_return_inside() -> Any:
    s = types.SimpleNamespace(d=0)

    @contextlib.contextmanager
    def deeper():
        s.d += 1
        try:
            yield s.d
        finally:
            s.d -= 1

    def step(x):
        with deeper() as a:
            with deeper() as b:
                return (x * a * b, s.d)

    return (step, with_tensor, s)


@program
def cm_method() -> Any:

    class M:
        def __init__(self):
            self.mode = "train"
            self.log = []

        @contextlib.contextmanager
        def as_mode(self, m):
            old, self.mode = (self.mode, m)
            try:
                yield self
            finally:
                self.mode = old

        def call(self, x):
            self.log.append(self.mode)
            return x * (2.0 if self.mode == "train" else 3.0)

    m = M()

    def step(x):
        a = m.call(x)
        with m.as_mode("eval"):
            b = m.call(x)
        return (a, b)

    return (step, with_tensor, m)


@program
def cm_gradient_scope() -> Any:
    w = tf.Variable([1.0, 2.0, 3.0])
    log = []

    @contextlib.contextmanager
    def training(o):
        with tf.GradientTape() as t:
            o["t"] = t
            yield t
        log.append("done")

    def step(x):
        o = {}
        with training(o) as t:
            row = tf.reduce_mean((x * w) ** 2)
        g = t.gradient(row, w)
        w.assign_sub(0.1 * g)
        return row

    return (step, with_tensor, [w, log])


@program
def ctx_reentrant_counter() -> Any:

    class Lock:
        depth = 0

        def __enter__(self):
            self.depth += 1
            return self.depth

        def __exit__(self, *e):
            self.depth -= 1

    k = Lock()

    def rec(x, n):
        with k as d:
            return x * d if n == 0 else rec(x, n - 1)

    def step(x):
        return (rec(x, 2), k.depth)

    return (step, with_tensor, k)
