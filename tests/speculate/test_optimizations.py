"""With an optimisation switched off, programs do what eager ones do all the same, by more general graphs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import defects
from recgraph.speculate import Optimizations, Speculated
from recgraph.speculate.observe.profile import GeneralProfile
from recgraph.speculate.run import conversion, function
from tests import sampling
from tests.speculate import comparing, corpus

NONE = Optimizations(unrolling=False, specialisation=False, batched=False)
OFF = {
    "unrolling": Optimizations(unrolling=False),
    "specialisation": Optimizations(specialisation=False),
    "batched": Optimizations(batched=False),
    "all": NONE,
}
PROGRAMS = corpus.load()
# A `tf.function` that the program calls is traced once more, for shapes with unknown dimensions; the rounds of solvers
# are unrolled where it is not known how many they are, which takes minutes.
EXCEPT = {"a_graph_function_inside", "a_solver_with_steps_of_its_own", "an_adaptive_solver"}
# Converted only if loops are unrolled (a generator yields in each round), or if numbers or shapes are specialised.
SPECIAL = {
    "a_generator", "exc_loop_continue_break", "gen_list_sum", "gen_nested_for",
    "gen_return_in_loop", "gen_two_interleaved", "ordered_lru", "short_sequences_of_a_recurrent_layer", "while_else",
}  # fmt: skip


def require_the_same(name: str, off: str) -> Speculated:
    """Runs a program of the corpus with something switched off; it is converted if it is so else and not special."""
    program = corpus.PROGRAMS[name]
    expected, _, _ = comparing.run(program, speculated=False)
    found, speculated, _ = comparing.run(program, True, OFF[off])
    assert comparing.differences(expected, found) == []
    assert speculated is not None
    assert name in SPECIAL or not program.converted or speculated.calls["graph"] > 0, speculated.explain()
    return speculated


@pytest.mark.parametrize("name", [name for name in list(PROGRAMS)[::20] if name not in EXCEPT])
def test_some_programs_are_the_same_without_all_optimizations(name: str) -> None:
    """Every twentieth program by the general rules alone."""
    require_the_same(name, "all")


def test_what_a_loop_of_the_graph_yields_is_no_member() -> None:
    """A generator's loop is one member of nothing: `[(p, q) for q in g(p)]` has a tuple for each of its rounds."""
    require_the_same("gen_two_interleaved", "all")


def in_turn() -> Iterator[tuple[str, str]]:
    """Each program without each of the optimizations; if not all are asked for, every eighth without one, in turn."""
    for i, name in enumerate(name for name in PROGRAMS if name not in EXCEPT):
        yield from ((name, off) for j, off in enumerate(OFF) if sampling.ALL or (i + 8 * j) % (8 * len(OFF)) == 0)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "off"), [*in_turn()])
def test_every_program_is_the_same_without_an_optimization(name: str, off: str) -> None:
    """Each by itself, and all together."""
    require_the_same(name, off)


class Sums:
    """A program whose graph tells what was done: a loop, a branch, a number and a shape that never vary."""

    def __init__(self) -> None:
        self.kernel, self.state, self.scale = tf.Variable([1.0, 2.0]), tf.zeros([2]), 0.5

    def step(self, rows: tf.Tensor) -> tf.Tensor:
        """A loop over float32 `[T, 2]`; descends, and keeps the last state."""
        with tf.GradientTape() as tape:
            total, state = 0.0, self.state
            for i in range(rows.shape[0]):
                state = tf.tanh(state * self.kernel + rows[i])
                total += tf.reduce_sum(state) * self.scale
            if total > 100.0:
                total = total * 2.0
        self.state = state
        self.kernel.assign_sub(0.1 * tape.gradient(total, self.kernel))
        return total


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that are made."""
    made: list[Any] = []

    def recording(*arguments: Any) -> Any:
        converted = conversion.convert(*arguments)
        made.append(converted.graph)
        return converted

    monkeypatch.setattr(function, "convert", recording)
    return made


def kinds(graph: Any) -> set[str]:
    """The types of a graph's operations."""
    return {op.type for op in graph.get_operations()}


def called(optimizations: Optimizations) -> tuple[list[float], Speculated]:
    """The results of some calls, and the function."""
    step = rg.function(Sums().step, optimizations=optimizations, strict=True)
    return [float(step(tf.random.stateless_normal([4 if i < 6 else 5, 2], [1, i]))) for i in range(8)], step


@pytest.mark.parametrize(
    ("off", "assumed", "absent"),
    [
        ("unrolling", ["branch: always False", "value: Sums.scale"], ["rounds of a loop"]),
        ("specialisation", ["rounds of a loop"], ["branch: always False", "value: Sums.scale"]),
        ("all", ["there is a first round"], ["branch: always", "value: Sums.scale", "rounds of a loop"]),
    ],
)
def test_what_is_switched_off_is_not_done(off: str, assumed: list[str], absent: list[str], graphs: list[Any]) -> None:
    """A switch that did nothing would leave all results the same, too."""
    found, step = called(OFF[off])
    assert found == pytest.approx(called(Optimizations())[0], 1e-5)
    text = step.explain()
    assert [part for part in assumed if part not in text] == []
    assert [part for part in absent if part in text] == []
    assert bool(kinds(graphs[0]) & {"While", "StatelessWhile"}) is (not OFF[off].unrolling)
    assert bool(kinds(graphs[0]) & {"If", "StatelessIf"}) is (not OFF[off].specialisation)
    assert (step.calls["fallback"] == 0) is (off == "all")  # the longer call fits the most general graph


def _crash(*_: Any, **__: Any) -> Any:
    raise KeyError("planted")


def test_a_rule_that_crashes_where_all_is_general_is_noticed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In tests it is raised. In a user's program it is told, and the specialised graph runs."""
    until_sure = conversion._until_sure

    def crashing(function: Any, parameters: Any, settings: Any, *more: Any) -> Any:
        is_general = isinstance(settings.profile, GeneralProfile)
        return (_crash if is_general else until_sure)(function, parameters, settings, *more)

    monkeypatch.setattr(conversion, "_until_sure", crashing)
    with pytest.raises(KeyError, match="planted"):
        called(OFF["specialisation"])
    monkeypatch.setattr(defects, "fatal", False)
    with caplog.at_level(logging.WARNING, "recgraph.defects"):
        assert called(OFF["specialisation"])[1].calls["graph"] > 0
    assert "the most general conversion of Sums.step failed: KeyError: 'planted'; this is a defect" in caplog.text


@pytest.mark.parametrize(("optimizations", "engine"), [(Optimizations(), b"auto"), (OFF["batched"], b"parallel")])
def test_a_recursion_is_run_by_the_engine_that_was_asked_for(
    optimizations: Optimizations, engine: bytes, graphs: list[Any]
) -> None:
    """Both give the same, so the operation is looked at."""
    comparing.run(PROGRAMS["a_recursive_network"], True, optimizations)
    assert {op.get_attr("engine") for op in graphs[-1].get_operations() if op.type == "Recgraph>Invoke"} == {engine}
