"""Steps that break off at any moment: before their calls begin, while they run, as they end, while others wait."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from core.failing import nothing_is_left_behind, wait_until  # noqa: F401  (the fixture serves every test)

import recgraph as rg
from recgraph import testing

INT, ROW = tf.TensorSpec([], tf.int32), tf.TensorSpec([8])
WAYS = ("parallel", *testing.BATCH_WAYS)
MOMENTS = 12
THREADS = 4


def break_off(delay: tf.Tensor) -> int:
    """Waits, and fails: what else runs in the step is cancelled."""
    time.sleep(float(delay))
    raise ValueError("broken off")


class Steps:
    """A recursion over pairs, its gradient, and a count of its calls, each of which reads it and writes it."""

    def __init__(self, engine: str) -> None:
        graph = tf.Graph()
        with graph.as_default():
            tf.compat.v1.set_random_seed(1)
            kernel = tf.compat.v1.get_variable("kernel", [16, 8], use_resource=True)
            count = tf.compat.v1.get_variable("count", [], tf.int32, tf.zeros_initializer(), use_resource=True)
            with rg.SubGraph("pairs", INT, ROW, engine=engine) as pairs:
                n = pairs.declared_arguments()
                both = lambda: tf.tanh(tf.linalg.matvec(kernel, tf.concat([pairs(n - 1), pairs(n - 2)], 0), True))  # noqa: E731
                pairs.output(tf.cond(n > 0, both, lambda: tf.fill([8], 0.5) + tf.cast(n, tf.float32)))
            with rg.SubGraph("counting", INT, INT, engine=engine) as counting:
                n = counting.declared_arguments()
                below = tf.cond(n > 0, lambda: counting(n - 1), lambda: 0)
                counting.output(count.assign(count.read_value() + 1) * 0 + below + 1)
            deepest = 10 if engine == "parallel" else 16  # the batched engine is over before anybody can break it off
            states = pairs.map(tf.range(deepest - 6, deepest))
            self.results = [states, tf.gradients(tf.sin(states), kernel)[0]]
            self.counted = [counting(tf.constant(i)) for i in range(3)]
            self.count = count
            self.delay = tf.compat.v1.placeholder(tf.float32, [])
            self.end = tf.py_function(break_off, [self.delay], tf.int32)
            initial = tf.compat.v1.global_variables_initializer()
        threads = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=THREADS, use_per_session_threads=True)
        self.session = tf.compat.v1.Session(graph=graph, config=threads)
        self.session.run(initial)

    def break_off(self, what: Any, delay: float) -> None:
        """Begins a step that ends early or, if that comes too late, is over but for its end."""
        with pytest.raises(tf.errors.OpError, match="broken off"):
            self.session.run([what, self.end], {self.delay: delay})

    def seconds(self, what: Any) -> float:
        """How long a step takes."""
        self.session.run(what)
        start = time.monotonic()
        self.session.run(what)
        return time.monotonic() - start


@contextlib.contextmanager
def steps_of(way: str) -> Iterator[Steps]:
    """Steps in one way."""
    how = testing.policy("random") if way == "parallel" else testing.batch_way(way)
    with how:
        steps = Steps("parallel" if way == "parallel" else "batched")
        yield steps
        steps.session.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_step_breaks_off_at_any_moment(way: str) -> None:
    """The one after it is right, and none of its calls is left, of which no more have begun than there are."""
    with steps_of(way) as steps:
        seconds, expected = steps.seconds(steps.results), steps.session.run(steps.results)
        start = testing.counters().invocations
        steps.session.run(steps.results)
        whole = testing.counters().invocations - start
        begun = []
        for moment in range(MOMENTS):
            start = testing.counters().invocations
            steps.break_off(steps.results, 1.5 * seconds * moment / MOMENTS)
            wait_until(lambda: testing.counters().live_invocations == 0)
            begun.append(testing.counters().invocations - start)
        assert max(begun) <= whole
        for one, other in zip(steps.session.run(steps.results), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)  # sums are in any order


@pytest.mark.parametrize("way", WAYS)
def test_steps_of_several_threads_break_off_at_any_moment(way: str) -> None:
    """While others begin, wait for their turns, and end: each call counts in the order of its turns, or not at all."""
    with steps_of(way) as steps:
        seconds = steps.seconds(steps.counted)
        calls = [n + 1 for n in range(3)]
        before = int(steps.session.run(steps.count))

        def run(number: int) -> int:
            rng, ended = random.Random(number), 0
            for _ in range(MOMENTS):
                if rng.random() < 0.3:
                    assert steps.session.run(steps.counted) == calls
                    ended += 1
                else:
                    steps.break_off(steps.counted, rng.random() * seconds * THREADS)
            return ended

        with ThreadPoolExecutor(THREADS) as pool:
            ended = sum(pool.map(run, range(THREADS)))
        counted = int(steps.session.run(steps.count)) - before
        assert sum(calls) * ended <= counted <= sum(calls) * THREADS * MOMENTS
        steps.session.run(steps.counted)
        assert int(steps.session.run(steps.count)) - before == counted + sum(calls)
