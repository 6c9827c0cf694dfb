"""Other ways to execute the graph of a step: when Python waits for it, compiled by XLA, and not at all."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.coexec import Coexecuted, Execution
from recgraph.coexec.replay import Replayed
from recgraph.errors import SignatureError

LAZY = Execution(is_lazy=True)


class Network:
    """Two layers, a training step that looks at its loss, and the losses it has seen."""

    def __init__(self) -> None:
        self.weights = [tf.Variable(tf.random.stateless_normal([8, 8], [1, i])) for i in range(2)]
        self.losses: list[float] = []

    def step(self, x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            for weight in self.weights:
                x = tf.tanh(x @ weight)
            loss = tf.reduce_mean(tf.square(x))
        self.losses.append(float(loss))
        for weight, gradient in zip(self.weights, tape.gradient(loss, self.weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        if self.losses[-1] < 0.2:
            x = x * 2.0
        return x


def trained(execution: Execution | None, steps: int = 20) -> tuple[Network, Any]:
    """A network after some steps, and its step."""
    network = Network()
    step = network.step if execution is None else Coexecuted(network.step, execution=execution)
    for i in range(steps):
        step(tf.ones([4, 8]) * (0.1 * i - 1.0))
    return network, step


def assert_same(mine: Network, right: Network, tolerance: float) -> None:
    """The same losses and weights."""
    np.testing.assert_allclose(mine.losses, right.losses, tolerance)
    for one, other in zip(mine.weights, right.weights, strict=True):
        np.testing.assert_allclose(one, other, tolerance, tolerance)


def test_a_lazy_graph_computes_the_same() -> None:
    """It starts at the loss; what follows is done before the step is over."""
    network, step = trained(LAZY)
    assert_same(network, trained(None)[0], 1e-6)
    assert step.phases.counts["coexecuted"] > 10


def test_results_are_the_same_by_any_number_of_threads() -> None:
    """To the last bit, also where kernels divide their work."""

    def step(x: tf.Tensor, weight: tf.Variable) -> tf.Tensor:
        with tf.GradientTape() as tape:
            maps = tf.nn.conv2d(tf.reshape(x, [4, 32, 32, 16]), weight[:3, :3], 1, "SAME")
            products = tf.matmul(tf.reshape(maps, [256, -1]), tf.reshape(maps, [-1, 256]))
            loss = tf.reduce_sum(tf.tanh(products)) + tf.reduce_mean(tf.sort(maps, axis=1))
        weight.assign_sub(0.01 * tape.gradient(loss, weight))
        return loss

    def results(threads: Any) -> list[float]:
        weight = tf.Variable(tf.random.stateless_normal([5, 5, 16, 16], [1, 2]))
        wrapped = Coexecuted(step, execution=Execution(threads=threads))
        xs = [tf.random.stateless_normal([4, 32 * 32 * 16], [3, i]) for i in range(8)]
        losses = [float(wrapped(x, weight)) for x in xs]
        assert wrapped.phases.counts["coexecuted"] > 3
        return losses + list(weight.numpy().ravel())

    assert results("one") == results("all")


def test_threads_are_tried_and_explained() -> None:
    """With the milliseconds of a step by both."""
    begin = time.perf_counter()
    network, step = trained(Execution(), 120)
    longest = 1e3 * (time.perf_counter() - begin)
    assert_same(network, trained(None, 120)[0], 1e-6)
    told = re.search(r"the graph runs on .*: a step took (\S+) ms with one thread, (\S+) ms with all", step.explain())
    assert told is not None, step.explain()
    assert all(0 < float(milliseconds) < longest for milliseconds in told.groups()), told
    assert "the graph runs on " not in trained(Execution(threads="one"), 120)[1].explain()


def stall(execution: Execution) -> float:
    """Seconds for which Python waits for a product at the end of a step in which it has slept for longer."""
    x = tf.ones([700, 700])

    def step() -> float:
        y = x
        for _ in range(4):
            y = tf.tanh(y @ x)
        time.sleep(0.1)
        return float(y[0, 0])

    made = Coexecuted(step, execution=execution)
    for _ in range(12):
        made()
    assert made.phases.counts["coexecuted"] > 5
    return made.timing().python[1]


def test_a_lazy_graph_starts_when_python_waits() -> None:
    """Then it has everything to do; the usual one has done it while Python slept."""
    assert stall(LAZY) > 2 * stall(Execution())


def test_a_lazy_graph_does_not_go_on_between_two_waits() -> None:
    """Products of what Python gives after the first value."""
    x = np.ones([700, 700], np.float32)

    def step() -> tuple[float, float]:
        first = float(tf.reduce_sum(tf.constant(x[0])))
        y = tf.constant(x)
        for _ in range(4):
            y = tf.tanh(y @ x)
        time.sleep(0.1)
        return first, float(y[0, 0])

    lazy, usual = Coexecuted(step, execution=LAZY), Coexecuted(step)
    for _ in range(12):
        assert lazy() == usual()
    assert lazy.timing().python[1] > 2 * usual.timing().python[1]


def test_another_thread_starts_a_lazy_graph() -> None:
    """A step that waits for a thread which waits for a value would never end otherwise."""

    def step(x: tf.Tensor) -> list[float]:
        y = tf.reduce_sum(tf.tanh(x))
        seen: list[float] = []
        reader = threading.Thread(target=lambda: seen.append(float(y)))
        reader.start()
        reader.join()
        return seen

    made = Coexecuted(step, execution=LAZY)
    for i in range(8):
        (value,) = made(tf.ones([2]) * float(i))
        assert value == pytest.approx(2.0 * np.tanh(i))


def test_a_lazy_graph_that_never_starts() -> None:
    """An exception before any value is asked for: the operations are done at once, and the next step is as usual."""
    total = tf.Variable(0.0)

    def step(x: float) -> None:
        total.assign_add(x)
        if x == 6.0:
            raise KeyError(x)

    made = Coexecuted(step, execution=LAZY)
    for i in range(10):
        if i == 6:
            with pytest.raises(KeyError):
                made(tf.constant(6.0))
        else:
            made(tf.constant(float(i)))
    assert float(total) == 45.0
    assert made.phases.counts["left"] == 1
    assert made.phases.counts["coexecuted"] > 5


def test_lazy_steps_of_a_loop_do_not_run_ahead() -> None:
    """Each is over before the next begins."""
    total, seen = tf.Variable(0.0), []
    steps = rg.steps(range(12))
    steps.phases.execution = LAZY
    for i in steps:
        total.assign_add(tf.square(float(i)))
        seen.append(total.read_value())
    np.testing.assert_allclose(seen, np.cumsum(np.square(np.arange(12.0))))
    assert steps.phases.counts["coexecuted"] > 5


def test_xla_computes_nearly_the_same() -> None:
    """It rounds in other ways."""
    network, right = Network(), trained(None)[0]
    step = rg.function(network.step, mode="coexec", xla=True)
    for i in range(20):
        step(tf.ones([4, 8]) * (0.1 * i - 1.0))
    assert_same(network, right, 1e-4)
    assert step.phases.counts["coexecuted"] > 10
    operations = step.phases.built.function.graph.get_operations()
    marked = {op.type for op in operations if "_XlaCompile" in op.node_def.attr}
    assert {"MatMul", "Tanh"} <= marked
    assert not any(kind.startswith("Recgraph>") for kind in marked)


def test_random_numbers_are_the_same_with_xla() -> None:
    """XLA makes others of the same seeds."""
    results = []
    for xla in (False, True):
        generator = tf.random.Generator.from_seed(3)

        def step(x: tf.Tensor, generator: tf.random.Generator = generator) -> tf.Tensor:
            noise = generator.normal([4, 8]) + tf.random.stateless_uniform([4, 8], [1, 2])
            return tf.reduce_sum(tf.tanh(x * noise))

        coexecuted = rg.function(step, mode="coexec", xla=xla)
        results.append([float(coexecuted(tf.ones([4, 8]) * i)) for i in range(12)])
        assert coexecuted.phases.counts["coexecuted"] > 6
    np.testing.assert_allclose(*results, rtol=1e-5)


def test_xla_in_a_loop_of_steps() -> None:
    """The same for `rg.steps`."""
    total = tf.Variable(0.0)
    for x in rg.steps([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], xla=True):
        total.assign_add(tf.exp(tf.sin(tf.constant(x))) * 2.0)
    assert float(total) == pytest.approx(2.0 * np.exp(np.sin(np.arange(1.0, 7.0))).sum(), 1e-5)


def test_xla_is_for_co_execution() -> None:
    """Speculated graphs have no such option."""
    with pytest.raises(SignatureError, match="xla=True needs mode='coexec', got mode='auto'"):
        rg.function(lambda: None, xla=True)


def test_a_replayed_step_has_the_values_of_a_recorded_one() -> None:
    """And leaves variables as they are."""
    network, step = trained(Execution())
    replayed = Replayed(step)
    rows = {key: tf.ones([4, 8]) * key for key in (0.5, -0.25)}
    right = {key: replayed.record(key, x).numpy() for key, x in rows.items()}
    before, count = [w.numpy() for w in network.weights], len(network.losses)
    for key in (0.5, -0.25, 0.5):
        np.testing.assert_array_equal(replayed.replay(key, rows[key]), right[key])
    assert (replayed.replayed, replayed.missed) == (3, 0)
    assert network.losses[count:] == [network.losses[count - 2], network.losses[count - 1], network.losses[count - 2]]
    for weight, value in zip(network.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


def test_a_step_that_was_not_recorded_is_no_replay() -> None:
    """It goes a way that no recording has: it leaves the graph, and runs as usual."""

    def step(x: tf.Tensor, again: bool) -> float:
        y = tf.reduce_sum(x)
        return float(tf.exp(y)) if again else float(y)

    made = Coexecuted(step)
    for i in range(8):
        made(tf.constant([float(i)]), i % 2 == 0)
    replayed = Replayed(made)
    assert replayed.record("short", tf.constant([1.0]), False) == 1.0
    assert replayed.replay("short", tf.constant([5.0]), False) == 1.0
    assert replayed.replay("short", tf.constant([0.0]), True) == 1.0
    assert (replayed.replayed, replayed.missed) == (1, 1)
