"""Random programs, co-executed and eager: values, variables, exceptions and what Python saw, after every step."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.coexec import Coexecuted
from tests.speculate.comparing import differences, plain

STEPS = 15
LENGTH = 10


class Machine:
    """A random program over a few tensors and variables. What it does is decided by its seed and the step's number.

    Args:
        seed: of the program.
        detour: at which operation of the tenth step something new happens; None for nowhere.
    """

    def __init__(self, seed: int, detour: int | None = None) -> None:
        source = random.Random(seed)
        self.detour = detour
        self.variables = [tf.Variable(float(i + 1)) for i in range(3)]
        self.seen: list[Any] = []
        self.kept: list[tf.Tensor] = []
        self.calls = 0
        self.program = [self._statement(source, depth=2) for _ in range(LENGTH)]

    def _statement(self, source: random.Random, depth: int) -> tuple[Any, ...]:
        kinds = ["compute", "compute", "compute", "read", "write", "write", "fetch", "keep", "feed", "raise"]
        kind = source.choice([*kinds, "branch", "loop", "value"] if depth else kinds)
        numbers = [source.randrange(3) for _ in range(3)]
        period = source.randrange(2, 5)
        inner = [self._statement(source, depth - 1) for _ in range(source.randrange(1, 4))] if depth else []
        return kind, numbers, period, inner

    def __call__(self, x: tf.Tensor) -> list[tf.Tensor]:
        """One step."""
        self.calls += 1
        self.executed = 0
        registers = [x, x * 0.5, x - 1.0]
        for statement in self.program:
            self._run(statement, registers)
        return registers

    def _run(self, statement: tuple[Any, ...], registers: list[tf.Tensor]) -> None:
        kind, (a, b, c), period, inner = statement
        self.executed += 1
        if self.calls == 10 and self.executed == self.detour:
            registers[a] = tf.math.log1p(tf.abs(registers[b])) + self.variables[c]
            self.variables[b].assign(registers[a])
        getattr(self, f"_{kind}")(registers, a, b, c, period, inner)

    def _compute(self, registers: Any, a: int, b: int, c: int, period: int, inner: Any) -> None:
        operation = (tf.add, tf.maximum, lambda p, q: tf.tanh(p) * q)[period % 3]
        registers[a] = operation(registers[b], registers[c])

    def _read(self, registers: Any, a: int, b: int, c: int, period: int, inner: Any) -> None:
        registers[a] = tf.tanh(self.variables[b]) + registers[c]

    def _write(self, registers: Any, a: int, b: int, c: int, period: int, inner: Any) -> None:
        method = ("assign", "assign_add", "assign_sub")[period % 3]
        getattr(self.variables[a], method)(tf.tanh(registers[b]))

    def _fetch(self, registers: Any, a: int, b: int, c: int, period: int, inner: Any) -> None:
        self.seen.append(float(registers[a]))

    def _keep(self, registers: Any, a: int, b: int, c: int, period: int, inner: Any) -> None:
        self.kept = [*self.kept[-3:], registers[a]]

    def _feed(self, registers: Any, a: int, b: int, c: int, period: int, inner: Any) -> None:
        registers[a] = registers[b] + np.float32(self.calls % period)

    def _raise(self, registers: Any, a: int, b: int, c: int, period: int, inner: Any) -> None:
        if self.calls % 7 == period:
            raise ValueError(f"step {self.calls}")

    def _branch(self, registers: Any, a: int, b: int, c: int, period: int, inner: Any) -> None:
        if self.calls % period == 0:
            for statement in inner:
                self._run(statement, registers)

    def _loop(self, registers: Any, a: int, b: int, c: int, period: int, inner: Any) -> None:
        for _ in range(self.calls % period):
            for statement in inner:
                self._run(statement, registers)

    def _value(self, registers: Any, a: int, b: int, c: int, period: int, inner: Any) -> None:
        if registers[a] > registers[b]:
            for statement in inner:
                self._run(statement, registers)

    def state(self) -> Any:
        """Everything that a step leaves behind."""
        return plain([self.variables, list(self.seen), self.kept])


def history(machine: Machine, wrap: Callable[[Machine], Callable[..., Any]]) -> tuple[list[Any], Any]:
    """What each step gave and left behind."""
    step, seen = wrap(machine), []
    for i in range(STEPS):
        try:
            result = plain(step(tf.constant(float(i % 3))))
        except ValueError as error:
            result = str(error)
        seen.append((result, machine.state()))
    return seen, step


def check(seed: int, detour: int | None) -> Coexecuted:
    """Compares a random program with itself."""
    expected, _ = history(Machine(seed, detour), lambda machine: machine)
    found, step = history(Machine(seed, detour), lambda machine: Coexecuted(machine.__call__))
    assert differences(expected, found) == [], step.explain()
    return step


@pytest.mark.parametrize("seed", range(40))
def test_a_random_program(seed: int) -> None:
    """Branches, loops, feeds, fetches, tensors that are kept, exceptions, variables."""
    check(seed, None)


@pytest.mark.parametrize("detour", range(1, 2 * LENGTH))
def test_a_new_path_at_every_operation(detour: int) -> None:
    """The same program, leaving its graph at each place in turn."""
    check(3, detour)


def test_random_programs_are_coexecuted() -> None:
    """A comparison of eager execution with itself would show nothing."""
    counts = [check(seed, None).phases.counts["coexecuted"] for seed in range(100, 110)]
    assert sum(counts) > STEPS
