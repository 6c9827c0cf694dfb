"""Co-executed functions: what a step may do, each against the same function run eagerly."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.coexec import Coexecuted
from tests.coexec.steps import STEPS, compared, matrix, number


def training() -> tuple[Any, Any]:
    """A step with a tape and an update."""
    weights = tf.Variable(tf.ones([3, 2]) * 0.3)

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.nn.tanh(x @ weights)))
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    return step, weights


def test_training_is_coexecuted() -> None:
    """All steps after the second: the first is traced, the second shows that nothing is new but the data."""
    assert compared(training, matrix).phases.counts["coexecuted"] >= STEPS - 3


def test_a_value_decides_the_way() -> None:
    """`if` on a value: one launch for both branches, and what follows them."""

    def make() -> tuple[Any, Any]:
        log: list[float] = []

        def step(x: tf.Tensor) -> tf.Tensor:
            y = x + 1.0
            if float(y) > 2.0:
                y = y * 2.0
                log.append(y.numpy())
            else:
                y = tf.sqrt(y)
            return y - x

        return step, log

    assert compared(make, number).phases.counts["coexecuted"] >= STEPS - 5


def test_a_loop_takes_as_many_trips_as_python_does() -> None:
    """Other trip counts are other paths of one graph."""

    def make() -> tuple[Any, Any]:
        total = tf.Variable(0.0)

        def step(x: tf.Tensor) -> tf.Tensor:
            for _ in range(int(x)):
                x = tf.sin(x)
                total.assign_add(x)
            return x

        return step, total

    assert compared(make, number).phases.counts["coexecuted"] >= STEPS - 7


@pytest.mark.parametrize("place", range(6))
def test_a_new_path_in_mid_step(place: int) -> None:
    """The step goes on from that very operation: with its tensors, and with each variable changed once."""

    def make() -> tuple[Any, Any]:
        variable, calls, log = tf.Variable(1.0), [0], []

        def detour(position: int, x: tf.Tensor) -> tf.Tensor:
            log.append(position)
            if position == place and calls[0] == 8:
                return tf.math.log1p(x) * variable
            return x

        def step(x: tf.Tensor) -> list[tf.Tensor]:
            calls[0] += 1
            kept = [x + 1.0]
            for position in range(6):
                kept.append(detour(position, kept[-1] * 1.1))
                variable.assign_add(kept[-1])
                kept.append(variable * 0.5)
            return kept

        return step, [variable, calls, log]

    counts = compared(make, number).phases.counts
    assert counts["left"] >= 1
    assert counts["coexecuted"] >= 4


def test_an_exception_in_mid_step_leaves_what_came_before() -> None:
    """The writes before it have happened, those after it have not."""

    def make() -> tuple[Any, Any]:
        one, two = tf.Variable(0.0), tf.Variable(0.0)
        calls = [0]

        def step(x: tf.Tensor) -> tf.Tensor:
            calls[0] += 1
            one.assign_add(x + 1.0)
            if calls[0] % 5 == 0:
                raise ValueError("not this one")
            two.assign_add(one)
            return two * 1.0

        return step, [one, two]

    assert compared(make, number).phases.counts["coexecuted"] > 0


def test_an_operation_that_fails_is_raised_where_it_stands() -> None:
    """With the message of eager execution, in the `try` around it, and nothing done twice."""

    def make() -> tuple[Any, Any]:
        table, log = tf.Variable(tf.range(4.0)), []

        def step(x: tf.Tensor) -> tf.Tensor:
            table.assign(table + 1.0)
            y = tf.cast(x * 2.0, tf.int32)
            try:
                row = tf.gather(table, y)
            except tf.errors.InvalidArgumentError as error:
                log.append(str(error))
                row = x
            return row * 2.0

        return step, [table, log]

    called = compared(make, number)
    assert called.phases.counts["coexecuted"] > 0


def test_numpy_memory_may_be_used_again_at_once() -> None:
    """A buffer that the program fills anew before the graph has read it."""

    def make() -> tuple[Any, Any]:
        buffer = np.zeros(100, np.float32)

        def step(x: tf.Tensor) -> tf.Tensor:
            buffer[:] = float(x)
            y = tf.add(buffer, x)
            buffer[:] = -1.0
            return y * 2.0

        return step, buffer

    assert compared(make, number).phases.counts["coexecuted"] > 0


def test_numpy_memory_may_stay_and_change_as_it_likes() -> None:
    """One buffer in several operations, steps and shapes, which is changed in some of them, at its end too."""

    def make() -> tuple[Any, Any]:
        buffer = np.zeros([40, 8], np.float32)

        def step(x: tf.Tensor) -> list[tf.Tensor]:
            i = int(x)
            if i % 3 == 0:
                buffer[-1, -1] = float(x)
            found = [tf.raw_ops.AddV2(x=buffer, y=buffer), tf.raw_ops.Sum(input=buffer.reshape(8, 40), axis=[0])]
            if i % 2 == 0:
                buffer[0, 0] += 1.0
            found.append(tf.raw_ops.Mul(x=buffer, y=x))
            found.append(tf.raw_ops.AddV2(x=buffer.view(np.int32), y=buffer.view(np.int32)))
            return [tf.reduce_sum(each) for each in found]

        return step, buffer

    assert compared(make, number).phases.counts["coexecuted"] > 0


def test_tensors_may_be_kept() -> None:
    """In a list, read three steps later."""

    def make() -> tuple[Any, Any]:
        kept: list[tf.Tensor] = []

        def step(x: tf.Tensor) -> float:
            kept.append(tf.exp(x))
            return float(kept[-4]) if len(kept) > 3 else 0.0

        return step, kept

    assert compared(make, number).phases.counts["coexecuted"] > 0


def test_what_only_python_can_do_runs_at_once() -> None:
    """Random numbers, prints of TensorFlow, Python functions, tf.functions."""

    def make() -> tuple[Any, Any]:
        seen: list[float] = []
        double = tf.function(lambda x: x * 2.0)

        def step(x: tf.Tensor) -> tf.Tensor:
            y = tf.sin(x)
            z = tf.py_function(lambda v: seen.append(float(v)) or v + 1.0, [y], tf.float32)
            return double(z) + tf.random.uniform([], seed=3) * 0.0

        return step, seen

    assert compared(make, number).phases.counts["coexecuted"] > 0


def test_a_function_with_variables_and_random_numbers_runs_eagerly() -> None:
    """It is no part of the graph, and what it does to them could not be put in order with what the graph does."""

    def make() -> tuple[Any, Any]:
        variable = tf.Variable(1.0)
        bump = tf.function(lambda: variable.assign_add(tf.maximum(tf.random.uniform([]), 1.0)))

        def step(x: tf.Tensor) -> tf.Tensor:
            variable.assign(variable * 0.5)
            bump()
            return variable + x

        return step, variable

    assert "may use a variable" in compared(make, number).explain()


def test_shapes_may_vary() -> None:
    """One graph for all lengths."""

    def make() -> tuple[Any, Any]:
        weights = tf.Variable(tf.ones([3, 2]))

        def step(x: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(tf.nn.relu(x @ weights), axis=0)

        return step, weights

    def arguments(i: int) -> tuple[Any, ...]:
        return (tf.ones([i + 1, 3]) * float(i),)

    assert compared(make, arguments).phases.counts["coexecuted"] >= STEPS - 4


def test_another_thread_may_ask_for_a_value() -> None:
    """Also for one that the graph does not give: the step leaves it."""

    def make() -> tuple[Any, Any]:
        seen: list[float] = []

        def step(x: tf.Tensor) -> tf.Tensor:
            y = tf.exp(x)
            thread = threading.Thread(target=lambda: seen.append(float(y)))
            thread.start()
            thread.join()
            return y + 1.0

        return step, seen

    compared(make, number)


def test_two_threads_call_the_same_function() -> None:
    """One has the graph, the other runs eagerly meanwhile."""
    function = Coexecuted(lambda x: tf.sqrt(x) + 1.0)
    results: dict[float, list[float]] = {}

    def work(value: float) -> None:
        results[value] = [float(function(tf.constant(value))) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(value,)) for value in (1.0, 4.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {1.0: [2.0] * 20, 4.0: [3.0] * 20}


def test_loops_of_steps() -> None:
    """`rg.steps`: also where the loop is left early."""
    variable = tf.Variable(0.0)
    loop = rg.steps([float(i) for i in range(20)])
    for i, x in enumerate(loop):
        variable.assign_add(tf.square(x))
        if i == 15:
            break
    assert float(variable) == sum(i * i for i in range(16))
    assert loop.phases.counts["coexecuted"] >= 10, loop.explain()


def test_a_mode_of_function() -> None:
    """`rg.function(mode="coexec")` and its explanation."""

    @rg.function(mode="coexec")
    def double(x: tf.Tensor) -> tf.Tensor:
        return x * 2.0

    assert [float(double(tf.constant(v))) for v in (1.0, 2.0, 3.0, 4.0, 5.0)] == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert "coexecuted" in double.explain()


def test_strict_says_why_a_step_runs_eagerly() -> None:
    """The call after the one that showed it is an error with the reason."""
    variable = tf.Variable(1.0)
    bump = tf.function(lambda: variable.assign_add(tf.maximum(tf.random.uniform([]), 1.0)))

    @rg.function(mode="coexec", strict=True)
    def step() -> tf.Tensor:
        bump()
        return variable * 2.0

    assert [float(step()), float(step())] == [4.0, 6.0]
    with pytest.raises(rg.errors.NotCoexecuted, match="may use a variable that the step's other operations use"):
        step()


def test_a_small_model_of_keras() -> None:
    """Layers, a loss, Adam, a metric: the weights and the printed numbers are those of eager execution."""
    keras = tf.keras

    def make() -> tuple[Any, Any]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
        model.build((None, 3))
        optimizer, metric = keras.optimizers.Adam(0.05), keras.metrics.Mean()
        optimizer.build(model.trainable_variables)

        def step(x: tf.Tensor) -> float:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - 1.0))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            metric.update_state(loss)
            return float(metric.result())

        return step, [weight.value for weight in model.trainable_variables]

    called = compared(make, matrix)
    assert called.phases.counts["coexecuted"] >= STEPS - 4, called.explain()


def test_a_graph_that_is_stopped_while_nothing_else_holds_it() -> None:
    """Seeding clears the caches that hold graphs' kernels; those that wait for values are told, and gone at once."""

    def make() -> tuple[Any, Any]:
        variable, calls = tf.Variable(0.0), [0]

        def step(x: tf.Tensor) -> tf.Tensor:
            calls[0] += 1
            tf.random.set_seed(calls[0])
            if calls[0] % 2 and calls[0] > 3:  # a new path each time, while the graph waits for everything
                x = tf.reshape(x, [1] * calls[0])
            for k in range(12):
                x = x + np.float32(k + calls[0])
                if float(tf.reduce_sum(x)) > 1e9:
                    x = tf.sin(x)
            variable.assign_add(tf.reduce_sum(x))
            return x

        return step, variable

    assert compared(make, number).phases.counts["left"] > 0
