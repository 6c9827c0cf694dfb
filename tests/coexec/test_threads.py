"""Several threads that write the same variables: steps of one function, of two, and threads that are not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.coexec import Coexecuted, phases
from tests.threads import at_once

THREADS, TIMES = 4, 300


@pytest.fixture(autouse=True)
def _never_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "MAX_DEPARTURES", 10**9)


def repeated(step: Callable[[], Any], times: int = TIMES) -> Callable[[], None]:
    """Calls a step many times."""

    def work() -> None:
        for _ in range(times):
            step()

    return work


class Counters:
    """Variables that every step adds to, each in another way.

    Attributes:
        last: is only written.
        read: is read after it was written, so that it has a shadow.
    """

    def __init__(self) -> None:
        self.last, self.read = tf.Variable(0.0), tf.Variable([0.0, 0.0])

    def step(self) -> tf.Tensor:
        """Adds 1 to all."""
        self.read.assign_add([1.0, 1.0])
        seen = tf.reduce_sum(self.read)
        self.last.assign_add(1.0)
        return seen * 0.0

    def check(self, times: int) -> None:
        """That nothing was lost."""
        assert self.last.numpy() == times
        assert self.read.numpy().tolist() == [times, times]


def test_threads_that_step_one_function_lose_no_writes() -> None:
    """One has the graph, the others run eagerly meanwhile."""
    counters = Counters()
    called = Coexecuted(counters.step)
    at_once(*[repeated(called)] * THREADS)
    counters.check(THREADS * TIMES)
    assert called.phases.counts["coexecuted"] > 0, called.explain()


def test_functions_that_share_variables_lose_no_writes() -> None:
    """Both have a graph at the same time."""
    counters = Counters()
    called = [Coexecuted(lambda: counters.step()) for _ in range(THREADS)]
    at_once(*map(repeated, called))
    counters.check(THREADS * TIMES)
    assert all(each.phases.counts["coexecuted"] > 0 for each in called)


@pytest.mark.parametrize("window", [0, 2])
def test_a_thread_that_is_not_seen_writes_meanwhile(window: int) -> None:
    """While graphs of earlier steps still compute."""
    counters = Counters()

    def work() -> None:
        for _ in rg.steps(range(TIMES), window=window):
            counters.step()

    at_once(work, repeated(counters.step))
    counters.check(2 * TIMES)


def test_what_python_has_seen_stays_when_another_thread_writes() -> None:
    """Between the value and the end of the step."""
    variable = tf.Variable(1.0)
    seen: list[tuple[float, tf.Tensor]] = []

    def step(is_disturbed: bool) -> None:
        variable.assign_add(1.0)
        doubled = variable * 2.0
        seen.append((float(doubled), doubled))
        if is_disturbed:
            at_once(lambda: variable.assign_add(100.0))

    called = Coexecuted(step)
    for i in range(8):
        called(i == 6)
    assert called.explain().count("another thread uses a variable of the step") == 1
    assert float(variable) == 1.0 + 8.0 + 100.0
    assert [value for value, _ in seen] == [4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 218.0]
    assert [float(tensor) for _, tensor in seen] == [value for value, _ in seen]


def test_a_step_may_wait_for_a_thread_that_writes_what_it_reads() -> None:
    """The graph may have read it long before."""
    variable = tf.Variable(1.0)

    def step() -> None:
        at_once(lambda: variable.assign_add(10.0))
        variable.assign(variable * 2.0)

    called, expected = Coexecuted(step), 1.0
    for _ in range(8):
        called()
        expected = (expected + 10.0) * 2.0
    assert float(variable) == expected


@pytest.mark.parametrize("is_loop", [False, True])
def test_a_step_may_wait_for_a_thread_that_needs_what_the_graph_does_not_give(is_loop: bool) -> None:
    """The step's thread does nothing meanwhile: the other one ends the graph."""
    variable = tf.Variable(1.0)
    seen: list[float] = []

    def step(i: int) -> None:
        variable.assign_add(1.0)
        tripled = variable * 3.0
        if i == 8:
            at_once(lambda: seen.append(float(tripled)), lambda: seen.append(float(tripled + 0.0)))
        variable.assign_add(tripled - variable)

    loop = rg.steps(range(12))
    called = Coexecuted(step)
    for i in loop if is_loop else range(12):
        (step if is_loop else called)(i)
    explained = (loop if is_loop else called).explain()
    assert "another thread needs a value" in explained, explained
    assert "test_threads.py" in explained.split("another thread needs a value")[1].splitlines()[0]
    expected = 1.0
    for i in range(12):
        expected = (expected + 1.0) * 3.0
        if i == 8:
            assert seen == [expected, expected]
    assert float(variable) == expected


def test_a_step_may_wait_for_a_thread_that_needs_what_the_graph_has_not_been_told_yet() -> None:
    """The graph gives the value, but Python holds back for a moment what it is made of."""
    seen: list[float] = []

    def step(i: int) -> None:
        y = tf.tanh(tf.ones([70]) * 0.0)
        for k in range(6):
            y = y + np.full([70], i + k, np.float32)
        if i in (30, 40):
            at_once(lambda: seen.append(float(y[0])))
        y = y + np.full([70], i, np.float32)
        seen.append(float(y[0]))

    called = Coexecuted(step)
    expected: list[float] = []
    for i in range(45):
        called(i)
        total = 6.0 * i + 15.0
        expected += [total] * (i in (30, 40)) + [total + i]
    assert seen == expected
    assert called.phases.counts["coexecuted"] >= 35
