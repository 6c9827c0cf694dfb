"""Random recursive programs as small trees of tuples, and the two ways to run one: as SubGraphs, and eagerly.

A program is a list of functions that call one another. Function f takes `n` (int32, falls with every call) and
`arity` floats; `base` is what it gives at n <= 0, `step` otherwise. An expression is one of

    ("arg", i)  ("captured", i)  ("constant", c)  ("sin", a)  ("add", a, b)  ("mul", a, b)
    ("if", a, b, c)          b where a > 0, otherwise c
    ("odd", a, b)            a where n % 2, a condition that is a number, otherwise b
    ("case", (a, b, c))      by n % 3
    ("loop", trips, a, b)    a loop from a, whose body b sees what is carried as its last argument
    ("call", f, drop, output, (a, ...))    f(n - drop, a, ...)
    ("map", f, rows, (a, ...))             the sum over rows of f(n - 1 - row, a, ...)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from hypothesis import strategies as st

import recgraph as rg

Expression = tuple[Any, ...]
EXTRAS = (tf.int32, tf.bool, tf.string)


@dataclasses.dataclass(frozen=True)
class Function:
    """One function; its outputs are floats, as many as `base` and `step` have, then one of each dtype in `extras`."""

    arity: int
    base: tuple[Expression, ...]
    step: tuple[Expression, ...]
    extras: tuple[tf.DType, ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """Functions that call one another, the first being the one that is called; n for that; the dtype of floats."""

    functions: tuple[Function, ...]
    n: int
    dtype: tf.DType


# Making programs.


def _leaf(arity: int) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.tuples(st.just("arg"), st.integers(0, arity - 1)),
        st.tuples(st.just("captured"), st.integers(0, 3)),
        st.tuples(st.just("constant"), st.sampled_from([-0.7, 0.4, 1.2])),
    )


def _grown(below: Callable[[int], st.SearchStrategy[Expression]], arity: int) -> st.SearchStrategy[Expression]:
    """One more level of expressions without calls."""
    a = below(arity)
    return st.one_of(
        st.tuples(st.just("sin"), a),
        st.tuples(st.sampled_from(["add", "mul"]), a, a),
        st.tuples(st.just("if"), a, a, a),
        st.tuples(st.just("odd"), a, a),
        st.tuples(st.just("case"), st.tuples(a, a, a)),
        st.tuples(st.just("loop"), st.integers(0, 2), a, below(arity + 1)),
    )


def _simple(arity: int, depth: int = 1) -> st.SearchStrategy[Expression]:
    if depth == 0:
        return _leaf(arity)
    return _leaf(arity) | _grown(lambda k: _simple(k, depth - 1), arity)


@st.composite
def _recursive(draw: st.DrawFn, arity: int, shapes: Sequence[tuple[int, int]]) -> Expression:
    """An expression with one or two calls somewhere in it."""
    call = draw(_call(arity, shapes))
    other = draw(st.one_of(_simple(arity), _call(arity, shapes)))
    pair = draw(st.permutations([call, other]))
    kind = draw(st.sampled_from(["add", "mul", "if", "odd", "case", "loop", "call"]))
    if kind in ("add", "mul", "odd"):
        return (kind, *pair)
    if kind == "if":
        return ("if", draw(_simple(arity)), *pair)
    if kind == "case":
        return ("case", (*pair, draw(_leaf(arity))))
    if kind == "loop":
        return ("loop", draw(st.integers(0, 2)), pair[0], ("add", ("arg", arity), pair[1]))
    callee = draw(st.integers(0, len(shapes) - 1))
    return ("call", callee, draw(st.integers(1, 2)), 0, (pair[0],) * shapes[callee][0])


@st.composite
def _call(draw: st.DrawFn, arity: int, shapes: Sequence[tuple[int, int]]) -> Expression:
    callee = draw(st.integers(0, len(shapes) - 1))
    arguments = tuple(draw(_simple(arity, 1)) for _ in range(shapes[callee][0]))
    if draw(st.integers(0, 4)) == 0:
        return ("map", callee, draw(st.integers(0, 2)), arguments)
    return ("call", callee, draw(st.integers(1, 2)), draw(st.integers(0, shapes[callee][1] - 1)), arguments)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """One to three functions, one to three inputs, one or two float outputs, any other outputs."""
    count = draw(st.integers(1, 3))
    shapes = [(draw(st.integers(1, 3)), draw(st.integers(1, 2))) for _ in range(count)]
    functions = []
    for arity, floats in shapes:
        base = tuple(draw(_simple(arity)) for _ in range(floats))
        step = (draw(_recursive(arity, shapes)), *(draw(_simple(arity)) for _ in range(floats - 1)))
        functions.append(Function(arity, base, step, tuple(draw(st.lists(st.sampled_from(EXTRAS), max_size=2)))))
    return Program(
        tuple(functions), draw(st.sampled_from([3, 2, 1, 0])), draw(st.sampled_from([tf.float32, tf.float64]))
    )


# Running them.

Call = Callable[[int, tf.Tensor, Sequence[tf.Tensor]], Sequence[tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class Eager:
    """Control flow is Python's, calls are Python calls."""

    call: Call
    dtype: tf.DType

    def when(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        return yes() if condition else no()

    def case(self, index: tf.Tensor, branches: Sequence[Callable[[], tf.Tensor]]) -> tf.Tensor:
        return branches[int(index)]()

    def loop(self, trips: int, start: tf.Tensor, body: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        for _ in range(trips):
            start = body(start)
        return start

    def map(self, f: int, ns: tf.Tensor, arguments: Sequence[tf.Tensor]) -> tf.Tensor:
        rows = [self.call(f, n, arguments)[0] for n in ns]
        return tf.stack(rows) if rows else tf.zeros([0], self.dtype)


@dataclasses.dataclass(frozen=True)
class Staged:
    """Control flow is TensorFlow's, calls are calls of SubGraphs."""

    subgraphs: Sequence[rg.SubGraph]

    def call(self, f: int, n: tf.Tensor, arguments: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        return self.subgraphs[f](n, *arguments)

    def when(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        return tf.cond(condition, yes, no)

    def case(self, index: tf.Tensor, branches: Sequence[Callable[[], tf.Tensor]]) -> tf.Tensor:
        return tf.switch_case(index, list(branches))

    def loop(self, trips: int, start: tf.Tensor, body: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        return tf.while_loop(lambda i, _: i < trips, lambda i, x: (i + 1, body(x)), [0, start])[1]

    def map(self, f: int, ns: tf.Tensor, arguments: Sequence[tf.Tensor]) -> tf.Tensor:
        rows = [tf.repeat(argument[None], tf.shape(ns)[0]) for argument in arguments]
        return self.subgraphs[f].map(ns, *rows)[0]


def evaluate(e: Expression, n: tf.Tensor, arguments: Sequence[Any], captured: Sequence[Any], way: Any) -> tf.Tensor:
    """The value of an expression, computed one way or the other."""

    def of(inner: Expression, *carried: tf.Tensor) -> tf.Tensor:
        return evaluate(inner, n, [*arguments, *carried], captured, way)

    kind, rest = e[0], e[1:]
    if kind == "arg":
        return tf.identity(arguments[rest[0]])
    if kind == "captured":
        return tf.identity(captured[rest[0]])
    if kind == "constant":
        return tf.constant(rest[0], arguments[0].dtype)
    if kind == "if":
        return way.when(of(rest[0]) > 0, lambda: of(rest[1]), lambda: of(rest[2]))
    if kind == "odd":
        return way.when(n % 2, lambda: of(rest[0]), lambda: of(rest[1]))
    if kind == "case":
        return way.case(n % 3, [lambda b=b: of(b) for b in rest[0]])
    if kind == "loop":
        return way.loop(rest[0], of(rest[1]), lambda x: tf.tanh(of(rest[2], x)))
    if kind == "call":
        f, drop, output, given = rest
        return way.call(f, n - drop, [of(a) for a in given])[output]
    if kind == "map":
        f, rows, given = rest
        return tf.reduce_sum(way.map(f, n - 1 - tf.range(rows), [of(a) for a in given]))
    parts = [of(a) for a in rest]
    return {"sin": tf.sin, "add": lambda a, b: a + b, "mul": lambda a, b: tf.tanh(a * b)}[kind](*parts)


def body(program: Program, f: int, n: tf.Tensor, arguments: Sequence[Any], captured: Sequence[Any], way: Any) -> Any:
    """What function f gives."""
    function = program.functions[f]

    def at_the_end() -> tuple[tf.Tensor, ...]:
        ends = {tf.int32: n, tf.bool: n < 0, tf.string: tf.strings.as_string(n)}
        floats = [evaluate(e, n, arguments, captured, way) for e in function.base]
        return (*floats, *(tf.identity(ends[extra]) for extra in function.extras))

    def on_the_way() -> tuple[tf.Tensor, ...]:
        floats = [evaluate(e, n, arguments, captured, way) for e in function.step]
        if not function.extras:
            return tuple(floats)
        below = way.call(f, n - 1, arguments)[len(floats) :]
        more = {tf.int32: lambda b: 2 * b + n, tf.bool: tf.logical_not, tf.string: lambda b: b + "x"}
        return (*floats, *(more[b.dtype](b) for b in below))

    return way.when(n > 0, on_the_way, at_the_end)


def as_subgraph(program: Program, captured: Sequence[Any], **options: Any) -> rg.SubGraph:
    """All functions declared, then all defined; the first of them."""
    subgraphs = []
    for i, function in enumerate(program.functions):
        inputs = (tf.TensorSpec([], tf.int32), *[tf.TensorSpec([], program.dtype)] * function.arity)
        dtypes = [*[program.dtype] * len(function.base), *function.extras]
        outputs = tuple(tf.TensorSpec([], dtype) for dtype in dtypes)
        subgraphs.append(rg.SubGraph(f"f{i}", inputs=inputs, outputs=outputs, **options))
    for i, subgraph in enumerate(subgraphs):
        with subgraph:
            n, *arguments = subgraph.declared_arguments()
            subgraph.output(body(program, i, n, arguments, captured, Staged(subgraphs)))
    return subgraphs[0]


def captures_and_inputs(program: Program) -> tuple[list[Any], list[tf.Tensor]]:
    """Two captured variables and two captured tensors; the float inputs of the first function."""
    captured = [tf.Variable(0.9, dtype=program.dtype), tf.constant(-0.6, program.dtype)]
    captured += [tf.Variable(-1.1, dtype=program.dtype), tf.constant(0.3, program.dtype)]
    return captured, [tf.constant(value, program.dtype) for value in (0.8, -0.5, 1.3)][: program.functions[0].arity]


def as_python(program: Program, captured: Sequence[Any]) -> Callable[..., Any]:
    """The first function in plain Python."""

    def call(f: int, n: tf.Tensor, arguments: Sequence[tf.Tensor]) -> Any:
        return body(program, f, n, arguments, captured, Eager(call, program.dtype))

    return lambda n, *arguments: call(0, n, arguments)
