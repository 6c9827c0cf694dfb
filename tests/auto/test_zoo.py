"""Programs of the zoo in the default mode: the same losses as eagerly, and networks that keep all their layers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from recgraph.auto import Automatic
from recgraph.models.zoo import PROGRAMS

STEPS = 10


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dropblock", "slimmable", "l2hmc"])
def test_a_program_does_the_same(name: str) -> None:
    """Layers in lists of tuples, numbers that a schedule changes, branches on both."""
    program = PROGRAMS[name]
    epoch = program.steps(program.small_batch, True)
    expected, found = program.make(True), program.make(True)
    called = Automatic(found.train_step)
    for i in range(STEPS):
        step = epoch[i % len(epoch)]
        wanted, got = (tf.nest.flatten(each(*step)) for each in (expected.train_step, called))
        for one, other in zip(wanted, got, strict=True):
            np.testing.assert_allclose(one, other, 1e-4, 1e-5, err_msg=f"step {i}\n{called.explain()}")
        assert len(found.variables) == len(expected.variables)
    for one, other in zip(expected.variables, found.variables, strict=True):
        np.testing.assert_allclose(one, other, 1e-3, 1e-4)
