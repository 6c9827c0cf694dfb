"""What other code sees in the middle of a step: checkpoints, summaries, scopes for the CPU, texts, signals."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.coexec import Coexecuted
from tests.coexec.steps import STEPS, compared, number


def test_a_checkpoint_in_mid_step_has_the_values_of_its_line(tmp_path: Path) -> None:
    """Not those from before the step, which is where the variables still are; and reading it back counts at once."""

    def make() -> tuple[Any, Any]:
        variable, log = tf.Variable(1.0), []
        checkpoint = tf.train.Checkpoint(variable=variable)

        def step(x: tf.Tensor) -> tf.Tensor:
            variable.assign_add(x)
            path = checkpoint.write(str(tmp_path / "checkpoint"))
            log.append(tf.train.load_variable(path, "variable/.ATTRIBUTES/VARIABLE_VALUE"))
            variable.assign(variable * 2.0)
            checkpoint.read(path)
            return variable + 1.0

        return step, [variable, log]

    called = compared(make, number)
    assert called.phases.counts["coexecuted"] >= STEPS - 4, called.explain()


def test_a_summary_in_mid_step(tmp_path: Path) -> None:
    """It is written at once, in a scope of its own for the CPU."""
    writer = tf.summary.create_file_writer(str(tmp_path))

    def make() -> tuple[Any, Any]:
        variable = tf.Variable(1.0)

        def step(x: tf.Tensor) -> tf.Tensor:
            variable.assign_add(x)
            with writer.as_default(step=1):
                return tf.summary.write("value", variable)

        return step, variable

    assert compared(make, number).phases.counts["coexecuted"] > 0


def test_the_handler_of_a_signal_may_look_at_the_step() -> None:
    """Also while Python's thread waits for the graph: a value that nobody asked for before, and a variable."""
    variable, current, seen = tf.Variable(1.0), list[tf.Tensor](), list[float]()
    many = tf.ones([500, 500])

    def handle(*_: Any) -> None:
        seen.extend(float(each) for each in (*current, variable) if current)

    @tf.function
    def slow(x: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(40):
            x = tf.linalg.matmul(x, x) / 500.0
        return x

    def step(is_disturbed: bool) -> int:
        variable.assign_add(1.0)
        tripled = variable * 3.0
        if is_disturbed:
            current.append(tripled)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
        found = tf.unique(tf.cast(slow(many)[0, :5], tf.int32)).y
        result = int(tf.reduce_sum(found))
        while is_disturbed and not seen:
            time.sleep(0.01)
        current.clear()
        variable.assign(tripled - variable)
        return result

    before = signal.signal(signal.SIGALRM, handle)
    try:
        called = Coexecuted(step)
        assert [called(i == 6) for i in range(8)] == [1] * 8
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [573.0, 191.0]  # 1, 4, 10, 22, 46, 94, 190 before each step, and one more in its middle


@pytest.mark.parametrize("name", ["CPU:0", "cpu", "/cpu:0", "/device:CPU:0", None, "full", "spec"])
def test_operations_in_a_scope_for_the_cpu_are_part_of_the_step(name: Any) -> None:
    """What they read and write is in order with everything else."""
    name = {"full": tf.config.list_logical_devices("CPU")[0], "spec": tf.DeviceSpec(device_type="CPU")}.get(name, name)

    def make() -> tuple[Any, Any]:
        variable, log = tf.Variable(1.0), []

        def step(x: tf.Tensor) -> tf.Tensor:
            variable.assign_add(x)
            with tf.device(name):
                log.append(variable.numpy())
                variable.assign_add(1.0)
            variable.assign(variable * 0.5)
            return variable + x

        return step, [variable, log]

    called = compared(make, number)
    assert called.phases.counts["coexecuted"] >= STEPS - 3, called.explain()


def test_texts_of_variables_show_the_value_of_their_line() -> None:
    """`repr` and `str` read in a scope for the variable's device."""

    def make() -> tuple[Any, Any]:
        variable, log = tf.Variable([1.0, 2.0]), []

        def step(x: tf.Tensor) -> tf.Tensor:
            variable.assign_add([x, 1.0])
            log.append(f"{variable} {variable!r}".replace(variable.name, ""))
            return variable + x

        return step, [variable, log]

    called = compared(make, number)
    assert called.phases.counts["coexecuted"] >= STEPS - 3, called.explain()


class Alarm:
    """A signal that comes while a step waits for the value of a long computation.

    Args:
        handler: what Python does when it comes.
    """

    def __init__(self, handler: Any) -> None:
        self.handler = handler
        self.variable = tf.Variable(0.0)
        self.large = tf.Variable(tf.ones([700, 700]))
        self.seen: list[Any] = []
        self.values: list[tf.Tensor] = []

    def computed(self, is_interrupted: bool) -> tf.Tensor:
        """A long computation, and perhaps a signal in it."""
        x = self.large + 0.0
        for _ in range(40):
            x = tf.linalg.l2_normalize(x @ self.large)
        if is_interrupted:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
        return x[0, 0]

    def step(self, is_interrupted: bool) -> None:
        """A write before the wait, and one after it."""
        self.variable.assign_add(1.0)
        self.seen.append(float(self.computed(is_interrupted)))
        self.variable.assign_add(100.0)

    def step_without_a_wait(self, is_interrupted: bool) -> None:
        """The same for which Python waits only at the end of the step."""
        self.variable.assign_add(1.0)
        value = self.computed(is_interrupted)
        self.variable.assign_add(value * 0.0 + 100.0)
        self.values.append(value)

    def run(self, step: Any = None) -> Coexecuted:
        """Ten steps, the sixth of them interrupted."""
        called = Coexecuted(step or self.step)
        before = signal.signal(signal.SIGALRM, self.handler)
        try:
            for i in range(10):
                try:
                    called(i == 5)
                except (KeyboardInterrupt, TimeoutError) as error:
                    self.seen.append(type(error))
        finally:
            signal.signal(signal.SIGALRM, before)
        return called


def _raise_timeout(*_: Any) -> None:
    raise TimeoutError("too long")


@pytest.mark.parametrize("handler", [signal.default_int_handler, _raise_timeout])
def test_a_signal_ends_the_wait_for_a_value(handler: Any) -> None:
    """Ctrl-C, or an alarm: what came before has happened, once; later steps go on."""
    program = Alarm(handler)
    called = program.run()
    assert [value for value in program.seen if isinstance(value, float)] == [program.seen[0]] * 9
    assert float(program.variable) == 10.0 + 900.0
    assert "left 1 time: a signal" in called.explain()
    assert called.phases.counts["coexecuted"] >= 5


def test_a_signal_without_an_exception_does_not_end_it() -> None:
    """Its handler runs meanwhile, and its operations are not those of the step."""
    ticks = tf.Variable(0.0)
    program = Alarm(lambda *_: ticks.assign_add(1.0))
    called = program.run()
    assert program.seen == [program.seen[0]] * 10
    assert (float(program.variable), float(ticks)) == (1010.0, 1.0)
    assert called.phases.counts["left"] == 0, called.explain()


@pytest.mark.parametrize("handler", [signal.default_int_handler, _raise_timeout])
def test_a_signal_ends_the_wait_for_the_end_of_a_step(handler: Any) -> None:
    """The variables are those from before the step, its tensors have no values, and later steps go on."""
    program = Alarm(handler)
    called = program.run(program.step_without_a_wait)
    assert len(program.seen) == 1
    assert float(program.variable) == 9 * 101.0
    with pytest.raises(tf.errors.CancelledError, match="the step was interrupted before its graph had ended"):
        float(program.values.pop(5))
    assert [float(value) for value in program.values] == [float(program.values[0])] * 9
    assert called.phases.counts["coexecuted"] >= 5


def test_a_signal_ends_a_loop_that_is_ahead_of_its_graphs() -> None:
    """The variables are those from between two steps; the loop can be begun again."""
    program, began = Alarm(signal.default_int_handler), []

    def run(last: int) -> None:
        for i in rg.steps(range(10)):
            began.append(i)
            program.step_without_a_wait(i == last)

    before = signal.signal(signal.SIGALRM, program.handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(6)
    finally:
        signal.signal(signal.SIGALRM, before)
    done, rest = divmod(float(program.variable), 101.0)
    assert rest == 0.0
    assert len(began) - 4 <= done <= len(began)
    run(-1)
    assert float(program.variable) == (done + 10) * 101.0
