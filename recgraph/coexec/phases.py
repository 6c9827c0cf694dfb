"""The two phases of a step: traced until nothing new is seen, then co-executed until something is."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Final

from recgraph import defects, devices, logs, tf_private
from recgraph.coexec import device
from recgraph.coexec.generation import generate
from recgraph.coexec.merging import Merged
from recgraph.coexec.plan import Threads, make_plan
from recgraph.coexec.profile import KEPT, Meaning, StepProfile, ValueSlots, read_times
from recgraph.coexec.trace import Trace
from recgraph.coexec.trace_graph import TraceGraph

# How often a program may leave its graph before it is left alone, unless ten times as many steps did not.
MAX_DEPARTURES = 32
# Nodes of one trace graph; a program with more paths than that runs eagerly.
MAX_NODES = 20_000
# Steps of one program that each went another way; beyond that it is taken for one that never settles.
MAX_WAYS = 256
# Switches in one graph: beyond that, making it takes longer than it will ever save.
MAX_SWITCHES = 200
_LOG = logs.logger("coexec")
_MEANING = Meaning(device.place, device.title)


@dataclasses.dataclass(frozen=True)
class Execution:
    """How the graphs of steps are executed.

    Attributes:
        xla: whether XLA compiles parts of them.
        is_lazy: whether a graph starts only when Python first waits for it, at the latest at the step's end. This is
            lazy evaluation (LazyTensor, Suhan et al. 2021), to compare with.
        threads: whether one thread does the work of a graph, or all of TensorFlow's; by default both are tried. A lazy
            graph always has all.
    """

    xla: bool = False
    is_lazy: bool = False
    threads: Threads = "tried"


AS_USUAL: Final = Execution()


@dataclasses.dataclass(frozen=True)
class Built:
    """A plan with the function that computes it, which lives as long as a step needs it.

    Attributes:
        slots: what the graph waits for in each.
        switches: the places where Python says which way it went.
        syncs: the operations that Python waits for.
    """

    plan: Any
    function: Any
    slots: ValueSlots
    switches: int
    syncs: int


class Phases:
    """What is known of one program: its trace graph, the graph made of it, and how its steps went.

    Another thread may ask while steps run: what grows with them is copied by one call before it is gone through.

    Args:
        name: of the program.
        execution: how its graphs are executed.

    Attributes:
        counts: how many steps were traced, co-executed, left their graph, and ran without being looked at.
        reasons: how often which reason made a step leave its graph, each with the line, `file:line`, or "".
        given_up: why its steps are not looked at any more; "" as long as they are.
        most: how many different operations its steps may have.
    """

    def __init__(self, name: str, execution: Execution = AS_USUAL) -> None:
        self.name, self.execution, self.most = name, execution, MAX_NODES
        self.merged = Merged()
        self.built: Built | None = None
        self.counts = {"traced": 0, "coexecuted": 0, "left": 0, "eager": 0}
        self.reasons: collections.Counter[tuple[str, str]] = collections.Counter()
        self._times: collections.deque[tuple[Any, ValueSlots]] = collections.deque(maxlen=KEPT)
        self.given_up = ""

    def are_given_up(self) -> bool:
        """Whether its steps are not looked at any more; beside a GPU, none is."""
        if not self.given_up and devices.gpu_is_visible():
            self._give_up(
                "a GPU is visible, and steps are co-executed on the host alone; hide it with "
                "tf.config.set_visible_devices([], 'GPU'), or use mode='speculate'"
            )
        return bool(self.given_up)

    @property
    def graph(self) -> TraceGraph:
        """What its steps did."""
        return self.merged.graph

    def plan(self) -> Any:
        """The plan for the next step, or None if it is to be traced."""
        return self.built.plan if self.built is not None else None

    @property
    def is_settled(self) -> bool:
        """Whether the next step is co-executed, or none will be."""
        return self.built is not None or bool(self.given_up)

    def profile(self) -> StepProfile:
        """Where the time of the last steps went that were co-executed."""
        return StepProfile(self.name, [read_times(times, slots) for times, slots in self._times.copy()])

    def learn(self, outcome: device.Outcome, was_raised: bool) -> None:
        """Takes note of how a step went."""
        if outcome.was_coexecuted:
            self.counts["coexecuted"] += 1
            if self.built is not None:
                self._times.append((outcome.times, self.built.slots))
            return
        self.counts["left" if outcome.reason else "traced"] += 1
        if outcome.reason:
            self.reasons[outcome.reason, outcome.where] += 1
            _LOG.info("%s: left its graph: %s %s", self.name, outcome.reason, outcome.where)
            if self._has_lost_functions():
                self.merged, self.built = Merged(), None
            if self.counts["left"] > max(MAX_DEPARTURES, self.counts["coexecuted"] / 10):
                self._give_up(f"steps left the graph {self.counts['left']} times")
        if not was_raised and outcome.trace is not None and outcome.code == 0:
            self._merge(outcome.trace)

    def _merge(self, trace: Trace) -> None:
        conflict = trace.conflict() or device.conflict(trace)
        if conflict:
            return self._give_up(conflict)
        merged = self.merged.merge(trace)
        if merged is not self.merged:
            self.merged, self.built = merged, None
            if len(self.graph.items) > self.most:
                self._give_up(f"steps contain more than {self.most} different operations")
            elif len(self.merged.traces) > MAX_WAYS:
                self._give_up(f"steps took more than {MAX_WAYS} different paths")
        elif self.built is None:
            self._build()

    def _has_lost_functions(self) -> bool:
        """Whether an operation calls a function that the program has let go of, so that no graph can."""
        return any(device.is_gone(node.signature) for node in self.graph.nodes.values())

    def _build(self) -> None:
        if self._has_lost_functions():
            self.merged = Merged()
            return
        if not self.graph.items:
            return self._give_up("steps contain no operations that can run in a graph")
        try:
            plan = make_plan(self.graph, device.is_write, device.can_fail, device.can_be_deferred)
            if plan.switches > MAX_SWITCHES:
                return self._give_up(f"steps branch in more than {MAX_SWITCHES} places")
            function = generate(plan, device.MEANING, self.execution.xla)
            name, options = tf_private.function_name(function), tf_private.call_options(function)
            described = plan.described(name, options, self.execution.is_lazy, self.execution.threads)
            syncs = sum(node.is_sync and not node.node.is_foreseen for node in plan.nodes.values())
            self.built = Built(
                device.module().plan(described, function), function, ValueSlots(plan, _MEANING), plan.switches, syncs
            )
            _LOG.info("%s: a graph of %d operations, %d switches", self.name, len(plan.nodes), plan.switches)
        except ReferenceError:  # a variable of a path that was traced is gone: the paths are traced anew
            self.merged = Merged()
        except Exception as error:
            self._give_up(defects.contain("making the graph", error))

    def _give_up(self, reason: str) -> None:
        self.given_up, self.built = reason, None
        _LOG.info("%s: runs eagerly: %s", self.name, reason)
