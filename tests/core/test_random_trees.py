"""Random trees through every model over binary trees, in both gradient modes, against the plain network."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph import testing
from recgraph.data import TreeBatch
from recgraph.models import MODELS, Hyper, TreeModel
from recgraph.models.baselines import unrolled
from tests import sampling

# A thousand with `--all`.
TREES, BATCHES, WORDS = (1000, 10, 20) if sampling.ALL else (300, 3, 20)
SIZES = {"mv_rnn": (12, 2)}  # of the embedding and of the hidden row, where they are not 3


@functools.cache
def batch(number: int) -> TreeBatch:
    """A hundred of the trees, of 1 to 6 leaves, with random labels and some nodes without."""
    rng = np.random.default_rng(number)
    trees = [testing.random_tree(int(rng.integers(1, 7)), rng, WORDS) for _ in range(TREES // BATCHES)]
    sizes = np.array([len(words) for words, _, _ in trees])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    words = np.concatenate([words for words, _, _ in trees])
    below = [
        np.concatenate([np.where(t[side] < 0, -1, t[side] + start) for t, start in zip(trees, offsets, strict=False)])
        for side in (1, 2)
    ]
    labels = rng.integers(-1, 5, len(words))
    fields = {"words": words, "left": below[0], "right": below[1], "labels": labels}
    fields |= {"roots": offsets[1:] - 1, "offsets": offsets}
    return TreeBatch(**{name: tf.constant(values, tf.int32) for name, values in fields.items()})


def make(name: str) -> TreeModel:
    """A tiny model, its embedding large enough for every gate to matter."""
    embedding, hidden = SIZES.get(name, (3, 3))
    model = MODELS[name](WORDS, Hyper(embedding, hidden), seed=7)
    model.embedding.assign(20 * model.embedding)
    return model


def loss_and_gradients(model: TreeModel, loss: Any, trees: TreeBatch) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Of one batch; gradients dense."""
    with tf.GradientTape() as tape:
        value, _ = loss(trees)
    return value, [tf.convert_to_tensor(gradient) for gradient in tape.gradient(value, model.trainable_variables)]


@functools.cache
def expected(name: str, number: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """What the unrolled network gives; the same for both modes."""
    model = make(name)
    value, gradients = loss_and_gradients(model, lambda trees: unrolled(model, trees), batch(number))
    return value.numpy(), [gradient.numpy() for gradient in gradients]


def relative_error(mine: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest entry: entries near zero are sums that cancel."""
    return float(np.max(np.abs(mine - theirs)) / np.max(np.abs(theirs)))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_random_trees(name: str) -> None:
    """Loss and every gradient within 1e-5."""
    for gradient in ("cache", "recompute"):
        model = make(name)
        model.gradient = gradient
        specs = TreeBatch(*[tf.TensorSpec([None], tf.int32)] * 6)
        step = tf.function(functools.partial(loss_and_gradients, model, model.loss), input_signature=[specs])
        for number in range(BATCHES):
            value, gradients = step(batch(number))
            right_value, right_gradients = expected(name, number)
            assert relative_error(value.numpy(), right_value) < 1e-5
            for variable, mine, theirs in zip(model.trainable_variables, gradients, right_gradients, strict=True):
                assert relative_error(mine.numpy(), theirs) < 1e-5, f"{gradient}, batch {number}: {variable.name}"
