"""The parts of a batch have together the loss of the batch: each task, dropout included, parts without examples too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import DependencyTree, Pair, Share, Vocabulary, generate_treebank
from recgraph.distribute import Cluster
from recgraph.models import TreeRNN
from recgraph.models.losses import Draws
from recgraph.train.settings import Settings
from recgraph.train.steps import TrainingSteps, Ways
from recgraph.train.tasks import TASKS

TREES = generate_treebank(7, seed=2)
PAIRS = [
    Pair(DependencyTree(words[:n], (1, -1, 1)[:n]), DependencyTree(words, (-1, 0, 1)), score)
    for n, words, score in [(3, ("a", "b", "c"), 2.5), (2, ("b", "b", "d"), 4.0), (3, ("d", "a", "e"), 1.0)]
]
HYPER = {"embedding": 6, "hidden": 6, "dropout": 0.4}


@pytest.mark.parametrize(
    ("task", "name", "examples"),
    [("fine", "tree_lstm", TREES), ("parsing", "parser", TREES), ("relatedness", "child_sum", PAIRS)],
)
@pytest.mark.parametrize("parts", [3, 9])
def test_the_losses_of_the_parts_add_up(task: str, name: str, examples: list[Any], parts: int) -> None:
    chosen = TASKS[task]
    vocabulary = Vocabulary.build(chosen.trees(examples))
    settings = Settings(name, "none", task=task, hyper=HYPER)
    model = settings.model_class()(len(vocabulary), settings.full_hyper(), None, 0)
    model.engine = "batched"
    model.embedding.assign(40 * model.embedding)  # new ones are so small that a word hardly matters
    seed = tf.constant([1, 5])

    @tf.function(autograph=False)
    def whole(batch: Any) -> tuple[tf.Tensor, tf.Tensor]:
        loss, output = model.loss(batch, seed)
        return loss, chosen.hits(batch, output)

    @tf.function(autograph=False)
    def of_part(batch: Any, part: Any) -> tuple[tf.Tensor, tf.Tensor]:
        loss, output = model.loss(batch, Draws(seed, part))
        return loss, chosen.hits(batch, output)

    def dataset(share: Share | None) -> tf.data.Dataset:
        return chosen.dataset(examples, vocabulary, len(examples), shuffle_seed=1, share=share)

    (batch,) = dataset(None)
    expected = whole(batch)
    found = [of_part(*element) for index in range(parts) for element in dataset(Share(parts, index, 1))]
    assert len(found) == parts
    np.testing.assert_allclose(sum(loss for loss, _ in found), expected[0], rtol=3e-6)
    np.testing.assert_allclose(sum(hits for _, hits in found), expected[1], rtol=1e-5)
    if task != "relatedness":  # which drops nothing
        assert abs(float(whole(batch)[0]) - float(model.loss(batch)[0])) > 1e-3


def test_workers_do_not_try_engines_each_for_itself() -> None:
    """All others would wait; one that is alone tries them, and what is asked for is kept."""
    together = Ways(Cluster.alone())
    together.share = Share(2, 0, 1)
    for ways, engine, expected in ((together, "auto", "batched"), (together, "parallel", "parallel")):
        model = TreeRNN(10)
        model.engine = engine
        assert TrainingSteps(model, ways=ways).model.engine == expected
    assert TrainingSteps(TreeRNN(10)).model.engine == "auto"
