"""Exceptions of many kinds, raised and caught."""

from __future__ import annotations

import types
from typing import Any

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number

_gone: Any = None


class MyErr(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


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
def names_that_are_gone() -> Any:
    def step(x):
        global _gone
        _gone = x * 2.0
        inner = x * 3.0

        def take():
            nonlocal inner
            taken = inner
            del inner
            return taken

        def missing():
            return inner

        found = [_gone, take()]
        del _gone
        said = []
        for look in (lambda: _gone, missing, lambda: [later for _ in range(2)]):  # noqa: F821
            try:
                look()
            except NameError as error:
                said.append((type(error).__name__, str(error), error.name))
        if len(said) > 5:
            later = x
        return found, said

    return step, with_tensor, None


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
