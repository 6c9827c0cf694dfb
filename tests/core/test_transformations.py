"""What TensorFlow does to functions (forward accumulators, vectorizing, XLA, TFLite) with calls of SubGraphs in them.

It works and gives what plain TensorFlow gives, or an error names the SubGraph, what is not possible, and what is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.core import pullback
from recgraph.errors import DefinitionError, GradientError, ScopeError

XS, NS = tf.constant([1.0, 2.0, 3.0]), tf.constant([3, 2, 1])
X = tf.constant(3.0)
ONE = tf.constant(1.0)


@pytest.fixture(params=["parallel", "batched"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine."""
    return str(request.param)


@pytest.fixture(params=["eager", "graph"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A function as it is, or as a graph."""
    return (lambda f: tf.function(f, autograph=False)) if request.param == "graph" else lambda f: f


@pytest.fixture
def weight() -> tf.Variable:
    """What `power` multiplies by at its end."""
    return tf.Variable(2.0)


@pytest.fixture
def power(engine: str, weight: tf.Variable) -> Any:
    """weight * x ** n."""
    with rg.SubGraph("power", outputs=tf.TensorSpec([]), engine=engine) as power:
        x, n = power.input(tf.float32), power.input(tf.int32)
        power.output(tf.cond(n < 1, lambda: weight * 1.0, lambda: x * power(x, n - 1)))
    return power


@pytest.fixture
def quiet() -> Iterator[None]:
    """Without what TensorFlow logs of an error before it raises it."""
    before = tf.get_logger().level
    tf.get_logger().setLevel(logging.CRITICAL + 1)
    yield
    tf.get_logger().setLevel(before)


# Forward accumulators.


def tangent(function: Callable[[], Any], primal: Any, direction: Any = ONE) -> Any:
    """Of what a function gives, when a tensor or variable moves in a direction."""
    with tf.autodiff.ForwardAccumulator(primal, direction) as accumulator:
        result = function()
    return accumulator.jvp(result)


def test_an_accumulator_follows_an_input(run: Any, power: Any) -> None:
    for _ in range(2):
        assert float(run(lambda: tangent(lambda: power(X, 3), X))()) == 54.0  # 3 * 9 * 2


def test_an_accumulator_follows_a_variable(run: Any, power: Any, weight: tf.Variable) -> None:
    assert float(run(lambda: tangent(lambda: power(X, 3), weight))()) == 27.0
    assert float(tangent(tf.function(lambda: power(X, 3), autograph=False), weight)) == 27.0


def test_an_accumulator_follows_an_input_and_another_one_a_variable(engine: str) -> None:
    """TensorFlow keeps what it makes of a function for the first one, which has no tangents of the others' captures."""
    matrix, table = tf.Variable([[2.0, 0.0], [0.0, 3.0]]), tf.Variable(tf.ones([3, 2]))
    with rg.SubGraph("moved", outputs=tf.TensorSpec([2]), engine=engine) as moved:
        x, n = moved.input(tf.float32, [2]), moved.input(tf.int32)
        moved.output(tf.cond(n > 0, lambda: moved(tf.linalg.matvec(matrix, x) + tf.gather(table, n), n - 1), lambda: x))
    x, found = tf.constant([1.0, 1.0]), []
    for primal in (x, matrix, table, x):
        with tf.autodiff.ForwardAccumulator(primal, tf.ones(primal.shape)) as accumulator:
            y = moved(x, 1)
        found.append(accumulator.jvp(y).numpy().tolist())
    assert found == [[2, 3], [2, 2], [1, 1], [2, 3]]


def test_an_accumulator_follows_rows(run: Any, power: Any) -> None:
    direction = tf.constant([1.0, 0.0, 2.0])
    np.testing.assert_allclose(run(lambda: tangent(lambda: power.map(XS, NS), XS, direction))(), [6.0, 0.0, 4.0])


def test_accumulators_around_each_other_and_around_tapes(power: Any) -> None:
    """Second derivatives: 2 * 3 * 2 * x."""

    def slope() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(X)
            result = power(X, 3)
        return tape.gradient(result, X)

    assert float(tangent(slope, X)) == 36.0
    assert float(tangent(lambda: tangent(lambda: power(X, 3), X), X)) == 36.0


def test_an_accumulator_that_watches_something_else(run: Any, power: Any) -> None:
    assert run(lambda: tangent(lambda: power(X, 3), XS, XS))() is None


def test_an_accumulator_over_what_has_no_second_derivative(engine: str) -> None:
    """The reason is the same each time."""
    with rg.SubGraph("noisy", outputs=tf.TensorSpec([]), engine=engine) as noisy:
        x = noisy.input(tf.float32)
        noisy.output(x * tf.random.uniform([]))
    for _ in range(2):
        with pytest.raises(
            GradientError, match="'noisy' cannot be called under a tf.autodiff.ForwardAccumulator"
        ) as why:
            tangent(lambda: noisy(X), X)
        assert "RandomUniform) would not do the same again" in str(why.value)
        assert "use tf.GradientTape" in str(why.value)
        with pytest.raises(DefinitionError, match="a second derivative runs the body a second time"):
            pullback.of(noisy)


def test_an_accumulator_in_a_body(power: Any) -> None:
    with rg.SubGraph("inside", outputs=tf.TensorSpec([])) as inside:
        x = inside.input(tf.float32)
        with pytest.raises(GradientError, match="'power' cannot be called under a .*ForwardAccumulator inside a body"):
            tangent(lambda: power(x, 3), x)
        inside.output(power(x, 3))
    assert float(inside(X)) == 54.0


# Vectorizing.


def both(function: Callable[[Any], Any], elements: Any, run: Any) -> None:
    """`tf.vectorized_map`, with and without a loop to fall back to, gives what one iteration after the other gives."""
    expected = tf.map_fn(function, elements, fn_output_signature=tf.float32)
    for falls_back in (True, False):
        options = {"fallback_to_while_loop": falls_back}
        found = run(lambda options=options: tf.vectorized_map(function, elements, **options))()
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_calls_are_vectorized(run: Any, power: Any, weight: tf.Variable) -> None:
    """With inputs that differ, that are the same for all, and with rows of their own."""
    both(lambda x: power(x, 3), XS, run)
    both(lambda pair: weight * power(pair[0], pair[1]), (XS, NS), run)
    both(lambda x: power.map(tf.stack([x, x + 1.0]), tf.constant([3, 2])), XS, run)


def test_gradients_around_what_is_vectorized(run: Any, power: Any, weight: tf.Variable) -> None:
    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(XS)
            results = tf.vectorized_map(lambda pair: power(pair[0], pair[1]), (XS, NS))
        return tape.gradient(results, [XS, weight])

    by_rows, by_weight = run(gradients)()
    np.testing.assert_allclose(by_rows, [6.0, 8.0, 2.0])
    assert float(by_weight) == 1.0 + 4.0 + 3.0


def gradient_of(call: Callable[[Any], Any], x: Any, by: Any = None) -> Any:
    """Taken in each iteration."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = call(x)
    return tape.gradient(result, x if by is None else by)


def test_gradients_in_each_iteration(run: Any, power: Any) -> None:
    both(lambda pair: gradient_of(lambda x: power(x, pair[1]), pair[0]), (XS, NS), run)
    both(lambda x: gradient_of(lambda rows: power.map(rows, tf.constant([3, 2])), tf.stack([x, x + 1.0])), XS, run)


def test_gradients_in_each_iteration_by_what_is_captured(run: Any, power: Any, weight: tf.Variable) -> None:
    """There is one sum for all iterations, which is none of theirs."""
    mapped = run(lambda: tf.vectorized_map(lambda x: gradient_of(lambda y: power(y, 3), x, weight), XS))
    with pytest.raises(tf.errors.UnimplementedError, match="'power': tf.vectorized_map gives no gradients") as why:
        mapped()
    assert "take them outside of tf.vectorized_map" in str(why.value)
    assert "use tf.map_fn" in str(why.value)


def test_calls_in_a_body_are_vectorized(power: Any, weight: tf.Variable) -> None:
    with rg.SubGraph("body", outputs=tf.TensorSpec([3])) as body:
        xs = body.input(tf.float32, [3])
        body.output(tf.vectorized_map(lambda x: power(x, 3), xs))
    with tf.GradientTape() as tape:
        tape.watch(XS)
        results = body(XS)
    np.testing.assert_allclose(results, 2.0 * XS**3)
    by_rows, by_weight = tape.gradient(results, [XS, weight])
    np.testing.assert_allclose(by_rows, 6.0 * XS**2)
    assert float(by_weight) == 36.0


def test_functions_branches_and_loops_are_vectorized(power: Any) -> None:
    """With calls in them; a function that was vectorized is what it was."""
    graph = tf.function(lambda x: power(x, 3), autograph=False)

    def branch(x: Any) -> Any:
        return tf.cond(x > 1.5, lambda: power(x, 3), lambda: x)

    def loop(pair: Any) -> Any:
        return tf.while_loop(lambda i, _: i < pair[1], lambda i, x: (i + 1, power(x, 2)), [0, pair[0]])[1]

    both(graph, XS, lambda f: f)
    both(lambda x: gradient_of(graph, x), XS, lambda f: f)
    both(lambda x: gradient_of(graph, x), XS, lambda f: tf.function(f, autograph=False))
    both(branch, XS, lambda f: f)
    both(loop, (XS, NS), lambda f: f)
    assert float(graph(X)) == 54.0
    assert float(gradient_of(graph, X)) == 54.0
    found, expected = (
        tf.convert_to_tensor(gradient_of(lambda xs, m=m: m(loop, (xs, NS), fn_output_signature=tf.float32), XS))
        for m in (lambda f, xs, fn_output_signature: tf.vectorized_map(f, xs), tf.map_fn)
    )
    np.testing.assert_allclose(found, expected)


def test_what_was_loaded(power: Any, weight: tf.Variable, tmp_path: Path) -> None:
    """Of a model whose definition is in the process, too, with other values in its variables."""
    module = tf.Module()
    module.weight = weight
    module.call = tf.function(lambda x: power(x, 3), input_signature=[tf.TensorSpec([])], autograph=False)
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    loaded.weight.assign(5.0)
    np.testing.assert_allclose(tf.vectorized_map(loaded.call, XS), 5.0 * XS**3)
    assert float(tangent(lambda: loaded.call(X), X)) == 15.0 * 9.0


def test_effects_of_vectorized_calls_happen_once_for_each_iteration(run: Any, engine: str) -> None:
    """The iteration that is traced does not run besides."""
    count = tf.Variable(0)
    with rg.SubGraph("counts", outputs=tf.TensorSpec([]), engine=engine) as counts:
        x = counts.input(tf.float32)
        count.assign_add(1)
        counts.output(x * 2.0)
    np.testing.assert_allclose(run(lambda: tf.vectorized_map(counts, XS))(), XS * 2.0)
    assert int(count) == 3
    np.testing.assert_allclose(run(lambda: tf.vectorized_map(lambda x: counts(1.0) * x, XS))(), XS * 2.0)
    assert int(count) == 6


@pytest.mark.usefixtures("quiet")
def test_what_cannot_be_vectorized(run: Any, power: Any, weight: tf.Variable) -> None:
    def captures(x: Any) -> Any:
        with rg.SubGraph("takes", outputs=tf.TensorSpec([])) as takes:
            n = takes.input(tf.int32)
            takes.output(tf.cond(n < 1, lambda: x, lambda: takes(n - 1) * x))
        return takes(2)

    with rg.SubGraph("none", outputs=tf.TensorSpec([])) as none:
        none.output(weight * 2.0)
    with rg.SubGraph("reads", outputs=tf.TensorSpec([])) as reads:
        handle, x = reads.input(tf.resource, []), reads.input(tf.float32)
        reads.output(x * tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32))
    refused = {
        "'takes' cannot be called in tf.vectorized_map: it captures a tensor that differs": captures,
        "'none' cannot be called in tf.vectorized_map: it has no inputs": lambda x: none() * x,
        "'reads' cannot be called in tf.vectorized_map: it has an input of dtype resource": lambda x: reads(
            weight.handle, x
        ),
    }
    for text, function in refused.items():
        with pytest.raises(ScopeError, match=text) as why:
            run(lambda function=function: tf.vectorized_map(function, XS))()
        assert "use tf.map_fn" in str(why.value)
    np.testing.assert_allclose(tf.map_fn(captures, XS), XS**3)


def test_jacobians(run: Any, power: Any) -> None:
    def jacobian(pfor: bool) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(XS)
            results = power.map(XS, NS)
        return tape.jacobian(results, XS, experimental_use_pfor=pfor)

    for pfor in (True, False):
        np.testing.assert_allclose(run(lambda pfor=pfor: jacobian(pfor))(), np.diag([6.0, 8.0, 2.0]))


def test_hessians(run: Any, power: Any) -> None:
    def hessian() -> Any:
        with tf.GradientTape() as outer:
            outer.watch(XS)
            with tf.GradientTape() as inner:
                inner.watch(XS)
                results = power.map(XS, NS)
            slopes = inner.gradient(results, XS)
        return outer.jacobian(slopes, XS)

    np.testing.assert_allclose(run(hessian)(), np.diag([12.0, 4.0, 0.0]))
    graph = tf.function(lambda x: tf.hessians(power(x[0], 3), x), autograph=False)
    np.testing.assert_allclose(graph(X[None])[0], [[36.0]])


# Compilers.


def test_xla(power: Any) -> None:
    """Of a call, its gradient, and a call in a function that is compiled in another one."""
    compiled = tf.function(lambda x: power(x, 3), jit_compile=True, autograph=False)
    gradient = tf.function(lambda x: gradient_of(lambda y: power(y, 3), x), jit_compile=True, autograph=False)
    nested = tf.function(lambda x: compiled(x) + 1.0, autograph=False)
    for function in (compiled, gradient, nested):
        with pytest.raises(tf.errors.UnimplementedError, match="XLA cannot compile a call of SubGraph 'power'") as why:
            function(X)
        assert "Call the SubGraph outside of what has jit_compile=True" in str(why.value)
    with pytest.raises(ValueError, match="XLA cannot compile a call of SubGraph 'power'"):
        compiled.experimental_get_compiler_ir(X)(stage="hlo")


def test_tflite(power: Any, weight: tf.Variable) -> None:
    """The converter has no way to be told; what it says names the operation."""
    module = tf.Module()
    module.weight = weight
    specs = [tf.TensorSpec([])]
    function = tf.function(lambda x: power(x, 3), input_signature=specs, autograph=False).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    with pytest.raises(Exception, match="Recgraph>Invoke' op is neither a custom op nor a flex op"):
        converter.convert()


# Variables by their handles.


@pytest.fixture
def reads(engine: str) -> Any:
    """x * variable ** depth, of a variable whose handle it is given."""
    with rg.SubGraph("reads", outputs=tf.TensorSpec([]), engine="auto" if engine == "batched" else engine) as reads:
        handle, x, n = reads.input(tf.resource, []), reads.input(tf.float32), reads.input(tf.int32)
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
        reads.output(tf.cond(n < 1, lambda: x, lambda: value * reads(handle, x, n - 1)))
    return reads


def test_gradients_by_a_variable_whose_handle_is_given(run: Any, reads: Any, weight: tf.Variable) -> None:
    def gradients(*watched: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(watched)
            result = reads(weight.handle, X, 2)
        return tape.gradient(result, [X, weight])

    by_x, by_weight = run(lambda: gradients(X))()
    assert float(by_x) == 4.0
    assert by_weight is None  # nobody watches it, so plain TensorFlow gives None, too
    with pytest.raises(
        GradientError, match="'reads': no gradient flows to a variable that is passed as a handle"
    ) as why:
        run(lambda: gradients(X, weight))()
    assert "let the body use the variable" in str(why.value)
    with pytest.raises(GradientError, match="'reads': no gradient flows to a variable"):
        tf.function(lambda: tf.gradients(reads(weight.handle, X, 2), [weight.handle]), autograph=False)()


def test_gradients_by_a_variable_that_a_body_hands_on(run: Any, reads: Any, weight: tf.Variable) -> None:
    """The sum for the variable would have what the body does with it itself, and no more."""
    with rg.SubGraph("outer", outputs=tf.TensorSpec([])) as outer:
        x = outer.input(tf.float32)
        outer.output(weight * reads(weight.handle, x, 2))
    assert float(outer(X)) == 24.0
    with pytest.raises(GradientError, match="'reads': no gradient flows to a variable that is passed as a handle"):
        run(lambda: gradient_of(outer, X))()


def test_handles_that_gradients_do_not_concern(run: Any, engine: str) -> None:
    """Of a table, and of variables that are written, or hold whole numbers."""
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 1.5)
    total, count = tf.Variable(0.0), tf.Variable(3)
    with rg.SubGraph("looks", outputs=tf.TensorSpec([]), engine="auto" if engine == "batched" else engine) as looks:
        x, of_table, of_total, of_count = looks.input(tf.float32), *(looks.input(tf.resource, []) for _ in range(3))
        found = tf.raw_ops.LookupTableFindV2(table_handle=of_table, keys=tf.constant(1, tf.int64), default_value=2.0)
        tf.raw_ops.AssignAddVariableOp(resource=of_total, value=1.0)
        number = tf.raw_ops.ReadVariableOp(resource=of_count, dtype=tf.int32)
        looks.output(x * found * tf.cast(number, tf.float32))
    call = lambda x: looks(x, table.resource_handle, total.handle, count.handle)  # noqa: E731
    assert float(run(lambda: gradient_of(call, X))()) == 6.0
    assert float(total) == 1.0
