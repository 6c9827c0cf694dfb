"""What the graph is told on every way through a trace graph with loops, against what it then does."""

from __future__ import annotations

import collections
import random

import pytest

from recgraph.coexec.plan import StepPlan, make_plan
from recgraph.coexec.trace import Operation, Trace
from recgraph.coexec.trace_graph import END, START
from tests.coexec.graphs import Program, merging

LONGEST = 200


def planned(*traces: Trace) -> StepPlan:
    """The plan of some traces."""
    return make_plan(merging(*traces).graph, lambda _: False, lambda _: False)


def walk(plan: StepPlan, source: random.Random) -> tuple[list[int], dict[int, collections.deque[int]]]:
    """A random way to the end: the nodes, and what was told in each slot."""
    nodes: list[int] = []
    told: dict[int, collections.deque[int]] = collections.defaultdict(collections.deque)
    ways = plan.first
    while True:
        over = [way for way in ways if way.node == END]
        way = over[0] if over and len(nodes) > LONGEST else source.choice(ways)
        for slot, value in way.messages:
            told[slot].append(value)
        if way.node == END:
            return nodes, told
        nodes.append(way.node)
        ways = plan.nodes[way.node].follow


def executed(plan: StepPlan, told: dict[int, collections.deque[int]], scope: int = START) -> list[int]:
    """What the switches and loops of the graph do when they are told this."""
    done: list[int] = []
    for level, select in zip(plan.scopes[scope].levels, plan.scopes[scope].selects, strict=True):
        case = told[select].popleft() if level.is_switch else 0
        for item in level.blocks[case] if case < len(level.blocks) else ():
            if item in plan.nodes:
                done.append(item)
            else:
                while told[plan.scopes[item].condition].popleft():
                    done += executed(plan, told, item)
    return done


@pytest.mark.parametrize("seed", range(200))
def test_the_graph_does_what_is_on_the_way(seed: int) -> None:
    """Random programs with loops in loops, breaks and branches; random ways through what is known of them."""
    source = random.Random(seed)
    program = Program(source)
    plan = planned(*(program.run() for _ in range(6)))
    for _ in range(20):
        nodes, told = walk(plan, source)
        if len(nodes) <= LONGEST * 2:
            assert executed(plan, told) == nodes
            assert not any(told.values()), "something was told that nobody asked for"


@pytest.mark.parametrize("seed", range(200))
def test_every_trace_is_a_way(seed: int) -> None:
    """A step that was seen is a way through the plan, found by taking what is the same operation."""
    source = random.Random(seed)
    program = Program(source)
    traces = [program.run() for _ in range(6)]
    known = merging(*traces)
    plan = make_plan(known.graph, lambda _: False, lambda _: False)
    for trace in traces:
        assert known.merge(trace) is known
        ways = plan.first
        for operation in trace.operations:
            fitting = [
                way.node for way in ways if way.node != END and plan.nodes[way.node].node.location == operation.location
            ]
            assert fitting, "the step leaves the graph"
            ways = plan.nodes[fitting[0]].follow
        assert END in {way.node for way in ways}


def trips(counts: list[int]) -> Trace:
    """A step with operations 1 and 2 in a loop, a trip for each number; 2 as often as it says; 3 after it."""
    inside = [Operation(k, k, trips=((7, i),)) for i, count in enumerate(counts) for k in (1, *[2] * count)]
    return Trace((*inside, Operation(3, 3)))


def test_a_loop_is_a_node_once_its_trips_vary() -> None:
    """Before that it is unrolled; after that no number of trips is new."""
    known = merging(trips([1, 1, 1]))
    assert len(known.graph.nodes) == 7
    known = known.merge(trips([1]))
    assert (len(known.graph.nodes), len(known.graph.loops)) == (3, 1)
    assert known.merge(trips([1] * 50)) is known


def test_a_trip_may_take_another_way() -> None:
    """Which is then a branch in the loop, for every trip."""
    known = merging(trips([1, 1, 1]), trips([1]), trips([0]))
    assert known.merge(trips([1, 0, 0, 1])) is known
