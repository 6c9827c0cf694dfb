"""SubGraphs in programs: they are operations."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import recgraph as rg
from tests.speculate.corpus import program


def halving(counter: tf.Variable | None) -> rg.SubGraph:
    """Adds halves up; counts its invocations."""
    with rg.SubGraph("halving", outputs=tf.TensorSpec([])) as made:
        x = made.input()
        if counter is not None:
            counter.assign_add(1)
        made.output(tf.cond(x < 1.0, lambda: x, lambda: x + made(x * 0.5)))
    return made


@program
def a_subgraph_inside() -> Any:
    sums = halving(None)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(sums.map(x))
        return y, tape.gradient(y, x)

    return step, lambda i: (tf.constant([1.0, 5.0, 9.0]) + i,), None


@program(eager="a body that writes cannot be undone", feature="EFFECTS", line="return sums(x)")
def a_subgraph_that_counts() -> Any:
    counter = tf.Variable(0)
    sums = halving(counter)

    def step(x: tf.Tensor) -> Any:
        return sums(x)

    return step, lambda i: (tf.constant(3.0 + i),), counter
