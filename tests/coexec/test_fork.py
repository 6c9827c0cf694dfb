"""Processes that are forked while steps are co-executed: the threads of the graphs stay in the other one."""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recgraph.coexec import Coexecuted


def in_child(work: Callable[[], Any]) -> str:
    """What some work gives in a forked process, as text; "" if it does not end."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the process has threads: that is the point
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            result = repr(work())
        except BaseException as error:
            result = repr(error)
        os.write(writing, result.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        result = pipe.read()
    os.waitpid(child, 0)
    return result


def forking(is_in_step: bool, work: Callable[[tf.Variable, tf.Tensor], Any]) -> tuple[list[str], float, Coexecuted]:
    """Ten steps, of which the eighth forks in the middle, or after it; gives the child's result and the variable."""
    variable, results = tf.Variable(1.0), []

    @Coexecuted
    def step(x: float) -> tf.Tensor:
        variable.assign_add(x)
        y = variable * 2.0
        if x == 7.0 and is_in_step:
            results.append(in_child(lambda: work(variable, y)))
        variable.assign(variable * 0.5)
        return y

    for i in range(10):
        y = step(float(i))
        if i == 7 and not is_in_step:
            results.append(in_child(lambda y=y: work(variable, y)))
    return results, float(variable), step


EXPECTED = 8.0029296875  # of ten steps


def test_a_child_has_the_values_of_its_step() -> None:
    """It can read and write, and the step of the parent goes on."""

    def work(variable: tf.Variable, y: tf.Tensor) -> list[float]:
        read = [float(variable), float(y)]
        variable.assign_add(1.0)
        return [*read, float(variable)]

    (result,), value, step = forking(True, work)
    assert result == "[12.0234375, 24.046875, 13.0234375]"
    assert value == EXPECTED
    assert "the process was forked" in step.explain()


def test_a_child_may_let_go_of_functions_and_call_others() -> None:
    """The graphs' threads, which it does not have, cannot be waited for."""
    held: list[Any] = [Coexecuted(lambda x: x * 3.0) for _ in range(2)]
    for function in held:
        for i in range(5):
            function(tf.constant(float(i)))

    gc.collect()  # what other tests have left behind is not to be collected in the child

    def work(variable: tf.Variable, y: tf.Tensor) -> float:
        del held[0]
        gc.collect()
        return float(held[0](y))

    (result,), value, _ = forking(False, work)
    assert result == "72.140625"
    assert value == EXPECTED
