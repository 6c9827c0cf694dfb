"""What can be written as a SubGraph: definitions, signatures, control flow in bodies, printing."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from core import programs

import recgraph as rg

INT = tf.TensorSpec([], tf.int32)
FLOAT = tf.TensorSpec([])


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=str)
def test_shared_programs(program: programs.Program) -> None:
    """Each does what its Python does, eagerly and staged."""
    programs.check(program)


def test_figure_5_2_of_the_thesis_as_printed() -> None:
    """No name, no declared outputs, calls before `output`."""
    int32, SubGraph = tf.int32, rg.SubGraph
    left, right, words = tf.constant([-1, -1, 0]), tf.constant([-1, -1, 1]), tf.constant([[1.0, 2.0], [3.0, 4.0]])

    with SubGraph() as TreeLSTM:
        idx = TreeLSTM.input(int32)

        def compute_leaf_node() -> tf.Tensor:
            return words[idx]

        def compute_internal_node() -> tf.Tensor:
            left_idx, right_idx = left[idx], right[idx]
            left_state = TreeLSTM(left_idx)
            right_state = TreeLSTM(right_idx)
            return tf.tanh(left_state - right_state)

        TreeLSTM.output(tf.cond(left[idx] < 0, compute_leaf_node, compute_internal_node))

    root_state = TreeLSTM(tf.constant(2))
    np.testing.assert_allclose(root_state, np.tanh([-2.0, -2.0]), rtol=1e-6)


def test_forward_declaration_is_callable_before_its_body() -> None:
    """From another body and from a traced function: it must have a body only when it runs."""
    later = rg.SubGraph("later", inputs=(INT, FLOAT), outputs=FLOAT)
    with rg.SubGraph("first", outputs=FLOAT) as first:
        first.output(later(first.input(tf.int32), 2.0))
    with later:
        n, x = later.declared_arguments()
        later.output(tf.cond(n > 0, lambda: first(n - 1) * x, lambda: x))
    assert float(first(3)) == 16


def test_the_same_name_twice_in_one_program() -> None:
    """Names are for people; two SubGraphs may share one."""
    inner, outer = (rg.SubGraph("same", inputs=FLOAT, outputs=FLOAT) for _ in range(2))
    with inner:
        inner.output(2 * inner.input())
    with outer:
        outer.output(1 + inner(outer.input()))
    assert float(outer(3.0)) == 7


@pytest.mark.parametrize("name", ["", "straße 7/a#b", "9lives", "_x", "a.rec", "日本"])
def test_any_name_will_do(name: str) -> None:
    """A name that is no TensorFlow name must not surface as an error of TensorFlow."""
    with rg.SubGraph(name, outputs=FLOAT) as named:
        n, x = named.input(tf.int32), named.input()
        named.output(tf.cond(n > 0, lambda: 2 * named(n - 1, x), lambda: x))
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = named(2, x)
    assert float(y) == 4
    assert float(tape.gradient(y, x)) == 4
    assert float(tf.function(named)(2, x)) == 4


VALUES = {
    tf.string: b"ab",
    tf.bool: True,
    tf.int64: 2**40,
    tf.int8: -3,
    tf.float64: 0.1,
    tf.float16: 0.5,
    tf.bfloat16: 0.5,
    tf.complex64: 1 + 2j,
}


@pytest.mark.parametrize("dtype", VALUES, ids=lambda dtype: dtype.name)
def test_dtypes_travel_through_calls(dtype: tf.DType) -> None:
    """Down as an argument, up as a result, and mapped."""
    with rg.SubGraph("carry", outputs=tf.TensorSpec([], dtype)) as carry:
        n, x = carry.input(tf.int32), carry.input(dtype)
        carry.output(tf.cond(n > 0, lambda: carry(n - 1, x), lambda: x))
    value = tf.cast(VALUES[dtype], dtype) if dtype not in (tf.string, tf.bool) else tf.constant(VALUES[dtype])
    assert carry(3, value).dtype == dtype
    assert carry(3, value).numpy() == value.numpy()
    rows = carry.map([0, 2, 1], tf.stack([value] * 3))
    assert rows.numpy().tolist() == [value.numpy()] * 3


def test_nests_of_inputs_and_outputs() -> None:
    """Dicts in tuples in, lists in dicts out, in the order and with the keys that were declared."""
    inputs = ({"b": FLOAT, "a": INT}, (FLOAT, FLOAT))
    outputs = {"pair": [FLOAT, FLOAT], "n": INT}
    with rg.SubGraph("nest", inputs=inputs, outputs=outputs) as nest:
        named, (x, y) = nest.declared_arguments()

        def deeper() -> dict[str, Any]:
            below = nest({"a": named["a"] - 1, "b": named["b"]}, (y, x))
            return {"pair": [below["pair"][0] + named["b"], below["pair"][1]], "n": below["n"] + 1}

        nest.output(tf.cond(named["a"] > 0, deeper, lambda: {"pair": [x, y], "n": 0}))
    result = nest({"a": 3, "b": 10.0}, (1.0, 2.0))
    assert tf.nest.map_structure(float, result) == {"pair": [32.0, 1.0], "n": 3.0}


def test_one_declared_dict_is_the_only_argument() -> None:
    """And its output may be a single tensor."""
    with rg.SubGraph("dictionary", inputs={"x": FLOAT, "y": FLOAT}, outputs=FLOAT) as dictionary:
        given = dictionary.declared_arguments()
        dictionary.output(given["x"] - given["y"])
    assert float(dictionary({"y": 1.0, "x": 3.0})) == 2


def test_unknown_dimensions_and_ranks() -> None:
    """The result is as long as what was built on the way, also where nothing is known."""
    with rg.SubGraph("count_down", outputs=tf.TensorSpec([None], tf.int32)) as count_down:
        n = count_down.input(tf.int32)
        more = lambda: tf.concat([[n], count_down(n - 1)], 0)  # noqa: E731
        count_down.output(tf.cond(n > 0, more, lambda: tf.zeros([0], tf.int32)))
    assert count_down(4).numpy().tolist() == [4, 3, 2, 1]
    with rg.SubGraph("any_rank", inputs=tf.TensorSpec(None), outputs=tf.TensorSpec(None)) as any_rank:
        x = any_rank.input(tf.float32, None)
        any_rank.output(tf.cond(tf.size(x) > 4, lambda: x, lambda: any_rank(tf.stack([x, x]))))
    assert any_rank(1.0).shape == [2, 2, 2]


def test_static_shapes_flow_through_calls() -> None:
    """A layer that needs a static shape can be fed from a call."""
    with rg.SubGraph("shaped", outputs=(tf.TensorSpec([2, None]), INT)) as shaped:
        x = shaped.input(tf.float32, [2, None])
        below, n = shaped(x)
        assert below.shape.as_list() == [2, None]
        assert n.shape.rank == 0
        shaped.output((x, 1))
    traced = tf.function(lambda x: shaped(x)[0]).get_concrete_function(tf.TensorSpec([2, 3]))
    assert traced.output_shapes.as_list() == [2, None]
    mapped = tf.function(lambda x: shaped.map(x)[0]).get_concrete_function(tf.TensorSpec([5, 2, 3]))
    assert mapped.output_shapes.as_list() == [5, 2, None]


def test_outputs_that_nobody_declared_are_found() -> None:
    """Where no call comes before `output`, its structure and dtypes are what calls give."""
    with rg.SubGraph("free") as free:
        x = free.input(tf.float64, [3])
        free.output({"sum": tf.reduce_sum(x), "word": tf.constant("w")})
    assert free.outputs == {"sum": tf.TensorSpec([], tf.float64), "word": tf.TensorSpec([], tf.string)}
    result = free(np.ones(3))
    assert (float(result["sum"]), result["word"].numpy()) == (3.0, b"w")


def test_several_calls_in_a_body_nested_in_one_another() -> None:
    """Ackermann's function: an argument of a call is itself a call."""
    with rg.SubGraph("ackermann", outputs=INT) as ackermann:
        m, n = ackermann.input(tf.int32), ackermann.input(tf.int32)
        inner = lambda: ackermann(m - 1, tf.cond(n < 1, lambda: 1, lambda: ackermann(m, n - 1)))  # noqa: E731
        ackermann.output(tf.cond(m < 1, lambda: n + 1, inner))
    assert int(ackermann(2, 3)) == 9


def test_switch_case() -> None:
    """Branches by number, the last for all others."""
    with rg.SubGraph("collatz", outputs=INT) as collatz:
        n = collatz.input(tf.int32)
        branches = [lambda: collatz(n // 2), lambda: tf.cond(n < 2, lambda: 0, lambda: collatz(3 * n + 1))]
        collatz.output(tf.switch_case(n % 2, branches) + tf.cond(n < 2, lambda: 0, lambda: 1))
    assert [int(collatz(n)) for n in (1, 2, 3, 6)] == [0, 1, 7, 8]


def test_loops_in_loops() -> None:
    """Calls from the inner of two loops."""
    with rg.SubGraph("loops", outputs=INT) as loops:
        n = loops.input(tf.int32)

        def row(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            def cell(j: tf.Tensor, inner: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                return j + 1, inner + loops(j)

            return i + 1, tf.while_loop(lambda j, _: j < i, cell, [0, total])[1]

        loops.output(tf.while_loop(lambda i, _: i < n, row, [0, 1])[1])

    def reference(n: int) -> int:
        return 1 + sum(reference(j) for i in range(n) for j in range(i))

    assert [int(loops(n)) for n in range(6)] == [reference(n) for n in range(6)]


def test_a_loop_that_a_call_decides() -> None:
    """The condition of a loop may call, too."""
    even = programs.make_even()
    with rg.SubGraph("next_even", outputs=INT) as next_even:
        n = next_even.input(tf.int32)
        next_even.output(tf.while_loop(lambda i: tf.logical_not(even(i)), lambda i: [i + 1], [n])[0])
    assert [int(next_even(n)) for n in range(4)] == [0, 2, 2, 4]


def test_dag_shaped_recursion() -> None:
    """A node that is reached by two ways is computed for each, and right for both."""
    children = tf.constant([[1, 2], [2, 3], [3, 3], [-1, -1]])
    with rg.SubGraph("paths", outputs=INT) as paths:
        node = paths.input(tf.int32)
        below = lambda: paths(children[node, 0]) + paths(children[node, 1])  # noqa: E731
        paths.output(tf.cond(children[node, 0] < 0, lambda: 1, below))
    assert int(paths(0)) == 5


def test_map_runs_every_row() -> None:
    """In order, for nests, for one row and for none."""
    fibonacci, two = programs.make_fibonacci(), programs.make_two_outputs()
    assert fibonacci.map(tf.range(10)).numpy().tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    assert fibonacci.map([6]).numpy().tolist() == [8]
    empty = fibonacci.map(tf.zeros([0], tf.int32))
    assert (empty.shape, empty.dtype) == ([0], tf.int32)
    results = two.map(tf.range(9))
    expected = [programs.two_outputs_reference(tf.constant(node)) for node in range(9)]
    assert results["size"].numpy().tolist() == [int(one["size"]) for one in expected]
    np.testing.assert_allclose(results["product"], [one["product"] for one in expected], rtol=1e-5)


def test_map_of_no_rows_keeps_the_inner_shape() -> None:
    """The last, empty batch of a data set has the shape of the others."""
    rnn = programs.make_tree_rnn()
    assert rnn.map(tf.zeros([0], tf.int32)).shape == [0, 1, 3]
    assert tf.function(rnn.map)(tf.zeros([0], tf.int32)).shape == [0, 1, 3]


def test_map_inside_a_body() -> None:
    """All children at once, any number of them."""
    children, row = tf.constant(programs.CHILDREN), tf.constant(programs.ROW)
    with rg.SubGraph("size", outputs=INT) as size:
        node = size.input(tf.int32)
        size.output(1 + tf.reduce_sum(size.map(children[row[node] : row[node + 1]])))
    assert int(size(0)) == 8
    assert size.map([0, 1, 3]).numpy().tolist() == [8, 1, 3]


def test_an_input_by_its_spec() -> None:
    """Dtype, shape and name in one."""
    with rg.SubGraph("scaled", outputs=tf.TensorSpec([None])) as scaled:
        scaled.output(2.0 * scaled.input(tf.TensorSpec([None], tf.float32, "x")))
    assert scaled(x=[1.0, 2.0]).numpy().tolist() == [2.0, 4.0]


def test_a_single_invocation_may_have_no_inputs() -> None:
    """Only what it captures."""
    with rg.SubGraph("constant") as constant:
        constant.output((tf.constant(3), tf.constant(2.5)))
    assert tf.nest.map_structure(float, constant()) == (3.0, 2.5)


def test_body_shows_as_text() -> None:
    """Signature, captures, branches and calls, by the names that the user gave."""
    text = str(programs.make_tree_sum())
    assert text.startswith("tree_sum(input_0: int32[]) -> float32[]\n  captures ")
    for piece in ("then:", "else:", "Invoke tree_sum(", "node_values: variable float32[9]", "return "):
        assert piece in text
    assert repr(programs.make_even()) == "<SubGraph even(input_0: int32[]) -> bool[]>"
    assert "do(" in str(programs.make_zero_trips())


def test_the_listing_has_no_operation_that_does_nothing() -> None:
    """A use of an Identity shows what it is of; a branch uses the names from around it."""
    with rg.SubGraph("quiet", outputs=FLOAT) as quiet:
        n, x = quiet.input(tf.int32, name="n"), quiet.input(name="x")
        deeper = lambda: tf.identity(quiet(n - 1, tf.identity(x) * 2.0, name="deeper"))  # noqa: E731
        with tf.control_dependencies([tf.no_op()]):
            quiet.output(tf.cond(n > 0, deeper, lambda: x))
    expected = """\
        quiet(n: int32[], x: float32[]) -> float32[]
          Greater = Greater(n, 0)
          cond = If(Greater, n, x)
            then:
              cond/sub = Sub(n, 1)
              cond/mul = Mul(x, 2.0)
              cond/quiet = Invoke quiet(cond/sub, cond/mul)
              return cond/quiet
            else:
              return x
          return cond"""
    assert str(quiet) == textwrap.dedent(expected)


def test_a_declared_subgraph_prints() -> None:
    """Before it has a body."""
    declared = rg.SubGraph("declared", inputs={"x": INT}, outputs=(FLOAT, INT))
    expected = """\
        declared({'x': int32[]}) -> (float32[], int32[])
          (declared, without a body)"""
    assert str(declared) == textwrap.dedent(expected)


def test_optimizer_reaches_bodies() -> None:
    """Constants are folded and common subexpressions removed inside; the report counts it."""
    with rg.SubGraph("wordy", outputs=FLOAT) as wordy:
        n, x = wordy.input(tf.int32), wordy.input()
        more = lambda: wordy(n - 1, x * (tf.constant(2.0) + 3.0 * tf.constant(4.0))) + tf.sin(x) * tf.sin(x)  # noqa: E731
        wordy.output(tf.cond(n > 0, more, lambda: x))
    assert float(wordy(1, 0.5)) == pytest.approx(7 + np.sin(0.5) ** 2)
    assert wordy.program(gradient=False).report.removed > 0
    assert "operations" in wordy.report()
    assert "wordy" in wordy.report()
