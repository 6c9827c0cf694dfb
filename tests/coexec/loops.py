"""Loops of steps, each against the same loop run eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import recgraph as rg
from recgraph.coexec.steps import Steps
from tests.speculate.comparing import differences, plain

COUNT = 20


Body = Callable[[Any], None]


def compared(make: Callable[[], tuple[Body, Any]], window: int = 2) -> Steps:
    """Runs a loop eagerly and in steps, and compares what is left behind."""
    found: list[Any] = []
    loop = rg.steps([float(i) for i in range(COUNT)], window=window)
    for items in ([float(i) for i in range(COUNT)], loop):
        body, state = make()
        try:
            for item in items:
                body(item)
        except Exception as error:
            found.append((type(error).__name__, str(error), plain(state)))
        else:
            found.append(plain(state))
    assert differences(found[0], found[1]) == [], loop.explain()
    return loop


def slow(x: tf.Tensor, trips: int = 8) -> tf.Tensor:
    """Takes the graph longer than Python."""
    large = tf.ones([300, 300])
    for _ in range(trips):
        large = large @ tf.ones([300, 300]) * 0.001
    return x + large[0, 0] * 0.0
