"""Nothing is kept that the program has let go of."""

from __future__ import annotations

import gc
import math

import tensorflow as tf

import recgraph as rg
from recgraph.benchmarks.depth import resident
from recgraph.coexec import Coexecuted

MEGABYTE = 1 << 20


def test_variables_made_in_steps_are_not_kept() -> None:
    """Each takes 8 MB."""

    @Coexecuted
    def step() -> tf.Tensor:
        variable = tf.Variable(tf.ones([2 * MEGABYTE]))
        variable.assign_add(tf.ones([2 * MEGABYTE]))
        return tf.reduce_sum(variable)

    for _ in range(5):
        step()
    gc.collect()
    before = resident()
    for _ in range(30):
        step()
    gc.collect()
    assert resident() - before < 60 * MEGABYTE


def test_a_variable_that_is_gone_is_forgotten() -> None:
    """One that may come to be at the same address is another one."""

    def step(variable: tf.Variable) -> tf.Tensor:
        variable.assign_add(1.0)
        return variable * 2.0

    called = Coexecuted(step)
    assert [float(called(tf.Variable(float(i)))) for i in range(40)] == [2.0 * (i + 1) for i in range(40)]


def test_many_steps_need_no_more_memory_than_few() -> None:
    """A variable, a tape, a value that Python looks at; as a function and in a loop."""
    weight = tf.Variable(tf.ones([8, 8]))

    def step(x: tf.Tensor) -> float:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ weight))
        weight.assign_sub(0.001 * tape.gradient(loss, weight))
        return float(loss)

    called, x = Coexecuted(step), tf.ones([8, 8])

    def run(count: int) -> None:
        for _ in range(count):
            called(x)
        for _ in rg.steps(range(count)):
            weight.assign(weight * 0.999)

    run(500)
    gc.collect()
    before = resident()
    run(1500)
    gc.collect()
    assert resident() - before < 8 * MEGABYTE
    assert not math.isnan(called(x))
