"""The doubly recurrent network equals an eager walk, and makes the trees that it has learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.models import Hyper
from recgraph.models.drnn import DRNN, Nested, OrderedBatch, ordered_batch

HYPER = Hyper(embedding=8, hidden=12)
SIGNATURE = [OrderedBatch(*[tf.TensorSpec([None], tf.int32)] * 4), tf.TensorSpec([None, 12])]


def random_tree(rng: np.random.Generator, levels: int = 3) -> Nested:
    """A tree with up to three children a node."""
    count = int(rng.integers(0, 4)) if levels else 0
    return int(rng.integers(0, 5)), tuple(random_tree(rng, levels - 1) for _ in range(count))


def eager(batch: OrderedBatch) -> OrderedBatch:
    """As tensors."""
    return OrderedBatch(*map(tf.constant, batch))


def unrolled(model: DRNN, tree: Nested, vector: tf.Tensor) -> tf.Tensor:
    """The loss of one tree, sibling after sibling."""
    losses: list[tf.Tensor] = []

    def children(trees: tuple[Nested, ...], down: tf.Tensor) -> None:
        on = tf.zeros([1, HYPER.hidden])
        for number, (label, below) in enumerate(trees):
            more = np.array([bool(below), number + 1 < len(trees)])
            met, logits = model.more_logits(down, on)
            losses.append(-tf.reduce_sum(tf.math.log_sigmoid(tf.where(more, logits, -logits))))
            losses.append(-tf.nn.log_softmax(model.label_logits(met, more))[0, label])
            row = model.embedding[label][None]
            if below:
                children(below, model.advance("down", row, down))
            on = model.advance("on", row, on)

    children((tree,), vector[None])
    return tf.add_n(losses)


def step_of(model: DRNN) -> Any:
    """Losses and gradients, traced once."""

    @tf.function(input_signature=SIGNATURE)
    def step(batch: OrderedBatch, vectors: tf.Tensor) -> tuple[tf.Tensor, list[Any]]:
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            losses = model.loss(batch, vectors)
        return losses, tape.gradient(losses, [vectors, *model.trainable_variables])

    return step


def test_loss_and_gradients_equal_an_eager_walk() -> None:
    """Also by the vectors, which an encoder would be trained by."""
    model = DRNN(5, HYPER, seed=2)
    rng = np.random.default_rng(1)
    trees = [random_tree(rng) for _ in range(5)]
    vectors = tf.constant(rng.normal(size=[5, 12]), tf.float32)
    losses, gradients = step_of(model)(eager(ordered_batch(trees)), vectors)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        expected = tf.stack([unrolled(model, tree, vectors[i]) for i, tree in enumerate(trees)])
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    theirs = tape.gradient(expected, [vectors, *model.trainable_variables])
    for mine, other in zip(gradients, theirs, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(mine), tf.convert_to_tensor(other), rtol=1e-3, atol=1e-5)


def flat(tree: Nested, level: int = 0) -> list[tuple[int, int]]:
    """Labels and levels in pre-order."""
    return [(tree[0], level), *(node for child in tree[1] for node in flat(child, level + 1))]


def test_trees_are_made_again_from_their_vectors() -> None:
    """Six trees of other shapes, learned by heart."""
    model = DRNN(5, HYPER, seed=2)
    rng = np.random.default_rng(3)
    trees = [random_tree(rng, 2) for _ in range(6)]
    batch, vectors = eager(ordered_batch(trees)), tf.constant(rng.normal(size=[6, 12]), tf.float32)
    step, optimizer = step_of(model), tf.keras.optimizers.Adam(0.02)
    first = float(tf.reduce_sum(step(batch, vectors)[0]))
    for _ in range(120):
        losses, gradients = step(batch, vectors)
        optimizer.apply_gradients(zip(gradients[1:], model.trainable_variables, strict=True))
    assert float(tf.reduce_sum(losses)) < 0.05 * first
    labels, levels = tf.function(model.generate)(vectors)
    made = [list(zip(a, b, strict=True)) for a, b in zip(labels.to_list(), levels.to_list(), strict=True)]
    assert made == [flat(tree) for tree in trees]
    assert len({len(tree) for tree in made}) > 2


def test_decisions_that_never_say_stop_are_stopped() -> None:
    """Every node wants children and a sibling; the levels and the places end."""
    model = DRNN(5, HYPER)
    model.more_bias.assign([100.0, 100.0])
    labels, levels = tf.function(lambda v: model.generate(v, most_levels=2))(tf.zeros([1, 12]))
    assert levels.to_list() == [[0, *[1, 2, 2, 2] * 3]]
    assert len(labels[0]) == 13


@pytest.mark.parametrize("trees", [[], [(1, ())]])
def test_batches_of_no_or_one_node(trees: list[Nested]) -> None:
    """The smallest there are."""
    losses, _ = step_of(DRNN(5, HYPER))(eager(ordered_batch(trees)), tf.zeros([len(trees), 12]))
    assert losses.shape == [len(trees)]
