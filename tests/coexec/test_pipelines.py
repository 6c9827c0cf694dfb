"""Datasets whose functions use variables of the steps that ask for their items."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.coexec import Coexecuted, Steps

STEPS = 12


class Program:
    """Steps that train a variable, and items of a dataset that depends on it."""

    def __init__(self, make: Callable[[tf.Variable], tf.data.Dataset]) -> None:
        self.variable, self.other = tf.Variable(1.0), tf.Variable(0.0)
        options = tf.data.Options()
        options.experimental_optimization.apply_default_optimizations = False  # items may come early by them
        self.dataset = make(self.variable).with_options(options)
        self.items: Iterator[Any] = iter(self.dataset)
        self.seen: list[float] = []

    def train(self, item: tf.Tensor) -> None:
        """Reads and writes the variable."""
        self.variable.assign_add(0.5 + 0.01 * item)
        self.other.assign(self.other * 0.5 + item * self.variable)

    def item_first(self) -> None:
        """The item comes from before all writes of the step."""
        item = next(self.items)
        self.train(item)
        self.seen.append(float(item))

    def item_last(self) -> None:
        """The item comes from after them."""
        self.train(tf.constant(1.0))
        self.seen.append(float(next(self.items)))

    def read_only(self) -> None:
        """The variable is not written by the step."""
        self.other.assign(self.other * 0.5 + self.variable)
        self.seen.append(float(next(self.items)))
        self.other.assign_add(self.variable)

    def state(self) -> list[Any]:
        """What can be compared."""
        return [*self.seen, float(self.variable), float(self.other)]


def reading(variable: tf.Variable) -> tf.data.Dataset:
    """Its items depend on the variable."""
    return tf.data.Dataset.range(100).map(lambda x: tf.cast(x, tf.float32) * variable)


def batched(variable: tf.Variable) -> tf.data.Dataset:
    """The use is under other datasets, and in a function that calls another."""
    inner = tf.function(lambda x: x + variable)
    made = tf.data.Dataset.range(100).map(lambda x: inner(tf.cast(x, tf.float32)))
    return made.batch(2).map(tf.reduce_sum).take(1000)


def filtering(variable: tf.Variable) -> tf.data.Dataset:
    """Which items there are depends on the variable."""
    numbers = tf.data.Dataset.range(10_000, output_type=tf.float32)
    return numbers.filter(lambda x: x > 3.0 * variable)


def writing(variable: tf.Variable) -> tf.data.Dataset:
    """To make an item changes the variable."""
    return tf.data.Dataset.range(100).map(lambda x: tf.cast(x, tf.float32) + variable.assign_add(0.25))


MAKERS = [reading, batched, filtering, writing]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", ["item_first", "item_last", "read_only"])
def test_items_are_those_of_eager_execution(make: Callable[[tf.Variable], tf.data.Dataset], name: str) -> None:
    """In a function, and in a loop whose steps run ahead."""
    programs = [Program(make) for _ in range(3)]
    function = rg.function(getattr(programs[1], name), mode="coexec")
    for _ in range(STEPS):
        getattr(programs[0], name)()
        function()
    for _ in rg.steps(range(STEPS)):
        getattr(programs[2], name)()
    assert programs[1].state() == programs[0].state()
    assert programs[2].state() == programs[0].state()


def _run(program: Program, items: Iterable[Any]) -> None:
    for item in items:
        program.train(item)
        program.seen.append(float(item))


@pytest.mark.parametrize("make", MAKERS)
def test_a_loop_over_such_a_dataset_gives_what_eager_execution_does(
    make: Callable[[tf.Variable], tf.data.Dataset],
) -> None:
    """The loop asks for the next item while the last step may still be running."""
    eager, ours = Program(make), Program(make)
    _run(eager, eager.dataset.take(STEPS))
    loop = rg.steps(ours.dataset.take(STEPS))
    assert isinstance(loop, Steps)
    _run(ours, loop)
    assert ours.state() == eager.state()
    assert loop.phases.counts["coexecuted"] > STEPS // 2


@pytest.mark.parametrize(("name", "make"), [("item_first", reading), ("read_only", reading)])
def test_steps_keep_their_graph_where_the_order_does_not_matter(
    name: str, make: Callable[[tf.Variable], tf.data.Dataset]
) -> None:
    """An item that comes before all writes, and a variable that nobody writes."""
    program = Program(make)
    function = rg.function(getattr(program, name), mode="coexec")
    assert isinstance(function, Coexecuted)
    for _ in range(STEPS):
        function()
    assert function.phases.counts["coexecuted"] > STEPS // 2
    assert function.phases.counts.get("left", 0) == 0


def test_it_is_said_why_a_step_leaves_its_graph() -> None:
    """And at which line."""
    program = Program(reading)
    function = rg.function(program.item_last, mode="coexec")
    for _ in range(STEPS):
        function()
    assert "IteratorGetNext uses a variable of the graph" in str(function.explain())


def test_a_pipeline_writes_rows_where_they_are_while_a_step_reads_them() -> None:
    """Its own thread does, of which the step knows nothing: what the variable was is known by a copy alone."""
    table, total = tf.Variable(tf.zeros([4, 2])), tf.Variable(0.0)
    table.scatter_nd_update([[0]], [[1.0, 1.0]])  # from here on rows are written in place
    may_write, was_written = threading.Semaphore(1), threading.Semaphore(0)

    def write(i: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([tf.py_function(lambda: may_write.acquire() and 0, [], tf.int32)]):
            rows = tf.fill([1, 2], tf.cast(i, tf.float32))
            with tf.control_dependencies([table.scatter_nd_update([[1]], rows)]):
                return tf.py_function(lambda: was_written.release() or 0, [], tf.int32)

    items = iter(tf.data.Dataset.range(1, 10).map(write).prefetch(1))
    next(items)
    assert was_written.acquire(timeout=60)

    def step(is_written: bool) -> float:
        first = float(tf.reduce_sum(table * 1.0))
        if is_written:
            may_write.release()
            assert was_written.acquire(timeout=60)
        total.assign(tf.reduce_sum(table * 2.0))
        return first

    called = Coexecuted(step)
    seen = [(called(i == 5), float(total)) for i in range(7)]
    assert seen == [(4.0, 8.0)] * 5 + [(4.0, 12.0), (6.0, 12.0)], called.explain()
    assert "another thread has written a variable of the step" in called.explain()
    may_write.release()
