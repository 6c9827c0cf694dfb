"""Adagrad for the weights, plain gradient descent for the used rows of the embedding, in one small graph a step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph import native
from recgraph.models import TreeModel

EPSILON = 1e-10

Gradient = Any  # tf.Tensor, tf.IndexedSlices or None


class TreeOptimizer(tf.Module):
    """Updates a `TreeModel` as Tai et al. do. The L2 term is added here: its gradient is known without a tape."""

    def __init__(self, model: TreeModel):
        """Creates one accumulator for each weight; the embedding has none."""
        super().__init__(name="optimizer")
        self.accumulators = [self._zeros_like(weight) for weight in model.weights]

    @staticmethod
    def _zeros_like(weight: tf.Variable) -> tf.Variable:
        """An accumulator, where the weight is."""
        with tf.device(weight.device):
            return tf.Variable(tf.zeros_like(weight), trainable=False)

    def apply(self, model: TreeModel, weights: list[Gradient], embedding: Gradient) -> None:
        """One step.

        Args:
          model: the model that this was made for.
          weights: gradients of `model.weights`, without the L2 term.
          embedding: gradient of `model.embedding`; only rows that occur in sparse gradients are touched.
        """
        for weight, accumulator, gradient in zip(model.weights, self.accumulators, weights, strict=True):
            self._adagrad(model, weight, accumulator, gradient)
        rate = model.hyper.embedding_rate
        if isinstance(embedding, tf.IndexedSlices):
            native.ops().recgraph_descend_rows(model.embedding.handle, embedding.indices, embedding.values, rate=rate)
        elif embedding is not None:
            model.embedding.assign_sub(rate * embedding)

    def _adagrad(self, model: TreeModel, weight: tf.Variable, accumulator: tf.Variable, gradient: Gradient) -> None:
        native.ops().recgraph_apply_adagrad(
            weight.handle,
            accumulator.handle,
            tf.zeros_like(weight) if gradient is None else tf.convert_to_tensor(gradient),
            rate=model.rate(weight),
            epsilon=EPSILON,
            decay=model.hyper.l2,
        )
