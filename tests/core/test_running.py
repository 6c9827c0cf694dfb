"""Where a call may run (eager, staged, in data pipelines, sessions, threads) and what a body may use from around it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from core import programs

import recgraph as rg
from recgraph import testing
from recgraph.errors import SignatureError

INT = tf.TensorSpec([], tf.int32)
FLOAT = tf.TensorSpec([])


def in_session(*fetches: tf.Tensor) -> list[np.ndarray]:
    """Values from a new session on the default graph, its variables initialised."""
    with tf.compat.v1.Session() as session:
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
        return session.run(list(fetches))


def test_session_runs_recursion() -> None:
    """A graph of the first TensorFlow, where `==` compares objects: with placeholders, variables and gradients."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        scale = tf.compat.v1.get_variable("scale", initializer=3.0, use_resource=True)
        with rg.SubGraph("scaled", outputs=FLOAT) as scaled:
            n, x = scaled.input(tf.int32), scaled.input()
            scaled.output(tf.cond(tf.equal(n, 0), lambda: x, lambda: scale * scaled(n - 1, x)))
        n = tf.compat.v1.placeholder(tf.int32, [])
        y = scaled(n, 2.0)
        gradients = tf.gradients(y, scale)
        session.run(scale.initializer)
        assert session.run([y, *gradients], {n: 2}) == [18, 12]
        session.run(scale.assign(1.0))
        assert session.run([y, scaled(5, 1.0)], {n: 3}) == [2, 1]


def test_gradients_after_a_session_has_run() -> None:
    """The session has taken the forward operations by then and lets nobody change them."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with rg.SubGraph("power", outputs=FLOAT) as power:
            n, x = power.input(tf.int32), power.input()
            power.output(tf.cond(n > 0, lambda: x * power(n - 1, x), lambda: x))
        x = tf.constant(2.0)
        y = power(2, x)
        assert session.run(y) == 8
        assert session.run(tf.gradients(y, x)) == [12.0]


def test_two_sessions_on_one_graph() -> None:
    """Each has its own variables and its own runtime; one may be closed while the other runs."""
    with tf.Graph().as_default():
        scale = tf.compat.v1.get_variable("scale", initializer=1.0, use_resource=True)
        with rg.SubGraph("scaled", outputs=FLOAT) as scaled:
            n = scaled.input(tf.int32)
            scaled.output(tf.cond(n > 0, lambda: scale * scaled(n - 1), lambda: 1.0))
        y, change = scaled(3), scale.assign(2.0)
        one, two = tf.compat.v1.Session(), tf.compat.v1.Session()
        for session in (one, two):
            session.run(scale.initializer)
        two.run(change)
        assert (one.run(y), two.run(y)) == (1, 8)
        one.close()
        assert two.run(y) == 8
        two.close()


def test_map_of_a_data_set() -> None:
    """In the pipeline's own threads, several elements at once, none lost or swapped."""
    fibonacci = programs.make_fibonacci()
    data = tf.data.Dataset.range(12, output_type=tf.int32).map(fibonacci, num_parallel_calls=2)
    assert [int(n) for n in data] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
    rows = tf.data.Dataset.range(6, output_type=tf.int32).batch(4).map(fibonacci.map)
    assert [batch.numpy().tolist() for batch in rows] == [[0, 1, 1, 2], [3, 5]]


@pytest.mark.parametrize("staged", [False, True])
def test_several_threads(staged: bool) -> None:
    """One SubGraph, values and gradients from four threads at once."""
    program = next(program for program in programs.PROGRAMS if program.name == "tree_rnn")
    subgraph = program.make()
    function = tf.function(subgraph) if staged else subgraph
    expected = programs.run(program.reference, program.arguments[-1], program.variables())
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(programs.run, function, program.arguments[-1], program.variables()) for _ in range(40)]
        for future in futures:
            programs.assert_same(future.result(), expected)
    assert testing.counters().live_invocations == 0


def test_definitions_in_several_threads() -> None:
    """Graphs under construction belong to their thread."""
    barrier = threading.Barrier(3)

    def define(factor: float) -> float:
        with rg.SubGraph("mine", outputs=FLOAT) as mine:
            n = mine.input(tf.int32)
            barrier.wait(timeout=60)
            mine.output(tf.cond(n > 0, lambda: factor * mine(n - 1), lambda: 1.0))
        return float(mine(2))

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(define, [1.0, 2.0, 3.0])) == [1, 4, 9]


def test_variables_are_captured_by_reference() -> None:
    """An assignment between two steps is seen: eagerly, staged, and in an order within one function."""
    variable = tf.Variable(2.0)
    with rg.SubGraph("power", outputs=FLOAT) as power:
        n = power.input(tf.int32)
        power.output(tf.cond(n > 0, lambda: variable * power(n - 1), lambda: 1.0))
    staged = tf.function(power)

    @tf.function
    def in_between() -> tuple[tf.Tensor, tf.Tensor]:
        before = power(2)
        variable.assign_add(1.0)
        return before, power(2)

    assert (float(power(3)), float(staged(3))) == (8, 8)
    variable.assign(3.0)
    assert (float(power(3)), float(staged(3))) == (27, 27)
    assert tf.nest.map_structure(float, in_between()) == (9.0, 16.0)


def test_a_variable_that_a_body_writes() -> None:
    """Every invocation's assignment happens, once; a later read in the same body sees it."""
    visits, seen = tf.Variable(0), tf.Variable(0)
    with rg.SubGraph("counting", outputs=INT) as counting:
        n = counting.input(tf.int32)
        visits.assign_add(1)
        seen.assign(visits.read_value())
        counting.output(tf.cond(n > 0, lambda: counting(n - 1) + counting(n - 1), lambda: 1))
    for function in (counting, tf.function(counting)):
        visits.assign(0)
        assert int(function(3)) == 8
        assert int(visits) == 15


def test_a_body_reads_what_it_has_just_written() -> None:
    """A variable that a body assigns to is read where the body reads it, not once for the whole call."""
    count = tf.Variable(10)
    with rg.SubGraph("next_number", outputs=INT) as next_number:
        count.assign_add(1)
        next_number.output(count.read_value() * 2)
    assert [int(next_number()), int(tf.function(next_number)())] == [22, 24]


def test_captures_of_every_kind_keep_their_slots() -> None:
    """Many captures of one dtype: none may stand in for another."""
    tensors = [tf.constant(float(10**i)) for i in range(4)]
    variables = [tf.Variable(2.0 * 10**i) for i in range(4)]
    with rg.SubGraph("many", outputs=tf.TensorSpec([8])) as many:
        n = many.input(tf.int32)
        mixed = lambda: tf.stack([f for pair in zip(variables, tensors, strict=True) for f in pair])  # noqa: E731
        many.output(tf.cond(n > 0, lambda: many(n - 1) + tensors[2] - tensors[2], mixed))
    expected = [f for i in range(4) for f in (2.0 * 10**i, 10.0**i)]
    assert many(1).numpy().tolist() == expected
    assert tf.function(many)(1).numpy().tolist() == expected


def test_hash_table() -> None:
    """Strings looked up at every level."""
    keys, values = tf.constant(["a", "b"]), tf.constant([1, 20])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default_value=500)
    with rg.SubGraph("score", outputs=INT) as score:
        text = score.input(tf.string)
        rest = tf.strings.substr(text, 1, -1)
        own = table.lookup(tf.strings.substr(text, 0, 1))
        score.output(tf.cond(tf.strings.length(text) > 1, lambda: own + score(rest), lambda: own))
    assert int(score("abba")) == 42
    assert int(tf.function(score)("abx")) == 521


def test_keras_layers() -> None:
    """Built before or inside of the body; their weights are trained."""
    before, inside = tf.keras.layers.Dense(3, "tanh"), tf.keras.layers.Dense(3)
    before.build([None, 3])
    inside.build([None, 3])
    with rg.SubGraph("layers", outputs=tf.TensorSpec([1, 3])) as layers:
        n, x = layers.input(tf.int32), layers.input(tf.float32, [1, 3])
        layers.output(tf.cond(n > 0, lambda: before(layers(n - 1, x)), lambda: inside(x)))

    def reference(n: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return before(reference(n - 1, x)) if n > 0 else inside(x)

    arguments = (tf.constant(2), tf.constant(programs.seeded(1, 3)))
    variables = [weight.value for layer in (before, inside) for weight in layer.trainable_weights]
    programs.assert_same(programs.run(layers, arguments, variables), programs.run(reference, arguments, variables))


@pytest.mark.parametrize("gradient", ["cache", "recompute"])
def test_a_traced_function_in_a_body(gradient: str) -> None:
    """With a branch and a capture of its own, called at every level, and differentiated."""
    scale = tf.Variable(2.0)

    def plain(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return scale * tf.sin(x) + y if tf.reduce_sum(x) > 0 else x * y

    helper = tf.function(plain)
    with rg.SubGraph("helped", outputs=FLOAT, gradient=gradient) as helped:
        n, x = helped.input(tf.int32), helped.input()
        helped.output(tf.cond(n > 0, lambda: helper(helped(n - 1, x), x), lambda: x))

    def reference(n: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return plain(reference(n - 1, x), x) if n > 0 else x

    for value in (0.4, -0.4):
        arguments = (tf.constant(3), tf.constant(value))
        expected = programs.run(reference, arguments, [scale])
        programs.assert_same(programs.run(helped, arguments, [scale]), expected)


def test_a_traced_function_that_tensorflow_differentiates_too() -> None:
    """TensorFlow then rewrites the branches of the function's graph, between two SubGraphs that use it."""
    helper = tf.function(lambda x: tf.cond(x > 0, lambda: tf.sin(x), lambda: x * x))

    def through_a_subgraph(x: tf.Tensor) -> tf.Tensor:
        with rg.SubGraph("helped", outputs=FLOAT) as helped:
            n, y = helped.input(tf.int32), helped.input()
            helped.output(tf.cond(n > 0, lambda: helper(helped(n - 1, y)), lambda: y))
        return helped(1, x)

    x = tf.constant(0.4)
    first = programs.run(through_a_subgraph, (x,))
    programs.assert_same(programs.run(helper, (x,)), first)
    programs.assert_same(programs.run(through_a_subgraph, (x,)), first)


@pytest.mark.parametrize("gradient", ["cache", "recompute"])
def test_a_nested_subgraph_captures_its_parents_tensors(gradient: str) -> None:
    """A recursion inside of every invocation of another: each sees its own parent's tensor."""
    with rg.SubGraph("outer", outputs=FLOAT, gradient=gradient) as outer:
        n, x = outer.input(tf.int32), outer.input()
        double = 2.0 * x
        with rg.SubGraph("inner", outputs=FLOAT, gradient=gradient) as inner:
            m = inner.input(tf.int32)
            inner.output(tf.cond(m > 0, lambda: double * inner(m - 1), lambda: x))
        outer.output(tf.cond(n > 0, lambda: inner(n) + outer(n - 1, 0.5 * x), lambda: x))

    def reference(n: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return (2.0 * x) ** tf.cast(n, tf.float32) * x + reference(n - 1, 0.5 * x) if n > 0 else x

    arguments = (tf.constant(3), tf.constant(1.5))
    programs.assert_same(programs.run(outer, arguments), programs.run(reference, arguments))
    programs.assert_same(programs.run(tf.function(outer), arguments), programs.run(reference, arguments))


def test_a_subgraph_made_inside_of_a_traced_function() -> None:
    """As models do: it captures the batch, and a new trace makes a new one."""

    @tf.function(reduce_retracing=False)
    def total(items: tf.Tensor) -> tf.Tensor:
        with rg.SubGraph("total", outputs=FLOAT) as total_:
            i = total_.input(tf.int32)
            total_.output(tf.cond(i < tf.size(items), lambda: items[i] + total_(i + 1), lambda: 0.0))
        return total_(0)

    assert float(total(tf.constant([1.0, 2.0]))) == 3
    assert float(total(tf.constant([1.0, 2.0, 4.0]))) == 7


def test_garbage_is_collected_while_a_program_is_in_use() -> None:
    """A traced function keeps alive what it calls, after the SubGraph's own name is gone."""
    import gc

    staged = tf.function(programs.make_fibonacci())
    concrete = staged.get_concrete_function(INT)
    del staged
    gc.collect()
    assert int(concrete(tf.constant(10))) == 55


ENDING = """
import tensorflow as tf
import recgraph as rg
with rg.SubGraph("chain", outputs=tf.TensorSpec([])) as chain:
    n = chain.input(tf.int32)
    chain.output(tf.cond(n > 0, lambda: chain(n - 1), lambda: 1.0))
chain(3)
tf.function(chain)(tf.constant(3))
list(tf.data.Dataset.range(3).map(lambda i: chain(tf.cast(i, tf.int32))))
"""


def test_a_process_ends_quietly() -> None:
    """A program lets go of its functions while their runtime is alive: branches would complain at TensorFlow's log."""
    command = [sys.executable, "-W", "ignore", "-c", ENDING]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "destroyed" not in done.stderr


def test_eager_calls_with_any_number_of_rows_are_one_kernel() -> None:
    """TensorFlow keeps a kernel for each set of attributes for ever."""
    with rg.SubGraph("kernel", outputs=tf.TensorSpec([2])) as double:
        double.output(2.0 * double.input(tf.float32, [2]))
    for rows in (0, 1, 3):
        x = tf.ones([rows, 2])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = double.map(x)
        np.testing.assert_array_equal(y, 2.0 * np.ones([rows, 2]))
        np.testing.assert_array_equal(tape.gradient(y, x), 2.0 * np.ones([rows, 2]))
    (call,) = double.program(gradient=True, batched=True).calls.values()
    assert len(call.gradients) == 1


def test_an_eager_argument_that_does_not_fit_is_refused_however_it_is_checked() -> None:
    """What plainly fits is not looked at again; the rest is, and the error is the same."""
    with rg.SubGraph("narrow", outputs=tf.TensorSpec([None])) as narrow:
        narrow.output(narrow.input(tf.float32, [None]) + 1.0)
    np.testing.assert_array_equal(narrow(tf.ones([3])), 2.0 * np.ones([3]))
    np.testing.assert_array_equal(narrow([1.0]), [2.0])
    for wrong in (tf.ones([]), tf.ones([2, 2]), tf.ones([2], tf.float64)):
        with pytest.raises(SignatureError, match="argument 1 has the wrong dtype or shape"):
            narrow(wrong)
    with pytest.raises(SignatureError, match="argument 1 has the wrong dtype or shape"):
        narrow.map(tf.ones([2]))
