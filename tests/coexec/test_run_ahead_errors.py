"""Errors while Python is steps ahead of the graphs: they come out of the line that eager execution has them at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.coexec import device
from tests.coexec.loops import COUNT, Body, compared, slow
from tests.threads import at_once


def _asserted(total: tf.Tensor) -> tf.Tensor:
    tf.debugging.assert_less(total, 40.0, "too large")
    return total


def _numbers_checked(total: tf.Tensor) -> tf.Tensor:
    return tf.debugging.check_numerics(total / tf.cast(total < 40.0, tf.float32), "no number")


def _taken(total: tf.Tensor) -> tf.Tensor:
    return tf.gather(tf.ones([40]), tf.cast(total, tf.int32)) + total


def _looked_at(total: tf.Tensor) -> tf.Tensor:
    if float(total) > 40.0:
        raise ValueError("too large")
    return total


def _matrix(total: tf.Tensor) -> tf.Tensor:
    return tf.linalg.cholesky([[40.0 - total]])[0, 0] + total


FAILING: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "assert": _asserted,
    "function": tf.function(_asserted),
    "check_numerics": _numbers_checked,
    "gather": _taken,
    "exception": _looked_at,
    "cholesky": _matrix,
}


@pytest.mark.parametrize("window", [0, 2, 5])
@pytest.mark.parametrize("name", FAILING)
def test_an_error_ends_the_loop(name: str, window: int) -> None:
    """What came before it has happened, and nothing after it."""

    def make() -> tuple[Body, Any]:
        total, count, log = tf.Variable(1.0), tf.Variable(0), []

        def body(x: float) -> None:
            count.assign_add(1)
            total.assign(slow(total + x * 0.5, 3))
            log.append(x)
            total.assign(FAILING[name](total))
            count.assign_add(100)
            log.append(-x)

        return body, [total, count, log]

    assert compared(make, window).phases.counts["coexecuted"] > 5


@pytest.mark.parametrize("name", FAILING)
def test_an_error_is_caught_in_its_step(name: str) -> None:
    """And the loop goes on, with what the handler has done."""

    def make() -> tuple[Body, Any]:
        total, log = tf.Variable(1.0), []

        def body(x: float) -> None:
            total.assign(slow(total + x * 0.5, 3))
            try:
                total.assign(FAILING[name](total))
            except Exception as error:
                log.append((type(error).__name__, str(error)))
                total.assign(2.0)
            total.assign_add(0.25)

        return body, [total, log]

    loop = compared(make)
    assert loop.phases.counts["coexecuted"] > 5, loop.explain()


def test_an_error_of_an_earlier_step_comes_at_a_later_line() -> None:
    """Of an operation that cannot fail by the table: its variable has lost its value. Nothing after it has happened."""
    total, log = tf.Variable(1.0), []
    lost = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="lost")
    tf.raw_ops.AssignVariableOp(resource=lost, value=0.0)

    def run() -> None:
        for i in rg.steps(range(COUNT)):
            if i == 12:
                at_once(lambda: tf.raw_ops.DestroyResourceOp(resource=lost))
            total.assign_add(1.0)
            total.assign(slow(total + tf.raw_ops.ReadVariableOp(resource=lost, dtype=tf.float32)))
            total.assign_add(10.0)
            log.append(i)

    with pytest.raises(tf.errors.FailedPreconditionError, match="lost"):
        run()
    assert float(total) == 12 * 11.0 + 1.0 + 1.0
    assert 12 <= len(log) < COUNT


@pytest.mark.parametrize("window", [0, 1, 2, 4, 8])
def test_steps_whose_graphs_fail_are_done_again_in_their_order(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some have been waited for, as they were timed, while earlier ones had not: all graphs have lost a function."""
    monkeypatch.setattr(device, "is_gone", lambda number: False)
    total, kept = tf.Variable(0.0), []
    loop = rg.steps(range(60), window=window)
    for i in loop:
        total.assign_add(1.0)
        if i == 5:
            tf.function(lambda x: x + 1.0)(tf.constant(1.0))
        kept.append(total * 1.0)
        total.assign_add(0.0)
    assert [int(value) for value in kept] == list(range(1, 61)), loop.explain()
    assert sum(count for (reason, _), count in loop.phases.reasons.items() if "failed" in reason) > 10, loop.explain()
