"""LSTM and LM by hand: unrolled, layer by layer, with the products of all steps in time made at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recgraph.models.imperative.weights import descend
from recgraph.models.zoo.lm import LM
from recgraph.models.zoo.lstm import LSTM


def for_each_shape(make: Callable[[int, int], Any]) -> Any:
    """A step for words and targets, int32 `[B, T]`: the graph that `make(B, T)` makes, with states of its size."""
    made = functools.cache(make)
    return lambda words, targets: made(*words.shape)(words, targets)


def signature(size: int, length: int) -> list[tf.TensorSpec]:
    """Words and targets."""
    return [tf.TensorSpec([size, length], tf.int32)] * 2


def layer(cell: Any, rows: tf.Tensor, state: list[tf.Variable]) -> tf.Tensor:
    """A layer over all steps in time: what comes from below is one product, what comes from before one a step.

    Args:
      cell: with kernel and bias of all gates.
      rows: float32 `[T, B, inputs]`.
      state: memory and output, float32 `[B, hidden]`; the last ones are assigned to them.

    Returns:
      The outputs, float32 `[T, B, hidden]`.
    """
    length, size, inputs = rows.shape
    below, before = cell.kernel[:inputs], cell.kernel[inputs:]
    flat = tf.matmul(tf.reshape(rows, [-1, inputs]), below) + cell.bias
    memory, output, outputs = state[0].read_value(), state[1].read_value(), []
    for gates in tf.unstack(tf.reshape(flat, [length, size, -1])):
        write, new, forget, read = tf.split(gates + tf.matmul(output, before), 4, 1)
        memory = tf.sigmoid(forget) * memory + tf.sigmoid(write) * tf.tanh(new)
        output = tf.sigmoid(read) * tf.tanh(memory)
        outputs.append(output)
    state[0].assign(memory)
    state[1].assign(output)
    return tf.stack(outputs)


def lstm(made: LSTM) -> Any:
    """One layer after the other, and one product for the scores of all words."""

    def make(size: int, length: int) -> Any:
        states = [[tf.Variable(tf.zeros([size, cell.hidden])) for _ in range(2)] for cell in made.cells]

        @tf.function(autograph=False, input_signature=signature(size, length))
        def step(words: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                rows = tf.nn.embedding_lookup(made.embedding, tf.transpose(words))
                for cell, state in zip(made.cells, states, strict=True):
                    rows = layer(cell, rows, state)
                logits = tf.matmul(tf.reshape(rows, [size * length, -1]), made.output_kernel) + made.output_bias
                labels = tf.reshape(tf.transpose(targets), [-1])
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
                loss = tf.reduce_mean(losses)
            clipped, _ = tf.clip_by_global_norm(tape.gradient(loss, made.weights.all), made.max_norm)
            descend(made.weights.all, clipped, made.rate)
            return loss

        return step

    return for_each_shape(make)


def lm(made: LM) -> Any:
    """The same for the model with a projection; the samples are drawn by a counter in a variable."""
    inputs = made.embedding.shape[1]
    steps = tf.Variable(0, dtype=tf.int32, trainable=False)

    def outputs(words: tf.Tensor, memory: tf.Variable, output: tf.Variable) -> list[tf.Tensor]:
        rows = tf.gather(made.embedding, tf.transpose(words))
        below, before = made.kernel[:inputs], made.kernel[inputs:]
        flat = tf.matmul(tf.reshape(rows, [-1, inputs]), below) + made.bias
        kept, given, found = memory.read_value(), output.read_value(), []
        for gates in tf.unstack(tf.reshape(flat, [rows.shape[0], rows.shape[1], -1])):
            write, new, forget, read = tf.split(gates + tf.matmul(given, before), 4, 1)
            kept = tf.sigmoid(forget + 1.0) * kept + tf.sigmoid(write) * tf.tanh(new)
            given = tf.matmul(tf.sigmoid(read) * tf.tanh(kept), made.projection)
            found.append(given)
        memory.assign(kept)
        output.assign(given)
        return found

    def make(size: int, length: int) -> Any:
        memory, output = tf.Variable(tf.zeros([size, made.hidden])), tf.Variable(tf.zeros([size, inputs]))

        @tf.function(autograph=False, input_signature=signature(size, length))
        def step(words: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                rows = tf.concat(outputs(words, memory, output), 0)
                loss = tf.reduce_mean(sampled(made, rows, tf.reshape(tf.transpose(targets), [-1]), steps))
            made.optimizer.apply(tape.gradient(loss, made.weights.all), made.weights.all)
            steps.assign_add(1)
            return loss

        return step

    return for_each_shape(make)


def sampled(made: LM, rows: tf.Tensor, targets: tf.Tensor, steps: tf.Variable) -> tf.Tensor:
    """The loss of each word, float32 `[n]`, among some that are drawn."""
    uniform = tf.random.stateless_uniform([made.samples], tf.stack([steps.read_value(), 0]))
    drawn = tf.cast(tf.exp(uniform * tf.math.log(made.vocabulary + 1.0)), tf.int32) - 1
    drawn = tf.minimum(drawn, made.vocabulary - 1)
    right = tf.reduce_sum(rows * tf.gather(made.output_kernel, targets), 1) + tf.gather(made.output_bias, targets)
    others = tf.matmul(rows, tf.gather(made.output_kernel, drawn), transpose_b=True)
    others += tf.gather(made.output_bias, drawn) - made.log_expected(drawn)
    others = tf.where(targets[:, tf.newaxis] == drawn[tf.newaxis, :], -1e9, others)
    right -= made.log_expected(targets)
    return tf.reduce_logsumexp(tf.concat([right[:, tf.newaxis], others], 1), 1) - right
