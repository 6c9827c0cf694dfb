"""Threads that share functions and state, and memory: what is called for long or made anew many times."""

from __future__ import annotations

import gc
import resource
import types
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recgraph.speculate import Speculated
from recgraph.speculate.run.graphs import MAX_UNPAID
from tests.threads import at_once


def test_two_threads_break_each_others_assumptions() -> None:
    """One function, called with other shapes, numbers and flags by each thread: each gets its own results."""

    def compute(x: tf.Tensor, n: int, flag: bool) -> tf.Tensor:
        y = x * float(n)
        if flag:
            y = y + 1.0
        if tf.reduce_sum(y) > 20.0:
            y = -y
        return y

    called = Speculated(compute)

    def work(rows: int, flag: bool) -> Callable[[], None]:
        def run() -> None:
            for i in range(60):
                x, n = tf.ones([rows + i // 30, 2]), i % 5
                assert tf.reduce_all(called(x, n, flag) == compute(x, n, flag))

        return run

    at_once(work(3, True), work(4, False))
    before = called.calls["graph"]  # while one thread converts, the other runs eagerly: how often, is the machine's
    work(3, True)()
    assert called.calls["graph"] - before > 30, called.explain()


def test_two_functions_share_state_in_two_threads() -> None:
    """Variables that both add to lose nothing, and lists that both grow hold everything, in each thread's order."""
    total, held = tf.Variable(0.0), types.SimpleNamespace(items=[])

    @Speculated
    def up(x: tf.Tensor, i: int) -> tf.Tensor:
        total.assign_add(x)
        held.items.append(("up", i))
        return x * 2.0

    @Speculated
    def down(x: tf.Tensor, i: int) -> tf.Tensor:
        total.assign_sub(x)
        held.items.append(("down", i))
        return x * 3.0

    def work(function: Any, factor: float, calls: range) -> Callable[[], None]:
        def run() -> None:
            for i in calls:
                assert float(function(tf.constant(float(i)), i)) == factor * i

        return run

    for calls in (range(60), range(60, 120)):
        before = up.calls["graph"]
        at_once(work(up, 2.0, calls), work(down, 3.0, calls))
    assert float(total) == 0.0
    for name in ("up", "down"):
        assert [i for who, i in held.items if who == name] == list(range(120))
    # In the first run a thread runs eagerly while the other converts: how often, is the machine's.
    assert up.calls["graph"] - before > 50, up.explain()


def test_calls_leave_no_memory_behind() -> None:
    """Neither Python objects nor anything else grows with twenty thousand calls."""
    model = types.SimpleNamespace(w=tf.Variable(tf.ones([3])), state=tf.zeros([3]), n=0)

    @Speculated
    def step(x: tf.Tensor) -> tf.Tensor:
        model.state = x * model.w + model.state * 0.5
        model.n += 1
        if tf.reduce_sum(x) > 0.0:
            x = x * 2.0
        return x + tf.random.uniform([3])

    inputs = [tf.ones([3]), -tf.ones([3])]

    def run(count: int) -> tuple[int, int]:
        for i in range(count):
            step(inputs[i % 2])
        gc.collect()
        return len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    run(2000)
    objects, kilobytes = run(10)
    more_objects, more_kilobytes = run(20_000)
    assert step.calls["graph"] > 21_000, step.explain()
    assert more_objects - objects < 100
    assert more_kilobytes - kilobytes < 4096


class Model:
    """With a speculated method, and one that is not."""

    def __init__(self, i: int) -> None:
        self.w, self.n = tf.Variable(float(i)), 0

    def step(self, x: tf.Tensor) -> tf.Tensor:
        """Counts, and reads its own variable."""
        self.n += 1
        return x * self.w

    shared = Speculated(step)


def test_functions_and_objects_that_die_take_everything_with_them() -> None:
    """A function for each of two hundred objects: graphs, variables and objects are freed, and so are TensorFlow's."""
    x = tf.constant(2.0)

    def made(i: int) -> list[weakref.ref[Any]]:
        model = Model(i)
        called = Speculated(model.step)
        for _ in range(5):
            assert float(called(x)) == 2.0 * i
        assert called.calls["graph"] > 0, called.explain()
        return [weakref.ref(thing) for thing in (model, model.w, called, called._graphs[0])]

    made(0)
    gc.collect()
    before = len(gc.get_objects())
    references = [reference for i in range(200) for reference in made(i)]
    gc.collect()
    assert [reference() for reference in references if reference() is not None] == []
    assert len(gc.get_objects()) - before < 10 * 200  # the references, and what Python itself keeps


def test_a_method_outlives_two_hundred_objects() -> None:
    """One function for all: what was made for the dead is given up, and no object takes the place of another."""
    x, function = tf.constant(2.0), Model.shared
    references = []
    for i in range(200):
        model = Model(i)
        for _ in range(3):
            assert float(model.shared(x)) == 2.0 * i
        assert model.n == 3
        references.append(weakref.ref(model))
        del model
    gc.collect()
    assert [reference() for reference in references if reference() is not None] == []
    assert len(function._graphs) <= 2
    # Until it is seen that they die young before their graphs have paid.
    assert MAX_UNPAID <= function.calls["graph"] <= 4 * MAX_UNPAID, function.explain()
