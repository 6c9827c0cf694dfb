"""Exceptions that are caught."""

from __future__ import annotations

import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number


@program
def chained_cmp_side_effects() -> Any:
    log = []

    def f(v):
        log.append(v)
        return v

    def step(x, n):
        a = f(1) < f(n) < f(10)
        b = f(3) > f(2) == f(2) != f(n)
        return (x, a, b)

    return (step, with_number, log)


@program
def try_combos() -> Any:
    log = []

    def step(x, n):
        try:
            try:
                r = x * (1.0 if n != 8 else {}["k"])
            except ValueError:
                r = 0
            finally:
                log.append("f1")
        except KeyError as e:
            log.append(repr(e))
            r = x
        else:
            log.append("else")
        finally:
            log.append("f2")
        return r

    return (step, with_number, log)


@program
def exc_attr() -> Any:
    o = types.SimpleNamespace(a=1)

    def step(x):
        try:
            return x * o.b
        except AttributeError:
            return x + 1.0

    return (step, with_tensor, None)


@program
def exc_group() -> Any:

    def step(x, n):
        try:
            if n in (6, 8):
                raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError:
            x = x * 2.0
        except* KeyError:
            x = x + 1.0
        return x

    return (step, with_number, None)


@program(eager="builtins: ValueError.add_note is not known", feature="FOREIGN_FUNCTION", line='e.add_note("n")')
def exc_reraise_note() -> Any:

    def step(x, n):
        try:
            if n % 5 == 4:
                raise ValueError(n)
        except ValueError as e:
            e.add_note("n")
            raise
        return x

    return (step, with_number, None)


@program
def exc_assert_msg() -> Any:

    def step(x, n):
        assert n != 10, f"bad {n}"
        assert x.shape == (4, 3), x.shape
        return x * n

    return (step, with_number, None)


@program
def exc_in_comprehension() -> Any:

    def step(x, d):
        try:
            return [x * d[k] for k in ("a", "b")]
        except KeyError as e:
            return (e.args, type(e).__name__, str(e), repr(e))

    return (step, lambda i: (tensor(i), {"a": 1.0, "b": 2.0} if i % 3 else {"a": 1.0}), None)


@program
def exc_finally_return() -> Any:

    def f(n):
        for i in range(3):
            try:
                if i == n:
                    return i
                if i == 1:
                    continue
            finally:
                if n == 7:
                    break
        return -1

    def step(x, n):
        return (x, f(n), f(1), f(7))

    return (step, with_number, None)


@program
def exc_retry() -> Any:

    class Flaky:
        def __init__(self):
            self.n = 0

        def get(self):
            self.n += 1
            if self.n % 3:
                raise IOError("try %d" % self.n)
            return self.n

    f = Flaky()

    def step(x):
        for a in range(5):
            try:
                v = f.get()
            except OSError as e:
                last = str(e)
                continue
            else:
                break
        return (x * v, a, last)

    return (step, with_tensor, f)


@program
def exc_assert_caught() -> Any:

    def step(x, n):
        try:
            assert n % 3, ("zero", n)
        except AssertionError as e:
            return (x, e.args)
        return x * 2.0

    return (step, with_number, None)


@program
def exc_tensor_branch_raise_caught() -> Any:

    def step(x, s):
        try:
            if s > 2.0:
                raise ValueError("big")
            y = x * s
        except ValueError:
            y = x
        return y

    return (step, lambda i: (tensor(i), tf.constant(float(i % 5))), None)


@program
def exc_return_in_handler_else() -> Any:
    log = []

    def f(d, k):
        try:
            v = d[k]
        except KeyError:
            log.append("miss")
            return None
        else:
            if v < 0:
                raise ValueError(v)
            return v
        finally:
            log.append("fin")

    def step(x, n):
        r = [f({"a": 1}, "a"), f({}, "a")]
        try:
            f({"a": -1}, "a")
        except ValueError as e:
            r.append(e.args[0])
        return (x, r)

    return (step, with_number, log)


@program
def exc_in_callee_state() -> Any:

    class Acc:
        def __init__(self):
            self.l = []
            self.bad = 0

        def add(self, v):
            self.l.append(v)
            if v % 3 == 0:
                self.bad += 1
                raise ValueError(v)
            return len(self.l)

    a = Acc()

    def step(x, n):
        try:
            k = a.add(n)
        except ValueError as e:
            k = -e.args[0]
        return x * k

    return (step, with_number, a)
