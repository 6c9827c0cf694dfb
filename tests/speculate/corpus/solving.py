"""Solvers whose steps a tensor decides, lists that may be one with another, arrays of tensors that Python has."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor

_Solved = collections.namedtuple("_Solved", "y, time, size, curve")


class _Solver:
    """Doubles or halves its steps as an error says, and gives what it finds between them by interpolation."""

    def __init__(self, slope: Callable[[tf.Tensor], tf.Tensor], y: tf.Tensor) -> None:
        self.slope = slope
        self.state = _Solved(y, tf.constant(0.0), tf.constant(0.5), [y] * 2)

    def step(self, state: _Solved) -> _Solved:
        """One step, which is taken back where it was too long."""
        y, time, size, curve = state
        once = y + size * self.slope(y)
        half = y + 0.5 * size * self.slope(y)
        twice = half + 0.5 * size * self.slope(half)
        error = tf.reduce_max(tf.abs(once - twice))
        accepted = error < 0.05
        following = twice if accepted else y
        time = time + size if accepted else time
        curve = [y, twice] if accepted else curve
        size = size * 2.0 if accepted else size * 0.5
        return _Solved(following, time, size, curve)

    def at(self, time: float) -> tf.Tensor:
        """The solution at a time, which may lie in the last step already."""
        rounds = 0
        while self.state.time < time:
            assert rounds < 100
            self.state = self.step(self.state)
            rounds += 1
        return tf.add_n(self.state.curve) * 0.5


def _times(i: int) -> tuple[tf.Tensor]:
    """What is solved from."""
    return (tensor(i)[0] * (0.2 + 0.4 * (i % 3)),)


@program
def an_adaptive_solver() -> Any:
    weight = tf.Variable(tf.ones([3]) * 0.5)

    def step(y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            solver = _Solver(lambda state: tf.tanh(state * weight), y)
            found = [solver.at(time) for time in (0.4, 0.45, 1.5)]
            loss = tf.reduce_sum(tf.square(tf.stack(found)))
        gradient = tape.gradient(loss, weight)
        weight.assign_sub(0.01 * gradient)
        return loss, gradient

    return step, _times, weight


@program
def a_loop_without_a_round_and_a_gradient() -> Any:
    """Where the loop has none, nothing leads to the variable."""
    weight = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor, rounds: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(x)
            while rounds > 0:
                y = y * tf.reduce_sum(weight) * 0.1
                rounds = rounds - 1
        gradient = tape.gradient(y, weight)
        return y, gradient is None, 0.0 if gradient is None else gradient

    return step, lambda i: (tensor(i), tf.constant((2, 1, 3, 0, 1)[i % 5])), weight


@program
def a_gradient_of_zeros_after_a_loop() -> Any:
    """It is there, and all its elements are zero."""
    weight = tf.Variable(tf.zeros([3]))

    def step(x: tf.Tensor, rounds: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(x)
            while rounds > 0:
                y = y + tf.reduce_sum(weight * weight)
                rounds = rounds - 1
        gradient = tape.gradient(y, weight)
        return y, gradient is None

    return step, lambda i: (tensor(i), tf.constant((2, 1, 3, 0, 1)[i % 5])), weight


@program
def one_tensor_decides_in_three_places() -> Any:
    """It is the same way from the fifth call on only for some calls."""

    def step(x: tf.Tensor, level: tf.Tensor) -> Any:
        is_high = tf.reduce_sum(x) * 0.0 + level > 5.0
        a = x if is_high else -x
        b = x + 1.0 if is_high else x
        c = x * 2.0 if is_high else x * 3.0
        return a + b + c

    return step, lambda i: (tensor(i), tf.constant(float(i if i % 2 else 0))), None


class _Owner:
    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts


def _two_lists(use: Callable[[list[Any], Any], Any]) -> Any:
    """A list of an object, with a second name that a tensor may give to another one."""

    def step(x: tf.Tensor, sign: tf.Tensor) -> Any:
        owner = _Owner([x, x + 1.0])
        parts = owner.parts
        parts = [x * 2.0, x * 3.0] if sign > 0 else parts
        return use(parts, owner)

    return step, lambda i: (tensor(i), tf.constant(float(i % 3) - 1.0)), None


@program(graphs=1)
def one_list_or_two_that_are_read() -> Any:
    return _two_lists(lambda parts, owner: parts[0] + owner.parts[1] + tf.add_n(parts))


@program
def one_list_or_two_that_are_changed() -> Any:
    def use(parts: list[Any], owner: Any) -> Any:
        parts.append(parts[0])
        return tf.add_n(parts) + tf.add_n(owner.parts)

    return _two_lists(use)


@program
def one_list_or_two_that_are_changed_and_put_back() -> Any:
    def use(parts: list[Any], owner: Any) -> Any:
        parts.append(parts[0])
        found = tf.add_n(owner.parts)
        parts.pop()
        return found

    return _two_lists(use)


@program
def one_list_or_two_that_are_told_apart() -> Any:
    return _two_lists(lambda parts, owner: parts[0] * (10.0 if parts is owner.parts else 20.0))


@program
def one_list_or_two_that_leave_the_call() -> Any:
    def use(parts: list[Any], owner: Any) -> Any:
        return parts, owner.parts

    return _two_lists(use)


@program
def one_list_or_two_that_a_loop_changes() -> Any:
    def use(parts: list[Any], owner: Any) -> Any:
        rounds = tf.constant(0)
        while tf.cast(rounds, tf.float32) < tf.reduce_sum(tf.abs(parts[1])) % 4.0:
            parts[0] = parts[0] + 1.0
            rounds += 1
        return parts[0] + owner.parts[0]

    return _two_lists(use)


@program
def items_of_one_list_or_two_that_are_set() -> Any:
    def use(parts: list[Any], owner: Any) -> Any:
        parts[1] = parts[0] * 5.0
        del owner.parts[0]
        return tf.add_n(parts) - tf.add_n(owner.parts)

    return _two_lists(use)


@program
def rows_of_an_array_of_a_tensor() -> Any:
    """A tensor that was there before the call is an array before the graph runs."""
    table, draws = tf.reshape(tf.range(24.0), [8, 3]), np.random.RandomState(3)

    def step(x: tf.Tensor) -> Any:
        rows = draws.choice(np.arange(1, 8), 2, replace=False)
        array = table.numpy()
        return x[:2] * tf.convert_to_tensor(array[rows]), tf.stack([array[rows - i] for i in range(2)])

    return step, lambda i: (tensor(i),), None


@program(eager="the array is the script's, which changes nothing", feature="INDEX", line="array[1] = 7.0")
def an_array_of_a_tensor_that_is_changed() -> Any:
    """What was taken of it before is a part of it, and changes with it."""

    def step(x: tf.Tensor) -> Any:
        array = x.numpy()
        part = array[1:]
        array[1] = 7.0
        return float(part.sum()), x + 1.0

    return step, lambda i: (tensor(i),), None


@program(eager="the array is the script's, which changes nothing", feature="INDEX", line="array[0] = 7.0")
def a_copy_of_an_array_of_a_tensor_that_is_changed() -> Any:
    def step(x: tf.Tensor) -> Any:
        array = x.numpy()
        chosen = array[[0, 1]]
        array[0] = 7.0
        return x[:2] + chosen, array

    return step, lambda i: (tensor(i),), None


def _followed(use: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Any]) -> Any:
    """With -1, 0 or 1, and 0 to 3 rounds."""
    return use, lambda i: (tensor(i)[0], tf.constant(i % 3 - 1.0), tf.constant((1, 2, 0, 3, 1, 0, 2)[i % 7])), None


@program
def one_list_or_two_after_a_second_branch() -> Any:
    def step(x: tf.Tensor, sign: tf.Tensor, rounds: tf.Tensor) -> Any:
        kept = [x]
        parts = [x] if sign > 0 else kept
        if rounds > 1:
            parts = [x * 2.0]
        parts[0] = x * 9.0
        return kept[0]

    return _followed(step)


@program
def one_list_or_two_after_a_loop() -> Any:
    def step(x: tf.Tensor, sign: tf.Tensor, rounds: tf.Tensor) -> Any:
        kept = [x]
        parts = [x]
        while rounds > 0:
            parts = kept if sign <= 0 else [x]
            rounds = rounds - 1
        parts.append(x)
        return len(kept)

    return _followed(step)


@program
def one_list_or_two_before_a_loop() -> Any:
    def step(x: tf.Tensor, sign: tf.Tensor, rounds: tf.Tensor) -> Any:
        kept = [x]
        parts = [x] if sign > 0 else kept
        while rounds > 0:
            parts = [parts[0] + 1.0]
            rounds = rounds - 1
        parts.append(x)
        return len(kept), parts

    return _followed(step)


@program
def one_list_or_two_in_a_tuple() -> Any:
    def step(x: tf.Tensor, sign: tf.Tensor, rounds: tf.Tensor) -> Any:
        kept = [x]
        pair = ([x], 1) if sign > 0 else (kept, 1)
        pair[0].append(x)
        twice = ([x], [x]) if rounds > 1 else (kept, kept)
        return len(kept), twice[0] is twice[1]

    return _followed(step)
