"""Programs with loops whose numbers of trips vary, co-executed and eager, and what their graphs look like."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.coexec import Coexecuted
from tests.speculate.comparing import differences, plain

Step = Callable[[tf.Tensor, int], Any]
STEPS = 24


def trips(i: int) -> int:
    """How many trips a loop of step `i` takes: now more, now fewer, most of them not seen before."""
    return (7 * i) % 23


def compared(make: Callable[[], tuple[Step, Any]], steps: int = STEPS) -> Coexecuted:
    """Runs a step eagerly and co-executed and compares results and state after every call."""
    histories: list[list[Any]] = []
    for wrap in (lambda step: step, Coexecuted):
        step, state = make()
        called = wrap(step)
        histories.append([(plain(called(tf.constant(0.1 * i), trips(i))), plain(state)) for i in range(steps)])
    assert differences(*histories) == [], called.explain()
    return called


def carried() -> tuple[Step, Any]:
    """A value goes from trip to trip, and a variable counts them."""
    count = tf.Variable(0.0)

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        for _ in range(n):
            x = tf.sin(x) + 0.5
            count.assign_add(x)
        return x * count

    return step, count


def decoding() -> tuple[Step, Any]:
    """A value is looked at in every trip, and ends the loop."""
    seen: list[float] = []

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        state = tf.fill([1, 4], x)
        while True:
            state = tf.tanh(state @ tf.ones([4, 4]) * 0.3) + 0.1
            seen.append(float(tf.reduce_sum(state)))
            if len(seen) % 23 >= n:
                break
        return state

    return step, seen


def two_back() -> tuple[Step, Any]:
    """What a trip uses comes from the last two."""

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        a, b = x, x + 1.0
        for _ in range(n):
            a, b = b, tf.tanh(a + b)
        return a - b

    return step, None


def numbers_of_python() -> tuple[Step, Any]:
    """Every trip is given another number, and an array that NumPy fills anew."""
    buffer = np.zeros(3, np.float32)

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        for k in range(n):
            buffer[:] = k
            x = x * 0.9 + float(k) + tf.reduce_sum(tf.add(buffer, x))
            buffer[:] = -1.0
        return x

    return step, buffer


def branches() -> tuple[Step, Any]:
    """Some trips are cut short, some loops are left, and what the last trip did is used."""

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        last = x
        for k in range(n):
            x = x + 1.0
            if k % 3 == 1:
                continue
            last = tf.sqrt(tf.abs(x))
            if k == 15:
                break
            x = x - last
        else:
            x = x * 2.0
        return x + last

    return step, None


def nested() -> tuple[Step, Any]:
    """An inner loop, whose trips vary with those of the outer one, some of which do not come to it."""
    total = tf.Variable(1.0)

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        for k in range(n // 2):
            x = tf.cos(x)
            for j in range(k % 4):
                x = x + total * float(j)
                total.assign(tf.tanh(x))
            if k % 2:
                x = x - total
        return x

    return step, total


def growing() -> tuple[Step, Any]:
    """Shapes that differ from trip to trip."""

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        known = tf.reshape(x, [1])
        for _ in range(n):
            known = tf.concat([known, tf.reduce_mean(known, keepdims=True) + 1.0], axis=0)
        return tf.reduce_sum(known)

    return step, None


def kept() -> tuple[Step, Any]:
    """Tensors of every trip outlive the step, and are read in another order."""
    state: list[Any] = [[], []]

    def step(x: tf.Tensor, n: int) -> float:
        made = []
        for _ in range(n):
            x = tf.sin(x) + 0.5
            made.append(x)
        state[1] = [float(tensor) for tensor in reversed(state[0])]
        state[0] = made
        return 0.0 if n < 3 else float(made[1])

    return step, state


def in_functions() -> tuple[Step, Any]:
    """A loop in a function that is called in a loop, and a recursive one."""

    def depth(x: tf.Tensor, n: int) -> tf.Tensor:
        return x if n == 0 else depth(tf.sin(x), n - 1) * 0.9

    def inner(x: tf.Tensor, n: int) -> tf.Tensor:
        for _ in range(n):
            x = tf.tanh(x) + 0.1
        return x

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        for k in range(n % 5):
            x = inner(x, k) + inner(x, 1)
        return depth(x, n % 3)

    return step, None


SETTLING = [carried, decoding, two_back, numbers_of_python, branches, nested, growing, kept, in_functions]


@pytest.mark.parametrize("make", SETTLING, ids=lambda make: make.__name__)
def test_no_number_of_trips_is_new(make: Callable[[], tuple[Step, Any]]) -> None:
    """After a few steps all are co-executed, however many trips they take."""
    called = compared(make)
    assert called.phases.graph.loops, "the loop is no node"
    assert called.phases.counts["coexecuted"] >= STEPS - 12, called.explain()


def collected() -> tuple[Step, Any]:
    """All that a loop made is stacked after it."""

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        made = [x]
        for _ in range(n % 4):
            x = tf.sin(x) + 0.5
            made.append(x)
        return tf.stack(made)

    return step, None


def trained() -> tuple[Step, Any]:
    """A tape around a loop: its backward pass goes back to every trip."""
    weights = tf.Variable([0.5, -0.3])

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        with tf.GradientTape() as tape:
            state = tf.fill([2], x)
            for _ in range(n % 4):
                state = tf.tanh(state * weights + 0.1)
            loss = tf.reduce_sum(tf.square(state - weights))
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    return step, weights


def tapes_in_a_loop() -> tuple[Step, Any]:
    """Several updates in a step."""
    weights = tf.Variable([0.5, -0.3])

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        for _ in range(n % 6):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(tf.tanh(weights * x) - 0.2))
            weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return weights * 1.0

    return step, weights


@pytest.mark.parametrize("make", [collected, trained, tapes_in_a_loop], ids=lambda make: make.__name__)
def test_what_is_used_of_every_trip(make: Callable[[], tuple[Step, Any]]) -> None:
    """Every number of trips is a path of its own after the loop; those that were seen are co-executed."""
    assert compared(make, 30).phases.counts["coexecuted"] >= 5


def detour(place: int) -> Callable[[], tuple[Step, Any]]:
    """A step that once does something new, in the middle of a loop."""

    def make() -> tuple[Step, Any]:
        total, calls = tf.Variable(1.0), [0]

        def step(x: tf.Tensor, n: int) -> tf.Tensor:
            calls[0] += 1
            for k in range(n):
                x = tf.sin(x) + total
                if calls[0] == 16 and k == place:
                    x = tf.math.log1p(tf.abs(x))
                    total.assign_sub(x * 0.1)
                total.assign_add(x * 0.1)
            return x

        return step, [total, calls]

    return make


@pytest.mark.parametrize("place", range(trips(15)))
def test_a_loop_is_left_in_any_trip(place: int) -> None:
    """What was done is done again on the real variables, up to that very trip."""
    counts = compared(detour(place)).phases.counts
    assert counts["left"] >= 1
    assert counts["coexecuted"] >= 6


class Source:
    """Random programs as Python: loops in loops, ways out of them, values that are carried, fed, fetched and kept."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.names = 0

    def text(self) -> str:
        """The program, as the body of a function of `x`, `n`, `variable`, `seen` and `kept`."""
        lines = ["def step(x, n, variable, seen, kept):", "    a, b, c = x, x * 0.5, x - 1.0"]
        lines += ["    " + line for line in self._lines(3, is_in_loop=False)]
        return "\n".join([*lines, "    return a, b, c"])

    def _lines(self, depth: int, is_in_loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.source.randrange(2, 5)):
            lines += self._statement(depth, is_in_loop)
        return lines

    def _statement(self, depth: int, is_in_loop: bool) -> list[str]:
        p, q, r = (self.source.choice("abc") for _ in range(3))
        k = self.source.randrange(2, 5)
        plain_statements = [
            f"{p} = tf.tanh({q}) + {r}",
            f"{p}, {q} = {q}, tf.sin({p} + {r})",
            f"{p} = {q} * variable",
            f"variable.assign(tf.tanh({p}))",
            f"variable.assign_add({p} * 0.1)",
            f"seen.append(float({p}))",
            f"kept[:] = [*kept[-3:], {p}]",
            f"{p} = {q} + float(n % {k})",
            f"{p} = tf.sin(kept[-1] if kept else {q})",
        ]
        if is_in_loop:
            plain_statements += [f"if (n + i) % {k} == 0: {self.source.choice(['break', 'continue'])}"]
        kind = self.source.choice(["plain", "plain", "loop", "branch"]) if depth else "plain"
        if kind == "plain":
            return [self.source.choice(plain_statements)]
        inner = ["    " + line for line in self._lines(depth - 1, is_in_loop or kind == "loop")]
        if kind == "branch":
            return [f"if {self.source.choice([f'n % {k} == 0', f'{p} > {q}'])}:", *inner]
        self.names += 1
        name = f"i{self.names}"
        return [f"for {name} in range(n % {k + 2}):", f"    i = {name}", f"    {p} = {p} * 0.9 + float(i)", *inner]


def random_program(seed: int) -> Callable[[], tuple[Step, Any]]:
    """Makes a random program, with its state."""
    namespace: dict[str, Any] = {"tf": tf}
    exec(Source(seed).text(), namespace)

    def make() -> tuple[Step, Any]:
        variable = tf.Variable(1.0)
        seen: list[float] = []
        kept_: list[tf.Tensor] = []

        def step(x: tf.Tensor, n: int) -> Any:
            return namespace["step"](x, n, variable, seen, kept_)

        return step, [variable, seen, kept_]

    return make


@pytest.mark.parametrize("seed", range(40))
def test_a_random_program(seed: int) -> None:
    """Values, variables and what Python saw are those of eager execution after every step."""
    compared(random_program(seed))


def test_random_programs_have_loops_that_are_nodes() -> None:
    """A comparison of eager execution with itself would show nothing."""
    called = [compared(random_program(seed)) for seed in range(100, 106)]
    assert sum(len(each.phases.graph.loops) for each in called) >= 3
    assert sum(each.phases.counts["coexecuted"] for each in called) >= STEPS
