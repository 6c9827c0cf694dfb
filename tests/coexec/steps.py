"""Steps that are co-executed, each against the same step run eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.coexec import Coexecuted
from tests.speculate import comparing

STEPS = 12


def compared(
    make: Callable[[], tuple[Callable[..., Any], Any]], arguments: Callable[[int], tuple[Any, ...]]
) -> Coexecuted:
    """Compares a dozen steps, and gives the co-executed function; see `comparing.compared`."""
    called: Coexecuted = comparing.compared(Coexecuted, make, arguments, STEPS)
    return called


def number(i: int) -> tuple[Any, ...]:
    """A scalar that differs from call to call."""
    return (tf.constant(float(i % 4)),)


def matrix(i: int) -> tuple[Any, ...]:
    """A matrix that differs from call to call."""
    return (tf.constant(np.random.default_rng(i).normal(size=(4, 3)).astype(np.float32)),)


def mostly(called: Coexecuted) -> None:
    """Almost all steps were co-executed."""
    assert called.phases.counts["coexecuted"] >= STEPS - 4, called.explain()
