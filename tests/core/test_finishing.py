"""What is finished once for bodies that are written alike: what is shared, what is not, and what is not kept alive."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Callable

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import logs
from recgraph.core import finishing
from recgraph.errors import Unbatchable

SCALAR = tf.TensorSpec([], tf.float32)


@pytest.fixture(autouse=True)
def count(monkeypatch: pytest.MonkeyPatch) -> list[finishing.Written]:
    """What was finished in a test; nothing is left of what other tests have finished."""
    made: list[finishing.Written] = []
    finish: Callable[[finishing.Written], finishing.Finished] = finishing._finish

    def counted(written: finishing.Written) -> finishing.Finished:
        made.append(written)
        return finish(written)

    monkeypatch.setattr(finishing, "_finish", counted)
    monkeypatch.setattr(finishing, "kept", finishing.Kept())
    return made


def _power(factor: tf.Variable | tf.Tensor | float, engine: str = "auto") -> rg.SubGraph:
    """`factor ** n`."""
    with rg.SubGraph("power", inputs=(SCALAR,), outputs=SCALAR, engine=engine) as power:
        n = power.input()
        power.output(tf.cond(n < 1.0, lambda: tf.constant(1.0), lambda: factor * power(n - 1.0)))
    return power


def _doubling(variable: tf.Variable) -> rg.SubGraph:
    """Writes a variable that it reads: its invocations run one after another."""
    with rg.SubGraph("doubling", inputs=(SCALAR,), outputs=SCALAR) as doubling:
        n = doubling.input()
        variable.assign_add(variable.read_value())
        doubling.output(tf.cond(n < 1.0, variable.read_value, lambda: doubling(n - 1.0)))
    return doubling


def _value_and_gradient(power: rg.SubGraph, variable: tf.Variable) -> tuple[float, float]:
    with tf.GradientTape() as tape:
        value = power(tf.constant(3.0))
    return float(value), float(tape.gradient(value, variable))


def test_bodies_that_are_written_alike_are_finished_once(count: list[finishing.Written]) -> None:
    """Each reads its own variable, in its results and its gradients."""
    two, five = tf.Variable(2.0), tf.Variable(5.0)
    first, second = _power(two), _power(five)
    assert _value_and_gradient(first, two) == (8.0, 12.0)
    assert _value_and_gradient(second, five) == (125.0, 75.0)
    assert len(count) == 1
    two.assign(10.0)
    assert _value_and_gradient(first, two) == (1000.0, 300.0)


def test_what_is_part_of_the_text_is_not_shared(count: list[finishing.Written]) -> None:
    """A constant is; so is whether there is a gradient."""
    assert [float(_power(factor)(tf.constant(2.0))) for factor in (2.0, 3.0)] == [4.0, 9.0]
    assert len(count) == 2
    variable = tf.Variable(2.0)
    assert float(_power(variable)(tf.constant(2.0))) == 4.0
    assert _value_and_gradient(_power(variable), variable) == (8.0, 12.0)
    assert len(count) == 4


def test_graphs_are_traced_again_and_finished_once(count: list[finishing.Written]) -> None:
    """The captured tensor is another one in each graph."""

    def step(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        return _power(x + 1.0)(n)

    given = tf.constant(1.0), tf.constant(3.0)
    assert [float(tf.function(step)(*given)) for _ in range(3)] == [8.0] * 3
    assert len(count) == 1


def test_branches_are_written_in_one_order(count: list[finishing.Written]) -> None:
    """TensorFlow keeps what an operation waits for as a set."""

    def several() -> float:
        with rg.SubGraph("several", inputs=(SCALAR,), outputs=SCALAR) as several:
            n = several.input()
            parts = [
                tf.cond(n < float(i), lambda: tf.constant(1.0), lambda i=i: several(n - float(i))) for i in range(1, 9)
            ]
            several.output(tf.add_n(parts))
        return float(several(tf.constant(2.0)))

    assert len({several() for _ in range(4)}) == 1
    assert len(count) == 1


def test_a_refusal_is_one_whatever_was_finished_before() -> None:
    """Engine "batched" refuses what "auto" runs parallel."""

    def counting(engine: str) -> rg.SubGraph:
        with rg.SubGraph("counting", inputs=(SCALAR,), outputs=SCALAR, engine=engine) as counting:
            n = counting.input()
            image = tf.image.adjust_hue(tf.zeros([1, 1, 3]) + n, 0.1)
            counting.output(tf.cond(n < 1.0, lambda: tf.reduce_sum(image), lambda: counting(n - 1.0)))
        return counting

    linked = [counting("auto").program(gradient=False, batched=True) for _ in range(2)]
    assert linked[0].finished is linked[1].finished
    if linked[0].unbatchable is not None:
        for _ in range(2):
            with pytest.raises(Unbatchable):
                counting("batched").program(gradient=False, batched=True)


def test_threads_share_what_one_of_them_has_finished() -> None:
    """All have one program, and the right results."""
    found: dict[int, tuple[str, float]] = {}

    def work(i: int) -> None:
        power = _power(tf.constant(2.0) + 0.0 * i)
        found[i] = power.program(gradient=True, batched=True).key, float(power(tf.constant(float(i))))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({key for key, _ in found.values()}) == 1
    assert [found[i][1] for i in range(4)] == [1.0, 2.0, 4.0, 8.0]


def test_no_graph_outlives_its_subgraph() -> None:
    """What is kept of it is text, also where it cannot be batched."""
    variable = tf.Variable(2.0)
    powers = [_power(variable), _doubling(variable)]
    kept = [power.program(gradient=False, batched=True).finished for power in powers]
    assert kept[1].unbatchable is not None
    graphs = [weakref.ref(power.finished_body()) for power in powers]
    del powers
    gc.collect()
    assert [graph() for graph in graphs] == [None, None]
    assert all(one.library for one in kept)


def test_it_is_said_what_takes_long(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """And only that."""
    with caplog.at_level(logging.WARNING, "recgraph.core"):
        assert float(_power(2.0)(tf.constant(2.0))) == 4.0
        assert not caplog.messages
        monkeypatch.setattr(logs, "PATIENCE", 0.001)
        assert float(_power(3.0)(tf.constant(2.0))) == 9.0
    assert caplog.messages == [
        "preparing the first call of SubGraph 'power' (gradient, plan, TensorFlow's optimizer) has taken 0.001 s so far"
    ]
