"""Random recursive programs as small trees of tuples, and the two ways to run one: as SubGraphs, and eagerly.

A program is a list of functions that call one another. Function f takes `n` (int32, falls with every call) and
`arity` values; `base` is what it gives at n <= 0, `step` otherwise. The values of a program are float scalars, or float
vectors whose lengths nobody knows before. An expression is one of

    ("arg", i)  ("captured", i)  ("constant", c)  ("sin", a)  ("add", a, b)  ("mul", a, b)
    ("join", a, b)           of vectors: one after the other
    ("if", a, b, c)          b where the sum of a > 0, otherwise c
    ("odd", a, b)            a where n % 2, a condition that is a number, otherwise b
    ("case", (a, b, c))      by n % 3
    ("loop", trips, a, b)    a loop from a, whose body b sees what is carried as its last argument; n trips where None
    ("call", f, drop, output, (a, ...))    f(n - drop, a, ...)
    ("choose", f, output, (a, ...), (b, c, d))    by an integer that f(n - 1, a, ...) gives, modulo 3
    ("map", f, rows, (a, ...))             of scalars: the sum over rows of f(n - 1 - row, a, ...); n rows where None
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
    """One function; its outputs are values, as many as `base` and `step` have, then one of each dtype in `extras`."""

    arity: int
    base: tuple[Expression, ...]
    step: tuple[Expression, ...]
    extras: tuple[tf.DType, ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """Functions that call one another, the first being the one that is called; n for that; what its values are."""

    functions: tuple[Function, ...]
    n: int
    dtype: tf.DType
    vectors: bool


# Making programs.


@dataclasses.dataclass(frozen=True)
class Maker:
    """Strategies for the expressions of a program whose functions have these arities, numbers of values and extras."""

    arities: Sequence[int]
    values: Sequence[int]
    extras: Sequence[tuple[tf.DType, ...]]
    vectors: bool

    def leaf(self, arity: int) -> st.SearchStrategy[Expression]:
        return st.one_of(
            st.tuples(st.just("arg"), st.integers(0, arity - 1)),
            st.tuples(st.just("captured"), st.integers(0, 3)),
            st.tuples(st.just("constant"), st.sampled_from([-0.7, 0.4, 1.2])),
        )

    def simple(self, arity: int, depth: int = 1) -> st.SearchStrategy[Expression]:
        """Without calls."""
        if depth == 0:
            return self.leaf(arity)
        a, more = self.simple(arity, depth - 1), self.simple(arity + 1, depth - 1)
        return st.one_of(
            self.leaf(arity),
            st.tuples(st.just("sin"), a),
            st.tuples(st.sampled_from(["add", "mul", *(["join"] if self.vectors else [])]), a, a),
            st.tuples(st.just("if"), a, a, a),
            st.tuples(st.just("odd"), a, a),
            st.tuples(st.just("case"), st.tuples(a, a, a)),
            st.tuples(st.just("loop"), TRIPS, a, more),
        )

    def call(self, arity: int) -> st.SearchStrategy[Expression]:
        return st.integers(0, len(self.arities) - 1).flatmap(lambda f: self._call_of(f, arity))

    def _call_of(self, f: int, arity: int) -> st.SearchStrategy[Expression]:
        arguments = st.tuples(*[self.simple(arity)] * self.arities[f])
        output = st.integers(0, self.values[f] - 1)
        calls = [st.tuples(st.just("call"), st.just(f), st.integers(1, 2), output, arguments)] * 4
        if not self.vectors:  # a map stacks its results, which must be alike
            calls.append(st.tuples(st.just("map"), st.just(f), TRIPS, arguments))
        if tf.int32 in self.extras[f]:
            place = self.values[f] + self.extras[f].index(tf.int32)
            ways = st.tuples(*[self.simple(arity)] * 3)
            calls.append(st.tuples(st.just("choose"), st.just(f), st.just(place), arguments, ways))
        return st.one_of(calls)

    @st.composite
    def recursive(draw: st.DrawFn, self: Maker, arity: int) -> Expression:
        """With one or two calls somewhere in it."""
        pair = draw(st.permutations([draw(self.call(arity)), draw(self.simple(arity) | self.call(arity))]))
        kind = draw(st.sampled_from(["add", "mul", "join", "if", "odd", "case", "loop", "call"]))
        if kind == "if":
            return ("if", draw(self.simple(arity)), *pair)
        if kind == "case":
            return ("case", (*pair, draw(self.leaf(arity))))
        if kind == "loop":
            return ("loop", draw(TRIPS), pair[0], ("add", ("arg", arity), pair[1]))
        if kind == "call":
            callee = draw(st.integers(0, len(self.arities) - 1))
            return ("call", callee, draw(st.integers(1, 2)), 0, (pair[0],) * self.arities[callee])
        return (kind if kind != "join" or self.vectors else "add", *pair)


TRIPS = st.sampled_from([0, 1, 2, None])


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """One to three functions, one to three inputs, one or two values, any other outputs."""
    count = draw(st.integers(1, 3))
    arities = [draw(st.integers(1, 3)) for _ in range(count)]
    values = [draw(st.integers(1, 2)) for _ in range(count)]
    extras = [tuple(draw(st.lists(st.sampled_from(EXTRAS), max_size=2))) for _ in range(count)]
    maker = Maker(arities, values, extras, draw(st.integers(0, 2)) == 0)
    functions = []
    for arity, floats, others in zip(arities, values, extras, strict=True):
        base = tuple(draw(maker.simple(arity)) for _ in range(floats))
        step = (draw(maker.recursive(arity)), *(draw(maker.simple(arity)) for _ in range(floats - 1)))
        functions.append(Function(arity, base, step, others))
    n, dtype = draw(st.sampled_from([3, 2, 1, 0])), draw(st.sampled_from([tf.float32, tf.float64]))
    return Program(tuple(functions), n, dtype, maker.vectors)


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

    def loop(self, trips: Any, start: tf.Tensor, body: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        for _ in range(int(trips)):
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

    def loop(self, trips: Any, start: tf.Tensor, body: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        shapes = [tf.TensorShape([]), tf.TensorShape([None] * start.shape.rank)]
        return tf.while_loop(lambda i, _: i < trips, lambda i, x: (i + 1, body(x)), [0, start], shapes)[1]

    def map(self, f: int, ns: tf.Tensor, arguments: Sequence[tf.Tensor]) -> tf.Tensor:
        rows = [tf.repeat(argument[None], tf.shape(ns)[0]) for argument in arguments]
        return self.subgraphs[f].map(ns, *rows)[0]


def evaluate(e: Expression, n: tf.Tensor, arguments: Sequence[Any], captured: Sequence[Any], way: Any) -> tf.Tensor:
    """The value of an expression, computed one way or the other."""

    def of(inner: Expression, *carried: tf.Tensor) -> tf.Tensor:
        return evaluate(inner, n, [*arguments, *carried], captured, way)

    def call(f: int, drop: Any, given: Sequence[Expression]) -> Sequence[tf.Tensor]:
        # The last three elements of a vector: else lengths would grow with every level.
        return way.call(f, n - drop, [value if value.shape.rank == 0 else value[-3:] for value in map(of, given)])

    kind, rest = e[0], e[1:]
    if kind == "arg":
        return tf.identity(arguments[rest[0]])
    if kind == "captured":
        return tf.identity(captured[rest[0]])
    if kind == "constant":
        return tf.constant([rest[0]] if arguments[0].shape.rank else rest[0], arguments[0].dtype)
    if kind == "if":
        return way.when(tf.reduce_sum(of(rest[0])) > 0, lambda: of(rest[1]), lambda: of(rest[2]))
    if kind == "odd":
        return way.when(n % 2, lambda: of(rest[0]), lambda: of(rest[1]))
    if kind == "case":
        return way.case(n % 3, [lambda b=b: of(b) for b in rest[0]])
    if kind == "loop":
        trips = n if rest[0] is None else rest[0]
        return way.loop(trips, of(rest[1]), lambda x: tf.tanh(of(rest[2], x)))
    if kind == "call":
        f, drop, output, given = rest
        return call(f, drop, given)[output]
    if kind == "choose":
        f, output, given, ways = rest
        return way.case(call(f, 1, given)[output] % 3, [lambda b=b: of(b) for b in ways])
    if kind == "map":
        f, rows, given = rest
        rows = tf.range(n if rows is None else rows)
        return tf.reduce_sum(way.map(f, n - 1 - rows, [of(a) for a in given]))
    return OPERATIONS[kind](*[of(a) for a in rest])


def _one(value: tf.Tensor) -> tf.Tensor:
    """Of a vector its mean: two vectors may differ in length."""
    return value if value.shape.rank == 0 else tf.reduce_mean(value)


OPERATIONS: dict[str, Callable[..., tf.Tensor]] = {
    "sin": tf.sin,
    "add": lambda a, b: a + _one(b),
    "mul": lambda a, b: tf.tanh(a * _one(b)),
    "join": lambda a, b: tf.concat([a, b], 0),
}


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
        value = tf.TensorSpec([None] if program.vectors else [], program.dtype)
        inputs = (tf.TensorSpec([], tf.int32), *[value] * function.arity)
        outputs = (*[value] * len(function.base), *(tf.TensorSpec([], dtype) for dtype in function.extras))
        subgraphs.append(rg.SubGraph(f"f{i}", inputs=inputs, outputs=outputs, **options))
    for i, subgraph in enumerate(subgraphs):
        with subgraph:
            n, *arguments = subgraph.declared_arguments()
            subgraph.output(body(program, i, n, arguments, captured, Staged(subgraphs)))
    return subgraphs[0]


def captures_and_inputs(program: Program) -> tuple[list[Any], list[tf.Tensor]]:
    """Two captured variables and two captured tensors; the values that the first function is given."""

    def value(number: float, length: int) -> tf.Tensor:
        numbers = [number - 0.2 * i for i in range(length)] if program.vectors else number
        return tf.constant(numbers, program.dtype)

    captured = [tf.Variable(value(0.9, 2)), value(-0.6, 3), tf.Variable(value(-1.1, 1)), value(0.3, 1)]
    return captured, [value(0.8, 2), value(-0.5, 1), value(1.3, 3)][: program.functions[0].arity]


def summed(subgraph: rg.SubGraph, **options: Any) -> rg.SubGraph:
    """A SubGraph that gives the sums of a SubGraph's values: scalars, so that they can be stacked."""
    outputs = tuple(tf.TensorSpec([], spec.dtype) for spec in subgraph.outputs)
    with rg.SubGraph("summed", subgraph.inputs, outputs, **options) as made:
        results = subgraph(*made.declared_arguments())
        made.output(tuple(tf.reduce_sum(r) if r.shape.rank else r for r in results))
    return made


def as_python(program: Program, captured: Sequence[Any]) -> Callable[..., Any]:
    """The first function in plain Python."""

    def call(f: int, n: tf.Tensor, arguments: Sequence[tf.Tensor]) -> Any:
        return body(program, f, n, arguments, captured, Eager(call, program.dtype))

    return lambda n, *arguments: call(0, n, arguments)
