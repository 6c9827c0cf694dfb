"""The networks as plain Python: the same as those written as SubGraphs, and the same converted."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.data import Vocabulary, encode, generate_treebank, parse_tree
from recgraph.models import MODELS, Hyper, TreeModel
from recgraph.models.imperative import NETWORKS, TreeNetwork, node_of

HIDDEN, CLASSES = 6, 5
TREES = generate_treebank(8)
WORDS = Vocabulary.build(TREES)
NODES = [node_of(tree, WORDS) for tree in TREES]


def pair(name: str) -> tuple[TreeNetwork, TreeModel]:
    """A network and the model written as a SubGraph, with the same weights."""
    network = NETWORKS[name](len(WORDS), HIDDEN, HIDDEN, CLASSES)
    model = MODELS[name](len(WORDS), Hyper(embedding=HIDDEN, hidden=HIDDEN, classes=CLASSES))
    for variable in model.trainable_variables:
        attribute = {"inner_kernel": "kernel", "inner_bias": "bias"}.get(variable.name[:-2], variable.name[:-2])
        variable.assign(getattr(network, attribute))
    return network, model


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_what_its_subgraph_does(name: str) -> None:
    network, model = pair(name)
    with tf.GradientTape() as tape:
        total = tf.add_n([network.visit(node)[1] for node in NODES])
    batch = encode(TREES, WORDS)
    with tf.GradientTape() as other:
        expected, _ = model.loss(batch)
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    kernel = model.inner_kernel if name == "tree_lstm" else model.kernel
    pairs = [(network.kernel, kernel), (network.output_bias, model.output_bias)]
    mine = tape.gradient(total, [one for one, _ in pairs])
    theirs = other.gradient(expected, [one for _, one in pairs])
    for one, another in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(one, another, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_converted_step_trains_as_an_eager_one(name: str) -> None:
    eager, converted = (NETWORKS[name](len(WORDS), HIDDEN, HIDDEN, CLASSES) for _ in range(2))
    step = rg.function(converted.train_step, mode="speculate", strict=True)
    batches = [NODES[i : i + 2] for i in (0, 2, 4, 6, 0, 2, 4, 6)]
    losses = [(float(eager.train_step(batch)), float(step(batch))) for batch in batches]
    np.testing.assert_allclose(*np.transpose(losses), rtol=1e-4)
    assert step.calls["graph"] >= 4
    for one, other in zip(eager.variables, converted.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_a_node_without_a_label_is_refused() -> None:
    tree = parse_tree("(3 (2 quite) (3 good))")
    unlabelled = tree.with_labels((-1, 3, 3))
    with pytest.raises(ValueError, match="every node needs a label"):
        node_of(unlabelled, Vocabulary.build([tree]))
