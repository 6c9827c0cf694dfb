"""Where the time of co-executed steps goes, and what `explain()` says of them, with lines."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from recgraph.coexec import Coexecuted
from recgraph.coexec.profile import Stall, StepProfile, StepTimes, draw

STEPS = 40


def _line(function: Any, text: str) -> str:
    """The place of the line of a function that has this text."""
    lines, first = inspect.getsourcelines(function)
    return f"{__file__}:{first + next(i for i, line in enumerate(lines) if text in line)}"


def _ran(step: Any, *arguments: Any) -> Coexecuted:
    called = Coexecuted(step)
    for _ in range(STEPS):
        called(*arguments)
    assert called.phases.counts["coexecuted"] >= STEPS - 4, called.explain()
    return called


def slow_graph(x: tf.Tensor) -> float:
    for _ in range(8):
        x = tf.tanh(x @ x)
    return float(tf.reduce_sum(x))  # waits


def slow_python(x: tf.Tensor) -> tf.Tensor:
    y = tf.reduce_sum(x)
    time.sleep(0.01)
    return x + float(y) * time.perf_counter()  # feeds


def test_python_waits_for_a_slow_graph() -> None:
    """Most of the step, at the line that asks for the value."""
    profile = _ran(slow_graph, tf.random.stateless_normal([300, 300], [1, 2]) * 0.05).timing()
    busy, stalled = profile.python
    assert stalled > busy
    stall, seconds = profile.python_stalls()[0]
    assert stall.where == _line(slow_graph, "# waits")
    assert stall.what == "Sum"
    assert seconds == pytest.approx(stalled, rel=0.5)
    graph_busy, graph_stalled = profile.graph
    assert graph_busy > graph_stalled


def test_a_graph_waits_for_slow_python() -> None:
    """For the value that comes last, at the line that is given it."""
    profile = _ran(slow_python, tf.ones([3])).timing()
    assert profile.python[0] > 0.009
    graph_busy, graph_stalled = profile.graph
    assert graph_stalled > 0.008 > graph_busy
    stall, seconds = profile.graph_stalls()[0]
    assert stall == Stall(_line(slow_python, "# feeds"), "a value from Python for AddV2")
    assert seconds > 0.008


def test_explain_names_the_lines_where_the_runners_meet() -> None:
    """Feeds, fetches, and what stalls whom."""
    called = _ran(slow_python, tf.ones([3]))
    text = called.explain()
    assert text.splitlines()[0] == f"slow_python: {called.phases.counts['traced']} traced, " + (
        f"{called.phases.counts['coexecuted']} coexecuted"
    )
    assert "feed: " in text
    assert f"({_line(slow_python, '# feeds')})" in text
    assert f"fetch: Sum ({_line(slow_python, 'reduce_sum')})" in text
    assert "stalled: the graph waits" in text
    page = called.explain(html=True)
    assert "time.sleep" not in page
    assert "reduce_sum(x)" in page


def test_explain_says_where_a_new_path_began() -> None:
    """With the line, and what to do."""

    def step(x: tf.Tensor, is_new: bool) -> tf.Tensor:
        y = x + 1.0
        if is_new:
            y = tf.exp(y)  # the new path
        return y * 2.0

    called = Coexecuted(step)
    for i in range(12):
        called(tf.constant(1.0), i == 8)
    text = called.explain()
    assert f"left 1 time: new path: Exp ({_line(step, '# the new path')}); to do: none needed" in text


def test_the_table_and_the_picture(tmp_path: Path) -> None:
    """Numbers as they were measured, for each runner, and what stalled it."""
    wait, feed = Stall("program.py:3", "Sum"), Stall("program.py:4", "a value from Python for Add")
    steps = [StepTimes(0.010, {wait: 0.002}, 0.009, {feed: 0.004}), StepTimes(0.012, {wait: 0.004}, 0.011, {})]
    profile = StepProfile("train", steps)
    assert profile.python == pytest.approx((0.008, 0.003))
    assert profile.graph == pytest.approx((0.008, 0.002))
    text = str(profile)
    row = next(line for line in text.splitlines() if "Python" in line)
    assert row.replace("│", " ").split() == ["Python", "8.000", "3.000"]
    row = next(line for line in text.splitlines() if "program.py:4" in line)
    assert "a value from Python for Add" in row
    profile.picture(tmp_path / "one.svg")
    assert "Python stalled" in (tmp_path / "one.svg").read_text()
    draw([profile, StepProfile("other", [])], tmp_path / "two.png")
    assert (tmp_path / "two.png").stat().st_size > 1000


def test_a_step_whose_graph_was_not_timed_counts_for_python() -> None:
    """Where none was."""
    profile = StepProfile("train", [StepTimes(0.010, {})])
    assert profile.python == (0.010, 0.0)
    assert profile.graph == (0.0, 0.0)
