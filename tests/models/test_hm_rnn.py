"""The multiscale network equals an eager loop over time and layers, and its upper layers work seldom."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.models.hm_rnn import HMRNN, MultiscaleHyper

HYPER = MultiscaleHyper(embedding=6, hidden=7, layers=3)


def make_model(hyper: MultiscaleHyper = HYPER, symbols: int = 5) -> HMRNN:
    """With weights that are large enough for boundaries to be found and not to be found."""
    model = HMRNN(symbols, hyper, seed=4)
    model.embedding.assign(30 * model.embedding)
    for weight in (*model.own, *model.below, *model.above):
        weight.assign(2 * weight)
    return model


def unrolled(model: HMRNN, symbols: np.ndarray, length: int) -> tuple[tf.Tensor, int]:
    """The loss of one sequence and how often a layer worked: the paper's equations, with products and no branches."""
    size, layers = model.hyper.hidden, model.hyper.layers
    hidden, memory = [tf.zeros([1, size])] * layers, [tf.zeros([1, size])] * layers
    ends: list[Any] = [tf.constant(0.0)] * layers
    losses, worked = [tf.constant(0.0)], 0
    for time in range(length - 1):
        below, end_below = model.embedding[symbols[time]][None], tf.constant(1.0)
        before = list(hidden)
        for n in range(layers):
            ended = ends[n]
            if end_below > 0.5 or ended > 0.5:
                worked += 1
                gates = before[n] @ model.own[n] + end_below * (below @ model.below[n]) + model.biases[n]
                if n + 1 < layers:
                    gates += ended * (before[n + 1] @ model.above[n])
                keep, entry, exit_ = (tf.sigmoid(gates[:, i * size : (i + 1) * size]) for i in range(3))
                memory[n] = (1 - ended) * keep * memory[n] + entry * tf.tanh(gates[:, 3 * size : 4 * size])
                hidden[n] = exit_ * tf.tanh(memory[n])
                soft = tf.clip_by_value((gates[0, -1] + 1) / 2, 0.0, 1.0)
                ends[n] = soft + tf.stop_gradient(tf.round(soft) - soft) if n + 1 < layers else tf.constant(0.0)
            else:
                ends[n] = tf.constant(0.0)
            below, end_below = hidden[n], ends[n]
        logits = model.logits(tf.concat(hidden, 0))
        losses.append(-tf.nn.log_softmax(logits)[0, symbols[time + 1]])
    return tf.add_n(losses), worked


def test_loss_and_gradients_equal_an_eager_loop() -> None:
    """On sequences of every length; layers update, copy and flush."""
    model = make_model()
    rng = np.random.default_rng(0)
    symbols, lengths = rng.integers(0, 5, [5, 9]).astype(np.int32), np.array([9, 1, 5, 2, 7], np.int32)

    @tf.function
    def step(symbols: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, list[Any]]:
        with tf.GradientTape() as tape:
            losses, worked = model.loss(symbols, lengths)
        return losses, worked, tape.gradient(losses, model.trainable_variables)

    losses, worked, gradients = step(tf.constant(symbols), tf.constant(lengths))
    with tf.GradientTape() as tape:
        expected, counts = zip(*(unrolled(model, *pair) for pair in zip(symbols, lengths, strict=True)), strict=True)
        total = tf.add_n(expected)
    np.testing.assert_allclose(losses, tf.stack(expected), rtol=1e-4, atol=1e-6)
    assert worked.numpy().tolist() == list(counts)
    steps = int(lengths.sum()) - 5
    assert steps < sum(counts) < 3 * steps
    for mine, theirs in zip(gradients, tape.gradient(total, model.trainable_variables), strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_allclose(tf.convert_to_tensor(mine), tf.convert_to_tensor(theirs), rtol=1e-3, atol=1e-5)


def test_training_learns_words_with_blanks_between() -> None:
    """Three words in any order: inside of a word the next letter is certain."""
    words = [[1, 2, 3, 0], [2, 1, 0], [4, 4, 3, 0]]
    rng = np.random.default_rng(1)
    text = [sum((words[i] for i in rng.integers(0, 3, 6)), [])[:16] for _ in range(16)]
    lengths = tf.constant([len(line) for line in text])
    symbols = tf.constant([line + [0] * (16 - len(line)) for line in text])
    model = make_model(MultiscaleHyper(embedding=8, hidden=16, layers=2))
    optimizer = tf.keras.optimizers.Adam(0.02)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses, _ = model.loss(symbols, lengths)
            loss = tf.reduce_sum(losses) / tf.cast(tf.reduce_sum(lengths - 1), tf.float32)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    losses = [float(step()) for _ in range(40)]
    assert losses[-1] < 0.55 * losses[0]
    assert losses[-1] < np.log(3)
