"""The PyTorch models that benchmarks compare with compute the same losses and take the same steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import TreeBatch
from recgraph.models import MODELS, Hyper
from recgraph.models.baselines import unrolled
from recgraph.train.optimizer import TreeOptimizer

pytest.importorskip("torch", reason="PyTorch is optional: pip install torch==2.13.0")

HYPER = Hyper(embedding=6, hidden=6, learning_rate=0.1, embedding_rate=0.2, l2=0.01)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("name", ["tree_lstm", "tree_rnn", "rntn"])
def test_three_training_steps_in_pytorch_give_the_same_losses(
    name: str, folded: bool, make_batch: Callable[..., TreeBatch]
) -> None:
    """Forward, gradients, both optimizers and L2 agree."""
    from recgraph.benchmarks import pytorch_models

    model = MODELS[name](31, HYPER, seed=2)
    optimizer = TreeOptimizer(model)
    weights = {key: value.numpy() for key, value in vars(model).items() if isinstance(value, tf.Variable)}
    step = pytorch_models.trainer(
        pytorch_models.build(name, weights, folded), HYPER.learning_rate, HYPER.embedding_rate, HYPER.l2
    )
    theirs, mine = [], []
    for seed in range(3):
        batch = make_batch(5, seed)
        theirs.append(step(pytorch_models.from_batch(batch)))
        sources = [*model.weights, model.embedding]
        with tf.GradientTape() as tape:
            loss, _ = unrolled(model, batch)
            objective = loss / 5
        *gradients, embedding = tape.gradient(objective, sources)
        optimizer.apply(model, gradients, embedding)
        mine.append(float(loss))
    np.testing.assert_allclose(mine, theirs, rtol=1e-4)
