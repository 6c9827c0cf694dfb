"""The two phases of a step: traced until nothing new is seen, then co-executed until something is."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from recgraph import tf_private
from recgraph.coexec import device
from recgraph.coexec.generation import generate
from recgraph.coexec.plan import make_plan
from recgraph.coexec.trace import Trace
from recgraph.coexec.trace_graph import TraceGraph

# How often a program may leave its graph before it is left alone, unless ten times as many steps did not.
MAX_DEPARTURES = 32
# Nodes of one trace graph; a program with more paths than that runs eagerly.
MAX_NODES = 20_000
# Switches in one graph: beyond that, making it takes longer than it will ever save.
MAX_SWITCHES = 200


@dataclasses.dataclass(frozen=True)
class Built:
    """A plan with the function that computes it, which has to live as long."""

    plan: Any
    function: Any


class Phases:
    """What is known of one program: its trace graph, the graph made of it, and how its steps went.

    Attributes:
        counts: how many steps were traced, co-executed, left their graph, and ran without being looked at.
        reasons: how often which reason made a step leave its graph.
        given_up: why its steps are not looked at any more; "" as long as they are.
    """

    def __init__(self) -> None:
        self.graph = TraceGraph()
        self.built: Built | None = None
        self.counts = {"traced": 0, "coexecuted": 0, "left": 0, "eager": 0}
        self.reasons: collections.Counter[str] = collections.Counter()
        self.given_up = ""

    def plan(self) -> Any:
        """The plan for the next step, or None if it is to be traced."""
        return self.built.plan if self.built is not None else None

    def learn(self, outcome: device.Outcome, was_raised: bool) -> None:
        """Takes note of how a step went."""
        if outcome.was_coexecuted:
            self.counts["coexecuted"] += 1
            return
        self.counts["left" if outcome.reason else "traced"] += 1
        if outcome.reason:
            self.reasons[outcome.reason] += 1
            if self.counts["left"] > max(MAX_DEPARTURES, self.counts["coexecuted"] / 10):
                self._give_up(f"its steps left their graphs {self.counts['left']} times")
        if not was_raised and outcome.trace is not None and outcome.code == 0:
            self._merge(outcome.trace)

    def _merge(self, trace: Trace) -> None:
        conflict = trace.conflict()
        if conflict:
            return self._give_up(conflict)
        merged = self.graph.merge(trace)
        if merged is not self.graph:
            self.graph, self.built = merged, None
            if len(merged.nodes) > MAX_NODES:
                self._give_up(f"its steps have more than {MAX_NODES} different operations")
        elif self.built is None:
            self._build()

    def _build(self) -> None:
        if not self.graph.nodes:
            return self._give_up("its steps have no operations that a graph could do")
        try:
            plan = make_plan(self.graph, device.is_write, device.can_fail)
            if sum(level.is_switch for level in plan.levels) > MAX_SWITCHES:
                return self._give_up(f"its steps part in more than {MAX_SWITCHES} places")
            function = generate(plan, device.MEANING)
        except Exception as error:  # a defect of ours must not become the user's
            return self._give_up(f"no graph could be made: {type(error).__name__}: {error}")
        described = plan.described(tf_private.function_name(function), tf_private.call_options())
        self.built = Built(device.module().plan(described), function)

    def _give_up(self, reason: str) -> None:
        self.given_up, self.built = reason, None

    def explain(self) -> str:
        """What happened to the steps so far, and why."""
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts.items() if count)
        lines = [f"steps: {counts or 'none'}", f"trace graph: {len(self.graph.nodes)} operations"]
        lines += [f"left its graph {count}x: {reason}" for reason, count in self.reasons.most_common()]
        if self.given_up:
            lines.append(f"runs eagerly: {self.given_up}")
        return "\n".join(lines)
