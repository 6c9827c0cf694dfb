"""Nothing is kept that the program has let go of."""

from __future__ import annotations

import collections
import gc
import math
from typing import Final

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.benchmarks.depth import resident
from recgraph.coexec import Coexecuted
from tests import sampling

MEGABYTE = 1 << 20
# How many; the suite takes a few, `--steps=100000` many.
STEPS: Final = sampling.count("steps", 2000)


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


class Program:
    """A variable, a tape, a branch on a value, a value that Python looks at, and a list that it keeps for a while."""

    def __init__(self) -> None:
        self.weight, self.kept = tf.Variable(tf.ones([8, 8])), collections.deque[tf.Tensor](maxlen=3)

    def step(self, x: tf.Tensor) -> float:
        """x: float32 `[8, 8]`. The loss before."""
        with tf.GradientTape() as tape:
            y = x @ self.weight
            loss = tf.reduce_mean(tf.square(y))
        self.kept.append(y)
        rate = 0.01 if float(self.kept[0][0, 0]) > 4.0 else 0.001
        self.weight.assign_sub(rate * tape.gradient(loss, self.weight))
        if loss < 0.5:
            self.weight.assign_add(tf.fill([8, 8], 0.3))
        return float(loss)


@pytest.mark.parametrize("is_loop", [False, True])
def test_many_steps_neither_drift_nor_need_more_memory(is_loop: bool) -> None:
    """As a function, and as the body of a loop."""
    ours, eager, x = Program(), Program(), tf.ones([8, 8])
    called = Coexecuted(ours.step)

    def run(count: int) -> tuple[list[float], list[float]]:
        steps = [ours.step(x) for _ in rg.steps(range(count))] if is_loop else [called(x) for _ in range(count)]
        return steps, [eager.step(x) for _ in range(count)]

    found, expected = run(STEPS // 4)
    gc.collect()
    before = resident()
    for _ in range(3):
        assert found == expected
        found, expected = run(STEPS // 4)
    np.testing.assert_array_equal(ours.weight, eager.weight)
    gc.collect()
    assert resident() - before < 8 * MEGABYTE
    assert not math.isnan(found[-1])
    assert len(set(found)) > 10
