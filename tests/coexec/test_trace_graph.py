"""Traces become paths of one acyclic graph, and stay paths whatever is merged after them."""

from __future__ import annotations

import random

import pytest

from recgraph.coexec.trace import From, Operation, Origin, Trace
from recgraph.coexec.trace_graph import END, START, join_origins
from tests.coexec.graphs import letters, merged, merging, paths, random_graph, trace


def test_a_step_that_adds_nothing_gives_the_same_graph() -> None:
    """That is how tracing ends."""
    known = merging(trace("abc"), trace("adc"))
    assert known.merge(trace("adc")) is known
    assert known.merge(trace("abc")) is known
    assert known.merge(trace("ac")) is not known


def test_branches_part_and_meet_again() -> None:
    """A node for each branch, and one for what follows both."""
    graph = merged("abd", "acd")
    assert len(graph.nodes) == 4
    assert sorted(letters(graph, path) for path in paths(graph)) == ["abd", "acd"]


def test_a_meeting_that_would_make_a_cycle_is_refused() -> None:
    """`b` before `a` in one step and after it in another: one of them is there twice."""
    graph = merged("ab", "ba")
    assert len(graph.nodes) == 3
    assert {"ab", "ba"} <= {letters(graph, path) for path in paths(graph)}


def test_another_trip_count_is_another_path() -> None:
    """A loop is a chain; a step with fewer trips leaves it early, one with more makes it longer."""
    graph = merged("abbc", "abc", "abbbc", "ac")
    assert len(graph.nodes) == 5
    assert {letters(graph, path) for path in paths(graph)} == {"ac", "abc", "abbc", "abbbc"}


def test_an_empty_step_is_a_path() -> None:
    """A step may do nothing."""
    graph = merged("a", "")
    assert set(graph.successors(START)) == {0, END}


@pytest.mark.parametrize("seed", range(200))
def test_random_traces_stay_paths(seed: int) -> None:
    """Every trace is a path of the graph, and the graph has an order."""
    source = random.Random(seed)
    texts = ["".join(source.choice("abcde") for _ in range(source.randrange(8))) for _ in range(6)]
    known = merging(*map(trace, texts))
    graph = known.graph
    assert sorted(graph.sorted()) == list(range(len(graph.nodes)))
    assert set(texts) <= {letters(graph, path) for path in paths(graph)}
    assert all(known.merge(trace(text)) is known for text in texts)


def test_random_graphs_branch_and_meet() -> None:
    """The generator of the tests makes what they are about."""
    graphs = [random_graph(random.Random(seed), 12) for seed in range(50)]
    assert any(len(list(paths(graph))) > 5 for graph in graphs)


def test_inputs_of_a_meeting_may_come_from_either_branch() -> None:
    """The operation after two branches has both as the source of its input."""
    after = [Operation(9, 9, (Origin(From.OPERATION, 0, 0, 1),))]
    graph = merging(*(Trace((Operation(branch, branch), *after)) for branch in (1, 2))).graph
    assert [origin.number for origin in graph.nodes[1].inputs[0]] == [0, 2]


def test_what_was_fetched_in_any_step_is_fetched() -> None:
    """A value that Python looked at once it may look at again."""
    graph = merging(Trace((Operation(1, 1, fetched=frozenset({0})),)), Trace((Operation(1, 1, outputs=1),))).graph
    assert graph.nodes[0].fetched == {0}


def test_other_variables_are_other_operations() -> None:
    """The same line may work on a list of variables."""
    one, other = (Trace((Operation(1, 1, (Origin(From.RESOURCE, n),)),)) for n in (4, 5))
    assert len(merging(one, other).graph.nodes) == 2


CONSTANT = Origin(From.CONSTANT, dtype=1, shape=(2, 3), value=b"x")


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (CONSTANT, (CONSTANT,)),
        (Origin(From.CONSTANT, dtype=1, shape=(2, 3), value=b"y"), (Origin(From.FEED, dtype=1, shape=(2, 3)),)),
        (Origin(From.FEED, dtype=1, shape=(2, 5)), (Origin(From.FEED, dtype=1, shape=(2, -1)),)),
        (Origin(From.FEED, dtype=1, shape=(2,)), (Origin(From.FEED, dtype=1, shape=None),)),
        (Origin(From.OPERATION, 3, dtype=1), (CONSTANT, Origin(From.OPERATION, 3, dtype=1))),
    ],
)
def test_values_of_python_become_a_feed_as_they_vary(new: Origin, expected: tuple[Origin, ...]) -> None:
    """A constant that changes is fed, with the dimensions that did not change."""
    assert join_origins((CONSTANT,), new) == expected


def test_a_graph_prints_itself() -> None:
    """Each node with what may follow it."""
    assert str(merged("ab", "a")) == "START -> 0\n0: type 97 at 97 -> 1, END\n1: type 98 at 98 -> END"
