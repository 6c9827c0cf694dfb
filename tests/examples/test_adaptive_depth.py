"""Adaptive depth: it is right about new problems, thinks longer where the way is longer, and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture(scope="module")
def example(load: Callable[[str], Any]) -> Any:
    return load("adaptive_depth")


@pytest.mark.slow
@pytest.mark.long
def test_it_thinks_as_long_as_it_takes(example: Any) -> None:
    found = example.main()
    assert found["accuracy"].mean() > 0.95
    assert (np.diff(found["steps"]) > 0.3).all()
    assert found["steps"][0] < 4 < found["steps"][-1]
    assert found["seconds batched"] < found["seconds one by one"] / 5


def test_the_ends_are_where_the_pointers_lead(example: Any) -> None:
    for pointers, start, end, length in zip(*example.problems(50, 6, seed=3), strict=True):
        way = [start]
        while pointers[way[-1]] != way[-1]:
            way.append(pointers[way[-1]])
        assert (way[-1], len(way) - 1) == (end, length)


def test_a_batch_gives_what_a_python_loop_gives(example: Any) -> None:
    """Untrained networks with other thresholds, so that some problems halt at once, others late or never."""
    keras.utils.set_random_seed(7)
    model = example.Thinker()
    pointers, starts, _, _ = example.problems(40, 6, seed=5)
    first = [model.step(model.start(start[None])[0], row) for row, start in zip(pointers, starts, strict=True)]
    model.done.layers[-1].bias.assign([-np.median([float(done[0, 0]) for _, _, done in first])])
    answers, steps = example.make_solve(model, 6)(pointers, starts)
    for row, start, answer, taken in zip(pointers, starts, answers.numpy(), steps.numpy(), strict=True):
        state = model.start(tf.constant([start]))[0]
        for number in range(1, 7):  # noqa: B007 the last one is asked for below
            state, logits, done = model.step(state, tf.constant(row))
            if done[0, 0] > 0:
                break
        assert (int(answer), int(taken)) == (int(tf.argmax(logits[0])), number)
    assert len(set(steps.numpy())) > 1
