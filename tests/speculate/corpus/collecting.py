"""Collections of the standard library, copies, sorting, slices."""

from __future__ import annotations

import collections
import copy
import dataclasses
import operator
import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number


@dataclasses.dataclass
class Pnt:
    x: Any
    y: Any = 0


@program
def dict_of_lambdas() -> Any:
    ops = {"a": lambda x, k=2: x * k, "b": lambda x, *a: x + sum(a)}

    def step(x, n):
        return ([ops[k](x) for k in ops], ops["b"](x, 1, n), {k: f(x) for k, f in ops.items()})

    return (step, with_number, None)


@program
def dict_merge() -> Any:
    base = {"a": 1}

    def step(x, n):
        d = base | {"b": n}
        d |= {"c": x}
        d |= [("e", 1)]
        d2 = {**d, "a": 5}
        base["z"] = n
        return (d, d2, list(d), d == {"a": 1})

    return (step, with_number, base)


@program
def slices_steps() -> Any:
    kept = list(range(6))

    def step(x, n):
        a = list(range(10))
        a[::2] = [0] * 5
        a[1:3] = []
        del a[::3]
        b = a[:]
        b[len(b) :] = [n]
        kept[1:2] = [n, n]
        del kept[-2:]
        s = slice(1, None, 2)
        return (
            x[s],
            a[s],
            b,
            kept[::-1],
            (1, 2, 3, 4)[-3:-1],
            "hello"[::-1],
            range(10)[2:8:3],
            bytes([1, 2, 3])[1:],
            kept[:2] == [0, n],
        )

    return (step, with_number, kept)


@program
def sort_keys() -> Any:

    def step(x, n):
        p = [("b", 2), ("a", n), ("c", 0)]
        p2 = sorted(p, key=operator.itemgetter(1))
        p3 = sorted(p, key=lambda t: (-t[1], t[0]), reverse=True)
        q = [3, 1, 2]
        q.sort()
        q.sort(key=lambda v: -v)
        return (
            x,
            p2,
            p3,
            q,
            min(p, key=lambda t: t[1]),
            max("hello"),
            min(3, n, key=lambda v: -v),
            max([], default=5),
            sorted({"z": 1, "y": 2}),
            sorted("bca", reverse=True),
            max(n, 2.5),
            min([n, 1]),
        )

    return (step, with_number, None)


@program
def coll_deque() -> Any:
    d = collections.deque([0.0], maxlen=3)

    def step(x, n):
        d.append(float(n))
        if len(d) == 3:
            d.popleft()
        d.appendleft(1.0)
        return (x * d[0] + sum(d), len(d), list(d))

    return (step, with_number, d)


@program
def coll_deque_local() -> Any:

    def step(x, n):
        q = collections.deque([1, 2])
        q.append(n)
        o = []
        while q:
            o.append(q.popleft())
        return (x, o)

    return (step, with_number, None)


@program
def coll_defaultdict() -> Any:
    d = collections.defaultdict(list)
    c = collections.defaultdict(int)

    def step(x, n):
        d["a"].append(n)
        c[n % 2] += 1
        c["t"] += x
        return x * len(d["a"])

    return (step, with_number, [d, c])


@program
def coll_defaultdict_local() -> Any:

    def step(x, n):
        d = collections.defaultdict(list)
        for k, v in [("a", 1), ("b", n), ("a", x)]:
            d[k].append(v)
        return (d["a"], len(d), dict(d))

    return (step, with_number, None)


@program(eager="values that differ from call to call", feature="RAISES", line="c.update(s)")
def coll_counter() -> Any:
    c = collections.Counter()

    def step(x, s):
        c.update(s)
        c["z"] += 1
        k = collections.Counter("abca")
        return (x * c["a"], k.most_common(1), k["q"], sum(k.values()), dict(k + collections.Counter("a")))

    return (step, lambda i: (tensor(i), "ab" * (i + 1)), c)


@program
def coll_ordered() -> Any:
    d = collections.OrderedDict(a=1, b=2)

    def step(x, n):
        d["a"] += n
        d.move_to_end("a")
        row = collections.OrderedDict([("k", x), ("j", n)])
        return (x * d["a"], list(row), row["k"], list(d))

    return (step, with_number, d)


@program(
    eager="collections: ChainMap is not known",
    feature="FOREIGN_FUNCTION",
    line='m = collections.ChainMap({"a": n}, base)',
)
def coll_chainmap() -> Any:
    base = {"a": 1.0, "b": 2.0}

    def step(x, n):
        m = collections.ChainMap({"a": n}, base)
        return (x * m["a"] * m["b"], "a" in m, len(m))

    return (step, with_number, base)


@program
def coll_namedtuple_fn() -> Any:
    PT = collections.namedtuple("PT", "x y", defaults=[2])

    def step(x, n):
        p = PT(x)
        q = PT(n, y=3)
        a, b = q
        return (p, q.x + q.y, a, b, PT(*q) == q)

    return (step, with_number, None)


@program
def copies() -> Any:
    src = {"a": [1, {"b": 2}], "t": (1, [2])}

    def step(x, n):
        c = copy.copy(src)
        d = copy.deepcopy(src)
        d["a"][1]["b"] = n
        row = [1, [2]]
        m = row.copy()
        m[1].append(n)
        e = row[:]
        return (
            x * d["a"][1]["b"],
            d,
            c["a"] is src["a"],
            row,
            m,
            e[1] is row[1],
            copy.copy(Pnt(x, n)),
            copy.deepcopy([x, n]),
        )

    return (step, with_number, src)


@program
def dict_methods() -> Any:

    def step(x, n):
        d = {}
        d.setdefault("l", []).append(n)
        d.setdefault("l", []).append(x)
        d.update({"a": 1}, b=2)
        d.update([("c", n)])
        p = d.pop("a")
        q = d.pop("zz", None)
        r = d.popitem()
        e = dict.fromkeys("ab", n)
        f = d.copy()
        f.clear()
        return (
            d,
            p,
            q,
            r,
            e,
            f,
            dict(a=1) | dict(b=n),
            {k: v for k, v in sorted({"z": 1, "y": n}.items())},
            {**e, "q": 1},
            len(e),
            not f,
            d.items() >= set() if False else 1,
        )

    return (step, with_number, None)


@program
def mutable_default() -> Any:

    def f(v, acc=[], *, k={}):
        acc.append(v)
        k[v] = 1
        return len(acc) + len(k)

    def step(x, n):
        return x * f(n % 3)

    return (step, with_number, [f.__defaults__, f.__kwdefaults__])


@program
def deque_read_only() -> Any:
    d = collections.deque([1.0, 2.0])

    def step(x):
        return (x * d[0] + len(d), 2.0 in d, sum(d), bool(d), max(d))

    def args(i):
        if i == 6:
            d.append(5.0)
        if i == 9:
            d[0] = 7.0
        if i == 11:
            d.clear()
            d.append(1.0)
        return with_tensor(i)

    return (step, args, d)


@program(eager="_contains looks into an object of ChainMap", feature="OBJECT", line='return x * m["k"]')
def chainmap_outside() -> Any:
    a = {"k": 1.0}
    m = collections.ChainMap({}, a)

    def step(x):
        return x * m["k"]

    def args(i):
        if i == 7:
            a["k"] = 2.0
        return with_tensor(i)

    return (step, args, a)


@program
def dict_of_callbacks() -> Any:
    hist = []
    cbs = {"log": lambda row, n: hist.append((n, float(row))), "stop": lambda row, n: n > 100}

    def step(x, n):
        row = tf.reduce_mean(x)
        for name, cb in cbs.items():
            if cb(row, n):
                return name
        return row

    return (step, with_number, hist)


@program
def sorting_objects() -> Any:

    class Item:
        def __init__(self, k):
            self.k = k

    items = [Item(3), Item(1), Item(2)]

    def step(x, n):
        s = sorted(items, key=lambda i: i.k)
        m = max(items, key=lambda i: (i.k, 0))
        items.sort(key=operator.attrgetter("k"), reverse=n % 2 == 0)
        items[0].k += n % 3
        return (x * m.k, [i.k for i in s])

    return (step, with_number, items)


@program
def deque_window_mean() -> Any:
    d = collections.deque(maxlen=4)

    def step(x):
        d.append(tf.reduce_mean(x))
        return sum(d) / len(d)

    return (step, with_tensor, d)


@program
def slices_of_made() -> Any:

    def step(x, n):
        row = [x, n, "a", 2.0]
        t = tuple(row)[1:]
        row[1:1] = [5, 6]
        row[::2] = [0] * len(row[::2])
        del row[:1]
        a = [*range(n % 3)]
        a[len(a) :] = [9]
        return (row, t, a, row[-1], [1, 2, 3][n % 3 :], "hello"[n % 3], (1, 2, 3)[n % 3])

    return (step, with_number, None)


@program
def a_list_that_grows_before_a_loop_takes_from_it() -> Any:
    """The loop is tried in the graph, and taken back: what was added before it stays added."""
    model = types.SimpleNamespace(items=[1.0, 2.0, 3.0])

    def step(x: tf.Tensor, left: tf.Tensor) -> Any:
        model.items.append(4.0)
        while left > 0.25:
            left = left * 0.5 - 0.1
            model.items[-1:] = []
        model.items.append(float(left))
        found = list(model.items)
        model.items[:] = [*found, 5.0, 6.0][:3]
        return x, found

    return step, lambda i: (tensor(i), tf.constant(float(i % 3))), model


@program
def a_list_that_grows_before_a_branch_with_a_loop_cuts_it() -> Any:
    """Several branches and a loop around one list that was changed before all of them."""
    model = types.SimpleNamespace(items=[1.0, 2.0], seen=0)

    def step(x: tf.Tensor, left: tf.Tensor) -> tf.Tensor:
        model.items.append(3.0)
        if left > 1.5:
            model.items[-1:] = []
        elif left > 0.5:
            model.items.append(4.0)
            while left > 0.25:
                left = left * 0.5 - 0.1
                model.items[-1:] = [float(left)]
            model.items[:1] = []
        else:
            model.items[-1:] = []
        model.seen = len(model.items)
        model.items[:] = model.items[:2]
        return x * left

    return step, lambda i: (tensor(i), tf.constant(float(i % 3))), model


@program
def a_dict_that_is_set_before_a_branch_goes_through_it() -> Any:
    """Single items are set first; then a branch looks at all of them."""
    model = types.SimpleNamespace(items={"a": 1.0, "b": 0.0})

    def step(x: tf.Tensor, left: tf.Tensor) -> tf.Tensor:
        model.items["b"] = 2.0
        model.items["a"] = 3.0
        if left > 1.5:
            total = sum(model.items.values())
            model.items["b"] = 6.0
        elif left > 0.5:
            model.items.update(a=4.0, b=float(left))
            total = model.items["b"]
        else:
            total = 0.0
        return x * total + model.items.get("a", 7.0)

    return step, lambda i: (tensor(i), tf.constant(float(i % 3))), model


@program
def containers_that_one_way_changes_and_another_goes_through() -> Any:
    """One way writes single members, the other reads the whole; neither may lose what the other does."""
    model = types.SimpleNamespace(items=[1.0, 2.0], table={"a": 1.0, "b": 2.0})

    def step(x: tf.Tensor, left: tf.Tensor) -> Any:
        if left > 0.5:
            model.items.append(3.0)
            model.table["a"] = 4.0
            total = 5.0
        else:
            model.items[:] = [value * 0.5 for value in reversed([*model.items, 4.0])]
            total = sum(model.table.values())
            model.table["b"] = total
        found = list(model.items)
        model.items[:] = model.items[1:]
        return x * total, found

    return step, lambda i: (tensor(i), tf.constant(float(i % 3))), model
