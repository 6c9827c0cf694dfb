"""Random bodies with effects: either engine has the effects of a sequential Python program, in an order that it allows.

A body is a list of statements over `x` (int32, grows with whatever happens, so that it tells moments apart) and `y`
(float32, to be differentiated), of which each reads what the one before it made:

    ("note", i)            logs, and goes on when that is done
    ("mark", i)            logs, and nobody waits for it but the end of the body, branch or iteration
    ("count",)             adds to a variable and reads it
    ("look up",)           reads a table and writes it
    ("scale",)             multiplies y by a weight
    ("if", a, b)           statements `a` where x is even, `b` otherwise
    ("loop", times, a)
    ("call", f)            function f of the program, at n - 1, unless n is 0
    ("map", f)             the same, mapped over one row
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import recgraph as rg
from recgraph import testing
from tests import sampling

Statement = tuple[Any, ...]
State = tuple[Any, Any]
Key = tuple[int, int]  # which statement, and x
WEIGHT = 1.5


@dataclasses.dataclass
class Mark:
    """What is logged beside the line of events: between how many notes it must lie."""

    key: Key
    first: int
    last: int | None = None


class Reference:
    """A program run by Python, one statement after the other."""

    def __init__(self, functions: list[list[Statement]]) -> None:
        self.functions = functions
        self.notes: list[Key] = []
        self.marks: list[Mark] = []
        self.counter = self.scalings = 0
        self.table: dict[int, int] = {}

    def body(self, f: int, n: int, x: int) -> int:
        """What function f makes of x."""
        return self.run(self.functions[f], n, x + 1)

    def run(self, statements: list[Statement], n: int, x: int) -> int:
        """What statements make of x."""
        mine = []
        for kind, *rest in statements:
            if kind == "mark":
                mine.append(Mark((rest[0], x), len(self.notes)))
            else:
                x = getattr(self, "_" + kind.replace(" ", "_"))(n, x, *rest)
        for mark in mine:
            mark.last = len(self.notes)
        self.marks += mine
        return x

    def _note(self, n: int, x: int, statement: int) -> int:
        self.notes.append((statement, x))
        return x + 1

    def _count(self, n: int, x: int) -> int:
        self.counter += x
        return x + self.counter % 3 + 1

    def _look_up(self, n: int, x: int) -> int:
        found = self.table.get(x % 5, 0)
        self.table[x % 5] = x
        return x + found % 3 + 1

    def _scale(self, n: int, x: int) -> int:
        self.scalings += 1
        return x

    def _if(self, n: int, x: int, then: list[Statement], otherwise: list[Statement]) -> int:
        return self.run(otherwise if x % 2 else then, n, x)

    def _loop(self, n: int, x: int, times: int, inner: list[Statement]) -> int:
        for _ in range(times):
            x = self.run(inner, n, x + 1)
        return x

    def _call(self, n: int, x: int, f: int) -> int:
        return self.body(f, n - 1, x) if n > 0 else x

    _map = _call


class Graph:
    """A program as SubGraphs; `log` is what its operations note, in order."""

    def __init__(self, functions: list[list[Statement]], engine: str) -> None:
        self.log: list[tuple[str, Key]] = []
        self.counter, self.weight = tf.Variable(0), tf.Variable(WEIGHT)
        self.table = tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, default_value=0)
        integer, real = tf.TensorSpec([], tf.int32), tf.TensorSpec([])
        self.functions = [
            rg.SubGraph(f"f{i}", (integer, integer, real), (integer, real), engine=engine)
            for i in range(len(functions))
        ]
        for function, statements in zip(self.functions, functions, strict=True):
            with function:
                n, x, y = function.declared_arguments()
                function.output(self.run(statements, n, (x + 1, y)))

    def reset(self) -> None:
        """Forgets all effects."""
        self.log.clear()
        self.counter.assign(0)
        self.table.remove(tf.range(5))

    def run(self, statements: list[Statement], n: tf.Tensor, state: State) -> State:
        """Adds the operations of statements."""
        for kind, *rest in statements:
            state = getattr(self, "_" + kind.replace(" ", "_"))(n, *state, *rest)
        return state

    def _logged(self, kind: str, statement: int, x: tf.Tensor) -> tf.Tensor:
        def write(x: np.ndarray) -> np.ndarray:
            self.log.append((kind, (statement, int(x))))
            return x + np.int32(1)

        return tf.ensure_shape(tf.numpy_function(write, [x], tf.int32), [])

    def _note(self, n: tf.Tensor, x: tf.Tensor, y: tf.Tensor, statement: int) -> State:
        return self._logged("note", statement, x), y

    def _mark(self, n: tf.Tensor, x: tf.Tensor, y: tf.Tensor, statement: int) -> State:
        self._logged("mark", statement, x)
        return x, y

    def _count(self, n: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> State:
        self.counter.assign_add(x)
        return x + self.counter.read_value() % 3 + 1, y

    def _look_up(self, n: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> State:
        found = tf.ensure_shape(self.table.lookup(x % 5), [])
        self.table.insert(x % 5, x)
        return x + found % 3 + 1, y

    def _scale(self, n: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> State:
        return x, y * self.weight

    def _if(self, n: tf.Tensor, x: tf.Tensor, y: tf.Tensor, then: list[Statement], otherwise: list[Statement]) -> State:
        return tf.cond(x % 2 == 0, lambda: self.run(then, n, (x, y)), lambda: self.run(otherwise, n, (x, y)))

    def _loop(self, n: tf.Tensor, x: tf.Tensor, y: tf.Tensor, times: int, inner: list[Statement]) -> State:
        step = lambda i, x, y: (i + 1, *self.run(inner, n, (x + 1, y)))  # noqa: E731
        return tf.while_loop(lambda i, x, y: i < times, step, (0, x, y))[1:]

    def _call(self, n: tf.Tensor, x: tf.Tensor, y: tf.Tensor, f: int) -> State:
        return tf.cond(n > 0, lambda: self.functions[f](n - 1, x, y), lambda: (x, y))

    def _map(self, n: tf.Tensor, x: tf.Tensor, y: tf.Tensor, f: int) -> State:
        def mapped() -> State:
            made = self.functions[f].map((n - 1)[None], x[None], y[None])
            return tuple(tf.ensure_shape(value[0], []) for value in made)

        return tf.cond(n > 0, mapped, lambda: (x, y))


@st.composite
def programs(draw: st.DrawFn) -> list[list[Statement]]:
    """One or two functions."""
    count = draw(st.integers(1, 2))
    numbers = iter(range(1000))
    calls = [iter(range(2)) for _ in range(count)]  # a function makes two calls at most
    return [list(_statements(draw, count, numbers, calls[f], depth=2)) for f in range(count)]


def _statements(
    draw: st.DrawFn, count: int, numbers: Iterator[int], calls: Iterator[int], depth: int
) -> Iterator[Statement]:
    kinds = ["note", "mark", "mark", "count", "look up", "scale", "call", "map"] + ["if", "loop"] * (depth > 0)
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4)):
        inner = lambda: list(_statements(draw, count, numbers, calls, depth - 1))  # noqa: E731
        if kind in ("note", "mark"):
            yield kind, next(numbers)
        elif kind in ("call", "map"):
            if next(calls, None) is not None:
                yield kind, draw(st.integers(0, count - 1))
        elif kind == "if":
            yield kind, inner(), inner()
        elif kind == "loop":
            yield kind, draw(st.integers(0, 2)), inner()
        else:
            yield (kind,)


def check(graph: Graph, reference: Reference, function: Callable[..., Any], n: int, expected: int) -> None:
    """One run: its results, its gradient, and what it logged."""
    graph.reset()
    with tf.GradientTape() as tape:
        x, y = function(tf.constant(n), tf.constant(0), tf.constant(1.0))
    power = reference.scalings
    assert int(x) == expected
    np.testing.assert_allclose(y, WEIGHT**power, rtol=1e-5)
    gradient = tape.gradient(y, graph.weight)
    np.testing.assert_allclose(0 if gradient is None else gradient, power * WEIGHT ** (power - 1), rtol=1e-5)
    assert int(graph.counter) == reference.counter
    assert {int(k): int(v) for k, v in zip(*graph.table.export(), strict=True)} == reference.table
    assert [key for kind, key in graph.log if kind == "note"] == reference.notes
    marks = [key for kind, key in graph.log if kind == "mark"]
    assert sorted(marks) == sorted(mark.key for mark in reference.marks)
    for mark in reference.marks:
        before = graph.log[: graph.log.index(("mark", mark.key))]
        assert mark.first <= sum(kind == "note" for kind, _ in before) <= mark.last, (mark, graph.log)


# Not made smaller when one fails: that takes minutes, and the program is printed as it is.
@pytest.mark.slow
@settings(max_examples=30, deadline=None, phases=sampling.PHASES)
@given(programs(), st.integers(1, 3))
def test_random_effects(program: list[list[Statement]], n: int) -> None:
    """By both engines, under all of their policies, eager and staged."""
    reference = Reference(program)
    expected = reference.body(0, n, 0)
    for engine, policies in (("parallel", testing.POLICIES), ("batched", testing.BATCH_POLICIES)):
        graph = Graph(program, engine)
        for policy in policies:
            with (testing.policy if engine == "parallel" else testing.batch_policy)(policy):
                check(graph, reference, graph.functions[0], n, expected)
        check(graph, reference, tf.function(graph.functions[0]), n, expected)


def test_the_check_sees_a_wrong_order() -> None:
    """A mark that comes after its body has ended, and notes that change places."""
    program = [[("mark", 0), ("note", 1), ("note", 2), ("call", 0)]]
    reference, graph = Reference(program), Graph(program, "parallel")
    expected = reference.body(0, 1, 0)
    check(graph, reference, graph.functions[0], 1, expected)
    for wrong in ([4, 1, 2, 3, 0, 5], [0, 2, 1, 3, 4, 5], [0, 1, 2, 4, 5, 3]):

        def shuffled(*arguments: tf.Tensor) -> Any:
            results = graph.functions[0](*arguments)
            graph.log[:] = [graph.log[i] for i in wrong]  # noqa: B023
            return results

        seen = False
        try:
            check(graph, reference, shuffled, 1, expected)
        except AssertionError:
            seen = True
        assert seen == (wrong != [0, 1, 2, 4, 5, 3]), wrong
