"""The graphs written by hand are the programs: the same losses as eagerly, step by step."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.benchmarks.hand_written import GRAPHS
from recgraph.benchmarks.hand_written.sessions import SESSIONS
from recgraph.benchmarks.hand_written.trees import table
from recgraph.models.imperative import Node
from recgraph.models.zoo import EAGER, ZOO

STEPS = 10
# Its layers make other numbers of other rounding within a few steps more.
FEWER_STEPS = {"inception_v3": 4}


def losses(name: str, by_hand: bool, faster: float = 1.0) -> np.ndarray:
    """What some steps of a program made anew give; its optimizer may be a little too fast."""
    program = ZOO[name]
    made = program.make(True)
    if faster != 1.0:
        made.rate *= faster
    step: Any = GRAPHS[name](made) if by_hand else made.train_step
    steps = itertools.islice(itertools.cycle(program.steps(program.small_batch, True)), FEWER_STEPS.get(name, STEPS))
    return np.array([[float(loss) for loss in tf.nest.flatten(step(*arguments))] for arguments in steps])


@pytest.mark.parametrize("name", ZOO)
def test_a_graph_by_hand_computes_the_same(name: str) -> None:
    """The last batch of an epoch is smaller, and states go on from batch to batch."""
    np.testing.assert_allclose(losses(name, True), losses(name, False), 1e-4)


@pytest.mark.parametrize("name", EAGER)
def test_a_session_computes_the_same(name: str) -> None:
    """Weights, running statistics and random numbers go on from step to step."""
    program = EAGER[name]
    arguments = program.steps(program.small_batch, True)[0]
    made = program.make(True)
    session = SESSIONS[name](program.make(True))
    for _ in range(STEPS):
        for wanted, found in zip(
            *map(tf.nest.flatten, (made.train_step(*arguments), session(*arguments))), strict=True
        ):
            np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


def test_a_graph_that_learns_faster_is_noticed() -> None:
    """A comparison that finds nothing would agree with anything."""
    assert not np.allclose(losses("lstm", True, 1.01), losses("lstm", False), 1e-4)


def test_a_table_has_the_parts_of_a_node_before_it() -> None:
    """And the trees in order."""
    tree = Node(4, left=Node(1, word=7), right=Node(2, word=8))
    roots, left, right, word, label = table([tree, Node(3, word=9)])
    assert roots.tolist() == [2, 3]
    assert list(zip(left, right, word, label, strict=True)) == [
        (-1, -1, 7, 1), (-1, -1, 8, 2), (0, 1, -1, 4), (-1, -1, 9, 3)
    ]  # fmt: skip
