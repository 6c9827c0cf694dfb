"""Exceptions that are caught."""

from __future__ import annotations

import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number


class MyErr(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


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
def exc_caught_every() -> Any:

    def step(x, n):
        try:
            raise ValueError("a", n)
        except (TypeError, ValueError) as e:
            y = x * e.args[1]
        return y

    return (step, with_number, None)


@program
def exc_swallow_int() -> Any:

    def step(x, s):
        try:
            k = int(s)
        except ValueError:
            k = -1
        return x * k

    return (step, lambda i: (tensor(i), str(i) if i % 3 else "q"), None)


@program
def exc_keyerror_default() -> Any:
    d = {"a": 1.0}

    def step(x, n):
        try:
            v = d["b"]
        except KeyError:
            v = 2.0
        else:
            v = 3.0
        return x * v

    return (step, with_number, None)


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
def exc_stopiter() -> Any:

    def step(x):
        it = iter([1, 2])
        out = []
        while True:
            try:
                out.append(next(it))
            except StopIteration:
                break
        return (x, out)

    return (step, with_tensor, None)


@program
def exc_call7() -> Any:
    o = types.SimpleNamespace(n=0, l=[])

    def step(x, n):
        o.n += 1
        o.l.append(n)
        if n == 7:
            try:
                raise KeyError("inner")
            except KeyError as e:
                raise RuntimeError("outer") from e
        if n == 9:
            raise ValueError from None
        o.l.append(-n)
        return x * o.n

    return (step, with_number, o)


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


@program(eager="builtins: ValueError.add_note is not known")
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
def exc_custom() -> Any:

    def f(n):
        if n % 4 == 3:
            raise MyErr(n)
        return n

    def step(x, n):
        try:
            return x * f(n)
        except MyErr as e:
            return (x - e.code, str(e))

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
def exc_nested_reraise() -> Any:
    log = []

    def inner(n):
        try:
            return 10 // n
        except ZeroDivisionError as e:
            log.append(str(e))
            raise ValueError("wrapped") from e

    def step(x, n):
        try:
            return x * inner(n % 3)
        except ValueError as e:
            log.append((str(e), type(e.__cause__).__name__))
            return x

    return (step, with_number, log)


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
def exc_hierarchy() -> Any:

    class A(Exception):
        pass

    class B(A):
        def __init__(self, m, code=5):
            super().__init__(m)
            self.code = code

        def __str__(self):
            return f"{self.args[0]}#{self.code}"

    def step(x, n):
        r = []
        for k in (A, B, KeyError):
            try:
                raise k("m") if k is not B else B("q", code=n)
            except B as e:
                r.append((str(e), e.code))
            except A as e:
                r.append(("A", str(e)))
            except Exception as e:
                r.append((type(e).__name__, str(e), e.args))
        return (x, r)

    return (step, with_number, None)


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
def exc_swallow_then_raise() -> Any:
    o = types.SimpleNamespace(n=0)

    def step(x, n):
        o.n += 1
        try:
            o.n += 10
            if n % 2:
                raise KeyError(n)
            o.n += 100
        except KeyError:
            o.n -= 5
        if n == 8:
            raise ValueError("late")
        return x * o.n

    return (step, with_number, o)


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
def exc_loop_continue_break() -> Any:

    def step(x, n):
        out = []
        for k in range(5):
            try:
                if k == 1:
                    continue
                if k == 3:
                    raise StopIteration
                out.append(k)
            except StopIteration:
                break
            finally:
                out.append(-k)
        else:
            out.append("else")
        return (x, out)

    return (step, with_number, None)


@program
def exc_var_leak() -> Any:

    def step(x, n):
        e = 5
        try:
            raise ValueError(1)
        except ValueError:
            pass
        try:
            return (x, e)
        except UnboundLocalError as u:
            return (x, str(u))

    return (step, with_number, None)


@program
def exc_of_many_kinds() -> Any:
    failing = [
        lambda: 1 + "a",
        lambda: {}[[]],
        lambda: None + 1,
        lambda: int("x"),
        lambda: (1, 2)[5],
        lambda: "a".foo,
        lambda: 1 / 0,
        lambda: [].pop(),
        lambda: {}.popitem(),
        lambda: [1].remove(2),
        lambda: [1].index(2),
        lambda: set().pop(),
        lambda: next(iter([])),
        lambda: max([]),
        lambda: list(zip([1], [], strict=True)),
        lambda: "a" * "b",
        lambda: {1: 2}["z"],
        lambda: {"a"}.remove("b"),
        lambda: chr(-1),
        lambda: [1, 2, 3].index(1, 1),
    ]

    def step(x, n):
        r = []
        for f in failing:
            try:
                r.append(f())
            except Exception as e:
                r.append((type(e).__name__, str(e)))
        return (x, r)

    return (step, with_number, None)


@program
def exc_unpack_errors() -> Any:

    def step(x, n):
        r = []
        for v in ([1], [1, 2, 3]):
            try:
                a, b = v
            except ValueError as e:
                r.append(str(e))
            try:
                a, *b, c, d = v
            except ValueError as e:
                r.append(str(e))
        return (x, r)

    return (step, with_number, None)


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


@program
def exc_stored() -> Any:
    o = types.SimpleNamespace(errs=[], last=None)

    def step(x, n):
        try:
            raise ValueError("v", n)
        except ValueError as e:
            o.errs.append(str(e))
            o.last = type(e)
        return x

    return (step, with_number, o)


@program
def exc_context_manager_swallow() -> Any:

    class Sup:
        def __init__(self):
            self.n = 0

        def __enter__(self):
            return self

        def __exit__(self, t, v, tb):
            if t is not None and issubclass(t, ValueError):
                self.n += v.args[0]
                return True

    c = Sup()

    def step(x, n):
        with c:
            if n % 2:
                raise ValueError(n)
            x = x * 2.0
        return x

    return (step, with_number, c)
