"""Layers that the user has written, inside of models of Keras's: what they do to Python, and what they read."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.callbacks import _counter, _Kept, _trained


@program
def a_layer_with_a_mask_of_its_own() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    class Masking(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.supports_masking = True

        def compute_mask(self, x: Any, mask: Any = None) -> Any:
            counter.count += 1
            return keras.ops.sum(x, -1) > 0.0

        def call(self, x: Any) -> Any:
            return x * 2.0

    model = keras.Sequential([Masking(), keras.layers.LSTM(2)])
    model(tf.ones([4, 5, 3]))
    counter.count = 0

    def step(x: tf.Tensor) -> Any:
        return model(tf.stack([x, x * 2.0, x - 1.0, x, -x], 1))

    return step, with_tensor, _Kept(counter, model)


@program
def a_layer_that_looks_at_a_tensor() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    class Either(keras.layers.Layer):
        def compute_output_shape(self, shape: Any) -> Any:
            return shape

        def call(self, x: Any) -> Any:
            if tf.reduce_sum(x) > 0.0:
                counter.count += 1
                return x * 2.0
            return x - 1.0

    model = keras.Sequential([keras.layers.Dense(3), Either()])
    return _trained(model, keras.optimizers.SGD(0.1), counter)


@program
def a_layer_with_a_configuration() -> Any:
    """Generated methods, properties, a comparison: what is not written by the user is left alone."""
    keras.utils.set_random_seed(1)

    @dataclasses.dataclass(frozen=True)
    class Options:
        size: int = 3
        factor: float = 0.5

    class Scaled(keras.layers.Layer):
        def __init__(self, options: Options) -> None:
            super().__init__()
            self.options = options

        @property
        def factor(self) -> float:
            return self.options.factor

        def call(self, x: Any) -> Any:
            return x * self.factor if self.options == Options() else x

    model = keras.Sequential([Scaled(Options()), keras.layers.Dense(2)])
    return _trained(model, keras.optimizers.SGD(0.1), _counter())


@program
def a_layer_that_raises_now_and_then() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    class Careful(keras.layers.Layer):
        def compute_output_shape(self, shape: Any) -> Any:
            return shape

        def call(self, x: Any) -> Any:
            counter.count += 1
            if counter.count % 5 == 4:
                raise ValueError("the fifth")
            return x * 2.0

    model = keras.Sequential([keras.layers.Dense(3), Careful()])
    model(tf.ones([4, 3]))
    counter.count = 0

    def step(x: tf.Tensor) -> Any:
        try:
            return model(x)
        except ValueError as error:
            return "fifth" in str(error)

    return step, with_tensor, _Kept(counter, model)


@program(eager="the cell is called in a loop of the graph", feature="EFFECT_IN_CALLBACK", line="counter.count += 1")
def a_cell_that_counts() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    class Cell(keras.layers.Layer):
        state_size = 3

        def call(self, x: Any, states: Any) -> Any:
            counter.count += 1
            return x + states[0], [x + states[0]]

    layer = keras.layers.RNN(Cell())
    layer(tf.ones([4, 5, 3]))
    counter.count = 0

    def step(x: tf.Tensor) -> Any:
        return layer(tf.stack([x, x * 2.0, x - 1.0], 1))

    return step, with_tensor, _Kept(counter, layer)


@program
def a_cell_of_an_unrolled_network() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    class Cell(keras.layers.Layer):
        state_size = 3

        def call(self, x: Any, states: Any) -> Any:
            counter.count += 1
            return x + states[0], [x + states[0] * counter.count]

    layer = keras.layers.RNN(Cell(), unroll=True)
    layer(tf.ones([4, 3, 3]))
    counter.count = 0

    def step(x: tf.Tensor) -> Any:
        return layer(tf.stack([x, x * 2.0, x - 1.0], 1))

    return step, with_tensor, _Kept(counter, layer)


@program
def a_function_in_a_layer_that_is_traced() -> Any:
    """Eagerly, too, its Python runs when it is traced."""
    counter = _counter()

    class Traced(keras.layers.Layer):
        @tf.function(reduce_retracing=True)
        def call(self, x: Any) -> Any:
            counter.count += 1
            return x * 2.0 if tf.reduce_sum(x) > 0.0 else x - 1.0

    layer = Traced()
    layer(tensor(0))

    def step(x: tf.Tensor) -> Any:
        return layer(x)

    return step, with_tensor, None


@program
def layers_in_functions_that_tensorflow_maps() -> Any:
    keras.utils.set_random_seed(1)

    class Halved(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x * 0.5

    model = keras.Sequential([keras.layers.Dense(3), Halved()])
    model.build([None, 3])

    def step(x: tf.Tensor) -> Any:
        return tf.map_fn(lambda row: model(row[None])[0], x)

    return step, with_tensor, None


class _Seen:
    """A layer of which only what it counts is compared."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return {"seen": self._layer.seen}


@program
def attributes_of_layers_inside_of_a_model() -> Any:
    """Numbers that the layer's own code reads, which no name of the program's leads to."""
    keras.utils.set_random_seed(1)

    class Scaled(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.factor, self.seen = 1.0, 0

        def call(self, x: Any) -> Any:
            self.seen += 1
            return x * self.factor

    inner = Scaled()
    model = keras.Sequential([keras.layers.Dense(3), inner])
    model(tf.ones([4, 3]))
    inner.seen = 0

    def step(x: tf.Tensor) -> Any:
        return model(x)

    def arguments(i: int) -> tuple[Any, ...]:
        inner.factor = 1.0 + i // 6
        return with_tensor(i)

    return step, arguments, _Seen(inner)


class _Pair(NamedTuple):
    """What a layer is given."""

    one: Any
    other: Any


@program
def a_layer_that_is_given_a_record() -> Any:
    keras.utils.set_random_seed(1)

    class Joined(keras.layers.Layer):
        def call(self, pair: Any) -> Any:
            return pair.one * 2.0 + pair.other

    class Outer(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Joined()

        def call(self, x: Any) -> Any:
            return self.inner(_Pair(x, x + 1.0))

    layer = Outer()
    layer(tf.ones([4, 3]))

    def step(x: tf.Tensor) -> Any:
        return layer(x)

    return step, with_tensor, None


@program
def operators_on_variables_of_keras() -> Any:
    """In layers of the user's: slices, arithmetic in both orders, comparisons, numbers."""
    keras.utils.set_random_seed(1)

    class Mixed(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.w = self.add_weight(shape=(3, 3), initializer="uniform", name="w")
            self.b = self.add_weight(shape=(3,), initializer="ones", name="b")
            self.count = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False, name="count")
            self.rows, self.factor = 2, 0.5

        def call(self, x: Any) -> Any:
            self.count.assign(self.count + 1)
            y = x @ self.w + self.b * self.factor - 0.25 / (self.b + self.rows)
            y = y + tf.reduce_sum(self.w[1:, : self.rows]) - (-self.w)[0] + self.w[self.rows - 2] ** 2
            if self.count % 3 == 0:
                y = y * 2.0
            y = y + self.w[2] * tf.cast(self.b > 0.5, tf.float32)
            self.factor = float(self.b[0]) * 0.5
            return y

    return _trained(Mixed(), keras.optimizers.SGD(0.1), _counter())


class _Penalized(keras.layers.Layer):
    """Adds a loss in each call."""

    def call(self, x: Any) -> Any:
        """Twice the input."""
        self.add_loss(tf.reduce_mean(x) * 0.5)
        return x * 2.0


@program
def losses_that_were_added_before_the_call() -> Any:
    """Layers keep them, and their model gives them: those of this call's model, not of the one that was converted."""
    model = keras.Sequential([_Penalized(), _Penalized()])

    def arguments(i: int) -> tuple[tf.Tensor]:
        return (model(tensor(i)),)

    def step(x: tf.Tensor) -> Any:
        return tf.reduce_sum(x) + sum(model.losses), model.losses

    return step, arguments, None


@program
def losses_of_the_call_before() -> Any:
    """They are read, then the model is called and has others, which it keeps."""
    layer = _Penalized()
    layer(tensor(0))

    def step(x: tf.Tensor) -> Any:
        before = sum(layer.losses)
        y = layer(x)
        return before, y, sum(layer.losses)

    return step, with_tensor, None


@program
def losses_that_are_added_to_those_of_another() -> Any:
    """A layer that is called inside of another one, whose call is not converted, keeps what it had."""
    inner = _Penalized()

    class Outer(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.step = inner, lambda x: inner(x)

        def call(self, x: Any) -> Any:
            return self.step(self.inner(x))

    outer = Outer()
    outer(tensor(0))

    def step(x: tf.Tensor) -> Any:
        return outer(x), sum(outer.losses), len(outer.losses)

    return step, with_tensor, None
