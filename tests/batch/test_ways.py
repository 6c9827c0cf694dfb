"""The three ways to run a batched call give the same: scheduled, by row programs, and by TensorFlow's operations."""

from __future__ import annotations

import dataclasses
import functools
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from core import programs, random_programs
from core.failing import wait_until
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import recgraph as rg
from recgraph import testing
from tests import sampling

OURS = ("scheduled", "row_programs")  # what needs no operation of TensorFlow
NODES = len(programs.LEFT)
Result = tuple[list[np.ndarray], list[np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Input:
    """What a case is given: a value of this shape and dtype, integers from `low` up to `high`."""

    shape: tuple[int, ...]
    dtype: Any = np.float32
    low: float = -2
    high: float = 2

    def values(self, rng: np.random.Generator, *rows: int) -> np.ndarray:
        """Random ones, so many rows of them."""
        shape = (*rows, *self.shape)
        if self.dtype == np.bool_:
            return rng.random(shape) < 0.5
        if self.dtype == np.float32:
            return rng.uniform(self.low, self.high, shape).astype(np.float32)
        return rng.integers(int(self.low), int(self.high), shape, self.dtype)


@dataclasses.dataclass(frozen=True)
class Case:
    """An operation on values of each node, and on tensors and variables that are captured."""

    name: str
    function: Callable[..., Any]
    rows: tuple[Input, ...]
    captured: tuple[Input, ...]

    def __str__(self) -> str:
        return self.name


CASES: list[Case] = []


def case(name: str, function: Callable[..., Any], *rows: Input, captured: Sequence[Input] = ()) -> None:
    """Adds one."""
    CASES.append(Case(name, function, rows, tuple(captured)))


def real(*shape: int, low: float = -2, high: float = 2) -> Input:
    return Input(shape, np.float32, low, high)


def whole(*shape: int, dtype: Any = np.int32, low: int = 0, high: int = 3) -> Input:
    return Input(shape, dtype, low, high)


def truth(*shape: int) -> Input:
    return Input(shape, np.bool_)


# Other shapes of the same elements, and parts.

case("reshape", lambda x: (tf.reshape(x, [3, 2]), tf.reshape(x, [-1]), tf.reshape(x, [1, 2, 3])), real(2, 3))
case("reshape to a scalar", lambda x: tf.reshape(x, []), real(1, 1))
case("expand_dims", lambda x: (tf.expand_dims(x, 0), tf.expand_dims(x, 1), tf.expand_dims(x, -1)), real(2, 3))
case("squeeze", lambda x: (tf.squeeze(x, [0]), tf.squeeze(x, [-1]), tf.squeeze(x, [0, 2])), real(1, 3, 1))
case("first dimension", lambda x: (x[0], x[-1], x[1:], x[:-1], x[1:2], x[-2:]), real(3, 2))
case("second dimension", lambda x: (x[:, 0], x[:, -1], x[:, 1:], x[:, :2], x[:, -2:-1]), real(2, 3))
case("both dimensions", lambda x: (x[0, 1], x[1:, :1], x[1, 1:], x[:2, -1]), real(3, 4))
case("three dimensions", lambda x: (x[1, :, 2], x[:, 1:, 1:3], x[0, 1], x[:, :, 0]), real(2, 3, 4))
case("new axes", lambda x: (x[None], x[:, None], x[:, None, 1], x[None, 1:, None, 0]), real(2, 3))
case("integers in slices", lambda x: (x[0], x[:, 1:], x[None, :, 1]), whole(2, 3))
case("bools in slices", lambda x: (x[0], x[:, 1:]), truth(2, 3))
case(
    "slice",
    lambda x: (tf.slice(x, [1, 0], [1, 2]), tf.slice(x, [0, 1], [-1, -1]), tf.slice(x, [0, 2], [2, 1])),
    real(3, 3),
)
case("unpack", lambda x: (*tf.unstack(x, axis=0), *tf.unstack(x, axis=1), *tf.unstack(x, axis=-1)), real(2, 3))
case("split", lambda x: (*tf.split(x, 2, 0), *tf.split(x, 3, 1), *tf.split(x, 3, -1)), real(4, 6))
case("split by sizes", lambda x: (*tf.split(x, [1, 3], 0), *tf.split(x, [1, 2, -1], 1)), real(4, 6))
case("concat", lambda x, y: (tf.concat([x, y, x], 0), tf.concat([y, y], -1)), real(2, 3), real(1, 3))
case("concat of vectors", lambda x, y: tf.concat([y, x], 0), real(3), real(2))
case("concat, later axes", lambda x, y: (tf.concat([x, y], 1), tf.concat([y, x, y], 1)), real(3, 2), real(3, 4))
case("concat, last of three", lambda x, y: (tf.concat([x, y], 2), tf.concat([x, y], -1)), real(2, 2, 3), real(2, 2, 1))
case("concat of integers", lambda x, y: (tf.concat([x, y], 0), tf.concat([y, x], 1)), whole(2, 2), whole(2, 2))
case("pack", lambda x, y: (tf.stack([x, y]), tf.stack([x, y, x], 1), tf.stack([x, y], -1)), real(2, 3), real(2, 3))
case("pack of scalars", lambda x, y: tf.stack([x, y, x]), real(), real())
case("parts of parts", lambda x, y: tf.concat([x, y], 0)[1:4][:, 1:], real(3, 2), real(2, 2))
case("a part across a joint", lambda x, y: tf.concat([x, y], 0)[1:4], real(3), real(2))
case("known places", lambda x: (tf.gather(x, [2, 0]), tf.gather(x, [1, 1, 0], axis=1), tf.gather(x, 1)), real(3, 2))

# Lookups in what is captured.

for _kind in (np.int32, np.int64):
    _name = np.dtype(_kind).name
    for _places in ((), (1,), (2, 2)):
        _rows = whole(*_places, dtype=_kind, high=5)
        case(f"gather vectors, {_name} {_places}", tf.gather, _rows, captured=[real(5, 3)])
        case(f"gather numbers, {_name} {_places}", tf.gather, _rows, captured=[real(5)])
case("gather matrices", lambda i, x: tf.gather(x, i), whole(), captured=[real(3, 2, 2)])
case("gather integers", lambda i, x: tf.gather(x, i), whole(2), captured=[whole(3, 2, high=100)])
case("gather bools", lambda i, x: tf.gather(x, i), whole(), captured=[truth(3, 2)])
case("an element of what is captured", lambda i, x: (x[i], x[i, 1]), whole(), captured=[real(3, 2)])
CASES[:] = [
    dataclasses.replace(one, function=lambda i, x: tf.gather(x, i)) if one.function is tf.gather else one
    for one in CASES
]

# Products.

for _inner, _width in ((3, 4), (1, 1), (64, 300), (200, 7)):
    case(
        f"matmul {_inner} {_width}",
        lambda x, w: x @ w,
        real(1, _inner),
        captured=[real(_inner, _width, low=-0.1, high=0.1)],
    )
case("matmul of many rows", lambda x, w: x @ w, real(3, 2), captured=[real(2, 5)])
case("matmul, the matrix transposed", lambda x, w: tf.matmul(x, w, transpose_b=True), real(1, 3), captured=[real(5, 3)])
case(
    "matmul, large and transposed",
    lambda x, w: tf.matmul(x, w, transpose_b=True),
    real(2, 70),
    captured=[real(130, 70)],
)
case("matvec", lambda x, w: tf.linalg.matvec(w, x), real(3), captured=[real(5, 3)])
case("matvec, transposed", lambda x, w: tf.linalg.matvec(w, x, transpose_a=True), real(3), captured=[real(3, 5)])
for _a in (False, True):
    for _b in (False, True):
        _product = lambda x, y, a=_a, b=_b: tf.matmul(x, y, transpose_a=a, transpose_b=b)  # noqa: E731
        _left, _right = (4, 2) if _a else (2, 4), (3, 4) if _b else (4, 3)
        case(f"batch matmul {_a} {_b}", _product, real(*_left), real(*_right))
        case(f"batch matmul by a captured one {_a} {_b}", _product, real(*_left), captured=[real(*_right)])
        case(
            f"batch matmul of a captured one {_a} {_b}",
            lambda y, x, f=_product: f(x, y),
            real(*_right),
            captured=[real(*_left)],
        )
case("an outer product", lambda x, y: x[:, None] * y[None, :], real(2), real(3))

# Elementwise.

for _name in ["negative", "abs", "square", "exp", "tanh", "sigmoid"]:
    case(_name, getattr(tf.math, _name), real(2, 3))
for _root in [tf.sqrt, tf.math.rsqrt, tf.math.reciprocal]:  # the state of a node may be negative
    case(_root.__name__, lambda x, f=_root: f(0.5 + x * x), real(2, 3))
case("relu", tf.nn.relu, real(2, 3))
case("bias_add", lambda x, b: tf.nn.bias_add(x, b), real(2, 3), captured=[real(3)])
BROADCASTS = [((2, 3), (2, 3)), ((2, 1), (1, 3)), ((2, 3), ()), ((2, 3), (3,)), ((2, 3), (1, 3)), ((2, 3), (2, 1))]
BROADCASTS += [((3,), (2, 3)), ((2, 3, 2), (3, 1)), ((2, 3, 2), (2, 1, 2)), ((1,), (4,)), ((2, 3), (1,)), ((), ())]
CAPTURED = [((2, 3), (3,)), ((2, 3), ()), ((2, 3), (2, 3)), ((2, 3), (1, 3)), ((), ())]
for _name in ["subtract", "multiply", "add", "divide", "maximum", "minimum", "squared_difference"]:
    _function, _all = getattr(tf.math, _name), _name in ("subtract", "multiply")
    _far = {"low": 1.5} if _name == "divide" else {}
    for _one, _other in BROADCASTS if _all else BROADCASTS[:2]:
        case(f"{_name} {_one} {_other}", _function, real(*_one), real(*_other, **_far))
    for _one, _other in CAPTURED if _all else CAPTURED[:1]:
        case(f"{_name} {_one} captured {_other}", _function, real(*_one), captured=[real(*_other, **_far)])
        if _name == "subtract":
            _swapped = lambda x, y: y - x  # noqa: E731
            case(f"subtract captured {_other} {_one}", _swapped, real(*_one), captured=[real(*_other)])
case("constants", lambda x: (1.0 - x, x * 0.5 + [1.0, 2.0, 3.0], 2.0 / (1.0 + x * x)), real(2, 3))
case("add_n", lambda x, y, z: (tf.add_n([x, y, z]), tf.add_n([x, x])), real(2, 3), real(2, 3), real(2, 3))
case("uses of one value", lambda x: x * tf.tanh(x) + tf.sigmoid(x) * tf.stop_gradient(x), real(4))

# Comparisons, integers, bools.

COMPARISONS = [tf.equal, tf.not_equal, tf.less, tf.less_equal, tf.greater, tf.greater_equal]
for _kind in (np.int32, np.int64):
    _name, _number = np.dtype(_kind).name, whole(2, 3, dtype=_kind, low=-1)
    _ends = {"dtype": _kind, "low": np.iinfo(_kind).min, "high": np.iinfo(_kind).max}
    case(f"comparisons of {_name}", lambda x, y: [f(x, y) for f in COMPARISONS], _number, _number)
    case(f"comparisons with one {_name}", lambda x: [f(x, tf.constant(1, x.dtype)) for f in COMPARISONS], _number)
    case(
        f"sums and products of {_name}", lambda x, y: (x + y, x - y, x * y), whole(2, 3, **_ends), whole(2, 3, **_ends)
    )
    case(
        f"sums and products with one {_name}",
        lambda x: [f(one) for one in (tf.constant(7, x.dtype),) for f in (x.__add__, x.__rsub__, x.__sub__, x.__mul__)],
        whole(2, **_ends),
    )
    case(f"numbers and a captured {_name}", lambda x, y: (x + y, y - x, x < y), _number, captured=[whole(dtype=_kind)])
case("comparisons of floats", lambda x, y: [f(x, y) for f in COMPARISONS], real(2, 3), real(2, 3))
case("comparisons with one float", lambda x: [f(0.5, x) for f in COMPARISONS], real(2, 3))
case("comparisons of bools", lambda x, y: (tf.equal(x, y), tf.not_equal(x, y)), truth(3), truth(3))
case("select", lambda c, x, y: tf.where(c, x, y), truth(2, 3), real(2, 3), real(2, 3))
case("select a number", lambda c, x: (tf.where(c, x, 0.0), tf.where(c, 1.0, x)), truth(2, 3), real(2, 3))
case("select integers", lambda c, x: (tf.where(c, x, 7), tf.where(c, x, x + 1)), truth(2), whole(2, dtype=np.int64))
case("select by a comparison", lambda x, y: tf.where(x > y, x, y * y), real(4), real(4))
case("casts of bools", lambda x: [tf.cast(x, kind) for kind in (tf.float32, tf.int32, tf.int64)], truth(2, 3))
case("casts of int32", lambda x: (tf.cast(x, tf.float32), tf.cast(x, tf.int64), tf.cast(x, tf.bool)), whole(2, low=-2))
_long = whole(2, dtype=np.int64, low=-(2**40), high=2**40)
case("casts of int64", lambda x: (tf.cast(x, tf.float32), tf.cast(x, tf.int32), tf.cast(x, tf.bool)), _long)

# Along a row.

case("softmax", tf.nn.softmax, real(2, 3))
case("softmax of a vector", tf.nn.softmax, real(5))
for _kind in (np.int32, np.int64):
    _loss = lambda s, t: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=s)  # noqa: E731
    case(f"cross entropy, {np.dtype(_kind).name}", _loss, real(4), whole(dtype=_kind, high=4))
    case(f"cross entropy of rows, {np.dtype(_kind).name}", _loss, real(2, 4), whole(2, dtype=_kind, high=4))
AXES = (0, 1, -1, [0, 1], [1, 2], [0, 1, 2])
case("sums", lambda x: [tf.reduce_sum(x, axes) for axes in AXES], real(2, 3, 4))
case("sums, dimensions kept", lambda x: [tf.reduce_sum(x, axes, keepdims=True) for axes in AXES], real(2, 3, 4))
case("a sum of everything", tf.reduce_sum, real(2, 3))
case("tile", lambda x: (tf.tile(x, [2, 1]), tf.tile(x, [1, 3]), tf.tile(x, [2, 2])), real(2, 3))
case("transpose", lambda x: (tf.transpose(x), tf.transpose(x, [1, 2, 0]), tf.transpose(x, [0, 2, 1])), real(2, 3, 4))
case("matrix diag", tf.linalg.diag, real(3))
case("matrix diag of rows", tf.linalg.diag, real(2, 3))
case("matrix diag part", tf.linalg.diag_part, real(3, 3))


# Operations for which TensorFlow still runs a block of a case, in its values or gradients.
APART: dict[str, set[str]] = {
    "known places": {"BroadcastTo"},
    "slice": {"Pad"},
    "an element of what is captured": {"AddV2", "BroadcastTo", "Cast", "ScatterNd"},
    "abs": {"Sign"},
    "sqrt": {"SqrtGrad"},
    "rsqrt": {"RsqrtGrad"},
    "reciprocal": {"ReciprocalGrad"},
    "subtract (2, 3, 2) (3, 1)": {"Sum"},
    "multiply (2, 3, 2) (3, 1)": {"Sum"},
    "tile": {"Sum"},
    "maximum (2, 3) (2, 3)": {"SelectV2"},
    "minimum (2, 3) (2, 3)": {"SelectV2"},
    "maximum (2, 1) (1, 3)": {"GreaterEqual"},
    "maximum (2, 3) captured (3,)": {"GreaterEqual"},
    "minimum (2, 1) (1, 3)": {"LessEqual"},
    "minimum (2, 3) captured (3,)": {"LessEqual"},
}


def subgraph_of(one: Case, tables: Sequence[Any], captured: Sequence[Any]) -> rg.SubGraph:
    """The operation at every node of a tree; what it is given at an inner node depends on both children."""
    state = tables[0].shape[1:]
    results = tf.nest.flatten(one.function(*[table[0] for table in tables], *captured))
    outputs = (tf.TensorSpec(state, tables[0].dtype), *[tf.TensorSpec(r.shape, r.dtype) for r in results])
    left, right = tf.constant(programs.LEFT), tf.constant(programs.RIGHT)
    with rg.SubGraph("nodes", outputs=outputs, engine="batched") as nodes:
        node = nodes.input(tf.int32)
        first, *rest = [tf.gather(table, node) for table in tables]

        def results_of(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
            return (x, *tf.nest.flatten(one.function(x, *rest, *captured)))

        def inner() -> tuple[tf.Tensor, ...]:
            a, b = nodes(left[node])[0], nodes(right[node])[0]
            return results_of(mixed(first, a, b))

        nodes.output(tf.cond(left[node] < 0, lambda: results_of(first), inner))
    return nodes


def mixed(x: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """A value of two others; integers stay in the range in which they are."""
    if x.dtype == tf.float32:
        return 0.5 * a - 0.4 * b + x
    return tf.where(a, x, b) if x.dtype == tf.bool else tf.where(a > b, a, x)


def values_and_gradients(function: Callable[[], Any], sources: Sequence[Any]) -> Result:
    """The flat results, and the gradients of a sum in which no two of their elements have the same weight."""
    with tf.GradientTape() as tape:
        tape.watch(sources)
        results = tf.nest.flatten(function())
        total = loss_of(results)
    gradients = tape.gradient(total, sources, unconnected_gradients="zero") if sources else []
    return arrays(results), arrays(gradients)


def loss_of(results: Sequence[tf.Tensor]) -> tf.Tensor:
    """A number that depends on every element of floats."""
    rng = np.random.default_rng(0)
    floats = [result for result in results if result.dtype == tf.float32]
    weights = [rng.uniform(0.5, 1.5, result.shape).astype(np.float32) for result in floats]
    return tf.add_n([tf.constant(0.0), *[tf.reduce_sum(w * r) for w, r in zip(weights, floats, strict=True)]])


def arrays(tensors: Sequence[Any]) -> list[np.ndarray]:
    return [tf.convert_to_tensor(tensor).numpy() for tensor in tensors]


def assert_same(one: Result, other: Result, what: str) -> None:
    """Floats to 1e-5 of the largest of an array, else exactly."""
    for kind, mine, theirs in zip(("value", "gradient"), one, other, strict=True):
        for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{what}, {kind} {i}"
            if a.dtype.kind == "f":
                largest = float(np.max(np.abs(b), initial=1e-3))
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * largest, err_msg=f"{what}, {kind} {i}")
            else:
                np.testing.assert_array_equal(a, b, err_msg=f"{what}, {kind} {i}")


def by_tensorflow(text: str) -> set[str]:
    """The operations for which TensorFlow has run blocks, as `explain()` shows them."""
    return {*re.findall(r"run by TensorFlow, for ([\w>]+)", text)}


@pytest.mark.parametrize("one", CASES, ids=str)
def test_an_operation(one: Case) -> None:
    """Values and gradients; row programs run every block."""
    rng = np.random.default_rng(zlib.crc32(one.name.encode()))
    made = [given.values(rng, NODES) for given in one.rows], [given.values(rng) for given in one.captured]
    tables, captured = [
        [tf.Variable(array) if array.dtype == np.float32 else tf.constant(array) for array in group] for group in made
    ]
    nodes = subgraph_of(one, tables, captured)
    sources = [source for source in (*tables, *captured) if source.dtype == tf.float32]
    run = lambda: values_and_gradients(lambda: nodes.map(tf.range(NODES)), sources)  # noqa: E731
    found = {}
    for way in OURS:
        with testing.batch_way(way):
            found[way] = run()
    explained = nodes.explain()
    with testing.batch_way("operations"):
        expected = run()
    for way in OURS:
        assert_same(found[way], expected, way)
    assert by_tensorflow(explained) <= APART.get(one.name, set())
    assert "nodes: scheduled" in explained
    assert testing.counters().live_frames == 0


@pytest.mark.parametrize("rank", [1, 2])
def test_computed_places_of_captured_tensors_of_unknown_length(rank: int) -> None:
    """Elements, also from behind, as the tensor grows and shrinks from call to call."""
    shape = [None, 2][:rank]

    def places(x: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
        return tf.stack([x[i], x[-1 - i], tf.gather(x, tf.size(tf.shape(x)) - rank + i)])

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32), tf.TensorSpec(shape), tf.TensorSpec([None], tf.int32)])
    def step(n: tf.Tensor, x: tf.Tensor, order: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with rg.SubGraph("places", outputs=tf.TensorSpec([3, 2][:rank]), engine="batched") as subgraph:
            i = subgraph.input(tf.int32)
            more = lambda: 0.5 * subgraph(i - 1) + places(x, order[i])  # noqa: E731
            subgraph.output(tf.cond(i > 0, more, lambda: places(x, order[-1])))
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(subgraph.map(tf.range(n))))
        return loss, tf.convert_to_tensor(tape.gradient(loss, x))

    rng = np.random.default_rng(0)
    for length in (4, 9, 2, 9):
        x, order = rng.normal(size=[length, 2][:rank]), rng.permutation(length)
        run = lambda x=x, order=order: step(len(order), tf.constant(x, tf.float32), tf.constant(order, tf.int32))  # noqa: E731
        assert_all_ways(lambda run=run: ([run()[0].numpy()], [run()[1].numpy()]))


# Programs.


def assert_all_ways(run: Callable[[], Result]) -> Result:
    """The results of a function, which are the same in all ways."""
    found = {}
    for way in testing.BATCH_WAYS:
        with testing.batch_way(way):
            found[way] = run()
        assert testing.counters().live_frames == 0
    for way in OURS:
        assert_same(found[way], found["operations"], way)
    return found["operations"]


WIDTH, NODES_OF_GRAPH = 3, 12


class Graph:
    """Random nodes below one another, of which some are reached more than once, and a few weights.

    Attributes:
        left, right: of each node a smaller one, or -1.
    """

    def __init__(self) -> None:
        self.left, self.right, self.words = (tf.Variable(tf.zeros([NODES_OF_GRAPH], tf.int32)) for _ in range(3))
        self.embedding, self.kernel, self.bias = map(
            tf.Variable, map(tf.zeros, ([5, WIDTH], [2 * WIDTH, WIDTH], [WIDTH]))
        )
        self.roots = tf.constant([NODES_OF_GRAPH - 1, 0, 6, NODES_OF_GRAPH - 1, NODES_OF_GRAPH - 2])

    def draw(self, number: int) -> None:
        """Other nodes and weights."""
        rng = np.random.default_rng(number)
        inner = lambda i: rng.integers(max(0, i // 2 - 1), i, 2) if i > 2 and rng.random() < 0.8 else (-1, -1)  # noqa: E731
        below = np.array([inner(i) for i in range(NODES_OF_GRAPH)], np.int32)
        self.left.assign(below[:, 0])
        self.right.assign(below[:, 1])
        self.words.assign(rng.integers(0, 5, NODES_OF_GRAPH))
        for weight in self.weights:
            weight.assign(rng.uniform(-0.9, 0.9, weight.shape))

    @property
    def weights(self) -> list[tf.Variable]:
        return [self.embedding, self.kernel, self.bias]

    def leaf(self, node: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.embedding, self.words[node])[None]

    def cell(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.tanh(tf.concat([a, b], 1) @ self.kernel + self.bias)


STATE = tf.TensorSpec([1, WIDTH])
NODE = tf.TensorSpec([], tf.int32)


def make_up(g: Graph, **options: Any) -> rg.SubGraph:
    """States from below."""
    with rg.SubGraph("up", NODE, STATE, engine="batched", **options) as up:
        node = up.declared_arguments()
        inner = lambda: g.cell(up(g.left[node]), up(g.right[node]))  # noqa: E731
        up.output(tf.cond(g.left[node] < 0, lambda: g.leaf(node), inner))
    return up


def make_mutual(g: Graph, **options: Any) -> rg.SubGraph:
    """Two that call one another, with different cells."""
    even, odd = (rg.SubGraph(name, NODE, STATE, engine="batched", **options) for name in ("even", "odd"))
    with even:
        node = even.declared_arguments()
        inner = lambda: g.cell(odd(g.left[node]), even(g.right[node]))  # noqa: E731
        even.output(tf.cond(g.left[node] < 0, lambda: g.leaf(node), inner))
    with odd:
        node = odd.declared_arguments()
        other = lambda: tf.sigmoid(even(g.left[node]) - odd(g.right[node]) * g.leaf(node))  # noqa: E731
        odd.output(tf.cond(g.left[node] < 0, lambda: 0.5 * g.leaf(node), other))
    return even


def make_down(g: Graph, **options: Any) -> rg.SubGraph:
    """States are passed down, and results come up."""
    with rg.SubGraph("down", (NODE, STATE), STATE, engine="batched", **options) as down:
        node, state = down.declared_arguments()
        own = g.cell(state, g.leaf(node))

        def inner() -> tf.Tensor:
            return own * down(g.left[node], own) - down(g.right[node], g.cell(own, state))

        down.output(tf.cond(g.left[node] < 0, lambda: own + state, inner))
    with rg.SubGraph("from_the_top", NODE, STATE, engine="batched", **options) as top:
        top.output(down(top.declared_arguments(), tf.ones([1, WIDTH])))
    return top


def make_linear(g: Graph, **options: Any) -> rg.SubGraph:
    """What comes from above is a factor of the weight's gradient as it is."""
    with rg.SubGraph("linear", NODE, (STATE, STATE), engine="batched", **options) as linear:
        node = linear.declared_arguments()

        def inner() -> tuple[tf.Tensor, tf.Tensor]:
            (a, x), (b, y) = linear(g.left[node]), linear(g.right[node])
            return tf.concat([a, b], 1) @ g.kernel, tf.tanh(tf.concat([x * b, y * a], 1) @ g.kernel + g.bias)

        linear.output(tf.cond(g.left[node] < 0, lambda: (g.leaf(node), 0.5 * g.leaf(node)), inner))
    with rg.SubGraph("both", NODE, STATE, engine="batched", **options) as both:
        a, x = linear(both.declared_arguments())
        both.output(a + x)
    return both


def make_decided(g: Graph, **options: Any) -> rg.SubGraph:
    """The left result decides whether the right child is visited, so that no structure is known before."""
    with rg.SubGraph("decided", NODE, STATE, engine="batched", **options) as decided:
        node = decided.declared_arguments()

        def inner() -> tf.Tensor:
            a = decided(g.left[node])
            return tf.cond(tf.reduce_sum(a) > 0, lambda: g.cell(a, decided(g.right[node])), lambda: g.cell(a, a))

        decided.output(tf.cond(g.left[node] < 0, lambda: g.leaf(node), inner))
    return decided


def make_called(g: Graph, **options: Any) -> rg.SubGraph:
    """A recursion that could be scheduled is called by one that could not."""
    up = make_up(g, **options)
    with rg.SubGraph("calling", NODE, STATE, engine="batched", **options) as calling:
        node = calling.declared_arguments()

        def inner() -> tf.Tensor:
            a = calling(g.left[node])
            return tf.cond(tf.reduce_sum(a) > 0, lambda: g.cell(a, up(g.right[node])), lambda: g.cell(up(node), a))

        calling.output(tf.cond(g.left[node] < 0, lambda: up(node), inner))
    return calling


def make_mapped(g: Graph, **options: Any) -> rg.SubGraph:
    """A map in a body."""
    with rg.SubGraph("mapped", NODE, STATE, engine="batched", **options) as mapped:
        node = mapped.declared_arguments()

        def inner() -> tf.Tensor:
            states = mapped.map(tf.stack([g.left[node], g.right[node], g.left[node]]))
            return tf.tanh(tf.reduce_sum(states, 0) + g.leaf(node))

        mapped.output(tf.cond(g.left[node] < 0, lambda: g.leaf(node), inner))
    return mapped


MAKERS = {"up": make_up, "mutual": make_mutual, "down": make_down, "linear": make_linear}
MAKERS |= {"decided": make_decided, "called": make_called, "mapped": make_mapped}


@functools.cache
def drawn(name: str, gradient: str = "cache") -> tuple[Graph, rg.SubGraph]:
    """A program over a graph; made once, since that takes a second."""
    g = Graph()
    return g, MAKERS[name](g, gradient=gradient)


SEEDS = range(sampling.count("programs", 6))


@pytest.mark.parametrize("gradient", ["cache", "recompute"])
@pytest.mark.parametrize("name", MAKERS)
def test_random_graphs(name: str, gradient: str) -> None:
    """Values and gradients, of single calls too."""
    g, subgraph = drawn(name, gradient)
    for number in SEEDS:
        g.draw(number)
        for run in (lambda: subgraph.map(g.roots), lambda: subgraph(g.roots[0])):
            assert_all_ways(lambda run=run: values_and_gradients(run, g.weights))


@pytest.mark.parametrize("name", MAKERS)
def test_only_what_no_result_decides_is_scheduled(name: str) -> None:
    """As `explain()` says."""
    g, subgraph = drawn(name)
    g.draw(0)
    subgraph.map(g.roots)
    scheduled = {*re.findall(r"^ *(\w+): scheduled", subgraph.explain(), re.M)}
    expected = {"up": {"up"}, "mutual": {"even", "odd"}, "down": {"down", "from_the_top"}, "called": {"up"}}
    expected["linear"] = {"both", "linear"}
    assert scheduled == expected.get(name, set()), subgraph.explain()


@pytest.mark.parametrize("name", MAKERS)
def test_second_derivatives(name: str) -> None:
    """A gradient of a sum of gradients."""
    g, subgraph = drawn(name)
    g.draw(3)

    def run() -> Result:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = tf.reduce_sum(tf.sin(subgraph.map(g.roots)))
            first = [
                tf.convert_to_tensor(gradient)
                for gradient in inner.gradient(loss, g.weights, unconnected_gradients="zero")
            ]
            total = tf.add_n([tf.reduce_sum(gradient**2) for gradient in first])
        return arrays(first), arrays(outer.gradient(total, g.weights, unconnected_gradients="zero"))

    assert_all_ways(run)


@pytest.mark.parametrize("gradient", ["cache", "recompute"])
@pytest.mark.parametrize("name", MAKERS)
def test_a_gradient_taken_in_another_way(name: str, gradient: str) -> None:
    """Frames of a schedule are read by the machine, and the other way round; those of a persistent tape in all ways."""
    g, subgraph = drawn(name, gradient)
    g.draw(4)
    expected = assert_all_ways(lambda: values_and_gradients(lambda: subgraph.map(g.roots), g.weights))
    for forward in testing.BATCH_WAYS:
        with testing.batch_way(forward), tf.GradientTape(persistent=True) as tape:
            results = [subgraph.map(g.roots)]
            loss = loss_of(results)
        for backward in (*testing.BATCH_WAYS, forward):
            with testing.batch_way(backward):
                found = arrays(results), arrays(tape.gradient(loss, g.weights, unconnected_gradients="zero"))
            assert_same(found, expected, f"{forward}, then {backward}")
        del tape
        assert testing.counters().live_frames == 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_random_programs(part: int) -> None:
    """With branches, loops, maps, several results and dtypes, and vectors of any length."""

    @seed(sampling.seed(700) + part)
    @settings(max_examples=len(SEEDS), derandomize=False, database=None, phases=sampling.PHASES, deadline=None)
    @given(random_programs.programs(), st.sampled_from(["cache", "recompute"]))
    def many(program: random_programs.Program, gradient: str) -> None:
        captured, inputs = random_programs.captures_and_inputs(program)
        n, tolerance = tf.constant(program.n), 1e-4 if program.dtype == tf.float32 else 1e-9
        single = (n, *inputs)
        expected = programs.run(random_programs.as_python(program, captured), single, captured)
        subgraph = random_programs.as_subgraph(program, captured, engine="batched", gradient=gradient)
        for way in testing.BATCH_WAYS:
            with testing.batch_way(way):
                programs.assert_same(programs.run(subgraph, single, captured), expected, tolerance)
            assert testing.counters().live_frames == 0

    many()


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=str)
def test_shared_programs(program: programs.Program) -> None:
    """Values and gradients are those of the Python program, eagerly and in a tf.function."""
    subgraph = program.make(engine="batched")
    staged = tf.function(subgraph)
    for arguments in program.arguments:
        expected = programs.run(program.reference, arguments, program.variables())
        for way in testing.BATCH_WAYS:
            with testing.batch_way(way):
                for function in (subgraph, staged):
                    programs.assert_same(programs.run(function, arguments, program.variables()), expected)
            assert testing.counters().live_frames == 0


def test_a_wrong_result_is_found() -> None:
    """A comparison that agrees with anything would not be one."""
    calls = []

    def run() -> Result:
        calls.append(1)
        return [np.float32([1, 2 + 1e-3 * (len(calls) == 1)])], []

    with pytest.raises(AssertionError, match="scheduled, value 0"):
        assert_all_ways(run)


# Bit for bit.

TRIALS = 3  # so often a schedule is begun that cannot be carried out, before it is given up for good


@pytest.mark.parametrize("way", testing.BATCH_WAYS)
@pytest.mark.parametrize("name", MAKERS)
def test_the_same_input_gives_the_same_bits(name: str, way: str) -> None:
    """Of values and gradients."""
    g, subgraph = drawn(name)
    g.draw(5)
    with testing.batch_way(way):
        for _ in range(TRIALS):
            values_and_gradients(lambda: subgraph.map(g.roots), g.weights)
        first, *others = (values_and_gradients(lambda: subgraph.map(g.roots), g.weights) for _ in range(3))
    for other in others:
        for one, again in zip((*first[0], *first[1]), (*other[0], *other[1]), strict=True):
            np.testing.assert_array_equal(one, again)


def test_a_schedule_that_is_given_up_changes_no_bit() -> None:
    """Blocks of the gradient are run by TensorFlow, so that it is begun three times and then left to the machine."""
    g = Graph()
    g.draw(5)
    given_up = make_mutual(g)
    run = lambda: values_and_gradients(lambda: given_up.map(g.roots), g.weights)  # noqa: E731
    found = [run() for _ in range(2 * TRIALS)]
    for other in found:
        for one, again in zip((*found[0][0], *found[0][1]), (*other[0], *other[1]), strict=True):
            np.testing.assert_array_equal(one, again)


@pytest.mark.parametrize("way", testing.BATCH_WAYS)
@pytest.mark.parametrize("name", MAKERS)
def test_a_row_is_the_same_beside_any_others(name: str, way: str) -> None:
    """Alone, first, last, and beside itself: not one bit differs, but by what TensorFlow's own products round."""
    g, subgraph = drawn(name)
    g.draw(6)
    root = int(g.roots[0])
    tolerance = 1e-6 if way == "operations" else 0.0
    with testing.batch_way(way):
        alone = subgraph.map(tf.constant([root]))[0].numpy()
        for others in ([0, 3, 7, 9], [root] * 6, [*range(NODES_OF_GRAPH)] * 3):
            for rows in ([root, *others], [*others, root]):
                states = subgraph.map(tf.constant(rows)).numpy()
                for row in np.flatnonzero(np.array(rows) == root):
                    np.testing.assert_allclose(states[row], alone, rtol=tolerance)


# Errors.


def error_in(way: str, run: Callable[[], Any]) -> tuple[type, str]:
    """What a call raises, without the times and addresses in it."""
    with testing.batch_way(way), pytest.raises(tf.errors.OpError) as caught:
        run()
    assert testing.counters().live_frames == 0
    return type(caught.value), str(caught.value)


def make_scored(left: list[int], words: list[int], labels: list[int], **options: Any) -> Callable[..., Any]:
    """The losses of nodes, each with a word and a label."""
    g = Graph()
    g.draw(0)
    below, word, label = (tf.constant(values) for values in (left, words, labels))
    outputs = (STATE, tf.TensorSpec([]))
    with rg.SubGraph("scored", NODE, outputs, engine="batched", **options) as scored:
        node = scored.declared_arguments()

        def loss(state: tf.Tensor) -> tf.Tensor:
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label[node][None], logits=state)[0]

        def leaf() -> tuple[tf.Tensor, tf.Tensor]:
            state = tf.gather(g.embedding, word[node])[None]
            return state, loss(state)

        def inner() -> tuple[tf.Tensor, tf.Tensor]:
            state, total = scored(below[node])
            state = g.cell(state, state)
            return state, total + loss(state)

        scored.output(tf.cond(below[node] < 0, leaf, inner))

    def run(*roots: int) -> Any:
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(scored.map(tf.constant(roots))[1])
        return tape.gradient(total, g.weights)

    return run


CHAIN = [-1, 0, 1, 2, 3, -1]  # the last node is well in all of them
FAILURES: dict[str, tuple[Callable[[], Callable[..., Any]], tuple[str, ...]]] = {
    "a word out of range": (lambda: make_scored(CHAIN, [9] * 5 + [1], [0] * 6), ("call path: scored[", "test_ways.py")),
    "a negative word": (lambda: make_scored(CHAIN, [-1] * 5 + [1], [0] * 6), ("call path: scored[", "test_ways.py")),
    "a label out of range": (
        lambda: make_scored(CHAIN, [1] * 6, [0, 1, 7, 0, 1, 0]),
        ("call path: scored[", "test_ways.py"),
    ),
    "a child out of range": (
        lambda: make_scored([-1, 0, 17, 2, 3, -1], [1] * 6, [0] * 6),
        ("call path: scored[", "test_ways.py"),
    ),
    "a tree that is too deep": (lambda: make_scored(CHAIN, [1] * 6, [0] * 6, max_depth=3), ("max_depth = 3",)),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_told_in_the_same_words(name: str) -> None:
    """Operation, line, and call path."""
    make, words = FAILURES[name]
    run = make()
    found = {way: error_in(way, lambda: run(4, 3)) for way in testing.BATCH_WAYS}
    for way in OURS:
        assert found[way] == found["operations"], way
    for word in words:
        assert word in found["operations"][1]


@pytest.mark.parametrize("max_depth", [20, 1_000_000])
def test_a_node_below_itself_is_named(max_depth: int) -> None:
    """The circle and the way to it, where the structure is known before; elsewhere that it is too deep."""
    run = make_scored([-1, 3, 1, 2, 3, 4], [1] * 6, [0] * 6, max_depth=max_depth)
    kind, message = error_in("scheduled", lambda: run(5, 0))
    assert kind is tf.errors.InvalidArgumentError
    assert "goes round in a circle: below(3) > below(2) > below(1) > below(3). " in message
    assert "call path: scored[0] > below, 2 levels" in message
    kind, message = error_in("operations", lambda: run(5, 0))
    assert kind is tf.errors.ResourceExhaustedError
    assert f"max_depth = {max_depth}" in message


def test_blocks_of_operations_are_scheduled() -> None:
    """What has no row program runs in TensorFlow, for all rows of a height: values, gradients, and growing tensors."""

    def make(grows: bool) -> tuple[Graph, rg.SubGraph]:
        g = Graph()
        with rg.SubGraph("odd", NODE, STATE, engine="batched", gradient="recompute" if grows else "cache") as odd:
            node = odd.declared_arguments()
            inner = lambda: tf.math.cumsum(tf.sinh(g.cell(odd(g.left[node]), odd(g.right[node]))), 1)  # noqa: E731
            odd.output(tf.cond(g.left[node] < 0, lambda: tf.ones([1, WIDTH]) / 3, inner))
        return g, odd

    for grows in (False, True):
        g, odd = make(grows)
        for number in SEEDS:
            g.draw(number)
            assert_all_ways(lambda odd=odd, g=g: values_and_gradients(lambda: odd.map(g.roots), [g.kernel, g.bias]))
        assert "odd: scheduled" in odd.explain()
        assert "Cumsum" in odd.explain()


@pytest.mark.parametrize("name", FAILURES)
def test_a_call_after_a_failure(name: str) -> None:
    """What failed leaves nothing behind: the next call is as the one before."""
    run = FAILURES[name][0]()
    before = arrays(run(5, 5))
    for way in testing.BATCH_WAYS:
        error_in(way, lambda: run(5, 4, 3))
        with testing.batch_way(way):
            assert_same(([], arrays(run(5, 5))), ([], before), way)


@pytest.mark.parametrize("way", testing.BATCH_WAYS)
def test_a_step_is_cancelled(way: str) -> None:
    """In the middle of a large tree, of which the structure is being found or is known."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session, testing.batch_way(way):
        with rg.SubGraph("wide", tf.TensorSpec([], tf.int64), tf.TensorSpec([]), engine="batched") as wide:
            n = wide.declared_arguments()
            wide.output(tf.cond(n < 1 << 40, lambda: tf.sin(wide(2 * n + 1) + wide(2 * n + 2)), lambda: 1.0))
        x = tf.compat.v1.placeholder_with_default(tf.zeros([2], tf.int64), [2])
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(wide.map(x), options=tf.compat.v1.RunOptions(timeout_in_ms=400))
    wait_until(lambda: testing.counters().live_invocations == 0)
    assert testing.counters().live_frames == 0
