"""The case assignment against the paths of the graph, all counted out."""

from __future__ import annotations

import random

import pytest

from recgraph.coexec.cases import Level, assign_cases
from tests.coexec.graphs import merged, paths, random_graph

MOST_PATHS = 3000


def executed(levels: tuple[Level, ...], path: tuple[int, ...]) -> list[int]:
    """What the switches do when each has the case that lies on the path."""
    done: list[int] = []
    for level in levels:
        taken = [block for block in level.blocks if block[0] in path]
        assert len(taken) <= 1, "two cases of one switch are on a path"
        assert taken or level.may_skip, "a path goes by where it may not"
        done += taken[0] if taken else ()
    return done


@pytest.mark.parametrize("seed", range(300))
def test_switches_do_what_is_on_the_path(seed: int) -> None:
    """For every path: its nodes, in its order, and no others."""
    source = random.Random(seed)
    graph = random_graph(source, source.randrange(2, 16))
    levels = assign_cases(graph)
    assert sorted(n for level in levels for block in level.blocks for n in block) == list(range(len(graph.nodes)))
    for count, path in enumerate(paths(graph)):
        assert executed(levels, path) == list(path)
        if count == MOST_PATHS:
            break


@pytest.mark.parametrize("seed", range(100))
def test_no_case_is_there_in_vain(seed: int) -> None:
    """A level that may be skipped is skipped by some path; one that is not a switch lies on all of them."""
    graph = random_graph(random.Random(seed), 10)
    levels = assign_cases(graph)
    every = list(paths(graph))
    for level in levels:
        skips = any(not any(block[0] in path for block in level.blocks) for path in every)
        assert level.may_skip == skips


def test_a_straight_program_has_no_switch() -> None:
    """One block, one level."""
    assert assign_cases(merged("abc")) == (Level(((0, 1, 2),), False),)


def test_two_branches_are_one_switch() -> None:
    """What is before and after them is not in it."""
    levels = assign_cases(merged("abd", "acd"))
    assert [level.is_switch for level in levels] == [False, True, False]


def test_a_wrong_level_is_noticed() -> None:
    """A comparison that lets two blocks of a path share a switch would agree with anything."""
    with pytest.raises(AssertionError, match="two cases"):
        executed((Level(((0,), (1,)), False),), (0, 1))
