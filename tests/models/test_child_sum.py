"""The child-sum TreeLSTM over dependency trees equals its equations, written down node by node in eager Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import DependencyTree, Pair, PairBatch, Vocabulary, pair_dataset
from recgraph.models.child_sum import ChildSum, RelatednessHyper, expected_score, sparse_target

HYPER = RelatednessHyper(embedding=6, hidden=5, similarity=4)
VOCABULARY = Vocabulary(("<unk>", *"abcdefgh"))
SIGNATURE = PairBatch(*[tf.TensorSpec([None], tf.int32)] * 5, tf.TensorSpec([None]))


def random_tree(rng: np.random.Generator, most: int = 9) -> DependencyTree:
    """A tree of any arity, its words in any order."""
    count = int(rng.integers(1, most + 1))
    place = rng.permutation(count)
    heads = [-1] * count
    for number in range(1, count):
        heads[place[number]] = int(place[rng.integers(number)])
    return DependencyTree(tuple(rng.choice(list("abcdefghx"), count)), tuple(heads))


def random_pairs(count: int, seed: int) -> list[Pair]:
    """Pairs with any score from 1 to 5."""
    rng = np.random.default_rng(seed)
    return [Pair(random_tree(rng), random_tree(rng), round(rng.uniform(1, 5), 1)) for _ in range(count)]


def batch_of(pairs: list[Pair]) -> PairBatch:
    """All pairs as one batch."""
    return next(iter(pair_dataset(pairs, VOCABULARY, len(pairs))))


def make_model(gradient: str = "cache") -> ChildSum:
    """A small model whose weights are large enough for every gate to matter."""
    model = ChildSum(len(VOCABULARY), HYPER, seed=7)
    model.gradient = gradient
    model.embedding.assign(20 * model.embedding)
    return model


def state_of(model: ChildSum, tree: DependencyTree, node: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Equations 2 to 8 of the paper, one child at a time."""
    states = [state_of(model, tree, child) for child in tree.children[node]]
    vector = tf.gather(model.embedding, [VOCABULARY.id(tree.words[node])])
    w_i, w_o, w_u, w_f = tf.split(model.word_kernel, 4, 1)
    u_i, u_o, u_u = tf.split(model.sum_kernel, 3, 1)
    b_i, b_o, b_u, b_f = tf.split(model.bias, 4)
    total = tf.add_n([tf.zeros([1, HYPER.hidden]), *(hidden for hidden, _ in states)])
    entry = tf.sigmoid(vector @ w_i + total @ u_i + b_i)
    exit_ = tf.sigmoid(vector @ w_o + total @ u_o + b_o)
    memory = entry * tf.tanh(vector @ w_u + total @ u_u + b_u)
    for hidden, child_memory in states:
        memory += tf.sigmoid(vector @ w_f + hidden @ model.forget_kernel + b_f) * child_memory
    return exit_ * tf.tanh(memory), memory


def unrolled(model: ChildSum, pairs: list[Pair]) -> tuple[tf.Tensor, tf.Tensor]:
    """Loss and predicted scores, section 4.2, one pair at a time."""
    losses, scores = [], []
    for pair in pairs:
        left, right = (state_of(model, tree, tree.root)[0] for tree in (pair.left, pair.right))
        features = tf.concat([left * right, tf.abs(left - right)], 1)
        compared = tf.sigmoid(features @ model.similarity_kernel + model.similarity_bias)
        probabilities = tf.nn.softmax(compared @ model.output_kernel + model.output_bias)[0]
        low = int(pair.score)
        target = {low: low + 1 - pair.score, low + 1: pair.score - low}
        losses += [p * (np.log(p) - tf.math.log(probabilities[k - 1])) for k, p in target.items() if p > 0]
        scores.append(tf.add_n([(k + 1) * probabilities[k] for k in range(5)]))
    return tf.add_n(losses), tf.stack(scores)


def loss_and_gradients(model: ChildSum, batch: PairBatch) -> tuple[tf.Tensor, tf.Tensor, list[Any]]:
    """To be called inside of a `tf.function`."""
    with tf.GradientTape() as tape:
        loss, scores = model.loss(batch)
    return loss, scores, tape.gradient(loss, model.trainable_variables)


@pytest.mark.parametrize("gradient", ["cache", "recompute"])
def test_loss_and_gradients_equal_the_equations(gradient: str) -> None:
    """On trees of every arity, words without children, single words."""
    model = make_model(gradient)
    step = tf.function(lambda batch: loss_and_gradients(model, batch), input_signature=[SIGNATURE])
    for seed in range(3):
        pairs = random_pairs(5, seed)
        loss, scores, gradients = step(batch_of(pairs))
        with tf.GradientTape() as tape:
            expected, expected_scores = unrolled(model, pairs)
        assert float(loss) == pytest.approx(float(expected), rel=1e-4)
        np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)
        for mine, theirs in zip(gradients, tape.gradient(expected, model.trainable_variables), strict=True):
            np.testing.assert_allclose(tf.convert_to_tensor(mine), tf.convert_to_tensor(theirs), rtol=1e-3, atol=1e-5)
    assert step.experimental_get_tracing_count() == 1
    np.testing.assert_allclose(tf.function(model.predict)(batch_of(pairs)), expected_scores, rtol=1e-5)


def test_the_target_is_the_sparse_distribution_of_the_paper() -> None:
    """Two neighbours share the weight, a whole score has it alone; the mean is the score."""
    target = sparse_target(tf.constant([1.0, 3.6, 5.0]), 5)
    np.testing.assert_allclose(target, [[1, 0, 0, 0, 0], [0, 0, 0.4, 0.6, 0], [0, 0, 0, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(expected_score(tf.math.log(target + 1e-9)), [1.0, 3.6, 5.0], rtol=1e-5)


def test_an_empty_batch_has_no_loss() -> None:
    """The last batch of a filtered data set may be one."""
    nothing = tf.zeros([0], tf.int32)
    loss, scores = tf.function(make_model().loss)(
        PairBatch(nothing, nothing, tf.zeros([1], tf.int32), nothing, nothing, tf.zeros([0]))
    )
    assert float(loss) == 0
    assert scores.shape == [0]


def test_vectors_of_another_shape_are_refused() -> None:
    """The message says which size to set."""
    with pytest.raises(ValueError, match=r"Set Hyper.embedding to 50"):
        ChildSum(10, vectors=np.zeros([10, 50], np.float32))
