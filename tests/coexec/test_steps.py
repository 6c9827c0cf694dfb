"""Loops of steps: Python goes on into the next step while the graph of the last one still computes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from tests.coexec.loops import COUNT, Body, compared, slow
from tests.speculate.comparing import differences, plain


@pytest.mark.parametrize("window", [0, 1, 2, 5])
def test_a_step_begins_before_the_graph_of_the_last_one_has_ended(window: int) -> None:
    """Each reads what the last one wrote."""

    def make() -> tuple[Body, Any]:
        total = tf.Variable(1.0)

        def body(x: float) -> None:
            total.assign(slow(total * 0.5) + x)

        return body, total

    assert compared(make, window).phases.counts["coexecuted"] >= COUNT - 3


def test_values_of_earlier_steps_are_read_and_used() -> None:
    """While they are still computed, and long after."""

    def make() -> tuple[Body, Any]:
        total, kept, seen = tf.Variable(1.0), [], []

        def body(x: float) -> None:
            kept.append(slow(total + x))
            total.assign_add(1.0)
            if len(kept) > 3:
                seen.append(float(kept[-4]))
                total.assign_add(kept[-2])

        return body, [total, kept, seen]

    assert compared(make).phases.counts["coexecuted"] >= COUNT - 6


def test_a_new_path_while_earlier_steps_are_computed() -> None:
    """They come first."""

    def make() -> tuple[Body, Any]:
        total = tf.Variable(1.0)

        def body(x: float) -> None:
            total.assign(slow(total * 0.5) + x)
            if x in (7.0, 8.0, 13.0):
                total.assign(tf.sqrt(total))

        return body, total

    loop = compared(make)
    assert loop.phases.counts["left"] >= 1
    assert loop.phases.counts["coexecuted"] >= COUNT - 8


def test_what_is_done_between_steps_is_in_order() -> None:
    """By the generator that the loop runs over: it sees what the steps before have written."""

    def run(wrap: Callable[[Iterator[float]], Any]) -> Any:
        total, seen = tf.Variable(1.0), []

        def items() -> Iterator[float]:
            for i in range(COUNT):
                seen.append(float(total))
                if i % 4 == 0:
                    total.assign_add(10.0)
                yield float(i)

        for x in wrap(items()):
            total.assign(slow(total * 0.5) + x)
        return plain([total, seen])

    assert differences(run(lambda items: items), run(rg.steps)) == []


def test_an_exception_while_earlier_steps_are_computed() -> None:
    """Variables are those of the line that raised."""

    def make() -> tuple[Body, Any]:
        total = tf.Variable(1.0)

        def body(x: float) -> None:
            total.assign(slow(total * 0.5) + x)
            if x == 15.0:
                raise ValueError("enough")
            total.assign_add(1.0)

        return body, total

    assert compared(make).phases.counts["coexecuted"] > 5


def test_a_dataset_is_read_while_graphs_run() -> None:
    """Its iterator is none of their variables."""
    total, expected = tf.Variable(0.0), 0.0
    loop = rg.steps(tf.data.Dataset.range(COUNT))
    for x in loop:
        total.assign_add(slow(tf.cast(x, tf.float32)))
    expected = sum(range(COUNT))
    assert float(total) == expected
    assert loop.phases.counts["coexecuted"] >= COUNT - 3


def test_loops_in_two_threads() -> None:
    """Each with a line of steps of its own."""
    totals = [tf.Variable(0.0), tf.Variable(0.0)]

    def work(total: tf.Variable) -> None:
        for x in rg.steps([float(i) for i in range(COUNT)]):
            total.assign_add(slow(tf.constant(x), 2))

    threads = [threading.Thread(target=work, args=(total,)) for total in totals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [float(total) for total in totals] == [sum(range(COUNT))] * 2


def test_loops_that_take_turns() -> None:
    """`zip` goes through two at once: the first ends first."""

    def run(wrap: Any) -> Any:
        one, two = tf.Variable(0.0), tf.Variable(1.0)
        items = [float(i) for i in range(COUNT)]
        for x, y in zip(wrap(items), wrap(items), strict=False):
            one.assign_add(x)
            two.assign(one * 0.5 + y)
        after = one + two
        return plain([one, two, after]), after.device

    (expected, device), (found, found_device) = run(lambda items: items), run(rg.steps)
    assert differences(expected, found) == []
    assert found_device == device  # nothing after the loops is seen any more
