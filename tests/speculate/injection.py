"""Breaks assumptions and graphs of calls on purpose."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.passes import ordering
from recgraph.speculate.run import conversion
from recgraph.speculate.run.graphs import Broken, CachedGraph
from recgraph.speculate.script.assumptions import assertion
from recgraph.speculate.script.script import Script
from tests.speculate import comparing

# Operations of each graph after which a failing one is added.
POINTS = 6


Look: TypeAlias = Callable[[], Any]


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
