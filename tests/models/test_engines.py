"""Every model gives the same by the batched engine as by the parallel one, values and gradients, under every policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph import testing
from recgraph.data import (
    Pair,
    TreeBatch,
    Vocabulary,
    generate_dependencies,
    pair_dataset,
    top_down_batch,
)
from recgraph.data.completion import TopDownBatch
from recgraph.models import (
    DRNN,
    HMRNN,
    MODELS,
    PAIR_MODELS,
    Hyper,
    MixtureOfExperts,
    ParserHyper,
    RelatednessHyper,
    SpanParser,
    TopDownTreeLSTM,
)
from recgraph.models.drnn import OrderedBatch, ordered_batch
from recgraph.models.hm_rnn import MultiscaleHyper
from recgraph.models.moe import ExpertsHyper

SENTENCES = generate_dependencies(24, seed=3)
WORDS = Vocabulary.build(SENTENCES)
Results = tuple[tf.Tensor, Any]  # what is differentiated, and what else the model gives


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and what is asked of it; results smaller than `smallest` are what is left of terms that cancel."""

    make: Callable[[], Any]
    run: Callable[[Any, TreeBatch], Results]
    smallest: float = 1e-3


def _sentiment(name: str) -> Case:
    hyper = Hyper(embedding=18, hidden=3) if name == "mv_rnn" else Hyper(embedding=6, hidden=6)
    return Case(
        lambda: MODELS[name](31, hyper, seed=7),
        lambda model, trees: (model.loss(trees)[0], (model.loss(trees)[1], model.predict(trees))),
    )


def _pairs(name: str) -> Case:
    pairs = [Pair(a, b, 1.0 + i % 4) for i, (a, b) in enumerate(zip(SENTENCES[::2], SENTENCES[1::2], strict=True))]
    batch = next(iter(pair_dataset(pairs, WORDS, len(pairs))))
    return Case(
        lambda: PAIR_MODELS[name](len(WORDS), RelatednessHyper(embedding=6, hidden=5, similarity=4), seed=7),
        lambda model, _: (model.loss(batch)[0], model.predict(batch)),
    )


def _top_down() -> Case:
    batch = TopDownBatch(*map(tf.constant, top_down_batch(SENTENCES, WORDS)))
    seeds = tf.stack([tf.range(8), tf.ones(8, tf.int32)], 1)

    def run(model: TopDownTreeLSTM, _: TreeBatch) -> Results:
        return model.loss(batch)[0], [r.flat_values for r in model.generate(tf.range(8), seeds, 5)]

    return Case(lambda: TopDownTreeLSTM(len(WORDS), Hyper(embedding=5, hidden=6), seed=3), run)


def _doubly_recurrent() -> Case:
    leaf = (1, ())
    batch = OrderedBatch(
        *map(tf.constant, ordered_batch([(0, (leaf, (2, (leaf,)), (3, (leaf,) * 3))), leaf, (4, (leaf,))]))
    )
    vectors = tf.constant(np.random.default_rng(1).normal(size=[3, 12]), tf.float32)

    def run(model: DRNN, _: TreeBatch) -> Results:
        return tf.reduce_sum(model.loss(batch, vectors)), [r.flat_values for r in model.generate(vectors, 3)]

    return Case(lambda: DRNN(5, Hyper(embedding=8, hidden=12), seed=2), run)


def _multiscale() -> Case:
    symbols = tf.constant(np.random.default_rng(0).integers(0, 5, [5, 9]), tf.int32)

    def run(model: HMRNN, _: TreeBatch) -> Results:
        losses, worked = model.loss(symbols, tf.constant([9, 1, 5, 2, 7]))
        return tf.reduce_sum(losses), worked

    return Case(lambda: HMRNN(5, MultiscaleHyper(embedding=6, hidden=7, layers=3), seed=4), run)


def _experts() -> Case:
    examples = tf.constant(np.random.default_rng(0).normal(size=[6, 3]), tf.float32)

    def run(model: MixtureOfExperts, _: TreeBatch) -> Results:
        given, experts = model(examples)
        return tf.reduce_sum(given**2), experts

    return Case(lambda: MixtureOfExperts(ExpertsHyper(inputs=3, outputs=2, levels=3, threshold=0.2), seed=1), run)


def _parser() -> Case:
    """A hinge: the spans of the predicted trees count +1 each and those of the given trees -1, so most terms cancel."""
    return Case(
        lambda: SpanParser(31, ParserHyper(embedding=6, hidden=5, span=7, dropout=0.0), seed=1),
        lambda model, trees: (model.loss(trees)[0], model.predict(trees)),
        smallest=1e-2,
    )


CASES = {
    **{name: _sentiment(name) for name in MODELS},
    **{name: _pairs(name) for name in PAIR_MODELS},
    "td_tree_lstm": _top_down(),
    "drnn": _doubly_recurrent(),
    "hm_rnn": _multiscale(),
    "moe": _experts(),
    "parser": _parser(),
}


def step_of(case: Case, engine: str, trees: TreeBatch) -> Callable[[], list[np.ndarray]]:
    """A graph of all that the model gives, and of all gradients; weights large enough for decisions to differ."""
    model = case.make()
    for variable in model.trainable_variables:
        variable.assign(2 * variable)
    model.engine = engine

    @tf.function
    def step() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            value, more = case.run(model, trees)
        gradients = [g for g in tape.gradient(value, model.trainable_variables) if g is not None]
        return [value, *tf.nest.flatten(more), *map(tf.convert_to_tensor, gradients)]

    return lambda: [value.numpy() for value in step()]


def assert_same(actual: list[np.ndarray], expected: list[np.ndarray], smallest: float, tolerance: float = 1e-5) -> None:
    """Checks each result to `tolerance` of its largest entry or of `smallest`: small entries are sums that cancel."""
    for mine, theirs in zip(actual, expected, strict=True):
        if mine.dtype.kind == "f":
            assert np.max(np.abs(mine - theirs), initial=0) <= tolerance * np.max(np.abs(theirs), initial=smallest)
        else:
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_engines_agree(name: str, make_batch: Callable[..., TreeBatch]) -> None:
    """Also where computed values decide how a tree grows."""
    trees = make_batch(8, 3)
    expected = step_of(CASES[name], "parallel", trees)()
    step = step_of(CASES[name], "batched", trees)
    assert len(expected) > 3
    for policy in testing.BATCH_POLICIES:
        with testing.batch_policy(policy):
            assert_same(step(), expected, CASES[name].smallest)
    assert testing.counters().live_frames == 0
