"""One read of a variable between two writes: what is computed from two is computed once, and order is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.speculate.passes import rewrites as reads
from recgraph.speculate.run import conversion
from recgraph.speculate.run.function import Speculated


def read_by_others(graph: tf.Graph) -> int:
    """How many reads somebody uses."""
    of_variables = [op for op in graph.get_operations() if op.type == "ReadVariableOp"]
    return sum(bool(op.outputs[0].consumers()) for op in of_variables)


def test_reads_that_wait_for_the_same_become_one() -> None:
    variable = tf.Variable([1.0, 2.0])

    def used() -> tf.Tensor:
        before = variable * 2.0 + variable * 3.0
        variable.assign_add([1.0, 1.0])
        return before, variable * 2.0 + variable * 3.0

    function = tf.function(used, autograph=False).get_concrete_function()
    assert read_by_others(function.graph) == 4
    reads.merge_reads(function.graph)
    assert read_by_others(function.graph) == 2


def test_values_are_those_of_their_time() -> None:
    """Writes between reads, in a branch, and of another variable."""

    def made() -> tuple[Speculated, list[tf.Variable]]:
        a, b = tf.Variable(1.0), tf.Variable(2.0)

        @rg.function(mode="speculate")
        def step(x: tf.Tensor) -> tf.Tensor:
            first = a * x + a
            b.assign_add(a)
            second = a * x + b * b
            if x > 2.0:
                a.assign_add(b)
            third = a * x + a + b
            a.assign(a * 0.5)
            return tf.stack([first, second, third, a + a])

        return step, [a, b]

    (step, state), (eager, eager_state) = made(), made()
    for x in (1.0, 3.0, 1.0, 3.0, 2.5, 0.5, 4.0):
        np.testing.assert_array_equal(step(tf.constant(x)), eager.function(tf.constant(x)))
        np.testing.assert_array_equal(state, eager_state)
    assert step.calls["graph"], step.explain()


def test_generators_are_read_apart_from_their_writes() -> None:
    """Where something after a draw may fail, its write waits; the numbers and the state are eager's."""

    def made() -> tuple[Speculated, tf.random.Generator]:
        generator = tf.random.Generator.from_seed(3)

        @rg.function(mode="speculate")
        def step(x: tf.Tensor) -> tf.Tensor:
            noise = generator.normal([tf.shape(x)[0], 2])
            more = generator.uniform([2])
            tf.debugging.assert_less(tf.reduce_max(x), 10.0)
            return tf.reduce_sum(noise * more) + tf.reduce_sum(x)

        return step, generator

    (step, generator), (eager, other) = made(), made()
    for size in (2, 2, 2, 3, 4, 2):
        np.testing.assert_array_equal(step(tf.ones([size, 2])), eager.function(tf.ones([size, 2])))
        np.testing.assert_array_equal(generator.state, other.state)
    assert step.calls["graph"], step.explain()
    for run in (step, eager.function):
        try:
            run(tf.fill([2, 2], 11.0))
        except tf.errors.InvalidArgumentError:
            pass
        else:
            raise AssertionError("the assertion held")
    np.testing.assert_array_equal(generator.state, other.state)


def test_one_draw_is_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has to be put back where the only write waits for all that may fail."""
    generator, early, runner = tf.random.Generator.from_seed(3), [], conversion.runner

    def noting(*given: Any, **named: Any) -> Any:
        early.append(given[3])
        return runner(*given, **named)

    monkeypatch.setattr(conversion, "runner", noting)
    step = rg.function(lambda x: generator.normal([tf.shape(x)[0], 2]) + x, mode="speculate")
    for size in (2, 2, 2, 3, 4, 5):
        step(tf.ones([size, 2]))
    assert len(early) == 2, "one graph of [2, 2], and one of [?, 2]"
    assert not any(early)
