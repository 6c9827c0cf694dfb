"""The three failures of tracing that the paper names (thesis, section 3.6.2): here they work, there they fail.

A function that is traced once, `tf.function`, is beside each: where it does not fail, a test would show nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.models.zoo import ZOO, generated
from recgraph.models.zoo.lstm import LSTM
from recgraph.models.zoo.resnet50 import ResNet50
from tests.speculate.comparing import far_apart
from tests.speculate.zoo_runs import seen

Wrap = Callable[[Any], Any]


def eagerly(step: Any) -> Any:
    """As it is."""
    return step


def evaluated_first(wrap: Wrap) -> list[Any]:
    """A ResNet that is evaluated, trained, and evaluated again, by one function and a flag."""
    made = ResNet50(2, (1,), 3, 0.05)
    step = wrap(made.step)
    batches = generated.batches(generated.images(8, 12, 3, 3), 4)
    results = []
    for training in [False] * 5 + [True] * 6 + [False] * 3:
        made.training = training
        results += [seen(made, step(*batch)) for batch in batches]
    return results


def test_a_model_with_batch_normalisation_that_is_evaluated_before_training() -> None:
    """A trace of its first call leaves weights and running statistics as they are for ever."""
    expected, found = evaluated_first(eagerly), evaluated_first(rg.function)
    assert far_apart(expected, found, 1e-4) == []
    assert far_apart(found[0][1:], found[-1][1:], 1e-4) != []
    traced = evaluated_first(tf.function)
    assert far_apart(traced[0][1:], traced[-1][1:], 0.0) == []


def test_state_that_is_passed_across_sequences() -> None:
    """A trace begins every batch with the states of the first one."""

    def losses(wrap: Wrap) -> list[float]:
        made = LSTM(20, 4, 1)
        step, found = wrap(made.train_step), []
        for _ in range(3):
            made.reset()
            found += [float(step(*batch)) for batch in generated.sequences(generated.text(61, 20), 2, 5)]
        return found

    expected = losses(eagerly)
    np.testing.assert_allclose(losses(rg.function), expected, 1e-4)
    assert not np.allclose(losses(tf.function), expected, 1e-4)


def test_recursion_over_trees_that_differ_from_call_to_call() -> None:
    """A trace follows the objects of one call, so that there is one for each; one graph is enough."""
    program = ZOO["tree_rnn"]
    steps = list(itertools.islice(itertools.cycle(program.steps(program.small_batch, True)), 10))

    def losses(wrap: Wrap) -> tuple[list[float], Any]:
        step = wrap(program.make(True).train_step)
        return [float(step(*arguments)) for arguments in steps], step

    expected, _ = losses(eagerly)
    found, converted = losses(lambda step: rg.function(step, strict=True))
    np.testing.assert_allclose(found, expected, 1e-4)
    assert converted.calls["graph"] >= 6
    assert converted.explain().count("operations, ran") <= 2  # batches of two trees, and the last one of an epoch
    _, traced = losses(tf.function)
    different = len({id(trees) for (trees,) in steps})
    assert traced.experimental_get_tracing_count() >= different
