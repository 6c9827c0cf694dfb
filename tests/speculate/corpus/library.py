"""What people use of the standard library: operators, text, numbers, caches."""

from __future__ import annotations

import functools
import itertools
import logging
import math
import operator
import os
import random
import tempfile
import types
from typing import Any

import keras
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number


@program(eager="f has a cache and may do more than compute", feature="CACHE", line="return x * f(n % 3)")
def lru_cached() -> Any:
    calls = []

    @functools.lru_cache(None)
    def f(n):
        calls.append(n)
        return n * 2

    def step(x, n):
        return x * f(n % 3)

    return (step, with_number, calls)


@program
def lru_cached_pure() -> Any:

    @functools.lru_cache(maxsize=None)
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def step(x):
        return x * fib(10)

    return (step, with_tensor, None)


@program
def str_methods() -> Any:

    def step(x, s):
        return (
            x,
            s.upper(),
            s.split("-"),
            "-".join([s, "b"]),
            s.replace("a", "b"),
            s.startswith("a"),
            s.find("-"),
            s.strip("a"),
            s.center(9, "*"),
            s.partition("-"),
            s.zfill(8),
            s.isalpha(),
            s.title(),
            s.encode(),
            s * 2,
            s + "x",
            s[0],
            s[-1],
            "a" in s,
            len(s),
            s.count("a"),
            s < "b",
            s.format(1),
            "{}-{k}".format(s, k=1),
            s.casefold(),
            s.splitlines(),
            " ".join(reversed(s.split("-"))),
            s.translate({97: "z"}),
            s.rjust(6),
            s.removeprefix("a"),
            [c for c in s],
            list(s),
            sorted(s),
            s == s.lower(),
        )

    return (step, lambda i: (tensor(i), f"a-{i}"), None)


@program
def fstrings() -> Any:

    def step(x, n, f):
        w = 10
        name = "q"
        return (
            x,
            f"{n:>{w}}|{f:.2f}|n={n!r}|{f!r:>8}|{name!r}|{n:04d}|{f:e}|",
            f"n+1={n + 1:d}|{('a' if n else 'b')}|{{}}|{n:,}|{f:10.3f}|{name:^{w}}|{n:#x}|{f:%}",
            f"{x.shape}",
            f"{[n, f]}",
            f"{dict(a=n)}",
            f"{n!s:*^5}",
            "%d %s %.3f %5s %r %%" % (n, name, f, n, name),
            "%(a)d" % {"a": n},
            "%s" % n,
            format(f, ".1f"),
            str(n) + repr(f),
        )

    return (step, lambda i: (tensor(i), i, i * 0.5), None)


@program(eager="builtins: bytearray is not known", feature="FOREIGN_FUNCTION", line="ba = bytearray(b)")
def bytes_ints() -> Any:

    def step(x, n):
        b = b"abc" + bytes([n])
        ba = bytearray(b)
        ba.append(1)
        return (
            x,
            b,
            bytes(ba),
            b[0],
            b.hex(),
            list(b),
            n.bit_length(),
            n.to_bytes(2, "big"),
            int.from_bytes(b, "little"),
            int("12", n + 3),
            hex(n),
            bin(n),
            oct(n),
            ord("a") + n,
            chr(97 + n),
            (0.5).hex(),
            (n * 0.5).is_integer(),
            (n + 0.25).as_integer_ratio(),
            b.decode("latin1"),
            ~n,
            n ^ 3,
            n << 2,
            n >> 1,
            n & 6,
            n | 8,
        )

    return (step, with_number, None)


@program
def arithmetic() -> Any:

    def step(x, n, f):
        return (
            x,
            divmod(n, 3),
            divmod(-n, 3),
            pow(n, 2),
            pow(3, n, 5),
            n**2,
            2 ** (-n) if n < 3 else 0,
            round(f),
            round(f, 1),
            round(-2.5),
            abs(-n),
            complex(n, f),
            (n + 1j) * 2,
            -n // 2,
            -n % 3,
            f // 0.3,
            f % 0.3,
            int(f),
            int(-f),
            float(n),
            bool(n),
            n / 4,
            True + n,
            math.floor(f),
            math.ceil(f),
            math.sqrt(n),
            math.gcd(n, 6),
            math.isclose(f, 0.5),
            math.inf > n,
            math.pi,
            math.prod([n, 2]),
            math.fsum([f, f]),
            math.hypot(n, f),
            math.comb(5, 2),
            math.copysign(1, -f),
            math.log(n + 1),
            n.__add__(1),
            (-1) ** n,
            n and f,
            n or "z",
            not n,
        )

    return (step, lambda i: (tensor(i), i, i * 0.7), None)


@program
def operator_mod() -> Any:

    def step(x, n):
        g = operator.itemgetter(1)
        a = operator.attrgetter("real")
        m = operator.methodcaller("upper")
        return (
            operator.add(x, n),
            operator.mul(n, 2),
            g([1, n]),
            a(n),
            m("a"),
            functools.reduce(operator.add, [x, x, n]),
            functools.reduce(lambda a, b: a * b, [1, 2, n], 1),
            operator.getitem([1, 2], 0),
            operator.contains([1], n),
            operator.neg(x),
            operator.truth(n),
            operator.is_(None, None),
            list(itertools.accumulate([1, 2, n], operator.mul)),
            operator.itemgetter(0, 1)("ab"),
        )

    return (step, with_number, None)


@program
def string_building() -> Any:

    def step(x, n):
        s = ""
        for k in range(3):
            s += str(k * n) + ","
        parts = [f"{k}:{n}" for k in "ab"]
        s += ";".join(parts)
        print(s, end="!\n")
        print("%s-%d" % ("a", n), n, sep="|")
        print(*parts)
        print()
        print(f"{x.shape} {x.dtype.name} {len(x)}")
        return (x, s)

    return (step, with_number, None)


@program
def random_module() -> Any:
    random.seed(3)

    def step(x):
        return (x * random.random(), random.choice([1, 2, 3]))

    def args(i):
        if i == 0:
            random.seed(3)
        return with_tensor(i)

    return (step, args, None)


@program(eager="who handles what is logged is the program", feature="LOGGING", line='log.info("n=%d", n)')
def logging_call() -> Any:
    log = logging.getLogger("hA")
    recs = []

    class H(logging.Handler):
        def emit(self, r):
            recs.append(r.getMessage())

    log.handlers = [H()]
    log.setLevel("INFO")
    log.propagate = False

    def step(x, n):
        log.info("n=%d", n)
        return x

    return (step, with_number, recs)


@program
def nan_inf() -> Any:
    nan = float("nan")

    def step(x, f):
        return (
            x,
            f == f,
            f != f,
            f < 1,
            max(f, 1.0),
            min([1.0, f]),
            f in [f],
            nan in [nan],
            [nan] == [nan],
            sorted([2.0, 1.0]),
            f is nan,
            math.isnan(f),
            -0.0 == 0.0,
            str(-f * 0.0),
            f or 1,
            bool(f),
            {f: 1}.get(f),
        )

    return (step, lambda i: (tensor(i), [0.0, -0.0, float("nan"), float("inf"), 1.0][i % 5]), None)


@program
def bigints() -> Any:
    o = types.SimpleNamespace(n=1)

    def step(x):
        o.n *= 7
        return (x, o.n**5, o.n % 1000007, o.n > 10**9, str(o.n), float(o.n), o.n.bit_length(), x[0, 0] * float(o.n))

    return (step, with_tensor, o)


@program
def big_times_tensor() -> Any:

    def step(x, n):
        return (x * (n * 10**8), tf.constant(n) + 1, x + n)

    return (step, lambda i: (tensor(i), 2**i), None)


@program
def int_float_bool() -> Any:

    def step(x, v):
        return (
            x * tf.cast(v, tf.float32),
            v + 1,
            str(v),
            type(v).__name__,
            {1: "a"}.get(v),
            v == 1,
            v is True,
            isinstance(v, int),
            [10, 20][int(v)],
            -v,
            v * 2,
        )

    return (step, lambda i: (tensor(i), [1, 1.0, True][i % 3]), None)


@program
def string_dispatch() -> Any:

    class M:
        def op_add(self, x):
            return x + 1.0

        def op_mul(self, x):
            return x * 2.0

    m = M()

    def step(x, k):
        return (
            getattr(m, "op_" + k)(x),
            getattr(m, "nope_" + k, None),
            getattr(tf, "abs")(x),
            getattr(tf.math, "square")(x),
        )

    return (step, lambda i: (tensor(i), "add" if i % 2 else "mul"), None)


@program
def str_of_object_changes() -> Any:

    class Q:
        def __init__(self, p):
            self.p = p

        def __repr__(self):
            return f"Q{self.p}"

        def __len__(self):
            return self.p

        def __bool__(self):
            return self.p > 3

    q = Q(1)

    def step(x):
        print(q)
        return (x, str(q), repr(q), f"{q}", len(q), bool(q), 1 if q else 2, "%s" % str(q))

    def args(i):
        if i == 6:
            q.p = 9
        return with_tensor(i)

    return (step, args, None)


@program
def what_can_be_gone_through() -> Any:
    def has_members(value):
        try:
            iter(value)
        except TypeError as error:
            return str(error)
        return True

    def step(x, n):
        return x, [has_members(value) for value in (n, 1.5, None, True, x, tf.reduce_sum(x), [x], "")]

    return (step, with_number, None)


@program
def a_device_that_is_asked_for() -> Any:
    def step(x):
        y = x * 2.0
        with tf.device(y.device):
            return y + 1.0, y.device

    return (step, with_tensor, None)


@program(eager="a file may be there or not", feature="FRAMEWORK", line="if tf.io.gfile.exists(path):")
def a_file_that_appears() -> Any:
    path = os.path.join(tempfile.mkdtemp(), "stop")

    def step(x: tf.Tensor) -> Any:
        if tf.io.gfile.exists(path):
            return x * 2.0
        return x

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 6:
            with open(path, "w"):
                pass
        return with_tensor(i)

    return step, arguments, None


@program(eager="a bar of Keras's runs Python", feature="FRAMEWORK", line='bar.add(1, values=[("loss", 0.5)])')
def a_progress_bar() -> Any:
    bar = keras.utils.Progbar(20, verbose=0)

    def step(x: tf.Tensor) -> Any:
        bar.add(1, values=[("loss", 0.5)])
        return x * 2.0

    return step, with_tensor, None


@program(eager="it tells of the graph", feature="FRAMEWORK", line="return x, tf.get_static_value(x * 2.0) is None")
def a_static_value_that_is_asked_for() -> Any:
    def step(x: tf.Tensor) -> Any:
        return x, tf.get_static_value(x * 2.0) is None

    return step, with_tensor, None
