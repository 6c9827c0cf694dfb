"""Networks over dependency trees equal their equations, written down node by node and child by child."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import DependencyTree, Pair, PairBatch, Vocabulary, pair_dataset
from recgraph.models import PAIR_MODELS, ChildAttention, ChildSum, PairModel, RelatednessHyper
from recgraph.models.relatedness import expected_score, sparse_target

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


def make_model(name: str = "child_sum", gradient: str = "cache") -> PairModel:
    """A small model whose weights are large enough for every gate to matter."""
    model = PAIR_MODELS[name](len(VOCABULARY), HYPER, seed=7)
    model.gradient = gradient
    model.embedding.assign(20 * model.embedding)
    return model


def child_sum(model: ChildSum, vector: tf.Tensor, states: list[Any]) -> tuple[tf.Tensor, ...]:
    """Equations 2 to 8 of Tai et al."""
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


def child_attention(model: ChildAttention, vector: tf.Tensor, states: list[Any]) -> tuple[tf.Tensor, ...]:
    """The mean of the children's rows, each weighted by the exponential of its score."""
    query = vector @ model.query_kernel
    weights = [tf.exp(tf.reduce_sum(query * hidden)) for (hidden,) in states]
    taken = tf.zeros([1, HYPER.hidden])
    for weight, (hidden,) in zip(weights, states, strict=True):
        taken += weight / tf.add_n(weights) * hidden
    word, summary = model.kernel[: HYPER.embedding], model.kernel[HYPER.embedding :]
    return (tf.tanh(vector @ word + taken @ summary + model.bias),)


CELLS = {"child_sum": child_sum, "child_attention": child_attention}


def state_of(model: Any, tree: DependencyTree, node: int) -> tuple[tf.Tensor, ...]:
    """By the equations, one child at a time."""
    states = [state_of(model, tree, child) for child in tree.children[node]]
    (cell,) = (cell for name, cell in CELLS.items() if isinstance(model, PAIR_MODELS[name]))
    return cell(model, tf.gather(model.embedding, [VOCABULARY.id(tree.words[node])]), states)


def unrolled(model: PairModel, pairs: list[Pair]) -> tuple[tf.Tensor, tf.Tensor]:
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


def loss_and_gradients(model: PairModel, batch: PairBatch) -> tuple[tf.Tensor, tf.Tensor, list[Any]]:
    """To be called inside of a `tf.function`."""
    with tf.GradientTape() as tape:
        loss, scores = model.loss(batch)
    return loss, scores, tape.gradient(loss, model.trainable_variables)


@pytest.mark.parametrize("gradient", ["cache", "recompute"])
@pytest.mark.parametrize("name", PAIR_MODELS)
def test_loss_and_gradients_equal_the_equations(name: str, gradient: str) -> None:
    """On trees of every arity, words without children, single words."""
    model = make_model(name, gradient)
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
