"""Loops over numbers whose rounds have loops of the graph in them: all rounds but the first become one, too."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program


class _State(NamedTuple):
    """Of a solver."""

    y: tf.Tensor
    reached: tf.Tensor
    step: tf.Tensor


class _Solver:
    """Steps of its own choice up to each of the times."""

    def __init__(self, weight: tf.Variable, y: tf.Tensor) -> None:
        self.weight, self.state, self.steps = weight, _State(y, tf.constant(0.0), tf.constant(0.3)), 0

    def advance(self, until: tf.Tensor) -> tf.Tensor:
        while self.state.reached < until:
            y, reached, step = self.state
            slope = tf.tanh(y * self.weight)
            is_small = tf.reduce_max(tf.abs(slope)) * step < 0.4
            self.state = _State(
                y + slope * step if is_small else y,
                reached + step if is_small else reached,
                step * 1.3 if is_small else step * 0.5,
            )
        return self.state.y + (until - self.state.reached)


def _start(i: int) -> tuple[tf.Tensor]:
    return (tf.constant([0.2, -0.4]) * (1.0 + i % 5),)


def _halved(x: tf.Tensor) -> tf.Tensor:
    while tf.reduce_sum(tf.abs(x)) > 1.0:
        x = x * 0.5
    return x


@program
def a_solver_with_steps_of_its_own() -> Any:
    weight = tf.Variable(1.5)
    times = tf.linspace(0.0, 4.0, 10)

    def step(y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            solver = _Solver(weight, y)
            found = [(y,)]
            for i in range(1, times.shape[0]):
                found.append((solver.advance(times[i]),))
            (values,) = map(tf.stack, zip(*found, strict=True))
            loss = tf.reduce_mean(values**2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss, values, len(found)

    return step, _start, weight


@program
def what_is_left_of_the_counters() -> Any:
    def step(x: tf.Tensor) -> Any:
        count = 0
        for i in range(3, 30, 3):
            x = _halved(x * 3.0) + float(i) * 0.01
            count += 2
        return x, tf.zeros([i]), i, count, [i + k for k in range(i)]

    return step, _start, None


@program
def a_counter_that_the_round_changes() -> Any:
    def step(x: tf.Tensor) -> Any:
        def count() -> None:
            nonlocal i
            i += 100

        for i in range(9):
            x = _halved(x * 3.0)
            count()
        return x, i

    return step, _start, None


@program
def a_counter_that_has_to_be_known() -> Any:
    def step(x: tf.Tensor) -> Any:
        found, count = {}, 0
        for i in range(9):
            x = _halved(x * 3.0) + 0.1
            found[f"round {i}"] = x
            count += 1
        return found, tf.reshape(tf.range(count), [3, count // 3])

    return step, _start, None


@program
def it_is_left_by_a_tensor() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        for i in range(9):
            x = _halved(x * 3.0) + 0.1
            found.append(x * float(i))
            if tf.reduce_sum(x) > 0.9:
                break
        else:
            found.append(x)
        return found, x, len(found)

    return step, _start, None


@program
def a_list_that_grows_in_some_rounds() -> Any:
    def step(x: tf.Tensor) -> Any:
        found, every = [x], [x, x + 1.0]
        for i in range(9):
            x = _halved(x * 3.0) + 0.1
            if tf.reduce_sum(x) > 0.3:
                found.append(x)
            every.append(every[-1] + x)
            every.append(x - float(i))
        total = found[0]
        for one in found:
            total = total + one
        return total, every, len(every), every[3:6]

    return step, _start, None


@program
def a_layer_for_each_round() -> Any:
    weights = [tf.Variable(tf.ones([2]) * (1.0 + 0.1 * i)) for i in range(9)]

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            for i in range(9):
                x = _halved(x * weights[i])
            loss = tf.reduce_sum(x**2)
        return loss, tape.gradient(loss, weights)

    return step, _start, weights


@program
def loops_in_loops_in_loops() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        for i in range(9):
            for k in range(8):
                x = _halved(x * 3.0) + float(i * k) * 0.01
            found.append(x)
        return tf.stack(found), i, k

    return step, _start, None


@program
def a_variable_that_each_round_changes() -> Any:
    total, rounds = tf.Variable([0.0, 0.0]), tf.Variable(0)

    def step(x: tf.Tensor) -> Any:
        for i in range(9):
            x = _halved(x * 3.0) + total * 0.01
            total.assign_add(x)
            rounds.assign_add(i)
        return x, total.read_value()

    return step, _start, [total, rounds]


@program
def another_value_in_the_first_round() -> Any:
    def step(x: tf.Tensor) -> Any:
        last, best = None, 0.0
        for _ in range(9):
            x = _halved(x * 3.0) + 0.1
            if last is not None:
                x = x + last * 0.1
            last = x[0]
            best = tf.maximum(best, last)
        return x, last, best

    return step, _start, None


@program
def random_numbers_in_rounds() -> Any:
    generator = tf.random.Generator.from_seed(3)
    random = np.random.default_rng(3)

    def step(x: tf.Tensor) -> Any:
        for _ in range(9):
            x = _halved(x * 3.0) + generator.normal([2]) * 0.1 + float(random.normal()) * 0.1
        return x

    return step, _start, generator


@program
def what_is_printed_in_rounds() -> Any:
    said: list[Any] = []

    def step(x: tf.Tensor) -> Any:
        for i in range(9):
            x = _halved(x * 3.0) + 0.1
            said.append(float(tf.reduce_sum(x)))
        return x, i

    return step, _start, said


@program
def an_object_that_rounds_change() -> Any:
    class Meter:
        def __init__(self) -> None:
            self.value, self.rounds, self.seen = tf.zeros([2]), 0, []

    def step(x: tf.Tensor) -> Any:
        meter = Meter()
        for i in range(8):
            x = _halved(x * 3.0) + 0.1
            meter.value = meter.value + x
            meter.rounds += i
            meter.seen.append(x)
        return meter.value, meter.rounds, meter.seen, len(meter.seen)

    return step, _start, None


@program
def an_assumption_that_breaks_in_a_round() -> Any:
    """What comes after the loop is not to fail before that is seen."""

    def step(x: tf.Tensor, limit: tf.Tensor) -> Any:
        found, kind = [x], "small"
        for _ in range(9):
            x = _halved(x * 3.0) + 0.1
            if tf.reduce_max(x) > limit:
                kind = "large"
            found.append(x)
        (values,) = zip(*[(one,) for one in found], strict=True)
        first, *_, last = values
        return first, last, kind

    return step, lambda i: (*_start(i), tf.constant(0.1 if i == 7 else 100.0)), None


@program
def a_window_that_slides() -> Any:
    def step(x: tf.Tensor) -> Any:
        window = [x, x + 1.0, x + 2.0]
        for _ in range(9):
            x = _halved(x * 3.0) + 0.1
            window.pop(0)
            window.append(x)
            window.append(x * 2.0)
        return tf.stack(window), len(window)

    return step, _start, None


@program
def rows_of_a_table_in_rounds() -> Any:
    """Eagerly its gradient is slices, one for each round."""
    table = tf.Variable(tf.reshape(tf.range(8.0), [4, 2]) * 0.1)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build([table])

    def step(x: tf.Tensor, places: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            for i in range(8):
                x = _halved(x * 3.0 + tf.gather(table, places[i]))
            loss = tf.reduce_sum(x**2)
        gradient = tape.gradient(loss, table)
        optimizer.apply_gradients([(gradient, table)])
        return loss, isinstance(gradient, tf.IndexedSlices), [tf.convert_to_tensor(v) for v in optimizer.variables]

    return step, lambda i: (*_start(i), tf.constant([(i + k) % 3 for k in range(8)])), table


@program
def an_array_that_rounds_write() -> Any:
    def step(x: tf.Tensor) -> Any:
        array = tf.TensorArray(tf.float32, 9)
        for i in range(9):
            x = _halved(x * 3.0) + 0.1
            array = array.write(i, x)
        return array.stack(), x

    return step, _start, None


@program
def a_step_of_training_in_each_round() -> Any:
    weight = tf.Variable([0.5, 1.5])
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build([weight])
    metric = keras.metrics.Mean()

    def step(x: tf.Tensor) -> Any:
        losses = []
        for i in range(9):
            with tf.GradientTape() as tape:
                y = _halved(x * weight * 3.0)
                loss = tf.reduce_mean((y - float(i) * 0.1) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
            metric.update_state(loss)
            losses.append(loss)
        return losses, metric.result(), [tf.convert_to_tensor(v) for v in optimizer.variables]

    return step, _start, weight


@program
def a_second_derivative_over_rounds() -> Any:
    weight = tf.Variable([0.5, 1.5])

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                found = [x]
                for _ in range(8):
                    x = _halved(tf.tanh(x * weight) * 3.0)
                    found.append(x)
                (every,) = zip(*[(one,) for one in found], strict=True)
                loss = tf.add_n(list(every))
            first = inner.gradient(loss, weight)
        return first, outer.gradient(first, weight)

    return step, _start, weight
