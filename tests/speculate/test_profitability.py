"""Functions that were found and not decorated: a graph that takes longer than the call itself is let go of."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import native
from recgraph.auto import Automatic
from recgraph.speculate.run import function, profitability
from recgraph.speculate.run.callees import FORGOTTEN_RUNS, QUIET_RUNS, Callees


class Clock:
    """Invented seconds: of a call as a graph, and of one that runs as it is written."""

    def __init__(self, graph: float, eager: float) -> None:
        self.now, self.graph, self.eager = 0.0, graph, eager


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time, as it is told to who judges."""
    clock = Clock(1.0, 1.0)
    as_graph = function.SpeculatedCalls._as_graph
    observed = profitability.ProfitableFunction._observed

    def taking(what: Any, seconds: str, is_of: Any = lambda result: True) -> Any:
        def call(*arguments: Any) -> Any:
            result = what(*arguments)
            clock.now += getattr(clock, seconds) if is_of(result) else 0.0
            return result

        return call

    is_graphs = lambda result: type(result) is not function.Misses  # noqa: E731
    monkeypatch.setattr(profitability, "GRAPH_CALLS", 3)
    monkeypatch.setattr(profitability.time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(profitability.ProfitableFunction, "_as_graph", taking(as_graph, "graph", is_graphs))
    monkeypatch.setattr(profitability.ProfitableFunction, "_observed", taking(observed, "eager"))
    monkeypatch.setattr(profitability, "watched", lambda watch: _Taking(clock))
    return clock


class _Taking:
    """Stands for `watched(None)` around a call that runs as it is written, which takes its time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __enter__(self) -> None:
        self._before = native.frames().activate(None)

    def __exit__(self, *_: object) -> None:
        native.frames().activate(self._before)
        self._clock.now += self._clock.eager


def trained(steps: int) -> tuple[Any, list[float], list[float]]:
    """What a function becomes that nobody has decorated; its losses, and those of eager execution."""
    histories, alive = [], []
    for is_found in (True, False):
        w = tf.Variable(3.0)

        def step(x: tf.Tensor, w: tf.Variable = w) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = (w * x - 1.0) ** 2
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        block = rg.speculation()
        alive.append(step)
        if is_found:
            with block:
                histories.append([float(step(tf.constant(1.0))) for _ in range(steps)])
            found = next(one for name, one in block.functions.items() if name.endswith("step"))
        else:
            histories.append([float(step(tf.constant(1.0))) for _ in range(steps)])
    found.alive = alive
    return found, *histories


def test_a_graph_that_takes_longer_is_let_go_of(clock: Clock) -> None:
    """After a round of turns: from then on the interpreter has the calls, and explain() says why."""
    clock.graph, clock.eager = 4.0, 1.0
    found, losses, expected = trained(20)
    assert losses == pytest.approx(expected, rel=1e-6)
    assert not found.has_graphs, found.explain()
    assert found.calls["graph"] == 1 + 3
    assert "runs eagerly: its calls take 1e+03 ms eagerly, and 4e+03 ms as a graph" in found.explain()


@pytest.mark.parametrize(("graph", "plain"), [(0.1, 0), (0.6, 3), (0.95, 7)])
def test_a_graph_that_is_faster_is_kept(clock: Clock, graph: float, plain: int) -> None:
    """Where it is much faster than calls were that were observed, it is not compared at all."""
    clock.graph, clock.eager = graph, 1.0
    found, losses, expected = trained(40)
    assert losses == pytest.approx(expected, rel=1e-6)
    assert found.has_graphs, found.explain()
    assert found.calls["eager"] == 3 + plain


def test_calls_that_make_a_graph_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """What converting calls is none of the program's, and it is a lot."""
    watches, convert = [], function.convert

    def looking(*arguments: Any, **named: Any) -> Any:
        watch = native.frames().activate(None)
        native.frames().activate(watch)
        watches.append(watch)
        return convert(*arguments, **named)

    monkeypatch.setattr(function, "convert", looking)
    with rg.speculation():
        trained(6)
    assert watches
    assert all(watch is None for watch in watches)


def test_a_callee_that_is_called_no_more_is_not_waited_for() -> None:
    """A larger graph may have taken its place before it became one."""

    def early(x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(tf.tanh(x) + tf.exp(x)) * 2.0

    def late(x: tf.Tensor) -> tf.Tensor:
        return tf.exp(tf.tanh(x) - tf.tanh(x)) * 3.0

    def step(i: int) -> tf.Tensor:
        return (early if i < 2 else late)(tf.constant(float(i)))

    callees, settled = Callees(step), []
    for i in range(12):
        callees.run(i)
        settled.append(callees.is_settled)
    assert settled[-1]
    assert settled.index(True) <= 2 + 4 + max(QUIET_RUNS, FORGOTTEN_RUNS)


def test_a_function_whose_graphs_never_fit_is_decided_about() -> None:
    """Each call is of another kind: after some, eager execution takes turns with what there is, and wins."""

    def step(names: tuple[str, ...]) -> tf.Tensor:
        total = tf.constant(0.0)
        for name in names:
            total = tf.tanh(total + float(len(name)))
        return total

    automatic = Automatic(step)
    for i in range(20):
        names = tuple("x" * (1 + (i + j) % 3) for j in range(i % 29 + 1))
        assert float(automatic(names)) == pytest.approx(float(step(names)), rel=1e-6)
    assert automatic.way is not None, automatic.explain()
