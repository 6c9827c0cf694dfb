"""Every assumption of every program is broken on purpose, and operations fail at random: nothing is left behind."""

from __future__ import annotations

import contextlib
import io
import itertools
import random
import types
from typing import Any

import pytest
import tensorflow as tf

from recgraph.models.zoo import ZOO
from recgraph.speculate import Speculated
from tests import sampling
from tests.speculate import comparing, corpus, zoo_runs
from tests.speculate.injection import Injection

# Calls before which everything is broken once.
CALLS = (5, 9, 12)
# Of each larger program, how many places are broken, at random; `--points=100` for a thousand in all.
PLACES = sampling.count("points", 8)
# Programs whose conversion takes long are left out where few places are broken.
_LONG = {"resnet50", "inception_v3"} if PLACES < 50 else set()
_CONVERTED = [name for name, program in corpus.load().items() if program.converted]
# Every seventh program, if not all are asked for.
_BROKEN = _CONVERTED if sampling.ALL else _CONVERTED[::7]


@pytest.mark.parametrize("name", _BROKEN)
def test_nothing_is_left_behind(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken call changes nothing, and the calls go on as if it had not been."""
    program = corpus.PROGRAMS[name]
    expected, _, _ = comparing.run(program, speculated=False)
    injection = Injection(monkeypatch)
    step, arguments, state = program.make()
    called = Speculated(step)
    broken = 0
    for i in range(corpus.CALLS):
        values = arguments(i)
        printed = io.StringIO()
        if i in CALLS:
            parameters = called._bind(*called._owner, *values)
            for graph in called._graphs:
                for place in injection.places(graph):
                    injection.leaves_no_trace(graph, parameters, lambda: state, place)
                    broken += 1
        with contextlib.redirect_stdout(printed):
            try:
                outcome: Any = called(*values)
            except Exception as error:
                outcome = (type(error).__name__, str(error))
        seen = comparing.plain(outcome), printed.getvalue(), comparing.plain(state)
        assert comparing.differences(expected[i], seen) == []
    # A failure added after a `tf.print`, say, is refused.
    assert broken > 0 or "cannot be undone" in called.given_up, called.explain()


def _variables(thing: Any, seen: dict[int, Any]) -> list[tf.Variable]:
    """All variables that an object leads to, those of its optimizer included."""
    if id(thing) in seen or isinstance(thing, type | types.ModuleType | types.FunctionType | tf.Tensor):
        return []
    seen[id(thing)] = thing
    if isinstance(thing, tf.Variable):
        return [thing]
    members = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list | tuple) else []
    members = [*members, *getattr(thing, "__dict__", {}).values()]
    return [variable for member in members for variable in _variables(member, seen)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ZOO if name not in _LONG])
def test_nothing_is_left_behind_in_larger_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random places of the programs of the paper, in the middle of their training, which then goes on as eagerly."""
    count = zoo_runs.FEWER_STEPS.get(name, zoo_runs.STEPS)
    expected, _ = zoo_runs.run(ZOO[name], False, count)
    injection = Injection(monkeypatch, points=20)
    made = ZOO[name].make(True)
    called = Speculated(made.train_step)

    def look() -> Any:
        return _variables(made, {}), zoo_runs.seen(made, None)

    steps = itertools.cycle(ZOO[name].steps(ZOO[name].small_batch, True))
    found, broken, choose = [], 0, random.Random(name)
    for i, values in enumerate(itertools.islice(steps, count)):
        left = PLACES - broken if i == count - 1 else PLACES // 2
        parameters = called._bind(*called._owner, *values)
        if i >= count // 2 and called._graphs and broken < PLACES:
            for _ in range(left):
                graph = choose.choice(called._graphs)
                injection.leaves_no_trace(graph, parameters, look, choose.choice(injection.places(graph)))
                broken += 1
        found.append(zoo_runs.seen(made, called(*values)))
    assert broken >= PLACES, called.explain()
    assert comparing.far_apart(expected, found, 1e-4) == []
