"""Threads that use variables of steps which run elsewhere, whether the step waits for them or knows nothing of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.coexec import Coexecuted

STEPS = 10


@pytest.fixture(name="pool")
def _pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


class Program:
    """Steps that have another thread do something in their middle, and look at what it gives and at a variable."""

    def __init__(self, elsewhere: Callable[[tf.Variable], Any], pool: ThreadPoolExecutor | None) -> None:
        self.variable, self.total = tf.Variable(1.0), tf.Variable(0.0)
        self.elsewhere, self.pool = elsewhere, pool

    def step(self, i: int) -> list[float]:
        """One step."""
        self.variable.assign_add(1.0)
        if self.pool is None:
            given = self.elsewhere(self.variable)
        else:
            given = self.pool.submit(self.elsewhere, self.variable).result()
        seen = float(self.variable * 2.0)
        self.total.assign_add(self.variable + float(i))
        self.variable.assign(self.variable * 0.5)
        return [float(given), seen]


def read(variable: tf.Variable) -> Any:
    """Its value."""
    return variable.numpy()


def write(variable: tf.Variable) -> Any:
    """Whatever the graph has read already."""
    variable.assign(variable * 3.0)
    return 0.0


def only_write(variable: tf.Variable) -> Any:
    """No operation of this reads it."""
    variable.assign(7.0)
    return 0.0


@tf.function
def traced(variable: tf.Variable) -> Any:
    """Reads and writes in a graph."""
    return variable.assign_add(variable * 0.25)


@Coexecuted
def stepping(variable: tf.Variable) -> Any:
    """A step of the other thread's own."""
    return variable.assign_add(0.125) + 0.0


def two_reads(variable: tf.Variable) -> Any:
    """Two threads more at the same time."""
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.append(float(variable))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return min(found)


def run_function(step: Callable[[int], list[float]]) -> list[Any]:
    """As a function that is co-executed."""
    called = Coexecuted(step)
    found = [called(i) for i in range(STEPS)]
    assert called.phases.counts["coexecuted"] + called.phases.counts["left"] > 0, called.explain()
    return found


def run_auto(step: Callable[[int], list[float]]) -> list[Any]:
    """As a function in the default mode."""
    called = rg.function(step)
    return [called(i) for i in range(STEPS)]


def run_loop(window: int) -> Callable[[Callable[[int], list[float]]], list[Any]]:
    """As the body of a loop."""
    return lambda step: [step(i) for i in rg.steps(range(STEPS), window=window)]


@pytest.mark.parametrize("elsewhere", [read, write, only_write, traced, stepping, two_reads])
@pytest.mark.parametrize(
    "run", [run_function, run_auto, run_loop(0), run_loop(2)], ids=["call", "auto", "loop", "ahead"]
)
def test_a_step_may_wait_for_a_thread_that_uses_its_variables(
    elsewhere: Callable[[tf.Variable], Any], run: Callable[..., list[Any]], pool: ThreadPoolExecutor
) -> None:
    """The other thread has its turn where the program gives it to it."""
    expected, found = Program(elsewhere, None), Program(elsewhere, pool)
    assert run(found.step) == [expected.step(i) for i in range(STEPS)]
    assert float(found.variable) == float(expected.variable)
    assert float(found.total) == float(expected.total)


def test_where_the_step_left_its_graph_for_another_thread(pool: ThreadPoolExecutor) -> None:
    """After the last operation that it had done."""
    called = Coexecuted(Program(read, pool).step)
    for i in range(STEPS):
        called(i)
    reasons = [(reason, where) for reason, where in called.phases.reasons if "another thread uses a variable" in reason]
    assert reasons, called.explain()
    assert all("test_bystanders.py" in where for _, where in reasons)


def test_a_thread_that_nobody_waits_for_ends_no_graph() -> None:
    """It waits for the step's end, and sees whole steps only."""
    one, other = tf.Variable(0), tf.Variable(0)
    is_over = threading.Event()
    seen: list[tuple[int, int]] = []

    def watch() -> None:
        while not is_over.is_set():
            first = int(other)
            seen.append((first, int(one)))
            time.sleep(0.001)

    def step() -> None:
        one.assign_add(1)
        for _ in range(20):
            tf.reduce_sum(tf.ones([8]))
        other.assign_add(1)

    called = Coexecuted(step)
    for _ in range(5):
        called()
    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(300):
        called()
    is_over.set()
    watcher.join()
    assert len(seen) > 10
    assert all(first <= then for first, then in seen)
    assert called.phases.counts["coexecuted"] > 250, called.explain()


@pytest.mark.parametrize("is_traced", [False, True])
def test_a_thread_that_uses_other_variables_waits_for_nobody(is_traced: bool) -> None:
    """Also not where it reads what the step only reads, in a function of TensorFlow's perhaps."""
    weight, mine, total = tf.Variable(2.0), tf.Variable(0.0), tf.Variable(0.0)
    inside, may_go_on = threading.Event(), threading.Event()
    read = tf.function(lambda: weight * 1.0) if is_traced else weight.read_value
    read()

    def elsewhere() -> None:
        inside.wait(20)
        for _ in range(5):
            mine.assign_add(read())
        may_go_on.set()

    def step(is_waiting: bool) -> float:
        total.assign_add(weight)
        if is_waiting:
            inside.set()
            assert may_go_on.wait(20)
        return float(total)

    called = Coexecuted(step)
    other = threading.Thread(target=elsewhere)
    other.start()
    assert [called(i == 6) for i in range(8)] == [2.0 * (i + 1) for i in range(8)]
    other.join()
    assert called.phases.counts["left"] == 0, called.explain()
    assert float(mine) == 10.0


def test_an_error_of_a_step_that_another_thread_waited_for_is_its_own(pool: ThreadPoolExecutor) -> None:
    """The other thread does the step again; the one that made it has the error."""
    variable = tf.Variable([1.0, 2.0])

    def use(index: tf.Tensor) -> None:
        variable.assign_add([1.0, 1.0])
        variable.scatter_update(tf.IndexedSlices([0.0], tf.reshape(index, [1])))

    def run() -> None:
        for i in rg.steps(range(20), window=2):
            use(tf.constant(5 if i == 12 else 1) * tf.ones([], tf.int32))
            pool.submit(variable.numpy).result()

    with pytest.raises(tf.errors.InvalidArgumentError):
        run()
    assert variable.numpy()[0] in (13.0, 14.0)
