"""Random recursions over graphs whose nodes share children, and the two ways to run one: as SubGraphs, and eagerly.

The eager one is a Python function that calls itself: it computes a node once for every path that leads to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

import recgraph as rg

WIDTH, WORDS = 2, 4
NODE = tf.TensorSpec([], tf.int32)

# What a call is given for a vector and an integer of its caller; what is made of results.
VECTORS = ("same", "same", "same", "identity", "stopped", "made", "constant", "captured", "looked up")
INTEGERS = ("same", "same", "next", "word", "zero")
JOINS = ("add", "add", "mul", "first", "second")


@dataclasses.dataclass(frozen=True)
class Call:
    """Function `callee` for a child, with what it is given otherwise; `result` is the one of two that is used.

    Attributes:
        where: "always", or the condition under which it is called; else its place is taken by the caller's vector.
    """

    callee: int
    child: int
    vector: str
    integer: str
    result: int
    where: str


@dataclasses.dataclass(frozen=True)
class Body:
    """What a function does at an inner node, and what it makes of a leaf."""

    calls: tuple[Call, ...]
    joins: tuple[str, ...]
    leaf: str


@dataclasses.dataclass(frozen=True)
class Graph:
    """Children of each node, smaller than it or -1, a word of each, and the roots."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    words: tuple[int, ...]
    roots: tuple[int, ...]


def bodies(vectors: Sequence[str] = VECTORS) -> st.SearchStrategy[tuple[Body, ...]]:
    """One to three functions that call one another."""
    return st.integers(1, 3).flatmap(lambda count: st.tuples(*[_body(count, vectors)] * count))


@st.composite
def _body(draw: st.DrawFn, count: int, vectors: Sequence[str]) -> Body:
    children = draw(st.sampled_from([(0, 1), (0, 1), (0, 0), (1, 0, 1)]))
    calls = tuple(
        Call(
            draw(st.integers(0, count - 1)),
            child,
            draw(st.sampled_from(vectors)),
            draw(st.sampled_from(INTEGERS)),
            draw(st.integers(0, 1)),
            draw(st.sampled_from(["always", "always", "always", "odd", "word"])),
        )
        for child in children
    )
    joins = tuple(draw(st.sampled_from(JOINS)) for _ in calls)
    return Body(calls, joins, draw(st.sampled_from(["vector", "word", "both", "integer"])))


@st.composite
def graphs(draw: st.DrawFn, most_paths: int = 200) -> Graph:
    """Layers of two nodes with both below each, ladders, diamonds, and any others."""
    size = draw(st.integers(1, 14))
    kind = draw(st.sampled_from(["layers", "ladder", "same", "any"]))
    left, right, paths = [], [], []
    for i in range(size):
        if kind == "layers":
            below = (i - 2 - i % 2, i - 1 - i % 2) if i > 1 else (-1, -1)
        elif kind == "ladder":
            below = (i - 1, i - 2) if i > 1 else (-1, -1)
        elif kind == "same":
            below = (i - 1, i - 1)
        else:
            inner = i > 0 and draw(st.integers(0, 4)) > 0
            below = tuple(draw(st.integers(0, i - 1)) for _ in range(2)) if inner else (-1, -1)
        costs = sum(paths[child] for child in (*below, *below[:1]) if child >= 0)
        if below[0] < 0 or costs > most_paths:
            below, costs = (-1, -1), 0
        left.append(below[0])
        right.append(below[1])
        paths.append(1 + costs)
    words = tuple(draw(st.integers(0, WORDS - 1)) for _ in range(size))
    roots = (size - 1, *(draw(st.integers(0, size - 1)) for _ in range(draw(st.integers(0, 3)))))
    return Graph(tuple(left), tuple(right), words, roots)


@tf.custom_gradient
def clipped(x: tf.Tensor) -> Any:
    """x, whose gradient is cut off at a tenth: that of a sum is not the sum of those."""
    return tf.identity(x), lambda dy: tf.clip_by_value(dy, tf.cast(-0.1, dy.dtype), tf.cast(0.1, dy.dtype))


@tf.custom_gradient
def squared(x: tf.Tensor) -> Any:
    """x, whose gradient is the square of what comes from above."""
    return tf.identity(x), tf.square


class World:
    """What bodies read: a graph that changes from run to run, and weights."""

    def __init__(self, dtype: tf.DType = tf.float32) -> None:
        self.dtype = dtype
        self.left, self.right, self.words = (
            tf.Variable(tf.zeros([0], tf.int32), shape=[None], trainable=False) for _ in range(3)
        )
        rng = np.random.default_rng(0)
        self.embedding, self.kernel, self.bias = (
            tf.Variable(tf.cast(rng.uniform(-0.8, 0.8, shape), dtype))
            for shape in ([WORDS, WIDTH], [WIDTH, WIDTH], [WIDTH])
        )

    @property
    def weights(self) -> list[tf.Variable]:
        """What there are gradients for."""
        return [self.embedding, self.kernel, self.bias]

    def show(self, graph: Graph) -> None:
        """Takes the place of the graph before."""
        for variable, values in ((self.left, graph.left), (self.right, graph.right), (self.words, graph.words)):
            variable.assign(np.array(values, np.int32))

    def vector(self, kind: str, node: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        """What a call is given."""
        makers: dict[str, Callable[[], tf.Tensor]] = {
            "same": lambda: x,
            "identity": lambda: tf.identity(x),
            "stopped": lambda: tf.stop_gradient(x),
            "made": lambda: tf.tanh(1.5 * x),
            "constant": lambda: tf.constant([0.3, -0.6], self.dtype),
            "captured": lambda: tf.convert_to_tensor(self.bias),
            "looked up": lambda: tf.gather(self.embedding, tf.gather(self.words, node)),
            "clipped": lambda: clipped(x),
            "squared": lambda: squared(x),
        }
        return makers[kind]()

    def integer(self, kind: str, node: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
        """What a call is given that decides nothing but conditions of its own."""
        if kind == "word":
            return tf.gather(self.words, node)
        return {"same": k, "next": k + 1, "zero": tf.zeros([], tf.int32)}[kind]

    def leaf(self, kind: str, node: tf.Tensor, k: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The results at a leaf."""
        word = tf.gather(self.embedding, tf.gather(self.words, node))
        number = tf.cast(k, self.dtype)
        parts = {"vector": x, "word": word, "both": tf.sin(x) * word, "integer": 0.1 * number * x + word}
        return parts[kind], x

    def inner(
        self,
        body: Body,
        node: tf.Tensor,
        k: tf.Tensor,
        x: tf.Tensor,
        call: Callable[..., Any],
        when: Callable[..., Any],
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The results at an inner node."""
        below = (tf.gather(self.left, node), tf.gather(self.right, node))
        state = total = x
        for one, join in zip(body.calls, body.joins, strict=True):

            def called(one: Call = one) -> tf.Tensor:
                given = self.integer(one.integer, node, k), self.vector(one.vector, node, x)
                return call(one.callee, below[one.child], *given)[one.result]

            conditions = {"odd": lambda: k % 2 > 0, "word": lambda: tf.gather(self.words, node) > 1}
            is_certain = one.where == "always"
            found = called() if is_certain else when(conditions[one.where](), called, lambda: tf.identity(x))
            mixed = tf.tanh(tf.linalg.matvec(self.kernel, found) + self.bias)
            joined = {"add": state + mixed, "mul": state * mixed, "first": mixed, "second": state - 0.5 * found}
            state, total = joined[join], total + found
        return tf.tanh(state), tf.sin(total)


def as_subgraph(world: World, program: Sequence[Body], **options: Any) -> rg.SubGraph:
    """All functions declared, then all defined; the first of them, which is given a node, an integer and a vector."""
    vector = tf.TensorSpec([WIDTH], world.dtype)
    functions = [
        rg.SubGraph(f"f{i}", inputs=(NODE, NODE, vector), outputs=(vector, vector), **options)
        for i in range(len(program))
    ]
    call = lambda callee, *arguments: functions[callee](*arguments)  # noqa: E731
    for function, body in zip(functions, program, strict=True):
        with function:
            node, k, x = function.declared_arguments()
            is_leaf = tf.gather(world.left, node) < 0

            def leaf(body: Body = body, given: Any = (node, k, x)) -> Any:
                return world.leaf(body.leaf, *given)

            def inner(body: Body = body, given: Any = (node, k, x)) -> Any:
                return world.inner(body, *given, call, tf.cond)

            function.output(tf.cond(is_leaf, leaf, inner))
    return functions[0]


def as_python(world: World, program: Sequence[Body]) -> Callable[..., Any]:
    """The first function in plain Python."""

    def when(condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        return yes() if condition else no()

    def call(callee: int, node: tf.Tensor, k: tf.Tensor, x: tf.Tensor) -> Any:
        body = program[callee]
        if int(tf.gather(world.left, node)) < 0:
            return world.leaf(body.leaf, node, k, x)
        return world.inner(body, node, k, x, call, when)

    return lambda node, k, x: call(0, node, k, x)
