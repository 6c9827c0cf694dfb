"""Variables that a call makes: once, in the first calls or in a later one, or in every call, to be dropped with it."""

from __future__ import annotations

import functools
import types
from typing import Any

import keras
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor


def ones(i: int) -> tuple[Any, ...]:
    """A batch that differs from call to call."""
    return (tf.ones([2, 3]) * (0.1 * i + 0.1),)


# Made once.


@program
def a_variable_made_by_the_first_call() -> Any:
    """The classic complaint about `tf.function`."""
    self = types.SimpleNamespace(w=None)

    def step(x: Any) -> Any:
        if self.w is None:
            self.w = tf.Variable(tf.ones([3, 2]) * 0.5)
        self.w.assign_add(tf.ones([3, 2]) * 0.1)
        return x @ self.w

    return step, ones, [self]


@program
def a_global_made_by_the_first_call() -> Any:
    """By `nonlocal` and an exception."""
    weight = None

    def step(x: Any) -> Any:
        nonlocal weight
        try:
            return x * weight
        except (TypeError, ValueError):
            weight = tf.Variable(2.0)
            return x * weight

    return step, lambda i: (tensor(i),), []


@program
def a_variable_in_a_dict_made_for_each_key() -> Any:
    """Three keys come one after another."""
    held: dict[str, tf.Variable] = {}

    def step(x: Any, key: str) -> Any:
        if key not in held:
            held[key] = tf.Variable(tf.reduce_sum(x))
        return x * held[key]

    return step, lambda i: (tensor(i), "abc"[i // 5]), [held]


@program
def a_variable_made_in_a_later_call() -> Any:
    """In a branch that Python decides."""
    self = types.SimpleNamespace(w=tf.Variable(1.0), late=None)

    def step(x: Any, i: int) -> Any:
        if i >= 7 and self.late is None:
            self.late = tf.Variable(x * 3.0)
        return x * self.w if self.late is None else x * self.w + self.late

    return step, lambda i: (tensor(i), i), [self]


@program
def a_variable_made_where_a_tensor_decides() -> Any:
    """It is made when a sum is large enough for the first time."""
    self = types.SimpleNamespace(late=None)

    def step(x: Any) -> Any:
        if self.late is None:
            if tf.reduce_sum(x) > 0.7:
                self.late = tf.Variable(5.0)
            return x
        return x * self.late

    return step, ones, [self]


@program
def lazy_layers() -> Any:
    """Keras makes weights when a layer is called for the first time."""
    layers = [keras.layers.Dense(4, activation="relu", kernel_initializer="ones"), keras.layers.Dense(1)]
    layers[1].kernel_initializer = keras.initializers.Ones()

    def step(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    return step, ones, []


@program
def a_layer_made_by_the_first_call() -> Any:
    """With all that it holds."""
    self = types.SimpleNamespace(layer=None)

    def step(x: Any) -> Any:
        if self.layer is None:
            self.layer = keras.layers.Dense(2, kernel_initializer="ones")
        return self.layer(x)

    return step, ones, []


@program
def slots_of_an_optimizer() -> Any:
    """Made by the first update."""
    w = tf.Variable(tf.ones([3, 1]))
    optimizer = keras.optimizers.Adam(0.1)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ w) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    return step, ones, [w]


@program
def an_optimizer_made_by_the_first_call() -> Any:
    """Together with its slots."""
    self = types.SimpleNamespace(w=tf.Variable(tf.ones([3, 1])), optimizer=None)

    def step(x: Any) -> Any:
        if self.optimizer is None:
            self.optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ self.w) ** 2)
        self.optimizer.apply_gradients([(tape.gradient(loss, self.w), self.w)])
        return loss

    return step, ones, [self.w]


@program
def a_metric_made_by_the_first_call() -> Any:
    """And updated by all."""
    held: list[Any] = []

    def step(x: Any) -> Any:
        if not held:
            held.append(keras.metrics.Mean())
        held[0].update_state(x)
        return held[0].result()

    return step, ones, []


# Made in every call, and dropped.


@program
def a_variable_of_the_call() -> Any:
    """It is written and read."""

    def step(x: Any) -> Any:
        v = tf.Variable(x)
        v.assign_add(tf.ones_like(x))
        return v * 2.0 + v.read_value()

    return step, ones, []


@program
def a_counter_of_the_call() -> Any:
    """Each call begins with the number that it begins with."""

    def step(x: Any) -> Any:
        n = tf.Variable(0, dtype=tf.int32, trainable=False)
        for _ in range(3):
            n.assign_add(1)
            x = x * tf.cast(n, tf.float32)
        return x, n.numpy(), n.dtype.name, n.trainable, n.shape.rank

    return step, ones, []


@program
def descent_on_a_variable_of_the_call() -> Any:
    """The inner problem of a bilevel one."""

    def step(x: Any) -> Any:
        z = tf.Variable(tf.zeros([3]), name="z")
        for _ in range(4):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((z - x) ** 2)
            z.assign_sub(0.1 * tape.gradient(loss, z))
        return z + 0.0, loss

    return step, ones, []


@program
def a_tape_that_watches_a_variable_of_the_call() -> Any:
    """By itself; those it has watched are told."""

    def step(x: Any) -> Any:
        v, frozen = tf.Variable(x), tf.Variable(x, trainable=False)
        with tf.GradientTape() as tape:
            y = v * v * frozen
        count = len(tape.watched_variables())
        return tape.gradient(y, [v, frozen], unconnected_gradients="zero"), count

    return step, ones, []


@program
def a_loop_of_the_graph_over_a_variable_of_the_call() -> Any:
    """A tensor gives the number of rounds."""

    def step(x: Any, n: Any) -> Any:
        total = tf.Variable(0.0)
        for i in tf.range(n):
            total.assign_add(tf.reduce_sum(x) * tf.cast(i, tf.float32))
        return total + 1.0

    return step, lambda i: (*ones(i), tf.constant(i % 4 + 1)), []


@program
def a_branch_with_a_variable_of_the_call() -> Any:
    """A tensor decides whether it is written."""

    def step(x: Any) -> Any:
        v = tf.Variable(1.0)
        if tf.reduce_sum(x) > 3.0:
            v.assign(5.0)
        else:
            v.assign_add(0.5)
        return x * v

    return step, ones, []


@program
def variables_in_a_list_of_the_call() -> Any:
    """Gone through like any."""

    def step(x: Any) -> Any:
        weights = [tf.Variable(tf.ones([3, 3]) * k) for k in (0.1, 0.2)]
        with tf.GradientTape() as tape:
            y = x
            for w in weights:
                y = tf.tanh(y @ w)
            loss = tf.reduce_sum(y)
        for w, g in zip(weights, tape.gradient(loss, weights)):
            w.assign_sub(0.1 * g)
        return [w + 0.0 for w in weights]

    return step, ones, []


@program
def an_object_with_variables_of_the_call() -> Any:
    """A model that is made and dropped."""

    class Model:
        def __init__(self, start: float) -> None:
            self.w = tf.Variable(tf.ones([3, 2]) * start)
            self.b = tf.Variable(tf.zeros([2]))

        def __call__(self, x: Any) -> Any:
            return x @ self.w + self.b

    def step(x: Any) -> Any:
        model = Model(0.5)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x) ** 2)
        for v, g in zip((model.w, model.b), tape.gradient(loss, (model.w, model.b))):
            v.assign_sub(0.1 * g)
        return model(x)

    return step, ones, []


@program
def meta_learning() -> Any:
    """MAML: inner steps on copies of the weights, the outer one on the weights (first order)."""
    w = tf.Variable(tf.ones([3, 1]))

    def step(x: Any) -> Any:
        inner = tf.Variable(w)
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ inner - 1.0) ** 2)
            inner.assign_sub(0.1 * tape.gradient(loss, inner))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ inner - 1.0) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, inner))
        return loss

    return step, ones, [w]


@program
def a_variable_with_random_values() -> Any:
    """From an initializer that is a function."""

    def step(x: Any) -> Any:
        v = tf.Variable(lambda: tf.random.stateless_uniform([3], [1, 2]))
        v.scatter_nd_add([[0]], [1.0])
        return x * v[1], v[0]

    return step, ones, []


@program
def a_variable_of_unknown_shape() -> Any:
    """It grows."""

    def step(x: Any) -> Any:
        v = tf.Variable(tf.zeros([0, 3]), shape=[None, 3])
        for _ in range(2):
            v.assign(tf.concat([v, x], 0))
        return v.read_value()

    return step, ones, []


@program
def a_new_variable_in_a_closure() -> Any:
    """Of a function that is made and dropped, and of a partial one."""

    def step(x: Any) -> Any:
        v = tf.Variable(x)

        def add(y: Any, z: Any = v) -> Any:
            v.assign_add(y)
            return v + z

        return functools.partial(add, x)() + add(x)

    return step, ones, []


@program(eager="a function keeps the variable", feature="NEW_VARIABLE", line="v = tf.Variable(x)")
def a_function_with_a_new_variable_that_is_kept() -> Any:
    """It would be called later."""
    self = types.SimpleNamespace(add=None)

    def step(x: Any) -> Any:
        v = tf.Variable(x)
        self.add = functools.partial(v.assign_add, x)
        return v + 1.0

    return step, ones, []


@program
def a_function_with_a_tensor_that_is_kept() -> Any:
    """It would be called later, too."""
    self = types.SimpleNamespace(add=lambda: 0.0)

    def step(x: Any) -> Any:
        before = self.add()
        self.add = functools.partial(tf.reduce_sum, x * 2.0)
        return before + x

    return step, ones, []


@program(eager="an object keeps the variable", feature="NEW_OBJECT", line="held.model = Model(x)")
def an_object_with_a_new_variable_that_is_kept() -> Any:
    """A module, which tracks it."""
    held = types.SimpleNamespace(model=None)

    class Model(tf.Module):
        def __init__(self, v: Any) -> None:
            super().__init__()
            self.v = tf.Variable(v)

    def step(x: Any) -> Any:
        held.model = Model(x)
        return held.model.v + 1.0

    return step, ones, []


@program(eager="its text is asked for", feature="NEW_VARIABLE", line="v = tf.Variable(x)")
def the_text_of_a_new_variable() -> Any:
    """Printed whole."""

    def step(x: Any) -> Any:
        v = tf.Variable(x)
        print(v)
        return v + 1.0

    return step, ones, []


# Kept, though it is made in every call: the reason says so.


@program(
    eager="a variable that is new in every call and is kept",
    feature="NEW_VARIABLE",
    line="self.v = tf.Variable(x)",
)
def a_new_variable_in_every_call_that_is_kept() -> Any:
    """Until the next call makes another."""
    self = types.SimpleNamespace(v=tf.Variable(tf.ones([2, 3])))

    def step(x: Any) -> Any:
        y = self.v + x
        self.v = tf.Variable(x)
        return y

    return step, ones, [self]


@program(eager="a variable that is returned", feature="NEW_VARIABLE", line="v = tf.Variable(x)")
def a_new_variable_that_is_returned() -> Any:
    """The caller may write to it."""

    def step(x: Any) -> Any:
        v = tf.Variable(x)
        v.assign_add(x)
        return v

    return step, ones, []


@program(eager="a variable that a list keeps", feature="NEW_VARIABLE", line="v = tf.Variable(x)")
def new_variables_in_a_list_that_stays() -> Any:
    """One more in every call."""
    held: list[Any] = []

    def step(x: Any) -> Any:
        v = tf.Variable(x)
        held.append(v)
        return v * 2.0

    return step, ones, [held]


@program
def a_metric_of_the_call() -> Any:
    """As one that is made anew in each epoch."""

    def step(x: Any) -> Any:
        mean = keras.metrics.Mean()
        mean.update_state(x)
        mean.update_state(x * 2.0)
        return mean.result()

    return step, ones, []


@program
def a_layer_of_the_call() -> Any:
    """Made, called and dropped."""

    def step(x: Any) -> Any:
        layer = keras.layers.Dense(2, kernel_initializer="ones")
        return layer(x), len(layer.trainable_variables)

    return step, ones, []


@program
def an_optimizer_of_the_call() -> Any:
    """For the inner loop."""

    def step(x: Any) -> Any:
        z, optimizer = tf.Variable(tf.zeros([3])), keras.optimizers.SGD(0.1)
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((z - x) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, z), z)])
        return z + 0.0

    return step, ones, []
