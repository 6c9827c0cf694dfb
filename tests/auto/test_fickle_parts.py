"""A part that decides otherwise in each call does not keep what is beside it from running as a graph."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tensorflow as tf

from recgraph.auto import choosing, function
from recgraph.auto.function import Automatic
from recgraph.auto.ways import CALLEES
from recgraph.tf_private.eager_operations import eager_operations


class SumTree:
    """Priorities as a tree of sums, in NumPy."""

    def __init__(self, size: int) -> None:
        self.size, self.sums = size, np.zeros(2 * size - 1)
        for i in range(size):
            self.update(size - 1 + i, 1.0 + i % 3)

    def sample(self, value: float) -> int:
        """The leaf where the sum of those before it reaches a value."""
        at = 0
        while at < self.size - 1:
            at = 2 * at + 1
            if value > self.sums[at]:
                value -= self.sums[at]
                at += 1
        return at

    def update(self, at: int, priority: float) -> None:
        """Gives a leaf another priority."""
        change = priority - self.sums[at]
        while at:
            self.sums[at] += change
            at = (at - 1) // 2
        self.sums[0] += change


class Replay:
    """A training with prioritised replay."""

    def __init__(self) -> None:
        self.memory, self.draw = SumTree(64), random.Random(3)
        self.states = np.linspace(-1.0, 1.0, 64, dtype=np.float32)[:, None]
        self.weights = [tf.Variable(tf.ones(shape) / 4.0) for shape in ((1, 4), (4, 4), (4, 1))]

    def learn(self, states: tf.Tensor) -> tf.Tensor:
        """An ordinary update."""
        with tf.GradientTape() as tape:
            made = states
            for weight in self.weights:
                made = tf.tanh(made @ weight)
            errors = (made[:, 0] - states[:, 0]) ** 2
            loss = tf.reduce_mean(errors)
        for weight, gradient in zip(self.weights, tape.gradient(loss, self.weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return errors

    def step(self) -> list[float]:
        """Samples, learns, and gives what was sampled another priority."""
        memory = self.memory
        where = [memory.sample(memory.sums[0] * self.draw.random()) for _ in range(6)]
        errors = self.learn(tf.constant(self.states[[at - memory.size + 1 for at in where]]))
        for at, error in zip(where, errors.numpy().tolist(), strict=True):
            memory.update(at, error + 0.1)
        return [float(x) for x in errors.numpy()]


class Clock:
    """Each operation takes a millisecond, a graph as much as any other."""

    def __init__(self, operations: list[str]) -> None:
        self._operations = operations

    def perf_counter(self) -> float:
        """The time that operations took so far."""
        return len(self._operations) / 1e3


def test_a_part_that_breaks_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left to Python, and the update runs as a graph; the way with callees is the fastest then."""
    plain, replay = Replay(), Replay()
    automatic = Automatic(replay.step)
    with eager_operations() as operations:
        for module in (choosing, function):
            monkeypatch.setattr(module, "time", Clock(operations))
        _check_steps(automatic, plain)


def _check_steps(automatic: Automatic, plain: Replay) -> None:
    for _ in range(40):
        assert automatic() == pytest.approx(plain.step(), rel=1e-5)
    assert automatic.way == CALLEES, automatic.explain()
    assert automatic.apart is not None
    functions = [one for way in automatic.apart.every if way.name == CALLEES for one in way.callees.functions]
    (learn,) = [one for one in functions if one.name.endswith("learn")]
    assert learn.calls["graph"] > 20
    broken = [one for one in functions if "decides otherwise in nearly every call" in one.given_up]
    assert len(broken) == 1, automatic.explain()
    assert broken[0]._conversions == 3
