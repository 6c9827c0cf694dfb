"""`rg.function` without a mode: what converts is a graph, what does not is taken apart, and the results are eager's."""

from __future__ import annotations

import inspect
import logging
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import native, racing
from recgraph.auto import Automatic, choosing
from recgraph.auto.ways import Coexecuting
from recgraph.errors import NativeLibraryError, SignatureError
from recgraph.speculate import Inconvertible
from tests.speculate.comparing import compared

STEPS = 70
pytestmark = pytest.mark.usefixtures("decides_once")


@pytest.fixture(autouse=True)
def short_contests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds of two steps: what is decided does not matter here."""
    monkeypatch.setattr(racing, "BLOCKS", (2, 2))
    monkeypatch.setattr(choosing, "WITHIN", 10_000)
    monkeypatch.setattr(racing, "HOPELESS", (1e9, 1e9))
    monkeypatch.setattr(choosing, "ENOUGH", 1e9)


def parts(x: Any) -> Iterator[Any]:
    """A generator that lives while tensors are computed, so that what uses it does not convert."""
    for i in range(2):
        yield np.roll(x, i)


class Model:
    """A function that computes a gradient, one that updates, and some state of Python."""

    def __init__(self) -> None:
        self.w = tf.Variable(tf.ones([3, 3]) * 0.3)
        self.log: list[float] = []

    def gradient(self, x: tf.Tensor) -> Any:
        """A loss and its gradient."""
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(tf.tanh(x @ self.w) @ self.w) ** 2)
        return loss, tape.gradient(loss, self.w)

    def update(self, change: tf.Tensor, rate: float) -> None:
        """An update of several operations."""
        self.w.assign_sub(tf.clip_by_norm(change, 1.0) * rate + 1e-3 * self.w)

    def step(self, x: Any) -> float:
        """What does not convert whole."""
        math = eval("__import__('math')")  # no converter takes this

        total = 0.0
        for part in parts(x):
            loss, change = self.gradient(tf.constant(part, tf.float32))
            self.update(change, 0.1)
            total += math.fsum([np.median(loss.numpy())])
        self.log.append(total)
        return total


def matrix(i: int) -> tuple[Any, ...]:
    """One that differs from step to step."""
    return (np.random.default_rng(i).normal(size=(3, 3)).astype(np.float32),)


def test_what_does_not_convert_whole_runs_by_its_parts() -> None:
    """All ways take steps, one is chosen, and the callees are graphs."""

    def make() -> tuple[Any, Any]:
        model = Model()
        return model.step, model

    called = compared(rg.function, make, matrix, STEPS)
    assert called.given_up
    assert {found.name for found in called.apart.ways["callees"].callees.converted} == {
        "Model.gradient",
        "Model.update",
    }
    assert {"eager", "callees"} < set(called.apart.counts)
    assert any(way.startswith("coexec") for way in called.apart.counts)
    assert called.apart.decision is not None
    assert called.way == called.apart.decision.way
    assert sum(called.calls.values()) == STEPS
    assert called.explain().startswith(", ".join([f"{called.name}: {called.calls['eager']} eager"]))


def test_explain_has_the_reason_the_costs_and_the_parts() -> None:
    """With lines; as text and as a page."""
    model = Model()
    called = rg.function(model.step)
    for i in range(STEPS):
        called(*matrix(i))
    text = called.explain()
    lines, first = inspect.getsourcelines(Model.step)
    line = first + next(i for i, one in enumerate(lines) if "no converter" in one)
    assert f"cannot be converted as a whole: {__file__}:{line}: " in text
    assert "steps run " in text
    assert "(the first comparison; time per step over " in text
    assert "Model.gradient: 3 eager, " in text
    page = called.explain(html=True)
    assert page == text.html()
    assert "self.w.assign_sub(" in page


def test_a_function_without_callees_is_coexecuted_or_eager() -> None:
    """There is nothing to speculate on."""
    weights = tf.Variable(tf.ones([3, 3]))

    def step(x: Any) -> float:
        math = eval("__import__('math')")

        total = math.fsum([])
        for part in parts(x):
            total += float(tf.reduce_sum(tf.tanh(tf.constant(part, tf.float32) @ weights)))
        weights.assign_sub(0.01 * weights)
        return total

    called = rg.function(step)
    for i in range(STEPS):
        called(*matrix(i))
    assert set(called.apart.counts) <= {"eager", "callees", "coexec"}
    assert called.apart.rejected["callees"] == "no callee can be converted to a graph"


def test_exceptions_and_state_are_those_of_eager_execution() -> None:
    """In whatever way the step runs that raises."""

    def make() -> tuple[Any, Any]:
        model = Model()

        def step(x: Any, i: int) -> float:
            total = model.step(x)
            if i % 5 == 4:
                raise ValueError(f"step {i} gave {total:.3f}")
            return total

        return step, model

    compared(rg.function, make, lambda i: (*matrix(i), i), STEPS)


def test_a_graph_that_does_not_pay_is_left() -> None:
    """A function that computes next to nothing is faster without one."""
    one = tf.constant(1.0)
    called = rg.function(lambda x: -x)
    assert called.way is None
    left = []
    for taken in range(40):
        called(one)
        if called.undecided:
            left.append(taken + int(called.undecided.split()[3]))
            assert called.undecided in called.explain()
    assert max(left) == left[0]  # that it takes longest is known from the beginning
    assert sum(called.calls.values()) == 40
    assert called.whole is not None
    assert called.whole.decision is not None
    assert called.way == called.whole.decision.way
    assert set(called.whole.decision.costs) == {"graph", "eager"}


def test_a_step_inside_of_a_step_is_a_part_of_it() -> None:
    """A function that calls itself through Python's objects, in any way."""
    calls = []

    def step(x: Any, depth: int) -> float:
        import math

        calls.append(depth)
        below = sum(called(part, depth - 1) for part in parts(x)) if depth else 0.0
        return math.fsum([below]) + float(tf.reduce_sum(tf.constant(x, tf.float32)))

    called = rg.function(step)
    for i in range(STEPS):
        calls.clear()
        result = called(np.ones(2), 2)
        assert result == 14.0
        assert calls == [2, 1, 0, 0, 1, 0, 0], i


def test_threads_with_a_step_each() -> None:
    """Neither changes what the other gives."""

    def run(called: Callable[..., Any], results: list[float]) -> None:
        for i in range(STEPS):
            results.append(called(*matrix(i)))

    expected: list[float] = []
    run(Model().step, expected)
    results: list[list[float]] = [[], []]
    threads = [threading.Thread(target=run, args=(rg.function(Model().step), found)) for found in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found in results:
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_threads_take_steps_of_one_function() -> None:
    """With a model for each; a graph of both would write to both, so none is co-executed."""

    def step(model: Model, x: Any) -> float:
        import math

        return math.fsum([model.step(x)])

    def run(called: Callable[..., Any], results: list[float]) -> None:
        model = Model()
        for i in range(STEPS):
            results.append(called(model, *matrix(i)))

    expected: list[float] = []
    run(step, expected)
    called = rg.function(step)
    results: list[list[float]] = [[], []]
    threads = [threading.Thread(target=run, args=(called, found)) for found in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found in results:
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert "the function is called from several threads" in called.explain()


def test_without_the_extension_modules_functions_run_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    """And `explain()` says so."""

    def missing() -> Any:
        raise NativeLibraryError("the op library was never built")

    monkeypatch.setattr(native, "frames", missing)
    monkeypatch.setattr(native, "coexec", missing)
    model = Model()
    called = rg.function(model.step)
    for i in range(12):
        called(*matrix(i))
    assert called.apart.decision.way == "eager"
    assert "cannot run co-executed: the op library was never built" in called.explain()


def test_a_coexecuted_function_is_a_part_of_a_converted_caller() -> None:
    """Every line of it counts in every call, not once when the graph is made."""
    log: list[float] = []

    @rg.function(mode="coexec")
    def inner(x: tf.Tensor) -> tf.Tensor:
        log.append(float(x))
        return x * 2.0

    outer = rg.function(lambda x: inner(x + 1.0) + 1.0, mode="speculate")
    results = [float(outer(tf.constant(float(i)))) for i in range(8)]
    assert results == [2.0 * (i + 1.0) + 1.0 for i in range(8)]
    assert log == [i + 1.0 for i in range(8)]
    assert outer.calls["graph"] > 0, outer.explain()


def test_strict_says_what_is_not_converted() -> None:
    """In place of taking it apart; where, why, and what to change, as every error of ours."""
    called = rg.function(Model().step, strict=True)

    def train() -> None:
        for i in range(12):
            called(*matrix(i))

    with pytest.raises(
        rg.errors.NotAGraph, match=r"\[not-converted\]\n  where: +\S+test_function.py:\d+\n  next step: "
    ) as raised:
        train()
    assert isinstance(raised.value, Inconvertible)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_decisions_are_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """`RECGRAPH_LOG=auto`."""
    monkeypatch.setattr(choosing._LOG, "propagate", True)
    with caplog.at_level(logging.INFO, "recgraph.auto"):
        called = Automatic(Model().step)
        for i in range(STEPS):
            called(*matrix(i))
    assert any("Model.step: steps run " in record.getMessage() for record in caplog.records)


def test_a_mode_that_does_not_exist_is_named() -> None:
    """With those that do."""
    with pytest.raises(SignatureError, match="mode must be one of 'auto', 'speculate', 'coexec', got 'fast'"):
        rg.function(lambda x: x, mode="fast")


def test_a_step_of_thousands_of_operations_is_not_made_a_graph_beside_python() -> None:
    """To make it would take longer than many steps."""

    def step(x: tf.Tensor) -> tf.Tensor:
        for _ in range(2100):
            x = tf.tanh(x) + 1.0
        return x

    way = Coexecuting("coexec", step, "step")
    while not way.is_settled:
        way.run(tf.ones([2]))
    assert way.given_up == "steps contain more than 4000 different operations"
    assert way.coexecuted.phases.counts == {"traced": 1, "coexecuted": 0, "left": 0, "eager": 0}


def test_what_is_no_function_to_convert() -> None:
    """Classes and what is converted already are refused where they are decorated."""

    def step(x: tf.Tensor) -> tf.Tensor:
        return x + 1

    for wrong, reason in [
        (3, "must be callable"),
        (Exception, "decorate its methods"),
        (tf.function(step), "python_function"),
        (rg.function(step), "made already"),
        (rg.function(step, mode="coexec"), "made already"),
    ]:
        with pytest.raises(SignatureError, match=reason):
            rg.function(wrong)  # type: ignore[call-overload]
