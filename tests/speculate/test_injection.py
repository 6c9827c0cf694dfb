"""Every assumption of every program is broken on purpose, and operations fail at random: nothing is left behind."""

from __future__ import annotations

import contextlib
import io
import itertools
import random
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
import tensorflow as tf

from recgraph import tf_private
from recgraph.models.zoo import ZOO
from recgraph.speculate import Speculated
from recgraph.speculate.passes import ordering
from recgraph.speculate.run import conversion
from recgraph.speculate.run.graphs import Broken, CachedGraph
from recgraph.speculate.script.assumptions import assertion
from recgraph.speculate.script.script import Script
from tests import sampling
from tests.speculate import comparing, corpus, test_corpus, test_zoo

# Operations of each graph after which a failing one is added.
POINTS = 6
# Calls before which everything is broken once.
CALLS = (5, 9, 12)
# Of each larger program, how many places are broken, at random; `--points=100` for a thousand in all.
PLACES = sampling.count("points", 8)
# Programs whose conversion takes long are left out where few places are broken.
_LONG = {"resnet50", "inception_v3"} if PLACES < 50 else set()
Look: TypeAlias = Callable[[], Any]
_CONVERTED = [name for name, program in test_corpus.corpus.PROGRAMS.items() if program.converted]
# Every seventh program, if not all are asked for.
_BROKEN = _CONVERTED if sampling.ALL else _CONVERTED[::7]


class Injection:
    """What is broken now: the number of an assumption, or of a point in the graph; or the call is interrupted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, points: int = POINTS) -> None:
        self.points, self.guard = points, [-1]
        self.numbers: dict[int, set[int]] = {}  # of each script, the assumptions that it checks itself
        self.assertion, self.point = tf.Variable(-1), tf.Variable(-1)
        self.is_interrupted = False
        self.random = random.Random(7)
        text, fast_call = Script.text, tf_private.fast_call
        monkeypatch.setattr(conversion, "_assert", self.add_to_graph)
        monkeypatch.setattr(Script, "text", property(lambda script: self.text(script, text)))
        monkeypatch.setattr(tf_private, "fast_call", lambda *a, **named: self.interruptible(fast_call(*a, **named)))

    def add_to_graph(self, ev: Any) -> None:
        """In place of `conversion._assert`: the same, and what can be made to fail."""
        operations = [op for op in ev.graph.get_operations() if op.outputs and op.type != "Placeholder"]
        chosen = self.assertion.read_value()  # -1 for none
        ordering.check([*ev.assertions, assertion(chosen < 0, chosen)])
        for i in range(self.points):
            with tf.control_dependencies([self.random.choice(operations)] if operations else []):
                tf.debugging.Assert(self.point.read_value() != i, ["failed on purpose"])

    def text(self, script: Script, original: Any) -> str:
        """A script whose assumptions can be made to break."""
        lines: list[str] = []
        numbers = self.numbers[id(script.assumptions)] = set()
        for line in original.fget(script).split("\n"):
            found = line.rpartition("return broken(")[2].rstrip(")")
            lines.append(line)
            if found.isdigit():  # before the line, or before the `try` that it belongs to
                place = len(lines) - 1
                while lines[place].strip().startswith("except"):
                    place -= 1
                numbers.add(int(found))
                indent = " " * (len(lines[place]) - len(lines[place].lstrip()))
                lines[place:place] = [f"{indent}if guard[0] == {found}: return broken({found})"]
        script.scope["guard"] = self.guard
        return "\n".join(lines)

    def interruptible(self, run: Any) -> Any:
        """What runs a graph, or is interrupted."""

        def call(tensors: Any) -> Any:
            if self.is_interrupted:
                raise KeyboardInterrupt
            return run(tensors)

        return call

    def places(self, graph: CachedGraph) -> list[tuple[str, int]]:
        """Everything that can be broken in a graph."""
        numbers = range(len(graph.assumptions))
        guards = [("guard", i) for i in numbers if i in self.numbers[id(graph.assumptions)]]
        points = [("point", i) for i in range(self.points)]
        return [*guards, *(("assertion", i) for i in numbers), *points, ("interrupt", 0)]

    @contextlib.contextmanager
    def broken(self, kind: str, number: int) -> Iterator[None]:
        """While something is broken."""
        for is_broken in (True, False):
            value = number if is_broken else -1
            if kind == "guard":
                self.guard[0] = value
            elif kind == "interrupt":
                self.is_interrupted = is_broken
            else:
                (self.assertion if kind == "assertion" else self.point).assign(value)
            if is_broken:
                yield

    def leaves_no_trace(self, graph: CachedGraph, parameters: Any, look: Look, place: tuple[str, int]) -> None:
        """Breaks a call, after which everything that can be seen is as it was, to the bit."""
        before, seeds = comparing.plain(look()), tf_private.seed_generator_state()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), self.broken(*place):
            try:
                result = graph.call(parameters)
            except KeyboardInterrupt:
                assert place[0] == "interrupt"
            else:
                assert type(result) is Broken, place
        assert comparing.differences(before, comparing.plain(look()), exact=True) == [], place
        assert printed.getvalue() == ""
        assert seeds is None or tf_private.seed_generator_state()[1] == seeds[1]


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
    count = test_zoo.FEWER_STEPS.get(name, test_zoo.STEPS)
    expected, _ = test_zoo.run(ZOO[name], False, count)
    injection = Injection(monkeypatch, points=20)
    made = ZOO[name].make(True)
    called = Speculated(made.train_step)

    def look() -> Any:
        return _variables(made, {}), test_zoo.seen(made, None)

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
        found.append(test_zoo.seen(made, called(*values)))
    assert broken >= PLACES, called.explain()
    assert comparing.far_apart(expected, found, 1e-4) == []
