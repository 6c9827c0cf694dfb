"""Every assumption of every program is broken on purpose, and operations fail at random: nothing is left behind."""

from __future__ import annotations

import contextlib
import io
import random
from typing import Any

import pytest
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate import Speculated, branches, conversion
from recgraph.speculate.cached import Broken, CachedGraph
from recgraph.speculate.script import Script
from tests.speculate import comparing, corpus, test_corpus

# Operations of each graph after which a failing one is added.
POINTS = 6
# Calls before which everything is broken once.
CALLS = (5, 9, 12)
_CONVERTED = [name for name, program in test_corpus.corpus.PROGRAMS.items() if program.converted]


class Injection:
    """What is broken now: the number of an assumption, or of a point in the graph."""

    def __init__(self) -> None:
        self.guard = [-1]
        self.numbers: dict[int, set[int]] = {}  # of each script, the assumptions that it checks itself
        self.assertion, self.point = tf.Variable(-1), tf.Variable(-1)
        self.random = random.Random(7)

    def add_to_graph(self, ev: Any) -> None:
        """In place of `conversion._assert`: the same, and what can be made to fail."""
        operations = [op for op in ev.graph.get_operations() if op.outputs and op.type != "Placeholder"]
        number = branches.broken([*ev.assertions, self.assertion.read_value()])
        tf.debugging.Assert(number < 0, [conversion.MARK, number], summarize=1)
        for i in range(POINTS):
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
                place = -2 if line.strip().startswith("except") else -1
                numbers.add(int(found))
                lines[place:place] = [f"    if guard[0] == {found}: return broken({found})"]
        script.scope["guard"] = self.guard
        return "\n".join(lines)

    def break_all(self, graph: CachedGraph, parameters: Any, state: Any) -> int:
        """Breaks everything that a graph assumes, one after the other."""
        count = 0
        for i, assumption in enumerate(graph.assumptions):
            if i in self.numbers[id(graph.assumptions)]:
                self.guard[0] = i
                count += _leaves_no_trace(graph, parameters, state, str(assumption))
                self.guard[0] = -1
            self.assertion.assign(i)
            count += _leaves_no_trace(graph, parameters, state, str(assumption))
            self.assertion.assign(-1)
        for i in range(POINTS):
            self.point.assign(i)
            count += _leaves_no_trace(graph, parameters, state, "a failing operation")
        self.point.assign(-1)
        return count


def _leaves_no_trace(graph: CachedGraph, parameters: Any, state: Any, what: str) -> int:
    before, seeds = comparing.plain(state), tf_private.seed_generator_state()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = graph.call(parameters)
    assert type(result) is Broken, what
    assert comparing.differences(before, comparing.plain(state)) == [], what
    assert printed.getvalue() == ""
    assert seeds is None or tf_private.seed_generator_state()[1] == seeds[1]
    return 1


@pytest.mark.parametrize("name", _CONVERTED)
def test_nothing_is_left_behind(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken call changes nothing, and the calls go on as if it had not been."""
    program = corpus.PROGRAMS[name]
    expected, _, _ = comparing.run(program, speculated=False)
    injection = Injection()
    original = Script.text
    monkeypatch.setattr(conversion, "_assert", injection.add_to_graph)
    monkeypatch.setattr(Script, "text", property(lambda script: injection.text(script, original)))
    step, arguments, state = program.make()
    called = Speculated(step)
    broken = 0
    for i in range(corpus.CALLS):
        values = arguments(i)
        printed = io.StringIO()
        if i in CALLS:
            parameters = called._bind(*called._owner, *values)
            for graph in called._graphs:
                broken += injection.break_all(graph, parameters, state)
        with contextlib.redirect_stdout(printed):
            try:
                outcome: Any = called(*values)
            except Exception as error:
                outcome = (type(error).__name__, str(error))
        seen = comparing.plain(outcome), printed.getvalue(), comparing.plain(state)
        assert comparing.differences(expected[i], seen) == []
    # A failure added after a `tf.print`, say, is refused.
    assert broken > 0 or "cannot be undone" in called.given_up, called.explain()
