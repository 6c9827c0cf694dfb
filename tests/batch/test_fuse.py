"""Fused blocks against the graphs that they were made from: random chains of operations, shapes and numbers of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from recgraph import tf_private
from recgraph.batch import plan
from recgraph.batch.fuse import Fusion

SHAPES = [(), (1,), (6,), (1, 6), (2, 3), (3, 1), (2, 2, 3), (12,)]
UNARY = [tf.tanh, tf.sigmoid, tf.nn.relu, tf.square, tf.negative, tf.abs, tf.identity, tf.stop_gradient]
BINARY = [tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum, tf.math.squared_difference]
GRADIENTS = [tf.raw_ops.TanhGrad, tf.raw_ops.SigmoidGrad]


class _Block:
    """A random graph on rows."""

    def __init__(self, data: Any) -> None:
        self.draw = data.draw
        self.graph = tf_private.FuncGraph("block")
        self.captures: dict[int, tf.Tensor] = {}
        with self.graph.as_default():
            shapes = self.draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4))
            self.inputs = [tf.compat.v1.placeholder(tf.float32, [None, *shape]) for shape in shapes]
            self.rows = list(self.inputs)
            for _ in range(self.draw(st.integers(1, 14))):
                self.rows += self._step()
        wanted = self.draw(st.lists(st.sampled_from(self.rows), min_size=1, max_size=5))
        self.outputs = [*wanted, self.rows[-1]]

    def _any(self) -> tf.Tensor:
        return self.draw(st.sampled_from(self.rows))

    def _step(self) -> list[tf.Tensor]:
        kinds = [self._unary, self._binary, self._shared, self._gradient, self._split, self._join, self._reshape]
        return self.draw(st.sampled_from([*kinds, self._product, self._reduce, self._slice]))()

    def _unary(self) -> list[tf.Tensor]:
        return [self.draw(st.sampled_from(UNARY))(self._any())]

    def _binary(self) -> list[tf.Tensor]:
        a = self._any()
        fitting = [b for b in self.rows if b.shape.rank == a.shape.rank and _broadcasts(a, b)]
        return [self.draw(st.sampled_from(BINARY))(a, self.draw(st.sampled_from(fitting)))]

    def _shared(self) -> list[tf.Tensor]:
        """With a value that all rows share: of the whole shape, its last dimensions, or with ones in it."""
        a = self._any()
        inner = list(a.shape[1:])
        kept = inner[self.draw(st.integers(0, len(inner))) :]
        shape = [dim if self.draw(st.booleans()) else 1 for dim in kept]
        value = np.random.default_rng(len(self.rows)).normal(size=shape).astype(np.float32)
        shared = tf.constant(value)
        operands = (a, shared) if self.draw(st.booleans()) else (shared, a)
        return [self.draw(st.sampled_from(BINARY))(*operands)]

    def _gradient(self) -> list[tf.Tensor]:
        a = self._any()
        same = [b for b in self.rows if b.shape.as_list() == a.shape.as_list()]
        b = self.draw(st.sampled_from(same))
        if self.draw(st.booleans()):
            return [tf.raw_ops.ReluGrad(gradients=a, features=b)]
        return [self.draw(st.sampled_from(GRADIENTS))(y=a, dy=b)]

    def _split(self) -> list[tf.Tensor]:
        a = self._any()
        axes = [axis for axis in range(1, a.shape.rank) if a.shape[axis] % 2 == 0 or a.shape[axis] % 3 == 0]
        if not axes:
            return [tf.tanh(a)]
        axis = self.draw(st.sampled_from(axes))
        size = a.shape[axis]
        if self.draw(st.booleans()):
            return list(tf.unstack(a, axis=axis))
        if size > 2 and self.draw(st.booleans()):
            return list(tf.split(a, [1, size - 1], axis))
        return list(tf.split(a, 2 if size % 2 == 0 else 3, axis))

    def _join(self) -> list[tf.Tensor]:
        a = self._any()
        same = [b for b in self.rows if b.shape.as_list() == a.shape.as_list()]
        b = self.draw(st.sampled_from(same))
        if a.shape.rank == 1 or self.draw(st.booleans()):
            return [tf.stack([a, b], self.draw(st.integers(1, a.shape.rank)))]
        return [tf.concat([a, b, a], self.draw(st.integers(1, a.shape.rank - 1)))]

    def _reshape(self) -> list[tf.Tensor]:
        a = self._any()
        size = int(np.prod(a.shape[1:]))
        made = self.draw(st.sampled_from([[size], [1, size], [size, 1]]))
        return [tf.reshape(a, [-1, *made])] if self.draw(st.booleans()) else [tf.expand_dims(a, -1)]

    def _product(self) -> list[tf.Tensor]:
        a = self._any()
        size = int(np.prod(a.shape[1:]))
        transposed = self.draw(st.booleans())
        if size > 12:  # larger matrices are packed, which only the engine can do
            return [tf.tanh(a)]
        shape = [5, size] if transposed else [size, 5]
        slot = len(self.captures)
        self.captures[slot] = tf.compat.v1.placeholder(tf.float32, shape)
        product = tf.matmul(tf.reshape(a, [-1, size]), self.captures[slot], transpose_b=transposed)
        return [tf.reshape(product, [-1, 1, 5])]

    def _reduce(self) -> list[tf.Tensor]:
        a = self._any()
        return [tf.reduce_sum(a, -1) if a.shape.rank > 1 else tf.cumsum(a[:, None], 1)[:, 0]]

    def _slice(self) -> list[tf.Tensor]:
        a = self._any()
        axes = [axis for axis in range(1, a.shape.rank) if a.shape[axis] > 1]
        if not axes:
            return [tf.sigmoid(a)]
        axis = self.draw(st.sampled_from(axes))
        begin, size = [0] * a.shape.rank, [-1] * a.shape.rank
        begin[axis] = self.draw(st.integers(0, a.shape[axis] - 1))
        size[axis] = self.draw(st.integers(1, a.shape[axis] - begin[axis]))
        return [tf.slice(a, begin, size)]


def _broadcasts(a: tf.Tensor, b: tf.Tensor) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a.shape[1:], b.shape[1:], strict=True))


def _run(graph: Any, inputs: Any, values: Any, outputs: Any) -> Any:
    feeds = {tensor.name: value for tensor, value in zip(inputs, values, strict=True)}
    with tf.compat.v1.Session(graph=graph) as session:
        return session.run([tensor.name for tensor in outputs], feeds)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_fused_block_computes_the_same(data: Any) -> None:
    """Values of all outputs, for no row, one and many."""
    block = _Block(data)
    fusion = Fusion(block.inputs, block.captures, block.outputs, block.rows, "fused")
    random = np.random.default_rng(0)
    matrices = {slot: random.normal(size=tensor.shape).astype(np.float32) for slot, tensor in block.captures.items()}
    for count in (0, 1, 2, 37):
        rows = [random.normal(size=[count, *tensor.shape[1:]]).astype(np.float32) for tensor in block.inputs]
        expected = _run(
            block.graph, [*block.inputs, *block.captures.values()], [*rows, *matrices.values()], block.outputs
        )
        assert {form for _, form in fusion.captures.forms} <= {plan.RAW}
        used = [matrices[slot] for slot, _ in fusion.captures.forms]
        placeholders = [*fusion.inputs, *fusion.captures.placeholders]
        found = _run(fusion.graph, placeholders, [*rows, *used], fusion.outputs)
        for wanted, got in zip(expected, found, strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5 * max(1.0, np.abs(wanted).max(initial=0)))


def test_long_chains_are_one_kernel() -> None:
    """Gates, splits and memory of a cell: what is left are the products and one kernel each."""
    graph = tf_private.FuncGraph("cell")
    with graph.as_default():
        gates = tf.compat.v1.placeholder(tf.float32, [None, 1, 20])
        memory = tf.compat.v1.placeholder(tf.float32, [None, 1, 5])
        bias = tf.compat.v1.placeholder(tf.float32, [20])
        entry, update, exit_, keep = tf.split(tf.nn.bias_add(gates, bias), 4, 2)
        new = tf.sigmoid(entry) * tf.tanh(update) + tf.sigmoid(keep) * memory
        state = tf.sigmoid(exit_) * tf.tanh(new)
    fusion = Fusion([gates, memory], {0: bias}, [state, new], [gates, memory, state, new], "fused")
    kinds = [op.type for op in fusion.graph.get_operations() if op.type not in ("Placeholder", "Identity", "Const")]
    assert kinds == ["Recgraph>Expression"]
    random = np.random.default_rng(0)
    values = [random.normal(size=shape).astype(np.float32) for shape in ([37, 1, 20], [37, 1, 5], [20])]
    expected = _run(graph, [gates, memory, bias], values, [state, new])
    found = _run(fusion.graph, [*fusion.inputs, *fusion.captures.placeholders], values, fusion.outputs)
    for wanted, got in zip(expected, found, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


def read_later(x: tf.Tensor) -> tf.Tensor:
    """A value that is read again when others have come and gone: it keeps its register."""
    product = tf.tanh(x) * x
    squared = tf.square(x)
    return product * squared + tf.sigmoid(product)


def uneven_pieces(x: tf.Tensor) -> tf.Tensor:
    """Pieces at places that do not follow each other by the same steps: they are no loop."""
    return tf.tanh(tf.concat([tf.slice(x, [0, begin], [-1, 2]) for begin in (0, 2, 6, 1)], 1))


@pytest.mark.parametrize("function", [read_later, uneven_pieces])
def test_chains_that_are_one_kernel(function: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """They compute the same."""
    graph = tf_private.FuncGraph("chain")
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 8])
        result = function(x)
    fusion = Fusion(
        [x],
        {},
        [result],
        [x, *(op.outputs[0] for op in graph.get_operations() if op.outputs[0].dtype == tf.float32)],
        "fused",
    )
    values = [np.random.default_rng(0).normal(size=[5, 8]).astype(np.float32)]
    (expected,), (found,) = (
        _run(graph, [x], values, [result]),
        _run(fusion.graph, fusion.inputs, values, fusion.outputs),
    )
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_an_outer_product_is_a_few_loops() -> None:
    """And not an instruction for each of its rows: those would cost more than the arithmetic."""
    graph = tf_private.FuncGraph("outer")
    with graph.as_default():
        left, right = (tf.compat.v1.placeholder(tf.float32, [None, 20]) for _ in range(2))
        both = tf.concat([left, right], 1)
        pairs = tf.expand_dims(both, 2) * tf.expand_dims(both, 1)
    fusion = Fusion([left, right], {}, [pairs], [left, right, both, pairs], "fused")
    (expression,) = [op for op in fusion.graph.get_operations() if op.type == "Recgraph>Expression"]
    assert len(expression.get_attr("code")) < 100
    rows = [np.random.default_rng(0).normal(size=[3, 20]).astype(np.float32) for _ in range(2)]
    (found,) = _run(fusion.graph, fusion.inputs, rows, fusion.outputs)
    x = np.concatenate(rows, 1)
    np.testing.assert_array_equal(found, x[:, :, None] * x[:, None, :])


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, 89.0, -89.0, -104.0, 3e38, -3e38]
SPECIAL_UNARY = [*UNARY, tf.exp, tf.sqrt, tf.math.rsqrt, tf.math.reciprocal]
SPECIAL_BINARY: list[Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = [
    *BINARY,
    tf.divide,
    *(lambda a, b, op=op: op(y=a, dy=b) for op in GRADIENTS),
    lambda a, b: tf.raw_ops.ReluGrad(gradients=a, features=b),
]


def test_special_values_are_tensorflows() -> None:
    """Infinities, NaN, minus zero, and denormals, which count as zeros: each with each, of every operation."""
    graph = tf_private.FuncGraph("special")
    with graph.as_default():
        a, b = (tf.compat.v1.placeholder(tf.float32, [None, len(SPECIAL)]) for _ in range(2))
        results = [*(op(a) for op in SPECIAL_UNARY), *(op(a, b) for op in SPECIAL_BINARY)]
    outputs = [result for result in results if result is not a]
    fusion = Fusion([a, b], {}, outputs, [a, b, *outputs], "fused")
    assert "Recgraph>Expression" in {op.type for op in fusion.graph.get_operations()}
    kept = {op.type for op in graph.get_operations()} & {op.type for op in fusion.graph.get_operations()}
    assert kept <= {"Placeholder", "Identity", "Const"}
    one, other = (grid.astype(np.float32) for grid in np.meshgrid(SPECIAL, SPECIAL))
    expected = _run(graph, [a, b], [one, other], outputs)
    found = _run(fusion.graph, fusion.inputs, [one, other], fusion.outputs)
    for output, wanted, got in zip(outputs, expected, found, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=0, err_msg=output.op.type)
        if output.op.type != "Relu":  # TensorFlow's of -0.0 is 0.0 or -0.0, by its place
            numbers = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(wanted)[numbers], output.op.type)
