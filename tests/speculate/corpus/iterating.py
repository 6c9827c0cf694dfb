"""Generators, iterators and what goes through them, lazily as Python does."""

from __future__ import annotations

import itertools
import re
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number


@program
def late_binding() -> Any:

    def step(x):
        fs = []
        for i in range(3):
            fs.append(lambda v: v * i)
        gs = [(lambda j: lambda v: v * j)(i) for i in range(3)]
        return ([f(x) for f in fs], [g(x) for g in gs])

    return (step, with_tensor, None)


@program
def zips() -> Any:

    def step(x, n):
        a = [1, 2, 3]
        o = []
        for i, (p, q) in enumerate(zip(a, reversed(a), strict=True), start=n):
            o.append((i, p * q))
        for a1, a2 in zip(a, a[1:]):
            o.append(a1 - a2)
        o += list(map(lambda p, q: p + q, a, [4, 5])) + list(filter(None, [0, 1, n])) + list(map(str, a))
        o.append(dict(zip("ab", [1, n])))
        o.append(any((v > 2 for v in a)))
        o.append(all([]))
        o.append(sum([[1], [2]], []))
        o.append(sum(range(5), n))
        k, v = zip(*{"a": 1, "b": 2}.items())
        return (x, o, k, v, list(enumerate("ab")), next(iter(a)), next(iter([]), None), tuple(reversed(range(3))))

    return (step, with_number, None)


@program
def itertools_mod() -> Any:

    def step(x, n):
        o = [
            list(itertools.chain([1], [n], "a")),
            list(itertools.product([1, 2], repeat=2)),
            list(itertools.combinations(range(3), 2)),
            list(itertools.permutations([1, n])),
            list(itertools.accumulate([1, n, 3])),
            list(itertools.islice(itertools.count(n), 3)),
            list(itertools.repeat(n, 2)),
            list(itertools.zip_longest([1, 2], [n], fillvalue=0)),
            list(itertools.starmap(pow, [(2, 3)])),
            list(itertools.takewhile(lambda v: v < 3, [1, 2, 5])),
            list(itertools.dropwhile(lambda v: v < 3, [1, 5])),
            list(itertools.compress("ab", [1, 0])),
            list(itertools.pairwise([1, 2, 3])),
            [(k, list(g)) for k, g in itertools.groupby([1, 1, 2])],
            list(itertools.chain.from_iterable([[1], [2]])),
            list(itertools.islice([1, 2, 3], 1, None)),
        ]
        for a, b in itertools.product([1, 2], [3.0]):
            x = x + a * b
        return (x, o)

    return (step, with_number, None)


@program(eager="next of a cycle", feature="ITERATOR", line="return x * next(c)")
def itertools_cycle() -> Any:
    c = itertools.cycle([1.0, 2.0, 3.0])

    def step(x):
        return x * next(c)

    return (step, with_tensor, None)


@program
def dict_iteration() -> Any:
    d = {"a": 1, "b": 2.0, "c": None}

    def step(x, n):
        o = []
        for k in d:
            o.append(k)
        for k, v in d.items():
            if v:
                x = x * v
        for v in d.values():
            o.append(v)
        for i, (k, v) in enumerate(sorted(d.items(), key=lambda kv: kv[0], reverse=True)):
            o.append((i, k))
        ks = d.keys() & {"a", "z"}
        o.append(sorted(ks))
        o.append(list(reversed(d)))
        o.append("a" in d.keys())
        o.append(len(d.values()))
        o.append(max(d))
        o.append(d.keys() == {"a", "b", "c"})
        for k in list(d):
            if d[k] is None:
                o.append(d.get(k, 5))
        d["b"] = float(n)
        return (x, o)

    return (step, with_number, d)


@program
def list_grows_in_loop() -> Any:
    kept = [1]

    def step(x, n):
        row = [1, 2, 3]
        for v in row:
            if v < 3 and len(row) < 6:
                row.append(v + 1)
        for v in kept:
            if len(kept) < 4:
                kept.append(n)
        kept[:] = [1]
        for v in row[:]:
            if v == 2:
                row.remove(v)
        return (x, row)

    return (step, with_number, kept)


@program
def dict_changes_in_loop() -> Any:

    def step(x, n):
        d = {"a": 1}
        try:
            for k in d:
                d[k + "b"] = 1
        except RuntimeError as e:
            return (x, str(e))
        return x

    return (step, with_number, None)


@program
def lazy_map_effects() -> Any:
    log = []

    def f(v):
        log.append(v)
        return v * 2

    def step(x):
        m = map(f, [1, 2, 3])
        log.append("made")
        a = next(m)
        log.append("one")
        b = any((f(v) > 3 for v in [1, 2, 3]))
        c = next((v for v in [1, 2, 3] if f(v) > 2), None)
        d = all((f(v) < 3 for v in (1, 2, 3)))
        g = (f(v) for v in [7])
        log.append("g")
        return (x * a, list(m), b, c, d, list(g), [v for v in filter(lambda q: f(q) > 2, [1, 2])])

    return (step, with_tensor, log)


@program
def iter_shared() -> Any:

    def step(x):
        it = iter([1, 2, 3, 4, 5])
        a = []
        for v in it:
            a.append((v, next(it, None)))
        it2 = iter("abcd")
        pairs = list(zip(it2, it2))
        it3 = iter(range(5))
        f = next(it3)
        rest = list(it3)
        it4 = iter([1, 2, 3])
        for v in it4:
            if v == 2:
                break
        return (x, a, pairs, f, rest, list(it4))

    return (step, with_tensor, None)


@program
def user_iterator() -> Any:

    class It:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n <= 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def step(x, n):
        return (x, list(It(3)), sum(It(n % 3)), [v for v in It(2)], next(It(2)), sorted(It(3)))

    return (step, with_number, None)


@program
def user_getitem_iter() -> Any:

    class S:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError(i)
            return i * 2

    s = S()

    def step(x):
        return (x, list(s), 4 in s, [v for v in s])

    return (step, with_tensor, None)


def with_sign(i: int) -> tuple[tf.Tensor, tf.Tensor]:
    """A matrix, and -1, 0 or 1."""
    return tensor(i), tf.constant(float(i % 3) - 1.0)


@program
def any_asks_no_further() -> Any:
    """Members after the one that decides are not evaluated: the program would notice."""
    asked: list[int] = []

    def is_positive(value: Any) -> Any:
        asked.append(1)
        return value > 0.0

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        found = any(is_positive(s + k) for k in (0.0, 1.0, 2.0))
        every = all(map(is_positive, [s + 2.0, s, s - 1.0]))
        return (x if found else -x) * (2.0 if every else 3.0)

    return step, with_sign, asked


@program(
    eager="as a tensor decides", feature="EFFECT_IN_BRANCH", line="return any(is_positive(s + k) for k in (0.0, 1.0))"
)
def any_prints_no_further() -> Any:
    def is_positive(value: Any) -> Any:
        print("asked")
        return value > 0.0

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        return any(is_positive(s + k) for k in (0.0, 1.0))

    return step, with_sign, []


@program(
    eager="in a branch or loop of the graph",
    feature="RANDOM",
    line="found = any(s + tf.random.uniform([]) > 0.5 for _ in range(3))",
)
def any_draws_no_further() -> Any:
    tf.random.set_seed(1)

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        found = any(s + tf.random.uniform([]) > 0.5 for _ in range(3))
        return found, tf.random.uniform([])

    return step, with_sign, []


@program
def any_raises_only_where_it_asks() -> Any:
    """A handler around must not catch what is not raised."""

    def is_positive(value: Any, k: int) -> Any:
        if k:
            raise ValueError(k)
        return value > 0.0

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        try:
            return x if any(is_positive(s, k) for k in range(2)) else -x
        except ValueError:
            return x * 2.0

    return step, with_sign, []


@program
def types_of_results_differ() -> Any:
    """A power of an integer is a float where the exponent is negative; a search finds nothing."""
    seen: list[Any] = []

    def step(x: tf.Tensor, n: int, name: str) -> Any:
        power, match = 2**n, re.match("a([0-9])", name)
        seen.append((isinstance(power, int), type(power).__name__, hasattr(power, "hex")))
        seen.append("nothing" if match is None else match.group(1))
        return x * float(power)

    return step, lambda i: (tensor(i), i % 3 - 1, f"a{i}" if i % 4 else f"b{i}"), seen


@program(
    eager="only after the graph",
    feature="LATE_VALUE",
    line='seen.append("nothing" if found is None else found.group(1))',
)
def a_search_in_a_late_text() -> Any:
    seen: list[Any] = []

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        found = re.match("-([0-9])", f"{float(s)}")
        seen.append("nothing" if found is None else found.group(1))
        return x

    return step, with_sign, seen


_LENGTHS = ([2, 1, 3], [1, 3], [3, 0, 2, 1], [2])


def _ragged(i: int) -> tuple[tf.RaggedTensor]:
    """Rows of other lengths in every call, and other numbers of them after the fifth."""
    lengths = _LENGTHS[i % 4] if i > 5 else [1 + i % 2, 2, 0]
    return (tf.RaggedTensor.from_row_lengths(tf.range(float(sum(lengths))) + float(i), lengths),)


@program
def rows_of_a_ragged_tensor() -> Any:
    def step(ragged: tf.RaggedTensor) -> Any:
        total = tf.constant(0.0)
        for number, row in enumerate(ragged):
            total = total * 0.5 + tf.reduce_sum(row) * float(number)
        for row, by in zip(ragged, tf.range(9.0)):
            if tf.size(row) > 2:
                break
            total = total + by
        return total, [len(row) for row in ragged]

    return step, _ragged, None


@program
def values_in_the_rows_of_a_ragged_tensor() -> Any:
    def step(ragged: tf.RaggedTensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(ragged.flat_values)
            total = tf.constant(1.0)
            for row in ragged:
                for value in row:
                    total = total * 0.5 + value * value
        return total, tape.gradient(total, ragged.flat_values)

    return step, _ragged, None


@program
def rows_in_the_rows_of_a_ragged_tensor() -> Any:
    def step(flat: tf.Tensor, lengths: tf.Tensor) -> Any:
        ragged = tf.RaggedTensor.from_nested_row_lengths(flat, [[2, 1], lengths])
        kept = []
        for rows in ragged:
            for row in rows:
                for value in row:
                    kept.append(value * 2.0)
        return kept

    return step, lambda i: (tf.range(4.0) + float(i), tf.constant([1 + i % 2, 2 - i % 2, 1])), None
