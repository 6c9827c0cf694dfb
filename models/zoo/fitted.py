"""Keras models as users train them by `fit`: of each way to write a model, and of each kind of training.

A program makes a compiled model and what `fit` is given. `size` multiplies widths and batches: 1 is for tests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import recgraph as rg

Make = Callable[..., "Fitted"]
FITTED: dict[str, Make] = {}


@dataclasses.dataclass
class Fitted:
    """A compiled model, and the arguments of `fit`; `inputs` is for `predict`."""

    model: keras.Model
    arguments: dict[str, Any]
    inputs: Any


def program(make: Make) -> Make:
    """A program of the collection: `make(size, **options)`, with options for `model.compile`."""
    FITTED[make.__name__] = make
    return make


def normal(*shape: int) -> np.ndarray:
    """Numbers that look like data, the same in each process."""
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def integers(most: int, *shape: int) -> np.ndarray:
    """Labels or words below `most`, the same in each process."""
    return np.random.default_rng(most + sum(shape)).integers(most, size=shape).astype(np.int32)


def classified(model: keras.Model, size: int, x: Any, classes: int, fit: dict[str, Any], **options: Any) -> Fitted:
    """A model with logits of classes, with labels, Adam, and a part of the data for validation."""
    count = keras.tree.flatten(x)[0].shape[0]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(**{"optimizer": keras.optimizers.Adam(1e-3), "loss": loss, "metrics": ["accuracy"], **options})
    return Fitted(model, {"x": x, "y": integers(classes, count), "batch_size": 8 * size, **fit}, x)


@program
def perceptron(size: int = 1, **options: Any) -> Fitted:
    """Sequential; dropout and a penalty on weights."""
    model = keras.Sequential(
        [
            keras.layers.Dense(16 * size, "relu", kernel_regularizer="l2"),
            keras.layers.Dropout(0.3, seed=1),
            keras.layers.Dense(3),
        ]
    )
    return classified(model, size, normal(40 * size, 8 * size), 3, {"validation_split": 0.2}, **options)


@program
def weighted_classes(size: int = 1, **options: Any) -> Fitted:
    """Weights of classes, and metrics that heed them."""
    model = keras.Sequential([keras.layers.Dense(16 * size, "gelu"), keras.layers.LayerNormalization()])
    model.add(keras.layers.Dense(3))
    options = {"weighted_metrics": ["accuracy"], **options}
    return classified(model, size, normal(40 * size, 8), 3, {"class_weight": {0: 1.0, 1: 2.5, 2: 0.5}}, **options)


@program
def convolutional(size: int = 1, **options: Any) -> Fitted:
    """Sequential; convolutions, batch normalization, augmentation of images."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.RandomFlip("horizontal", seed=1),
            layers.Conv2D(4 * size, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.SeparableConv2D(8 * size, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )
    return classified(model, size, normal(32 * size, 12, 12, 3), 4, {}, **options)


@program
def residual(size: int = 1, **options: Any) -> Fitted:
    """Functional; additions around blocks."""
    layers = keras.layers
    x = inputs = keras.Input([12, 12, 3])
    x = layers.Conv2D(4 * size, 3, padding="same")(x)
    for _ in range(2):
        y = layers.BatchNormalization()(x)
        y = layers.Conv2D(4 * size, 3, padding="same", activation="relu")(y)
        x = layers.add([x, layers.SpatialDropout2D(0.1, seed=2)(y)])
    model = keras.Model(inputs, layers.Dense(4)(layers.Flatten()(x)))
    optimizer = keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.05, 20), momentum=0.9, nesterov=True)
    return classified(model, size, normal(32 * size, 12, 12, 3), 4, {}, **{"optimizer": optimizer, **options})


@program
def wide_and_deep(size: int = 1, **options: Any) -> Fitted:
    """Functional; several inputs, by name."""
    layers = keras.layers
    numbers, words = keras.Input([5], name="numbers"), keras.Input([3], dtype="int32", name="words")
    deep = layers.Dense(8 * size, "relu")(
        layers.concatenate([numbers, layers.Flatten()(layers.Embedding(20, 4)(words))])
    )
    model = keras.Model({"numbers": numbers, "words": words}, layers.Dense(3)(layers.concatenate([numbers, deep])))
    count = 40 * size
    x = {"numbers": normal(count, 5), "words": integers(20, count, 3)}
    return classified(model, size, x, 3, {"sample_weight": np.linspace(0.5, 2.0, count)}, **options)


@program
def several_outputs(size: int = 1, **options: Any) -> Fitted:
    """Functional; a loss, a weight and metrics for each output."""
    inputs = keras.Input([6])
    hidden = keras.layers.Dense(16 * size, "tanh")(inputs)
    outputs = {
        "kind": keras.layers.Dense(3, "softmax", name="kind")(hidden),
        "amount": keras.layers.Dense(1, name="amount")(hidden),
    }
    model = keras.Model(inputs, outputs)
    model.compile(
        **{
            "optimizer": "rmsprop",
            "loss": {"kind": "sparse_categorical_crossentropy", "amount": "mse"},
            "loss_weights": {"kind": 1.0, "amount": 0.3},
            "metrics": {"kind": ["accuracy"], "amount": ["mae"]},
            **options,
        }
    )
    x = normal(40 * size, 6)
    y = {"kind": integers(3, 40 * size), "amount": normal(40 * size, 1)}
    return Fitted(
        model,
        {"x": x, "y": y, "batch_size": 8 * size, "validation_data": (x[:10], {k: v[:10] for k, v in y.items()})},
        x,
    )


@program
def recurrent(size: int = 1, **options: Any) -> Fitted:
    """Sequential; an LSTM that skips padding."""
    layers = keras.layers
    model = keras.Sequential([layers.Embedding(30, 8 * size, mask_zero=True), layers.LSTM(8 * size), layers.Dense(2)])
    return classified(model, size, integers(30, 32 * size, 10), 2, {}, **options)


@program
def bidirectional(size: int = 1, **options: Any) -> Fitted:
    """Sequential; GRUs in both directions, dropout between steps."""
    layers = keras.layers
    inner = layers.GRU(4 * size, return_sequences=True, dropout=0.2, recurrent_dropout=0.1, seed=3)
    model = keras.Sequential([layers.Bidirectional(inner), layers.GRU(4 * size), layers.Dense(2)])
    return classified(model, size, normal(24 * size, 6, 3), 2, {}, **options)


@program
def temporal_convolutions(size: int = 1, **options: Any) -> Fitted:
    """Functional; causal convolutions, a label at each step."""
    x = inputs = keras.Input([None, 4])
    for dilation in (1, 2, 4):
        x = keras.layers.Conv1D(8 * size, 2, dilation_rate=dilation, padding="causal", activation="relu")(x)
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    optimizer = keras.optimizers.AdamW(1e-3, weight_decay=0.01, clipnorm=1.0)
    model.compile(**{"optimizer": optimizer, "loss": "huber", "metrics": ["mae"], **options})
    x, y = normal(32 * size, 12, 4), normal(32 * size, 12, 1)
    return Fitted(model, {"x": x, "y": y, "batch_size": 8 * size}, x)


class Block(keras.layers.Layer):
    """A layer of a transformer: attention and a perceptron, each with an addition around it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = keras.layers
        self.attention, self.dropout = layers.MultiHeadAttention(2, width // 2), layers.Dropout(0.1, seed=4)
        self.first, self.second = layers.LayerNormalization(), layers.LayerNormalization()
        self.wide, self.narrow = layers.Dense(2 * width, "gelu"), layers.Dense(width)

    def call(self, x: Any, training: bool = False) -> Any:
        y = self.first(x)
        x = x + self.dropout(self.attention(y, y, use_causal_mask=True, training=training), training=training)
        return x + self.narrow(self.wide(self.second(x)))


class Transformer(keras.Model):
    """A language model, as a subclass."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words, self.places = keras.layers.Embedding(words, width), keras.layers.Embedding(32, width)
        self.blocks = [Block(width) for _ in range(2)]
        self.last = keras.layers.Dense(words)

    def call(self, x: Any, training: bool = False) -> Any:
        y = self.words(x) + self.places(tf.range(tf.shape(x)[1]))
        for block in self.blocks:
            y = block(y, training=training)
        return self.last(y)


@program
def transformer(size: int = 1, **options: Any) -> Fitted:
    """Subclassed; attention."""
    keras.utils.set_random_seed(1)
    text = integers(40, 24 * size, 13)
    made = classified(Transformer(40, 16 * size), size, text[:, :-1], 40, {}, **options)
    made.arguments |= {"y": text[:, 1:]}
    return made


class Counting(keras.Model):
    """A model that changes Python objects in `call`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden, self.last = keras.layers.Dense(width, "elu"), keras.layers.Dense(1)
        self.norm = keras.metrics.Mean("norm")
        self.calls_made = 0

    def call(self, x: Any) -> Any:
        self.calls_made += 1
        y = self.hidden(x)
        self.add_loss(1e-3 * tf.reduce_sum(y**2))
        self.norm.update_state(tf.norm(y))
        return self.last(y)


@program
def subclassed(size: int = 1, **options: Any) -> Fitted:
    """Subclassed; a loss and a metric of its own, and Python state."""
    model = Counting(16 * size)
    model.compile(**{"optimizer": "adagrad", "loss": "mse", **options})
    x, y = normal(40 * size, 6), normal(40 * size, 1)
    return Fitted(model, {"x": x, "y": y, "batch_size": 8 * size}, x)


class Imperative(keras.Model):
    """A model whose `train_step` is Python: lists, prints, numbers, decisions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden, self.last = keras.layers.Dense(width, "relu"), keras.layers.Dense(1)
        self.largest = 0.0
        self.kept: list[float] = []

    def call(self, x: Any) -> Any:
        return self.last(self.hidden(x))

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        norm = tf.linalg.global_norm(gradients)
        if norm > 2.0:
            gradients = [gradient * (2.0 / norm) for gradient in gradients]
        self.largest = max(self.largest, float(norm))
        self.kept.append(float(loss))
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss, "largest": self.largest, "seen": float(len(self.kept))}


@program
def imperative(size: int = 1, **options: Any) -> Fitted:
    """A `train_step` with Python lists and numbers."""
    model = Imperative(16 * size)
    model.compile(**{"optimizer": keras.optimizers.SGD(0.05), "loss": "mse", **options})
    x, y = normal(40 * size, 6), normal(40 * size, 1)
    return Fitted(model, {"x": x, "y": y, "batch_size": 8 * size}, x)


class Gan(keras.Model):
    """Two networks that train against each other."""

    def __init__(self, width: int, noise: int) -> None:
        super().__init__()
        layers = keras.layers
        self.noise = noise
        self.generator = keras.Sequential([layers.Dense(width, "relu"), layers.Dense(4)])
        self.critic = keras.Sequential([layers.Dense(width), layers.LeakyReLU(), layers.Dense(1)])
        self.seeds = keras.random.SeedGenerator(5)
        self.losses_seen = [keras.metrics.Mean("generator_loss"), keras.metrics.Mean("critic_loss")]
        self.cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    def compile(self, generator_optimizer: Any, critic_optimizer: Any, **options: Any) -> None:
        super().compile(**options)
        self.generator_optimizer, self.critic_optimizer = generator_optimizer, critic_optimizer

    def call(self, x: Any) -> Any:
        return self.critic(x)

    def train_step(self, real: Any) -> dict[str, Any]:
        count = tf.shape(real)[0]
        false = self.generator(keras.random.normal([count, self.noise], seed=self.seeds))
        labels = tf.concat([tf.ones([count, 1]), tf.zeros([count, 1])], 0)
        with tf.GradientTape() as tape:
            loss = self.cross_entropy(labels, self.critic(tf.concat([real, false], 0)))
        gradients = tape.gradient(loss, self.critic.trainable_weights)
        self.critic_optimizer.apply_gradients(zip(gradients, self.critic.trainable_weights, strict=True))
        with tf.GradientTape() as tape:
            made = self.generator(keras.random.normal([count, self.noise], seed=self.seeds))
            deceived = self.cross_entropy(tf.ones([count, 1]), self.critic(made))
        gradients = tape.gradient(deceived, self.generator.trainable_weights)
        self.generator_optimizer.apply_gradients(zip(gradients, self.generator.trainable_weights, strict=True))
        for metric, value in zip(self.losses_seen, (deceived, loss), strict=True):
            metric.update_state(value)
        return {metric.name: metric.result() for metric in self.losses_seen}


@program
def gan(size: int = 1, **options: Any) -> Fitted:
    """A `train_step` with two optimizers."""
    model = Gan(16 * size, 3)
    model.compile(keras.optimizers.Adam(1e-3), keras.optimizers.Adam(2e-3), **options)
    x = normal(40 * size, 4)
    return Fitted(model, {"x": x, "batch_size": 8 * size}, x)


class Sampling(keras.layers.Layer):
    """Draws from a normal distribution, and adds its divergence from the standard one as a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds = keras.random.SeedGenerator(6)

    def call(self, inputs: Any) -> Any:
        mean, log_variance = inputs
        divergence = -0.5 * tf.reduce_sum(1 + log_variance - mean**2 - tf.exp(log_variance), 1)
        self.add_loss(tf.reduce_mean(divergence))
        return mean + tf.exp(0.5 * log_variance) * keras.random.normal(tf.shape(mean), seed=self.seeds)


class Vae(keras.Model):
    """A variational autoencoder with a `train_step` and a `test_step` of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = keras.layers
        self.hidden, self.mean, self.spread = layers.Dense(width, "relu"), layers.Dense(2), layers.Dense(2)
        self.sampling = Sampling()
        self.decoder = keras.Sequential([layers.Dense(width, "relu"), layers.Dense(6)])
        self.total = keras.metrics.Mean("total")

    def call(self, x: Any) -> Any:
        y = self.hidden(x)
        return self.decoder(self.sampling([self.mean(y), self.spread(y)]))

    def _loss(self, x: Any) -> Any:
        found = tf.reduce_mean(tf.reduce_sum((self(x) - x) ** 2, 1)) + tf.add_n(self.losses)
        self.total.update_state(found)
        return found

    def train_step(self, x: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            loss = self._loss(x)
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_weights), self.trainable_weights, strict=True)
        )
        return {"total": self.total.result()}

    def test_step(self, x: Any) -> dict[str, Any]:
        self._loss(x)
        return {"total": self.total.result()}


@program
def vae(size: int = 1, **options: Any) -> Fitted:
    """A loss that a layer adds, under a `train_step` of the model's own."""
    model = Vae(16 * size)
    model.compile(**{"optimizer": keras.optimizers.Adam(1e-3), **options})
    x = normal(40 * size, 6)
    return Fitted(model, {"x": x, "batch_size": 8 * size, "validation_data": (x[:9],)}, x)


class Contrastive(keras.Model):
    """Two noisy views of an example shall have representations alike."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = keras.layers
        self.noise = layers.GaussianNoise(0.3, seed=7)
        self.encoder = keras.Sequential([layers.Dense(width, "relu"), layers.Dense(width)])
        self.agreement = keras.metrics.SparseCategoricalAccuracy("agreement")

    def call(self, x: Any, training: bool = False) -> Any:
        return tf.math.l2_normalize(self.encoder(self.noise(x, training=training)), 1)

    def train_step(self, data: Any) -> dict[str, Any]:
        x = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            one, other = self(x, training=True), self(x, training=True)
            alike = tf.matmul(one, other, transpose_b=True) / 0.1
            labels = tf.range(tf.shape(x)[0])
            both = [
                keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
                for logits in (alike, tf.transpose(alike))
            ]
            loss = tf.reduce_mean(both)
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply(gradients, self.trainable_weights)
        self.agreement.update_state(labels, alike)
        return {"loss": loss, **{m.name: m.result() for m in self.metrics if m.name != "loss"}}


@program
def contrastive(size: int = 1, **options: Any) -> Fitted:
    """A loss between the examples of a batch."""
    model = Contrastive(16 * size)
    model.compile(**{"optimizer": keras.optimizers.Lion(1e-3), **options})
    x = normal(40 * size, 6)
    return Fitted(model, {"x": x, "batch_size": 8 * size}, x)


class Distilled(keras.Model):
    """A small network that learns from a large one, which stays as it is; Keras's own step does the rest."""

    def __init__(self, teacher: keras.Model, student: keras.Model) -> None:
        super().__init__()
        self.teacher, self.student = teacher, student
        teacher.trainable = False

    def call(self, x: Any) -> Any:
        return self.student(x)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        taught = tf.nn.softmax(self.teacher(x, training=False) / 3.0)
        return super().compute_loss(x, y, y_pred, sample_weight, training) + tf.reduce_mean(
            keras.losses.kl_divergence(taught, tf.nn.softmax(y_pred / 3.0))
        )


@program
def distillation(size: int = 1, **options: Any) -> Fitted:
    """A `compute_loss` of the model's own, and a part that is not trained."""
    layers = keras.layers
    teacher = keras.Sequential([keras.Input([8]), layers.Dense(32 * size, "relu"), layers.Dense(3)])
    model = Distilled(teacher, keras.Sequential([layers.Dense(8 * size, "relu"), layers.Dense(3)]))
    return classified(model, size, normal(40 * size, 8), 3, {}, **options)


class Siamese(keras.Model):
    """One encoder for three inputs; Keras's own step inside of the model's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.encoder = keras.Sequential([keras.layers.Dense(width, "tanh"), keras.layers.UnitNormalization()])
        self.steps_taken = 0

    def call(self, inputs: Any) -> Any:
        anchor, near, far = (self.encoder(x) for x in inputs)
        return tf.reduce_sum((anchor - near) ** 2, 1) - tf.reduce_sum((anchor - far) ** 2, 1)

    def train_step(self, data: Any) -> dict[str, Any]:
        self.steps_taken += 1
        return {**super().train_step(data), "steps_taken": self.steps_taken}


@program
def siamese(size: int = 1, **options: Any) -> Fitted:
    """Inputs in a tuple; `super().train_step`."""
    model = Siamese(16 * size)
    model.compile(**{"optimizer": "nadam", "loss": lambda y, found: tf.reduce_mean(tf.nn.relu(found + 0.5)), **options})
    x = tuple(normal(40 * size, 5 + i)[:, :5] for i in range(3))
    return Fitted(model, {"x": x, "y": np.zeros(40 * size, np.float32), "batch_size": 8 * size}, x)


@program
def autoencoder(size: int = 1, **options: Any) -> Fitted:
    """Convolutions and their transposes; a moving average of the weights."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Conv2D(4 * size, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(4 * size, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(1, 3, padding="same", activation="sigmoid"),
        ]
    )
    optimizer = keras.optimizers.Adam(1e-3, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=3)
    model.compile(**{"optimizer": optimizer, "loss": "binary_crossentropy", **options})
    x = 1 / (1 + np.exp(-normal(24 * size, 8, 8, 1)))
    return Fitted(model, {"x": x, "y": x, "batch_size": 8 * size}, x)


@program
def accumulated(size: int = 1, **options: Any) -> Fitted:
    """Gradients of three steps are added up, then applied."""
    model = keras.Sequential([keras.layers.Dense(16 * size, "relu"), keras.layers.Dense(3)])
    optimizer = keras.optimizers.Adam(1e-2, gradient_accumulation_steps=3)
    return classified(model, size, normal(80 * size, 6), 3, {}, **{"optimizer": optimizer, **options})


@program
def several_steps_at_once(size: int = 1, **options: Any) -> Fitted:
    """Some steps between callbacks; a last batch that is smaller."""
    model = keras.Sequential([keras.layers.Dense(16 * size, "relu"), keras.layers.Dense(3)])
    return classified(model, size, normal(75 * size, 6), 3, {}, **{"steps_per_execution": 4, **options})


def _mixed(size: int, policy: str, **options: Any) -> Fitted:
    layers = keras.layers
    policy = keras.DTypePolicy(policy)
    inputs = keras.Input([12])
    x = layers.Dropout(0.2, seed=8, dtype=policy)(layers.Dense(16 * size, "relu", dtype=policy)(inputs))
    outputs = layers.Dense(3, dtype=policy)(layers.BatchNormalization(dtype=policy)(x))
    model = keras.Model(inputs, layers.Activation("linear", dtype="float32")(outputs))
    model.dtype_policy = policy  # what `compile` looks at to scale the loss
    return classified(model, size, normal(40 * size, 12), 3, {}, **options)


@program
def mixed_bfloat16(size: int = 1, **options: Any) -> Fitted:
    """Computation in bfloat16."""
    return _mixed(size, "mixed_bfloat16", **options)


@program
def mixed_float16(size: int = 1, **options: Any) -> Fitted:
    """Computation in float16, with loss scaling."""
    return _mixed(size, "mixed_float16", **options)


def _trees(count: int) -> tf.RaggedTensor:
    """Random trees: a word and two children for each node, the root first."""
    rng = np.random.default_rng(count)

    def tree() -> list[list[int]]:
        rows: list[list[int]] = []

        def add(depth: int) -> int:
            rows.append([int(rng.integers(20)), -1, -1])
            place = len(rows) - 1
            if depth < 4 and rng.random() < 0.7:
                rows[place][1:] = add(depth + 1), add(depth + 1)
            return place

        add(0)
        return rows

    return tf.ragged.constant([tree() for _ in range(count)], ragged_rank=1, inner_shape=(3,), dtype=tf.int32)


class TreeRnn(rg.keras.TreeLayer):
    """A state for each phrase, from its word and its parts."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.output_size = width
        self.embedding, self.dense = keras.layers.Embedding(20, width), keras.layers.Dense(width, "tanh")
        self.dropout = keras.layers.Dropout(0.1, seed=9)

    def node(self, inputs: Any, child: Any) -> Any:
        word, left, right = tf.unstack(inputs, axis=1)
        return self.dropout(self.dense(tf.concat([self.embedding(word), child(left), child(right)], 1)))


@program
def trees(size: int = 1, **options: Any) -> Fitted:
    """A recursion over ragged trees, from a data set."""
    model = keras.Sequential([TreeRnn(16 * size), keras.layers.Dense(3)])
    made = classified(model, size, _trees(20 * size), 3, {}, **options)
    data = tf.data.Dataset.from_tensor_slices((made.inputs, made.arguments["y"])).ragged_batch(8 * size)
    return Fitted(model, {"x": data}, made.inputs)


class Siblings(keras.Model):
    """A recursion in a functional part of a model, under a `train_step` of the model's own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.tree, self.last = TreeRnn(width), keras.layers.Dense(1)
        self.worst = 0.0

    def call(self, inputs: Any, training: bool = False) -> Any:
        one, other = (self.tree(x, training=training) for x in inputs)
        return self.last(tf.abs(one - other))

    def train_step(self, data: Any) -> dict[str, Any]:
        logs = super().train_step(data)
        self.worst = max(self.worst, float(logs["loss"]))
        return {**logs, "worst": self.worst}


@program
def pairs_of_trees(size: int = 1, **options: Any) -> Fitted:
    """Two trees filled up to one size, and Python in the step."""
    model = Siblings(16 * size)
    model.compile(**{"optimizer": "adam", "loss": "mse", **options})
    x = tuple(_trees(16 * size + i)[: 16 * size].to_tensor(-1, shape=[None, 31, 3]).numpy() for i in range(2))
    return Fitted(model, {"x": x, "y": normal(16 * size, 1), "batch_size": 8 * size}, x)
