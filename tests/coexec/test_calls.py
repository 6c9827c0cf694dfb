"""Calls of functions in a step, and operations that may fail for values that Python knows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from tests.coexec.steps import STEPS, compared, matrix, mostly, number


def test_a_function_that_changes_a_variable_of_the_step() -> None:
    """In order with what the step does to it."""

    def make() -> tuple[Any, Any]:
        variable = tf.Variable(1.0)
        bump = tf.function(lambda by: variable.assign_add(by))

        def step(x: tf.Tensor) -> tf.Tensor:
            variable.assign(variable * 0.5)
            y = bump(x)
            return variable + y

        return step, variable

    mostly(compared(make, number))


def test_a_function_without_results() -> None:
    """It has effects alone, of which one may fail: the step waits for it."""

    def make() -> tuple[Any, Any]:
        table, log = tf.Variable(tf.zeros([3])), []

        @tf.function
        def count(i: tf.Tensor) -> None:
            tf.debugging.assert_less(i, 3)
            table.scatter_nd_add([[i]], [1.0])

        def step(x: tf.Tensor) -> tf.Tensor:
            i = tf.cast(x * 1.0, tf.int32)
            try:
                count(i)
            except tf.errors.InvalidArgumentError:
                log.append("too large")
            return table * 2.0

        return step, [table, log]

    assert compared(make, number).phases.counts["coexecuted"] > 0


@pytest.mark.parametrize("count", [1, 3])
def test_gradients_of_functions(count: int) -> None:
    """Forward and backward functions, with the intermediate values that the one hands to the other."""

    def make() -> tuple[Any, Any]:
        weights = tf.Variable(tf.ones([3, 3]) * 0.3)

        @tf.function
        def layer(x: tf.Tensor) -> tf.Tensor:
            for _ in range(2):
                x = tf.tanh(x @ weights)
            return x

        def step(x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                for _ in range(count):
                    x = layer(x)
                loss = tf.reduce_mean(tf.square(x))
            weights.assign_sub(0.1 * tape.gradient(loss, weights))
            return loss

        return step, weights

    mostly(compared(make, matrix))


def test_lengths_may_vary_in_a_function() -> None:
    """The shapes of its results follow from those that it is given."""

    def make() -> tuple[Any, Any]:
        weights = tf.Variable(tf.ones([3, 2]))
        layer = tf.function(lambda x: tf.nn.relu(x @ weights), input_signature=[tf.TensorSpec([None, 3])])

        def step(x: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(layer(x) * 2.0, axis=1)

        return step, weights

    called = compared(make, lambda i: (tf.ones([i + 1, 3]) * float(i),))
    assert called.phases.counts["coexecuted"] >= STEPS - 5, called.explain()


def test_functions_that_do_more_than_compute_run_at_once() -> None:
    """Prints, random numbers, Python."""

    def make() -> tuple[Any, Any]:
        seen: list[float] = []

        @tf.function
        def noisy(x: tf.Tensor) -> tf.Tensor:
            tf.py_function(lambda v: seen.append(float(v)), [x], [])
            return x + tf.random.uniform([], seed=1) * 0.0

        def step(x: tf.Tensor) -> tf.Tensor:
            return noisy(tf.sin(x)) * 2.0

        return step, seen

    assert compared(make, number).phases.counts["coexecuted"] > 0


def test_a_new_path_after_a_call() -> None:
    """The call is done again on the real variables, once."""

    def make() -> tuple[Any, Any]:
        variable, calls = tf.Variable(1.0), [0]
        bump = tf.function(lambda by: variable.assign_add(by))

        def step(x: tf.Tensor) -> tf.Tensor:
            calls[0] += 1
            bump(x)
            if calls[0] == 8:
                variable.assign(tf.sqrt(variable))
            return variable + bump(1.0)

        return step, [variable, calls]

    assert compared(make, number).phases.counts["left"] == 1


def test_metrics_and_optimizers_of_keras() -> None:
    """With layers, dropout by a seed generator among them."""
    keras = tf.keras

    def make() -> tuple[Any, Any]:
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Embedding(7, 4), keras.layers.Dropout(0.3), keras.layers.Dense(3)]
        model = keras.Sequential(layers)
        model.build((None, 5))
        optimizer = keras.optimizers.RMSprop(0.05)
        optimizer.build(model.trainable_variables)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        metrics = [keras.metrics.SparseCategoricalAccuracy(), keras.metrics.Mean()]

        def step(tokens: tf.Tensor, labels: tf.Tensor) -> list[Any]:
            with tf.GradientTape() as tape:
                logits = tf.reduce_mean(model(tokens, training=True), axis=1)
                loss = loss_of(labels, logits)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            metrics[0].update_state(labels, logits)
            metrics[1].update_state(loss)
            return [float(metric.result()) for metric in metrics]

        return step, [weight.value for weight in model.variables]

    def arguments(i: int) -> tuple[Any, ...]:
        random = np.random.default_rng(i)
        return tf.constant(random.integers(0, 7, (6, 5))), tf.constant(random.integers(0, 3, 6))

    mostly(compared(make, arguments))


def test_indices_from_python_are_checked_without_waiting() -> None:
    """Lookups of rows, and what is computed of the indices; an index out of range is an error at its line."""

    def make() -> tuple[Any, Any]:
        table, log = tf.Variable(tf.reshape(tf.range(300.0), [100, 3])), []

        def step(indices: tf.Tensor) -> tf.Tensor:
            table.assign(table * 0.9)
            try:
                rows = tf.gather(table, tf.cast(indices, tf.int32) + 1)
                log.append("found")
            except tf.errors.InvalidArgumentError as error:
                log.append(str(error))
                rows = tf.zeros([3])
            return rows * 2.0

        return step, [table, log]

    def arguments(i: int) -> tuple[Any, ...]:
        return (tf.constant(np.random.default_rng(i).integers(0, 101 if i == 8 else 99, 90)),)

    mostly(compared(make, arguments))


def test_places_of_a_sparse_matrix_are_checked_without_waiting() -> None:
    """One that lies outside of the matrix is an error at its line."""

    def make() -> tuple[Any, Any]:
        weight, log = tf.Variable(tf.ones([4, 3])), []

        def step(places: tf.Tensor, values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
            weight.assign(weight * 0.9)
            try:
                matrix = tf.SparseTensor(places, values, [5, 4])
                found = tf.sparse.sparse_dense_matmul(matrix, weight)
                found += tf.sparse.sparse_dense_matmul(matrix, rows, adjoint_a=True)[:1]
                log.append("found")
            except tf.errors.InvalidArgumentError as error:
                log.append(str(error))
                found = tf.zeros([5, 3])
            return found * 2.0

        return step, [weight, log]

    def arguments(i: int) -> tuple[Any, ...]:
        random = np.random.default_rng(i)
        places = random.integers(0, [5, 4], [6, 2])
        if i == STEPS - 1:
            places[3] = (2, 4)
        values = random.normal(size=6).astype(np.float32)
        return tf.constant(places), tf.constant(values), tf.ones([5, 3])

    mostly(compared(make, arguments))


def test_shapes_that_depend_on_values_from_python() -> None:
    """The number of different tokens of a batch."""

    def make() -> tuple[Any, Any]:
        table = tf.Variable(tf.ones([9, 2]))

        def step(tokens: tf.Tensor) -> tf.Tensor:
            found, _ = tf.unique(tf.reshape(tokens, [-1]))
            rows = tf.gather(table, found)
            table.assign(table + 0.5)
            return rows + 1.0

        return step, table

    mostly(compared(make, lambda i: (tf.constant(np.random.default_rng(i).integers(0, 9, (10, 8))),)))


def test_a_subgraph_that_is_called() -> None:
    """A recursion in the step."""
    weights = tf.Variable(1.5)

    @rg.subgraph
    def power(n: tf.Tensor) -> tf.Tensor:
        if n == 0:
            return 1.0
        return power(n - 1) * weights

    def make() -> tuple[Any, Any]:
        def step(x: tf.Tensor) -> tf.Tensor:
            return power(tf.cast(x, tf.int32)) + tf.sin(x)

        return step, []

    assert compared(make, number).phases.counts["coexecuted"] > 0


def test_functions_that_are_made_in_a_step_and_dropped() -> None:
    """No graph can call them later: it is made again without their paths."""

    def make() -> tuple[Any, Any]:
        variable, count = tf.Variable(1.0), itertools.count()

        def step(x: tf.Tensor) -> tf.Tensor:
            variable.assign_add(1.0)
            if next(count) % 10 == 5:
                variable.assign_sub(tf.function(lambda y: tf.reduce_sum(y) * 0.5)(x))
            return variable * 2.0

        return step, variable

    called = compared(make, matrix)
    assert called.phases.counts["coexecuted"] >= STEPS // 3, called.explain()
    assert not any("failed" in reason for reason, _ in called.phases.reasons), called.explain()
