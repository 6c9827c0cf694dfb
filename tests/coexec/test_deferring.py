"""Which writes wait for the end of a step, and what tables of many rows cost then."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.coexec import Coexecuted
from recgraph.coexec.plan import StepPlan, make_plan
from recgraph.coexec.trace import From, Operation, Origin, Trace
from tests.coexec.graphs import merging
from tests.coexec.steps import STEPS, compared

WRITES = "abcABC"  # the others read


def trace(text: str) -> Trace:
    """A trace; each letter is an operation on the variable of that letter, whatever its case, which gives nothing.

    A capital may not be deferred.
    """
    return Trace(tuple(_operation(letter, i) for i, letter in enumerate(text)))


def _operation(letter: str, place: int) -> Operation:
    variable = Origin(From.RESOURCE, "abcxyz".index(letter.lower()) % 3)
    return Operation(ord(letter), place, (variable,), 0)


def planned(*texts: str) -> StepPlan:
    """The plan of some traces."""
    graph = merging(*map(trace, texts)).graph
    return make_plan(graph, lambda s: chr(s) in WRITES, lambda _: False, lambda s: chr(s).islower())


def deferred(*texts: str) -> str:
    """The operations that wait, by letter."""
    plan = planned(*texts)
    return "".join(chr(plan.nodes[number].node.signature) for number in sorted(plan.deferred))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("a",), "a"),
        (("xa",), "a"),  # read before
        (("ax",), ""),  # and after
        (("aya",), "aa"),
        (("axa",), ""),
        (("abcz",), "ab"),
        (("A",), ""),
        (("aA",), ""),
        (("xayb", "xay"), "a"),  # on one path only
    ],
)
def test_writes_wait_if_nothing_looks_at_their_variables_afterwards(texts: tuple[str, ...], expected: str) -> None:
    """And if they are done in every step."""
    assert deferred(*texts) == expected


def test_other_variables_that_are_written_have_shadows() -> None:
    """Those that are only read need none."""
    assert planned("axbyz").shadowed == {0, 1}
    assert planned("xzb").shadowed == set()


def test_random_steps_by_the_definition() -> None:
    """A variable's writes wait if all of them can and no read is behind one."""
    source = random.Random(0)
    for _ in range(300):
        text = "".join(source.choices("abcxyzA", k=source.randrange(1, 8)))
        expected = ""
        for letter in text:
            uses = [other for other in text if "abcxyz".index(other.lower()) % 3 == "abcxyz".index(letter.lower()) % 3]
            writes = [other in WRITES for other in uses]
            if letter in "abc" and not any(other.isupper() for other in uses) and writes == sorted(writes):
                expected += letter
        assert deferred(text) == expected, text


ROWS, WIDTH = 100_000, 64


def table_step() -> tuple[Callable[[tf.Tensor], tf.Tensor], tf.Variable]:
    """Trains some rows of a large table by a gradient."""
    table = tf.Variable(tf.ones([ROWS, WIDTH]) * 0.1)

    def step(tokens: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, tokens)))
        gradient = tape.gradient(loss, table)
        table.scatter_sub(tf.IndexedSlices(gradient.values * 0.5, gradient.indices))
        return loss

    return step, table


def tokens(i: int) -> tf.Tensor:
    """Rows of the table."""
    return tf.constant(np.random.default_rng(i).integers(0, ROWS, 64))


def test_a_table_is_trained_without_copies() -> None:
    """A copy takes longer than the whole step; the fastest of each are compared."""
    (eager, expected), (step, table) = table_step(), table_step()
    called = Coexecuted(step)
    seconds: dict[Any, list[float]] = {eager: [], called: []}
    for i in range(40):
        for each, times in seconds.items():
            began = time.perf_counter()
            each(tokens(i))
            times.append(time.perf_counter() - began)
    assert called.phases.counts["coexecuted"] >= 36, called.explain()
    assert np.array_equal(table.numpy(), expected.numpy())
    began = time.perf_counter()
    tf.identity(table)
    copying = time.perf_counter() - began
    assert min(seconds[called][10:]) < min(seconds[eager][10:]) + copying


@pytest.mark.parametrize("is_known", [True, False])
def test_a_row_that_is_not_there_is_an_error_at_its_line(is_known: bool) -> None:
    """Before anything is written that comes later; the writes before it have happened."""

    def make() -> tuple[Any, Any]:
        table, count, log = tf.Variable(tf.zeros([5, 2])), tf.Variable(0.0), []

        def step(row: tf.Tensor) -> None:
            count.assign_add(1.0)
            row = row if is_known else tf.cast(tf.cast(row, tf.float32) * 1.0, tf.int32)
            try:
                table.scatter_add(tf.IndexedSlices(tf.ones([1, 2]), row))
            except tf.errors.InvalidArgumentError:
                log.append("no such row")
            log.append("over")

        return step, [table, count, log]

    def arguments(i: int) -> tuple[Any, ...]:
        return (tf.constant([7 if i == 9 else i % 5], tf.int32),)

    assert compared(make, arguments).phases.counts["coexecuted"] >= STEPS - 5


def test_a_table_that_is_read_after_a_write() -> None:
    """Its shadow is a copy, since rows are written in place."""

    def make() -> tuple[Any, Any]:
        table, log = tf.Variable(tf.zeros([5, 2])), []

        def step(row: tf.Tensor) -> tf.Tensor:
            table.scatter_add(tf.IndexedSlices(tf.ones([1, 2]), row))
            log.append(tf.reduce_sum(tf.gather(table, row)).numpy())
            table.scatter_update(tf.IndexedSlices(tf.ones([1, 2]) * 3.0, row + 1))
            return tf.reduce_sum(table)

        return step, [table, log]

    def arguments(i: int) -> tuple[Any, ...]:
        return (tf.constant([i % 4], tf.int32),)

    assert compared(make, arguments).phases.counts["coexecuted"] >= STEPS - 4
