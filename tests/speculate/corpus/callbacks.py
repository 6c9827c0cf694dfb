"""What libraries call of the user's: activations, schedules, methods that classes of Keras's leave to be written."""

from __future__ import annotations

import collections
import types
from typing import Any

import keras
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.keras_programs import _state


class _Kept:
    """Compared as the values that variables have at that moment, and a count."""

    def __init__(self, counter: Any, *things: Any) -> None:
        self._counter, self._things = counter, things

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        values = {str(i): v.numpy() for i, v in enumerate(_state(*self._things))}
        return {**values, "counter": vars(self._counter)}


def _counter() -> Any:
    return types.SimpleNamespace(count=0)


def _trained(layer: Any, optimizer: Any, counter: Any, loss_of: Any = lambda x, y: tf.reduce_mean(y**2)) -> Any:
    """A training step of a layer that was built, whatever it and the optimizer call."""
    layer(tf.ones([4, 3]))
    optimizer.build(layer.trainable_variables)
    counter.count = 0

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(x, layer(x)) + sum(layer.losses)
        optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables)
        return loss

    return step, with_tensor, _Kept(counter, layer, optimizer)


@program
def a_learning_rate_that_is_a_function() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    def rate() -> float:
        counter.count += 1
        return 0.5 / counter.count

    return _trained(keras.layers.Dense(2), keras.optimizers.SGD(rate), counter)


@program
def a_schedule_with_state() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    class Slower(keras.optimizers.schedules.LearningRateSchedule):
        def __init__(self, first: float) -> None:
            self.rate = first

        def __call__(self, step: Any) -> Any:
            counter.count += 1
            self.rate *= 0.9
            return self.rate / (1.0 + tf.cast(step, tf.float32))

    return _trained(keras.layers.Dense(2), keras.optimizers.Adam(Slower(0.1)), counter)


@program
def an_activation_that_counts() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    def activation(x: Any) -> Any:
        counter.count += 1
        return tf.nn.relu(x) * (1.0 / counter.count)

    return _trained(keras.layers.Dense(2, activation), keras.optimizers.SGD(0.1), counter)


@program
def an_activation_that_is_an_object() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    class Scaled:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def __call__(self, x: Any) -> Any:
            counter.count += 1
            return tf.tanh(x) * 0.5

    return _trained(keras.layers.Activation(Scaled()), keras.optimizers.SGD(0.1), counter)[0], with_tensor, counter


@program
def regularizers_that_count() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    class Squares(keras.regularizers.Regularizer):
        def __call__(self, x: Any) -> Any:
            counter.count += 1
            return 0.01 * counter.count * tf.reduce_sum(x * x)

    def sums(x: Any) -> Any:
        counter.count += 10
        return 0.1 * tf.reduce_sum(x)

    layer = keras.layers.Dense(2, kernel_regularizer=Squares(), bias_regularizer=sums)
    return _trained(keras.Sequential([layer]), keras.optimizers.SGD(0.1), counter)


@program
def an_activity_regularizer_that_counts() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    def activity(x: Any) -> Any:
        counter.count += 1
        return 0.1 * tf.reduce_sum(x)

    layer = keras.layers.Dense(2, activity_regularizer=activity)
    return _trained(keras.Sequential([layer]), keras.optimizers.SGD(0.1), counter)


@program
def constraints_that_count() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    class Bounded(keras.constraints.Constraint):
        def __call__(self, w: Any) -> Any:
            counter.count += 1
            return tf.clip_by_value(w, -1.0, 0.1 * counter.count)

    layer = keras.layers.Dense(2, kernel_constraint=Bounded(), bias_constraint=lambda b: b * 0.9)
    return _trained(layer, keras.optimizers.SGD(0.1), counter)


@program
def a_lambda_layer() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    def shifted(x: Any) -> Any:
        counter.count += 1
        return x + counter.count

    model = keras.Sequential([keras.layers.Dense(2), keras.layers.Lambda(shifted)])
    return _trained(model, keras.optimizers.SGD(0.1), counter)


@program
def a_layer_whose_call_is_replaced() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()
    layer = keras.layers.Dense(2)
    before = layer.call

    def call(x: Any) -> Any:
        counter.count += 1
        return before(x) * 2.0

    layer.call = call
    return _trained(layer, keras.optimizers.SGD(0.1), counter)


@program
def a_loss_that_counts() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    class Far(keras.losses.Loss):
        def call(self, y_true: Any, y_pred: Any) -> Any:
            counter.count += 1
            return tf.reduce_mean((y_true[:, :2] - y_pred) ** 2, -1) / counter.count

    return _trained(keras.layers.Dense(2), keras.optimizers.SGD(0.1), counter, Far())


@program
def metrics_of_the_users() -> Any:
    counter = _counter()

    class Largest(keras.metrics.Metric):
        def __init__(self) -> None:
            super().__init__()
            self.largest = self.add_weight(name="largest", initializer="zeros")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            counter.count += 1
            self.largest.assign(tf.maximum(self.largest, tf.reduce_max(y_pred)))

        def result(self) -> Any:
            return self.largest + 0.0

    def difference(y_true: Any, y_pred: Any) -> Any:
        counter.count += 100
        return tf.reduce_sum(y_true - y_pred)

    own, wrapped = Largest(), keras.metrics.MeanMetricWrapper(difference)

    def step(x: tf.Tensor) -> Any:
        wrapped.update_state(x, x * 2.0)
        return own(x, x * 3.0), float(wrapped.result())

    return step, with_tensor, _Kept(counter, own, wrapped)


@program
def an_optimizer_of_the_users() -> Any:
    keras.utils.set_random_seed(1)
    counter = _counter()

    class Counting(keras.optimizers.SGD):
        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            counter.count += 1
            super().update_step(gradient * (1.0 / counter.count), variable, learning_rate)

    return _trained(keras.layers.Dense(2), Counting(0.1), counter)


@program
def a_gradient_of_the_users_in_a_layer() -> Any:
    keras.utils.set_random_seed(1)

    @tf.custom_gradient
    def doubled(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            return upstream * 3.0 + x

        return x * 2.0, gradient

    layer = keras.layers.Dense(2, activation=doubled)
    return _trained(layer, keras.optimizers.SGD(0.1), _counter())


@program(graphs=1)
def a_list_of_tensors_whose_rows_vary_now_and_then() -> Any:
    """A gradient of rows of a table, say: the second graph is for any number of them."""
    table = tf.Variable(tf.ones([10, 3]))
    optimizer = keras.optimizers.Adagrad(0.1)
    optimizer.build([table])

    def step(gradients: list[Any]) -> Any:
        optimizer.apply(gradients, [table])
        return table + 0.0

    def arguments(i: int) -> tuple[Any, ...]:
        count = 2 if i % 5 == 4 else 4
        return ([tf.IndexedSlices(tensor(i)[:count], tf.range(count) + i % 3, tf.constant([10, 3]))],)

    return step, arguments, _Kept(_counter(), optimizer)


@program
def a_branch_in_a_function_that_tensorflow_maps() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        return tf.map_fn(lambda row: row * s if s > 1.0 else row + s, x), tf.inside_function()

    return step, lambda i: (tensor(i), tf.constant(float(i % 3))), None


@program(
    eager="eagerly, a TensorArray is changed where it is",
    feature="IN_GRAPH",
    line="return x, array.stack(), other.stack()",
)
def a_tensor_array_that_is_written_and_not_kept() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        array = tf.TensorArray(tf.float32, 2).unstack([s, s])
        other = array.write(0, s * 2.0)
        return x, array.stack(), other.stack()

    return step, lambda i: (tensor(i), tf.constant(float(i % 3))), None


@program(
    eager="eagerly, a TensorArray is changed where it is",
    feature="IN_GRAPH",
    line="return x, array.stack(), other.stack()",
)
def a_tensor_array_that_one_way_writes_in_vain() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        array = tf.TensorArray(tf.float32, 2).unstack([s, s])
        other = array
        if s > 1.0:
            other = array.write(0, s * 2.0)
        return x, array.stack(), other.stack()

    return step, lambda i: (tensor(i), tf.constant(float(i % 3))), None


@program
def a_tensor_array_that_each_way_writes() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        array = tf.TensorArray(tf.float32, 2).unstack([s, s])
        if s > 1.0:
            array = array.write(0, s * 2.0)
        else:
            array = array.write(1, s * 3.0)
        return x, array.stack()

    return step, lambda i: (tensor(i), tf.constant(float(i % 3))), None


_FOR_ALL = {
    "eager": "TensorFlow calls the function once for all members",
    "feature": "EFFECT_IN_CALLBACK",
    "line": "return tf.map_fn(one, x[:, 0])",
}


@program(**_FOR_ALL)
def a_list_that_grows_in_a_function_which_tensorflow_calls() -> Any:
    def step(x: tf.Tensor) -> Any:
        seen = []

        def one(v: tf.Tensor) -> tf.Tensor:
            seen.append(v)
            return v * len(seen)

        return tf.map_fn(one, x[:, 0])

    return step, with_tensor, []


@program(**_FOR_ALL)
def a_name_that_a_function_assigns_which_tensorflow_calls() -> Any:
    def step(x: tf.Tensor) -> Any:
        count = 0

        def one(v: tf.Tensor) -> tf.Tensor:
            nonlocal count
            count += 1
            return v * count

        return tf.map_fn(one, x[:, 0])

    return step, with_tensor, []


@program(**_FOR_ALL)
def a_dict_that_a_function_fills_which_tensorflow_calls() -> Any:
    def step(x: tf.Tensor) -> Any:
        counts = {"calls": 0}

        def one(v: tf.Tensor) -> tf.Tensor:
            counts["calls"] += 1
            return v * counts["calls"]

        return tf.map_fn(one, x[:, 0])

    return step, with_tensor, []


@program(**_FOR_ALL)
def a_set_and_a_deque_that_a_function_fills_which_tensorflow_calls() -> Any:
    def step(x: tf.Tensor) -> Any:
        seen, last = set(), collections.deque(maxlen=2)

        def one(v: tf.Tensor) -> tf.Tensor:
            seen.add(len(seen))
            last.append(len(seen))
            return v * sum(last)

        return tf.map_fn(one, x[:, 0])

    return step, with_tensor, []


class _Tally:
    def __init__(self) -> None:
        self.count = 0


@program(**_FOR_ALL)
def an_object_of_the_call_that_a_function_changes_which_tensorflow_calls() -> Any:
    def step(x: tf.Tensor) -> Any:
        tally = _Tally()

        def one(v: tf.Tensor) -> tf.Tensor:
            tally.count += 1
            return v * tally.count

        return tf.map_fn(one, x[:, 0])

    return step, with_tensor, []


@program(**{**_FOR_ALL, "line": "return v * next(numbers)"})
def an_iterator_that_a_function_advances_which_tensorflow_calls() -> Any:
    def step(x: tf.Tensor) -> Any:
        numbers = iter([1.0, 2.0, 3.0, 4.0, 5.0])

        def one(v: tf.Tensor) -> tf.Tensor:
            return v * next(numbers)

        return tf.map_fn(one, x[:, 0])

    return step, with_tensor, []


@program(**{**_FOR_ALL, "feature": "ITERATOR", "line": "return v * next(made)"})
def a_generator_that_a_function_advances_which_tensorflow_calls() -> Any:
    def numbers() -> Any:
        yield 1.0
        yield 2.0
        yield 3.0
        yield 4.0
        yield 5.0

    def step(x: tf.Tensor) -> Any:
        made = numbers()

        def one(v: tf.Tensor) -> tf.Tensor:
            return v * next(made)

        return tf.map_fn(one, x[:, 0])

    return step, with_tensor, []
