"""Updates of Keras optimizers in steps that are not converted whole: graphs of their own, with eager's results."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import racing
from recgraph.auto import choosing
from recgraph.auto.ways import CALLEES
from tests.speculate.comparing import differences, plain

STEPS = 30
NAME = "optimizer_update"
SIZES = ((3, 4), (4, 2), (2,))


@pytest.fixture(autouse=True)
def short_contests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds of two steps: what is decided does not matter here."""
    monkeypatch.setattr(racing, "BLOCKS", (2, 2))
    monkeypatch.setattr(choosing, "WITHIN", 10_000)
    monkeypatch.setattr(racing, "HOPELESS", (1e9, 1e9))


class Training:
    """Variables and what updates them.

    Args:
        make: makes an optimizer.
        kind: of the variables.
    """

    def __init__(self, make: Callable[[], Any], kind: Any = tf.Variable) -> None:
        rng = np.random.default_rng(0)
        self.variables = [kind(rng.normal(size=size).astype(np.float32)) for size in SIZES]
        self.optimizer = make()
        self.log: list[Any] = []

    def gradients(self, i: int) -> list[Any]:
        """Some that differ from step to step."""
        rng = np.random.default_rng(i)
        return [tf.constant(rng.normal(size=size).astype(np.float32)) * 0.1 for size in SIZES]

    def state(self) -> Any:
        """All numbers that an update changes."""
        kept = [*self.variables, *self.optimizer.variables]
        return [one.numpy() for one in kept], self.log


def unconverted() -> Iterator[int]:
    """What no converter takes: a generator that is suspended while tensors are computed."""
    yield 0


def compared(make: Callable[[], Training], step: Callable[[Training, int], Any]) -> Any:
    """Takes steps eagerly and by `rg.function`, compares what they give and leave behind, and gives the second."""
    histories: list[list[Any]] = []
    for wrap in (lambda step: step, rg.function):
        training = make()

        def taken(i: int, training: Training = training) -> Any:
            math = eval("__import__('math')")  # no converter takes this

            result = None
            for _ in unconverted():
                result = step(training, i)
            return result, math.fsum([i])

        called = wrap(taken)
        history = []
        for i in range(STEPS):
            try:
                result = called(i)
            except Exception as error:
                result = (type(error).__name__, re.sub("0x[0-9a-f]+", "", str(error)))
            history.append((plain(result), plain(training.state())))
        histories.append(history)
    assert differences(*histories) == [], called.explain()
    return called


def updates(called: Any) -> dict[str, int]:
    """How the updates of all ways ran."""
    (way,) = (way for way in called.apart.every if way.name == CALLEES)
    return {found.name: found.calls["graph"] for found in way.callees.functions}


def plainly(training: Training, i: int) -> None:
    """As most programs do."""
    training.optimizer.apply_gradients(zip(training.gradients(i), training.variables, strict=True))


KERAS = {
    "SGD": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "RMSprop": lambda: tf.keras.optimizers.RMSprop(0.01, centered=True),
    "Adagrad": lambda: tf.keras.optimizers.Adagrad(0.1),
    "Adadelta": lambda: tf.keras.optimizers.Adadelta(0.1),
    "Adam": lambda: tf.keras.optimizers.Adam(0.01, amsgrad=True),
    "AdamW": lambda: tf.keras.optimizers.AdamW(0.01),
    "Adamax": lambda: tf.keras.optimizers.Adamax(0.01),
    "Nadam": lambda: tf.keras.optimizers.Nadam(0.01),
    "Adafactor": lambda: tf.keras.optimizers.Adafactor(0.01),
    "Ftrl": lambda: tf.keras.optimizers.Ftrl(0.1),
    "Lion": lambda: tf.keras.optimizers.Lion(0.01),
    "Lamb": lambda: tf.keras.optimizers.Lamb(0.01),
    "Muon": lambda: tf.keras.optimizers.Muon(0.01),
    "decay": lambda: tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)),
    "clipped": lambda: tf.keras.optimizers.SGD(0.1, global_clipnorm=0.2, weight_decay=0.01),
    "average": lambda: tf.keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=4),
    "accumulated": lambda: tf.keras.optimizers.Adam(0.01, gradient_accumulation_steps=3),
    "scaled": lambda: tf.keras.optimizers.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), initial_scale=4.0),
}


@pytest.mark.parametrize("name", KERAS)
def test_updates_of_all_optimizers_are_those_of_eager_execution(name: str) -> None:
    """In every number that they change; and they are graphs."""
    called = compared(lambda: Training(KERAS[name], keras.Variable), plainly)
    assert updates(called)[NAME] > 0, called.explain()


def test_an_optimizer_of_the_users_is_updated_by_its_own_lines() -> None:
    """What they do to Python happens in every step, each once."""

    class Logging(tf.keras.optimizers.SGD):
        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            self.seen.append(float(tf.reduce_sum(gradient)))
            super().update_step(gradient, variable, learning_rate)

    def make() -> Training:
        training = Training(lambda: Logging(0.1))
        training.optimizer.seen = training.log
        return training

    called = compared(make, plainly)
    assert updates(called)[NAME] > 0, called.explain()


def test_a_method_of_the_users_in_an_optimizer_runs() -> None:
    """Assigned to the object, or to Keras's class."""

    def make() -> Training:
        training = Training(lambda: tf.keras.optimizers.SGD(0.1))
        before = training.optimizer.update_step

        def update_step(gradient: Any, variable: Any, learning_rate: Any) -> None:
            training.log.append(float(tf.reduce_sum(gradient)))
            before(gradient, variable, learning_rate)

        training.optimizer.update_step = update_step
        return training

    compared(make, plainly)


def test_a_method_of_the_users_in_the_optimizers_place_runs_once_a_step() -> None:
    """One that an object has, and one of a class that is no function."""

    class Wrapped:
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        def __get__(self, owner: Any, kind: Any) -> Any:
            return self if owner is None else lambda *arguments: self(owner, *arguments)

        def __call__(self, owner: Any, *arguments: Any) -> Any:
            self.log.append("class")
            return super(type(owner), owner).apply(*arguments)

    def make(is_class: bool) -> Training:
        log: list[Any] = []
        kind = type("Own", (tf.keras.optimizers.SGD,), {"apply": Wrapped(log)} if is_class else {})
        training = Training(lambda: kind(0.1))
        training.log = log
        if not is_class:
            before = training.optimizer.apply

            def apply(*arguments: Any) -> Any:
                log.append("object")
                return before(*arguments)

            training.optimizer.apply = apply
        return training

    for is_class in (False, True):
        compared(lambda is_class=is_class: make(is_class), plainly)


def test_schedules_and_constraints_of_the_users_are_called() -> None:
    """With what they keep in Python."""

    class Slower(tf.keras.optimizers.schedules.LearningRateSchedule):
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        def __call__(self, step: Any) -> Any:
            self.log.append(1)
            return 0.5 / len(self.log)

    class Bounded(tf.keras.constraints.Constraint):
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        def __call__(self, weights: Any) -> Any:
            self.log.append(2)
            return tf.clip_by_value(weights, -1.0, len(self.log) * 0.1)

    def make() -> Training:
        log: list[Any] = []
        training = Training(lambda: tf.keras.optimizers.SGD(Slower(log)), keras.Variable)
        training.variables[0].constraint = Bounded(log)
        training.log = log
        return training

    compared(make, plainly)


def test_a_learning_rate_of_the_users_is_asked_for() -> None:
    """A function, which Keras calls in every update."""

    def make() -> Training:
        log: list[Any] = []

        def rate() -> float:
            log.append(1)
            return 0.5 / len(log)

        training = Training(lambda: tf.keras.optimizers.SGD(rate))
        training.log = log
        return training

    compared(make, plainly)


def test_attributes_may_change_between_steps() -> None:
    """The learning rate, a number of the optimizer's, what is trainable."""

    def step(training: Training, i: int) -> None:
        optimizer = training.optimizer
        if i % 7 == 3:
            optimizer.learning_rate = 0.2 / (i + 1)
        if i % 11 == 5:
            optimizer.learning_rate.assign(0.05)
        if i % 13 == 6:
            optimizer.momentum = 0.1 * (i % 3)
        if i % 9 == 8:
            optimizer.clipnorm = 0.1
        plainly(training, i)

    compared(lambda: Training(KERAS["SGD"]), step)


def test_two_optimizers_take_turns() -> None:
    """And a third is made on the way."""

    def step(training: Training, i: int) -> None:
        if i == 0:
            training.others = [tf.keras.optimizers.Adam(0.01)]
        if i == 14:
            training.others.append(tf.keras.optimizers.RMSprop(0.01))
        gradients = training.gradients(i)
        if i % 3:
            training.optimizer.apply(gradients[:1], training.variables[:1])
        else:
            training.optimizer.apply_gradients([(gradients[0], training.variables[0])])
        for other in training.others:
            other.apply(gradients[1:], training.variables[1:])
        training.log.append([one.numpy() for other in training.others for one in other.variables])

    compared(lambda: Training(KERAS["SGD"]), step)


def test_an_optimizer_made_in_each_step() -> None:
    """It has no variables yet when it is asked to update."""

    def step(training: Training, i: int) -> None:
        training.optimizer = tf.keras.optimizers.Adam(0.01 * (i + 1))
        plainly(training, i)

    compared(lambda: Training(KERAS["SGD"]), step)


def test_missing_and_sparse_gradients() -> None:
    """None for a variable, other ones from step to step; the rows of a table."""

    def step(training: Training, i: int) -> None:
        gradients = training.gradients(i)
        if i % 4 == 2:
            gradients[i % 3] = None
        rows = tf.constant([i % 3, (i // 2) % 3])
        if i % 5 < 3:
            gradients[0] = tf.IndexedSlices(tf.gather(training.gradients(i + 1)[0], rows), rows, tf.constant([3, 4]))
        training.optimizer.apply_gradients(zip(gradients, training.variables, strict=True))

    for name in ("Adam", "SGD", "Adagrad"):
        called = compared(lambda name=name: Training(KERAS[name]), step)
        assert any(updates(called).values()), called.explain()


def test_errors_are_those_of_eager_execution_and_leave_the_optimizer_usable() -> None:
    """No gradients, too few, one of another shape, not a number, an infinite one."""

    def step(training: Training, i: int) -> None:
        gradients = training.gradients(i)
        variables = list(training.variables)
        if i % 6 == 1:
            gradients = [None] * 3
        elif i % 6 == 2:
            gradients = gradients[:1]
        elif i % 6 == 3:
            gradients[1] = tf.zeros([7, 7])
        elif i % 12 == 10:
            gradients[2] = gradients[2] * math.inf
        training.optimizer.apply(gradients, variables)

    compared(lambda: Training(KERAS["Adam"]), step)
    compared(lambda: Training(KERAS["scaled"]), step)


def test_updates_of_one_more_variable() -> None:
    """A list that grows for an optimizer that was built for all."""

    def step(training: Training, i: int) -> None:
        if i == 0:
            training.optimizer.build(training.variables)
        count = 1 + (i // 8) % 3
        training.optimizer.apply(training.gradients(i)[:count], training.variables[:count])

    compared(lambda: Training(KERAS["Adam"]), step)


def test_a_tape_around_an_update_goes_on() -> None:
    """What is computed before and after it is differentiated as it is eagerly."""

    def step(training: Training, i: int) -> Any:
        first = training.variables[0]
        with tf.GradientTape(persistent=True) as tape:
            before = tf.reduce_sum(first**2)
            training.optimizer.apply(training.gradients(i), training.variables)
            after = tf.reduce_sum(first**3)
        return [tape.gradient(before, first), tape.gradient(after, first), tape.gradient(before + after, first)]

    compared(lambda: Training(KERAS["Adam"]), step)


def test_updates_in_functions_that_are_called() -> None:
    """One that converts takes its update with it; in one that does not it is a graph of its own."""

    def update(training: Training, i: int) -> None:
        training.optimizer.apply(training.gradients(i), training.variables)

    def half(training: Training, i: int) -> None:
        math = eval("__import__('math')")

        training.log.append(math.fsum([i]))
        update(training, i)

    called = compared(lambda: Training(KERAS["Adam"]), half)
    assert any(updates(called).values()), called.explain()
