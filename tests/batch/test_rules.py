"""Batched forms of operations: many rows at once give what each row gives alone, values and gradients."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from batch import operations, vectorized
from core import programs
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import recgraph as rg
from recgraph import defects
from recgraph.batch import vectorize
from tests import sampling

# Random shapes for each operation; the suite takes a few.
EXAMPLES = sampling.count("programs", 2)


def values(spec: str, dims: dict[str, int], rows: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Random numbers for an input of `operations`."""
    sign = spec[0] if spec and spec[0] in "+~?%#!" else ""
    letters, _, most = spec[len(sign) :].partition("<")
    shape = (*rows, *(dims.get(letter) or int(letter) for letter in letters))
    if sign == "#":
        return rng.integers(0, dims[most], shape).astype(np.int32)
    if sign == "%":
        return (rng.integers(1, 5, shape) * rng.choice([-1, 1], shape)).astype(np.int32)
    if sign == "?":
        return rng.random(shape) < 0.5
    if sign == "!":
        return np.float32(0.1) + rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32) / 7
    low, high = {"+": (0.2, 2.0), "~": (-0.9, 0.9), "": (-2.0, 2.0)}[sign]
    return rng.uniform(low, high, shape).astype(np.float32)


Drawn = tuple[
    list[np.ndarray], list[bool], int, bool
]  # values, which have rows, how many rows, whether shapes are known


@st.composite
def arguments(draw: st.DrawFn, case: operations.Case) -> Drawn:
    """Random shapes, inputs with and without rows, shapes that are known and not."""
    letters = sorted({letter for spec in case.inputs for letter in spec if letter.isalpha()})
    dims = {letter: draw(st.integers(1, 4), label=letter) for letter in letters}
    count = draw(st.integers(1, 4), label="rows")
    patterns = st.lists(st.booleans(), min_size=len(case.inputs), max_size=len(case.inputs)).filter(any)
    has_rows = draw(patterns, label="with rows")
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    made = [values(spec, dims, (count,) * rows, rng) for spec, rows in zip(case.inputs, has_rows, strict=True)]
    return made, has_rows, count, draw(st.booleans(), label="shapes known")


def check(case: operations.Case, drawn: Drawn) -> None:
    """The same, row by row and all at once; operations that are not batched are those of the table."""
    arrays, has_rows, count, known = drawn
    single = [a[0] if rows else a for a, rows in zip(arrays, has_rows, strict=True)]
    traced = vectorized.trace(vectorized.with_gradients(case.function), single, known)
    expected = vectorized.row_after_row(traced, arrays, has_rows, count)
    batched = vectorized.Batched(traced, arrays, has_rows, count)
    results = batched(arrays)
    programs.assert_same((results, []), (expected, []), 1e-4)
    allowed = {*case.by_row, *(() if known else case.by_row_unknown)}
    assert set(batched.row_by_row) <= allowed, batched.row_by_row
    check_rows_apart(batched, arrays, has_rows, results)


def check_rows_apart(batched: Any, arrays: list[np.ndarray], has_rows: list[bool], before: list[np.ndarray]) -> None:
    """NaN in the first row changes no bit of the others."""
    poisoned = [np.copy(array) for array in arrays]
    for array, rows in zip(poisoned, has_rows, strict=True):
        if rows and array.dtype.kind == "f":
            array[0] = np.nan
    try:
        after = batched(poisoned)
    except tf.errors.InvalidArgumentError:
        return  # some operations refuse NaN
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one[1:], other[1:])


@pytest.mark.parametrize("case", operations.CASES, ids=str)
def test_all_rows_at_once(case: operations.Case) -> None:
    """Values and gradients."""

    @seed(sampling.seed(0) + zlib.crc32(case.name.encode()))
    @settings(
        max_examples=EXAMPLES,
        derandomize=False,
        database=None,
        phases=sampling.PHASES,
        suppress_health_check=list(HealthCheck),
    )
    @given(arguments(case))
    def many(drawn: Drawn) -> None:
        check(case, drawn)

    many()


def named(name: str) -> operations.Case:
    """One of the table."""
    return next(case for case in operations.CASES if case.name == name)


def test_a_wrong_form_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that agrees with anything would not be one."""
    drawn = ([np.ones([3, 2, 2], np.float32)], [True], 3, True)
    check(named("softplus"), drawn)
    for wrong, message in (
        (lambda site: tf.nn.relu(site.inputs[0].tensor), "Not equal"),
        (lambda site: tf.nn.softplus(site.inputs[0].tensor) / tf.cast(site.count, tf.float32), "Not equal"),
    ):
        monkeypatch.setitem(vectorize.RULES, "Softplus", wrong)
        with pytest.raises(AssertionError, match=message):
            check(named("softplus"), drawn)
    monkeypatch.delitem(vectorize.RULES, "Softplus")
    with pytest.raises(AssertionError, match="Softplus has no batched form"):
        check(named("softplus"), drawn)


# Mistakes of a rule, and what Python or TensorFlow says of them.
MISTAKES: dict[str, tuple[Callable[[vectorize.Site], Any], type[Exception], str]] = {
    "index": (lambda site: site.inputs[1], IndexError, "list index out of range"),
    "key": (lambda site: site.node.attr["T"] and {}["rows"], KeyError, "rows"),
    "attribute": (lambda site: site.inputs[0].rows, AttributeError, "no attribute 'rows'"),
    "type": (lambda site: site.inputs[0] + 1, TypeError, "unsupported operand"),
    "shape": (lambda site: tf.ensure_shape(site.inputs[0].tensor, [7]), ValueError, "rank"),
    "unpacking": (lambda site: [one for one, _ in [site.inputs]], ValueError, "not enough values to unpack"),
}


def softplus(count: int) -> tuple[rg.SubGraph, tf.Tensor]:
    """A SubGraph of one operation, and rows for it."""
    with rg.SubGraph("operation", outputs=tf.TensorSpec([2]), engine="batched") as subgraph:
        subgraph.output(tf.nn.softplus(subgraph.input(tf.float32, [2])))
    return subgraph, tf.reshape(tf.range(2.0 * count), [count, 2])


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not taken for an operation that has no batched form."""
    wrong, kind, text = MISTAKES[name]
    monkeypatch.setitem(vectorize.RULES, "Softplus", wrong)
    subgraph, rows = softplus(3)
    with pytest.raises(kind, match=text):
        subgraph.map(rows)


@pytest.mark.parametrize("name", MISTAKES)
def test_users_are_told_of_a_mistake_in_a_rule(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And have their results, row by row."""
    wrong, kind, _ = MISTAKES[name]
    monkeypatch.setattr(defects, "fatal", False)
    monkeypatch.setitem(vectorize.RULES, "Softplus", wrong)
    subgraph, rows = softplus(3)
    np.testing.assert_allclose(subgraph.map(rows), tf.nn.softplus(rows), rtol=1e-6)
    told = f"the batched form of Softplus failed: {kind.__name__}: "
    assert f"row by row, {told}" in subgraph.explain()
    assert caplog.text.count(told) == 1
    assert "this is a defect of recgraph, and the program goes on row by row here" in caplog.text


def test_an_operation_that_fails_for_one_row_says_nothing_against_its_rule() -> None:
    """Its inputs do not fit each other: that is the program's mistake."""
    with tf.Graph().as_default():
        a, b = (tf.compat.v1.placeholder(tf.float32, [2, 2]) for _ in "ab")
        node = tf.linalg.matmul(a, b).op.node_def
        rows = [vectorize.VectorizedRows(tf.zeros([4, 2, width]), True) for width in (3, 5)]
        with pytest.raises(vectorize.NoRule, match=r"MatMul has no batched form here \(ValueError: .*[Dd]imension"):
            vectorize.vectorize(node, rows)
        with pytest.raises(ValueError, match="[Dd]imension"):
            vectorize.row_form(node, rows)


@pytest.mark.parametrize(
    "function",
    [lambda x, i: [tf.gather_nd(x, i)], lambda x, i: [tf.tensor_scatter_nd_add(x, i, tf.ones([2]))]],
    ids=["gather", "scatter"],
)
def test_lookups_of_unknown_ranks(function: Callable[..., tf.Tensor]) -> None:
    """A rule may not look at dimensions without knowing how many there are."""
    x, i = np.arange(12, dtype=np.float32).reshape(2, 2, 3), np.array([[[0, 1], [1, 2]], [[1, 1], [0, 0]]], np.int32)
    traced = tf.function(function, autograph=False).get_concrete_function(
        tf.TensorSpec(None, tf.float32), tf.TensorSpec(None, tf.int32)
    )
    batched = vectorized.Batched(traced, [x, i], [True, True], 2)
    results = batched([x, i])
    assert batched.row_by_row == {}
    programs.assert_same((results, []), (vectorized.row_after_row(traced, [x, i], [True, True], 2), []), 1e-6)


# Functions of x [2, 3] and an index, and indices that have no place there.
LOOKUPS: dict[str, tuple[Callable[..., tf.Tensor], tuple[int, ...]]] = {
    "element": (lambda x, i: x[i], (2, -3)),
    "gather": (lambda x, i: tf.gather(x, [0, i]), (2, -1)),
    "gather_nd": (lambda x, i: tf.gather_nd(x, [[i]]), (2, -3)),
    "scatter_nd": (lambda x, i: tf.tensor_scatter_nd_add(x, [[i]], x[:1]), (2, -3)),
    "segments": (lambda x, i: tf.math.unsorted_segment_max(x[:, 0], [i, i], 2), (2, 5)),  # negative ones are left out
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_what_has_no_place_is_an_error_in_all_rows(name: str) -> None:
    """As it is alone, and no element of another row."""
    function, without_place = LOOKUPS[name]
    x = np.ones([3, 2, 3], np.float32)
    traced = vectorized.trace(function, [x[0], np.int32(0)], True)
    batched = vectorized.Batched(traced, [x, np.zeros(3, np.int32)], [True, True], 3)
    for wrong in without_place:
        with pytest.raises(tf.errors.InvalidArgumentError):
            traced(tf.constant(x[0]), tf.constant(wrong))
        with pytest.raises(tf.errors.InvalidArgumentError):
            batched([x, np.array([0, wrong, 1], np.int32)])


WHOLE = """
layer norm; attention; maxout; softmax over the first axis; element of both; gather along an axis; gather_nd of points;
tensor_scatter_nd_update; sort; conv1d; matvec; einsum bij,bjk->bik; sparse cross entropy; split by sizes;
where by a scalar
"""


@pytest.mark.parametrize("name", [name.strip() for name in WHOLE.split(";")])
def test_in_the_engine(name: str) -> None:
    """With the first input a row, the others captured: the gradients of those are summed over all rows."""
    case, rng = named(name), np.random.default_rng(5)
    dims = dict(zip("abcdijk", (3, 2, 4, 5, 1, 3, 2), strict=True))
    single = [values(spec, dims, (), rng) for spec in case.inputs]
    rows = tf.constant(values(case.inputs[0], dims, (5,), rng))
    captured = [tf.Variable(array) for array in single[1:]]

    def results(engine: str, spec: tf.TensorSpec) -> programs.Result:
        traced = vectorized.trace(case.function, single, True)
        outputs = tuple(tf.TensorSpec(value.shape, value.dtype) for value in tf.nest.flatten(traced.structured_outputs))
        with rg.SubGraph("operation", outputs=outputs, engine=engine) as subgraph:
            own = subgraph.input(spec.dtype, spec.shape)
            subgraph.output(tuple(tf.nest.flatten(case.function(own, *(tf.identity(c) for c in captured)))))
        sources = [variable for variable in captured if variable.dtype.is_floating]
        return programs.run(subgraph.map, (rows,), sources)

    known = tf.TensorSpec(rows.shape[1:], rows.dtype)
    unknown = tf.TensorSpec([None] * known.shape.rank, rows.dtype)
    for spec in (known, unknown):
        programs.assert_same(results("batched", spec), results("parallel", spec), 1e-5)


def test_the_gradient_of_a_table_is_not_a_table_for_every_row() -> None:
    """A hundred thousand rows that each look up one of a hundred thousand numbers."""
    count = 100_000
    table = tf.Variable(tf.reshape(tf.range(float(count)), [-1, 10]))
    lookups: list[Callable[[Any], tf.Tensor]] = [
        lambda i: table[i // 10, i % 10],
        lambda i: tf.gather_nd(table, [[i // 10, i % 10]])[0],
        lambda i: tf.gather(tf.identity(table), i // 10)[i % 10],
    ]
    for lookup in lookups:
        with rg.SubGraph("lookup", outputs=tf.TensorSpec([]), engine="batched") as subgraph:
            subgraph.output(lookup(subgraph.input(tf.int32)) ** 2)
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(subgraph.map(tf.range(count)))
        gradient = tf.convert_to_tensor(tape.gradient(total, table))
        np.testing.assert_allclose(tf.reshape(gradient, [-1]), 2 * np.arange(count))


@pytest.mark.parametrize("order", ["row constant row", "constant row row", "row constant constant row"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_are_added_from_left_to_right(order: str, dtype: str) -> None:
    """Also where some of what is added has no rows: 0.2 - 0.5 + 0.2 is not 0.2 + 0.2 - 0.5."""
    constants = [tf.constant([-0.5, 0.3, 1e8], dtype), tf.constant([0.1, -0.7, -1e8], dtype)]

    def body(row: tf.Tensor) -> tf.Tensor:
        left = iter(constants)
        return tf.add_n([row if each == "row" else next(left) for each in order.split()])

    with rg.SubGraph("sum", outputs=tf.TensorSpec([3], dtype), engine="batched") as subgraph:
        subgraph.output(body(subgraph.input(dtype, [3])))
    rows = tf.constant([[0.2, 0.1, 0.3], [0.7, 1e-3, 3.0]], dtype)
    assert subgraph.map(rows).numpy().tolist() == [body(row).numpy().tolist() for row in rows]
