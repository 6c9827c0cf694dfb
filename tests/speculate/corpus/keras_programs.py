"""Keras: layers, models, optimizers, metrics, losses; Python state in `call`."""

from __future__ import annotations

import collections
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


def _state(*things: Any) -> Any:
    """The variables of Keras objects, which have more attributes than anybody wants to compare."""
    return [v for thing in things for v in thing.variables]


class _Values:
    """Compared as the values that variables have at that moment."""

    def __init__(self, *things: Any) -> None:
        self._things = things

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return {str(i): v.numpy() for i, v in enumerate(_state(*self._things))}


@program
def a_sequential_model() -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(4, "relu"), keras.layers.Dense(2)])

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        for v, g in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True):
            v.assign_sub(0.1 * g)
        return loss

    return step, with_tensor, _Values(model)


@program
def a_functional_model_and_adam() -> Any:
    keras.utils.set_random_seed(1)
    x = keras.Input([3])
    hidden = keras.layers.Dense(4, "tanh")(x)
    model = keras.Model(x, keras.layers.Dense(1)(keras.layers.concatenate([x, hidden])))
    optimizer = keras.optimizers.Adam(0.01)

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - 1.0) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step, with_tensor, _Values(model, optimizer)


@program
def a_subclassed_model_with_state() -> Any:
    keras.utils.set_random_seed(1)

    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(3)
            self.calls_made = 0
            self.last: Any = None

        def build(self, shape: Any) -> None:
            self.dense.build(shape)

        def call(self, x: tf.Tensor) -> tf.Tensor:
            self.calls_made += 1
            y = self.dense(x)
            if self.last is not None:
                y = y + 0.1 * self.last
            self.last = y
            return y

    model = Model()

    def step(x: tf.Tensor) -> Any:
        return model(x), model.calls_made

    return step, with_tensor, _Values(model)


@program
def sgd_with_momentum() -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(2)])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True)

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = keras.losses.MeanSquaredError()(tf.zeros([4, 2]), model(x))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return step, with_tensor, _Values(model, optimizer)


@program
def batch_normalization_evaluated_first() -> Any:
    """The failure that the paper names: the branch of training is not known yet when the graph is made."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(1)])

    def step(x: tf.Tensor, training: bool) -> tf.Tensor:
        return tf.reduce_mean(model(x, training=training))

    return step, lambda i: (tensor(i), 5 <= i < 10), _Values(model)


@program
def dropout() -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dropout(0.5, seed=3)])

    def step(x: tf.Tensor, training: bool) -> tf.Tensor:
        return model(x, training=training)

    return step, lambda i: (tensor(i), i % 4 != 3), _Values(model)


@program
def metrics() -> Any:
    mean, accuracy = keras.metrics.Mean(), keras.metrics.BinaryAccuracy()

    def step(x: tf.Tensor) -> Any:
        mean.update_state(x)
        accuracy.update_state(tf.ones([4, 3]), tf.sigmoid(x))
        return mean.result(), float(accuracy.result())

    return step, with_tensor, _Values(mean, accuracy)


@program
def an_optimizer_replaced() -> Any:
    keras.utils.set_random_seed(1)
    w = tf.Variable(tf.ones([3]))
    held = {"optimizer": keras.optimizers.SGD(0.1)}
    state = _Values(*[])

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * w)
        held["optimizer"].apply_gradients([(tape.gradient(loss, w), w)])
        return w + 0.0

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 7:
            held["optimizer"] = keras.optimizers.SGD(0.5)
        if i == 11:
            held["optimizer"] = keras.optimizers.Adam(0.5)
        return with_tensor(i)

    return step, arguments, state


@program
def a_learning_rate_assigned() -> Any:
    w = tf.Variable(tf.ones([3]))
    optimizer = keras.optimizers.SGD(0.1)

    def step(x: tf.Tensor, rate: float) -> tf.Tensor:
        optimizer.learning_rate = rate
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * w)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return w + 0.0

    return step, lambda i: (tensor(i), 0.1 / (1 + i)), _Values(optimizer)


@program
def a_recurrent_layer() -> Any:
    keras.utils.set_random_seed(1)
    layer = keras.layers.LSTM(3, return_state=True)

    def step(x: tf.Tensor) -> Any:
        return layer(x[None])

    return step, with_tensor, _Values(layer)


@program
def a_layer_changed() -> Any:
    """What Keras looks at in Python when it is called."""
    keras.utils.set_random_seed(1)
    layer = keras.layers.Dense(3, activation="relu")

    def step(x: tf.Tensor) -> Any:
        return layer(x)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 8:
            layer.activation = keras.activations.tanh
        return with_tensor(i)

    return step, arguments, _Values(layer)


@program
def a_layer_added() -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(3)])

    def step(x: tf.Tensor) -> Any:
        return model(x)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 8:
            model.add(keras.layers.Dense(2))
        return with_tensor(i)

    return step, arguments, None


@program
def losses_and_regularizers() -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(3, kernel_regularizer="l2"), keras.layers.Dense(2)])
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x: tf.Tensor, labels: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(x)) + sum(model.losses)
        for v, g in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True):
            v.assign_sub(0.1 * g)
        return loss

    return step, lambda i: (tensor(i), tf.constant([0, 1, 1, i % 2])), _Values(model)


@program
def an_activity_regularizer() -> Any:
    """The model keeps its losses until the next call."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(3, activity_regularizer="l2"), keras.layers.Dense(2)])
    model(tf.ones([4, 3]))

    class Losses:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            return {"losses": [float(loss) for loss in model.losses]}

    def step(x: tf.Tensor) -> Any:
        return tf.reduce_sum(model(x)) + sum(model.losses)

    return step, with_tensor, Losses()


@program
def a_frozen_layer() -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(2)])
    model.build([None, 3])

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        for v, g in zip(model.trainable_variables, gradients, strict=True):
            v.assign_sub(0.1 * g)
        return len(gradients)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 8:
            model.layers[0].trainable = False
        return with_tensor(i)

    return step, arguments, _Values(model)


@program
def two_models_and_optimizers() -> Any:
    keras.utils.set_random_seed(1)
    generator = keras.Sequential([keras.layers.Dense(3)])
    critic = keras.Sequential([keras.layers.Dense(1)])
    first, second = keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.01, beta_1=0.5)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as g_tape, tf.GradientTape() as c_tape:
            fake = generator(x)
            real_score, fake_score = critic(x), critic(fake)
            c_loss = tf.reduce_mean(fake_score - real_score)
            g_loss = -tf.reduce_mean(fake_score)
        g = g_tape.gradient(g_loss, generator.trainable_variables)
        c = c_tape.gradient(c_loss, critic.trainable_variables)
        first.apply_gradients(zip(g, generator.trainable_variables, strict=True))
        second.apply_gradients(zip(c, critic.trainable_variables, strict=True))
        return g_loss, c_loss

    return step, with_tensor, _Values(generator, critic, first, second)


@program
def a_model_swapped_whose_weights_are_read() -> Any:
    keras.utils.set_random_seed(1)
    models = [keras.Sequential([keras.layers.Dense(2)]) for _ in range(2)]
    for model in models:
        model.build([None, 3])
    held = {"model": models[0]}

    def step(x: tf.Tensor) -> Any:
        return [tf.reduce_sum(v) for v in held["model"].trainable_variables]

    def arguments(i: int) -> tuple[tf.Tensor]:
        held["model"] = models[i > 7]
        return with_tensor(i)

    return step, arguments, None


@program
def noise_without_seeds() -> Any:
    """Keras draws them from a variable of its own."""
    keras.utils.set_random_seed(4)
    noise = keras.Sequential([keras.layers.GaussianNoise(1.0), keras.layers.Dropout(0.3)])

    def step(x: tf.Tensor) -> Any:
        return noise(x, training=True) + keras.random.normal([3], seed=5)

    return step, with_tensor, _Values(noise)


@program
def an_embedding_trained_sparsely() -> Any:
    keras.utils.set_random_seed(1)
    embedding = keras.layers.Embedding(10, 4)
    embedding.build()
    optimizer = keras.optimizers.Adagrad(0.1)

    def step(words: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(embedding(words) ** 2)
        optimizer.apply(tape.gradient(loss, embedding.trainable_variables), embedding.trainable_variables)
        return loss

    return step, lambda i: (tf.constant([i % 10, 2, 2]),), _Values(embedding, optimizer)


@program
def attention_and_normalization() -> Any:
    keras.utils.set_random_seed(1)
    attention, norm = keras.layers.MultiHeadAttention(2, 4), keras.layers.LayerNormalization()

    def step(x: tf.Tensor) -> Any:
        y = x[None]
        return norm(y + attention(y, y))

    return step, with_tensor, _Values(attention, norm)


@program
def an_epoch_of_metrics() -> Any:
    mean = keras.metrics.Mean()

    def step(x: tf.Tensor, last: bool) -> Any:
        mean.update_state(tf.reduce_mean(x))
        if last:
            result = float(mean.result())
            mean.reset_state()
            return result
        return None

    return step, lambda i: (tensor(i), i % 4 == 3), _Values(mean)


@program
def a_schedule_of_learning_rates() -> Any:
    w = tf.Variable(tf.ones([3]))
    optimizer = keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5), clipnorm=1.0)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * w)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return w + 0.0, float(optimizer.learning_rate)

    return step, with_tensor, _Values(optimizer)


@program
def weights_of_a_network_that_follows_another() -> Any:
    """Copied, and drawn nearer, as agents do with the network that says what a state is worth."""

    def made() -> keras.Model:
        model = keras.Sequential([keras.layers.Dense(3, use_bias=False), keras.layers.Dense(1)])
        model.build((None, 2))
        model.set_weights([np.full(w.shape, 0.25 + i, np.float32) for i, w in enumerate(model.weights)])
        return model

    network, copied, near = made(), made(), made()

    def step(x: tf.Tensor) -> Any:
        for weight in network.weights:
            weight.assign_add(tf.ones(weight.shape) * tf.reduce_mean(x))
        copied.set_weights(network.get_weights())
        near.set_weights([0.75 * old + 0.25 * new for old, new in zip(near.get_weights(), network.get_weights())])
        return copied(x), near(x)

    return step, lambda i: (tf.random.stateless_normal([4, 2], [5, i]),), _Values(network, copied, near)


@program
def a_flag_that_a_model_is_given_and_asks_for_beside_others() -> Any:
    """Keras gives a flag that varies to the model as a tensor."""

    class Decoder(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.out = keras.layers.Embedding(4, 3), keras.layers.Dense(4)

        def call(self, target: tf.Tensor, forced: bool = False, other: Any = None) -> Any:
            y, outputs = target[:, 0], []
            for i in range(target.shape[1]):
                outputs.append(self.out(self.embedding(y)))
                y = target[:, i] if forced and other is None else tf.argmax(outputs[-1], -1, output_type=tf.int32)
                if not (forced or other) and i > 0:
                    y = y + 0
            return tf.stack(outputs, 1)

    keras.utils.set_random_seed(1)
    model = Decoder()
    model(tf.zeros([2, 3], tf.int32))
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)

    def step(target: tf.Tensor, i: int) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(target, forced=i % 3 > 0) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    def arguments(i: int) -> tuple[Any, ...]:
        return tf.random.stateless_uniform([2, 3], [i, 1], 0, 4, tf.int32), i

    return step, arguments, _Values(model, optimizer)


@program
def a_model_that_is_built_by_the_call_that_another_graph_is_made_for() -> Any:
    """A replay buffer that fills: Keras finds the shapes of layers by calling the model, which it does not undo."""

    class Values(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.out = keras.layers.Dense(4), keras.layers.Dense(2)

        def call(self, x: tf.Tensor) -> Any:
            return self.out(self.hidden(x))

    keras.utils.set_random_seed(1)
    model, optimizer, buffer = Values(), keras.optimizers.SGD(0.1), collections.deque(maxlen=9)

    def step(x: tf.Tensor) -> Any:
        buffer.append(1.0)
        if len(buffer) >= 6:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(x) ** 2)
            optimizer.apply(tape.gradient(loss, model.variables), model.variables)
            return loss
        return tf.reduce_sum(x)

    return step, lambda i: (tensor(i),), _Values(model)
