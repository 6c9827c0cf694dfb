"""Assumptions that break in mid-training, and state that changes in every call."""

from __future__ import annotations

import collections
import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number


@program
def dynamic_key_write() -> Any:
    cache = {}
    hist = [0.0] * 15

    def step(x, n):
        cache[n] = x * 2.0
        hist[n] = float(n)
        return x

    return (step, with_number, [cache, hist])


@program
def dynamic_key_count() -> Any:
    c = {}

    def step(x, n):
        k = f"k{n % 5}"
        c[k] = c.get(k, 0) + 1
        return x * c[k]

    return (step, with_number, c)


@program
def set_seen() -> Any:
    seen = set()

    def step(x, n):
        new = n % 6 not in seen
        seen.add(n % 6)
        return (x * (2.0 if new else 1.0), len(seen))

    return (step, with_number, seen)


@program
def none_tensor_attr() -> Any:
    o = types.SimpleNamespace(h=None)

    def step(x, n):
        if o.h is None:
            o.h = tf.zeros([3])
        o.h = o.h * 0.5 + x[0]
        if n % 5 == 4:
            r = o.h
            o.h = None
            return r
        return o.h

    return (step, with_number, o)


@program
def list_of_modules() -> Any:

    class L:
        def __init__(self, k):
            self.w = tf.Variable([k] * 3)
            self.calls = 0

        def __call__(self, x):
            self.calls += 1
            return x * self.w

    ls = [L(1.0), L(2.0)]

    def step(x, n):
        for i, row in enumerate(ls):
            x = row(x)
            row.w.assign_add([float(i)] * 3)
        return x

    def args(i):
        if i == 6:
            ls.append(L(3.0))
        if i == 10:
            ls.pop(0)
        return with_number(i)

    return (step, args, ls)


@program
def trainer_class() -> Any:

    class Callback:
        def on_step(self, t, loss):
            pass

    class Hist(Callback):
        def __init__(self):
            self.h = []

        def on_step(self, t, loss):
            self.h.append((t.i, float(loss)))

    class Trainer:
        def __init__(self, *cbs):
            self.cbs = list(cbs)
            self.i = 0
            self.w = tf.Variable(tf.ones([3]))
            self.best = float("inf")

        @property
        def lr(self):
            return 0.1 / (1 + self.i)

        def loss(self, x):
            return tf.reduce_mean((x * self.w) ** 2)

        def step(self, x):
            with tf.GradientTape() as t:
                row = self.loss(x)
            self.w.assign_sub(self.lr * t.gradient(row, self.w))
            self.i += 1
            for c in self.cbs:
                c.on_step(self, row)
            return row

    t = Trainer(Hist(), Callback())

    def step(x):
        return t.step(x)

    return (step, with_tensor, types.SimpleNamespace(h=t.cbs[0].h, w=t.w))


@program
def global_rebound() -> Any:
    global GV
    GV = [1.0]

    def step(x):
        return x * GV[0]

    def args(i):
        global GV
        if i == 6:
            GV = [2.0]
        if i == 8:
            GV = (3.0,)
        if i == 10:
            GV = {0: 4.0}
        return with_tensor(i)

    return (step, args, None)


@program
def callee_patched_builtin() -> Any:
    ns = types.SimpleNamespace(f=abs)

    def step(x, n):
        return x * ns.f(-n)

    def args(i):
        if i == 7:
            ns.f = lambda v: v * 10
        if i == 10:
            ns.f = float
        return with_number(i)

    return (step, args, None)


@program
def class_attr_changed() -> Any:

    class M:
        k = 1.0
        t = (1, 2)

    m = M()

    def step(x):
        return (x * m.k, M.t, m.t[0])

    def args(i):
        if i == 6:
            M.k = 2.0
        if i == 8:
            M.t = (3,)
        if i == 10:
            m.k = tf.constant(5.0)
        if i == 12:
            del m.k
        return with_tensor(i)

    return (step, args, None)


@program
def method_patched_on_instance() -> Any:

    class M:
        def f(self, x):
            return x

    m = M()

    def step(x):
        return m.f(x)

    def args(i):
        if i == 6:
            m.f = lambda x: x * 2.0
        if i == 9:
            del m.f
        if i == 11:
            M.f = lambda s, x: x * 7.0
        return with_tensor(i)

    return (step, args, None)


@program
def class_swapped() -> Any:

    class A:
        def f(self, x):
            return x

    class B(A):
        def f(self, x):
            return x * 2.0

    o = A()

    def step(x):
        return (o.f(x), type(o).__name__)

    def args(i):
        if i == 7:
            o.__class__ = B
        return with_tensor(i)

    return (step, args, None)


@program
def list_emptied() -> Any:
    row = [tf.ones([3])]

    def step(x):
        t = tf.add_n([v for v in row]) if row else tf.zeros([3])
        return (x + t, len(row), bool(row), row[-1:])

    def args(i):
        if i == 5:
            row.clear()
        if i == 8:
            row.extend([tf.ones([3])] * 3)
        if i == 11:
            row.pop()
        return with_tensor(i)

    return (step, args, row)


@program
def long_if_chain() -> Any:

    def step(x, m):
        if m == "a":
            y = x
        elif m in ("b", "c"):
            y = x * 2.0
        elif m is None:
            y = -x
        elif not m:
            y = x + 1.0
        else:
            y = x * 0.0
        return y if m != "b" else (y, m)

    return (step, lambda i: (tensor(i), ["a", "b", "c", None, "", "z"][i % 6]), None)


@program
def ternary_default_or() -> Any:

    def step(x, k=None, o=None):
        k = k or 2.0
        o = o if o is not None else {}
        o = {**o, "k": k}
        y = x * (o.get("s") or 1.0)
        return (y * k, o, k and 5, 0 or [] or "z", not k)

    return (step, lambda i: (tensor(i), [None, 0, 1.5][i % 3], [None, {"s": 2.0}][i % 2]), None)


@program
def early_exit_flags() -> Any:

    def find(xs, p):
        for i, v in enumerate(xs):
            if p(v):
                return (i, v)
        return None

    def step(x, n):
        r = find([1, 2, 3], lambda v: v > n % 4)
        if r is None:
            return x
        i, v = r
        return (x * v, i)

    return (step, with_number, None)


@program
def swap_lists() -> Any:
    o = types.SimpleNamespace(cur=[1], nxt=[2])

    def step(x, n):
        o.cur, o.nxt = (o.nxt, o.cur)
        o.cur.append(n)
        return (x * o.cur[0], len(o.cur))

    return (step, with_number, o)


@program
def ring_buffer() -> Any:
    o = types.SimpleNamespace(buf=[None] * 4, i=0)

    def step(x):
        o.buf[o.i % 4] = tf.reduce_mean(x)
        o.i += 1
        vs = [v for v in o.buf if v is not None]
        return tf.add_n(vs) / len(vs)

    return (step, with_tensor, o)


@program
def activation_replaced() -> Any:
    o = types.SimpleNamespace(act=tf.nn.relu, red=tf.reduce_mean)

    def step(x):
        return o.red(o.act(x))

    def args(i):
        if i == 6:
            o.act = tf.nn.tanh
        if i == 9:
            o.red = tf.reduce_sum
        if i == 11:
            o.act = lambda v: v * 2.0
        return with_tensor(i)

    return (step, args, None)


@program
def ema_dict_params() -> Any:
    p = {"a": tf.Variable(1.0), "b": tf.Variable(2.0)}
    ema = {}

    def step(x):
        for k, v in p.items():
            v.assign_add(tf.reduce_mean(x))
            ema[k] = ema.get(k, 0.0) * 0.9 + 0.1 * v
        return [ema[k] for k in sorted(ema)]

    return (step, with_tensor, [p, ema])


@program
def metrics_defaultdict() -> Any:
    m = collections.defaultdict(lambda: [0.0, 0])

    def step(x, n):
        for k, v in {"loss": tf.reduce_mean(x), "max": tf.reduce_max(x)}.items():
            m[k][0] += float(v)
            m[k][1] += 1
        return (x, {k: a / b for k, (a, b) in m.items()})

    return (step, with_number, m)


@program(
    eager="values that differ from call to call",
    feature="RAISES",
    line="return (x * c[w], sum(c.values()), c.most_common(1)[0][1])",
)
def counter_words() -> Any:
    c = collections.Counter()

    def step(x, w):
        c[w] += 1
        return (x * c[w], sum(c.values()), c.most_common(1)[0][1])

    return (step, lambda i: (tensor(i), "ab"[i % 2]), c)


@program
def ordered_lru() -> Any:
    c = collections.OrderedDict()

    def step(x, k):
        if k in c:
            c.move_to_end(k)
            v = c[k]
        else:
            v = len(c) + 1.0
            c[k] = v
            if len(c) > 2:
                c.popitem(last=False)
        return (x * v, list(c))

    return (step, lambda i: (tensor(i), "abc"[i * i % 3]), c)
