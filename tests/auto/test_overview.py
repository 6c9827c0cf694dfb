"""The first screen of `recgraph explain`: where the time went, what ran how, and every reason with a remedy."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.auto import overview
from recgraph.auto.overview import GRAPHS, CallSampler, fitting
from recgraph.explaining import Remark


def spin(seconds: float) -> None:
    """Keeps Python busy."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_time_is_told_by_what_was_done() -> None:
    """Of a function, and of lines that are in none."""
    weights = tf.Variable(tf.random.normal([500, 500]))

    @rg.function
    def step(x: Any) -> Any:
        for _ in range(40):
            x = tf.tanh(x @ weights)
        return tf.reduce_sum(x)

    with CallSampler() as looking:
        for _ in range(12):
            step(tf.ones([100, 500]))
        spin(0.4)
    assert looking.seconds[step.name, GRAPHS] > 0.0
    here = sum(seconds for (name, kind), seconds in looking.seconds.items() if not name and __file__ in kind)
    assert 0.3 < here < looking.total - looking.seconds[step.name, GRAPHS]
    screen = overview.overview("program", looking, [step])
    assert f"Calls: {step.calls['eager']} eagerly, {step.calls['graph']} as one graph" in screen
    assert __file__ in screen.splitlines()[1]


def test_every_reason_has_its_line_and_its_count() -> None:
    """What is not converted, and what broke; as often as `calls` says."""

    def refused(x: Any) -> Any:
        import decimal

        return x * float(decimal.Decimal(2))

    def broken(x: Any, text: str) -> Any:
        return x * 2.0 if text else x

    things = [rg.function(refused, mode="speculate"), rg.function(broken, mode="speculate")]
    with CallSampler() as looking:
        for i in range(8):
            things[0](tf.constant(1.0))
            things[1](tf.constant(1.0), "a" * (i == 5))
    screen = overview.overview("program", looking, things)
    assert "What kept calls from running as graphs:" in screen
    reason = next(line for line in screen.splitlines() if "refused" in line and "To do: " in line)
    assert f"{__file__}:" in reason
    broke = [line for line in screen.splitlines() if "broken, 1 time" in line]
    assert len(broke) == things[1].calls["fallback"] == 1
    assert things[1].calls == {"eager": 3, "graph": 4, "fallback": 1}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (__file__, "move it out of the function"),
        (json.__file__, "the line is Python's: make the call that leads there before or after the function"),
        (tf.__file__, "the line is tensorflow's: "),
    ],
)
def test_remedies_fit_the_line(file: str, text: str) -> None:
    """Nobody moves a line of a library's out of a function."""
    assert fitting(Remark("eager", f"{file}:1", "yield", 1, "move it out of the function")).startswith(text)
