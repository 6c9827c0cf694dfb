"""Graphs end where eager execution does: what a broken assumption guards is not begun."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from tests import sampling
from tests.speculate import guarded_programs

# The mode "auto" takes some of the programs, unless all are asked for.
PROGRAMS = guarded_programs.names()
OF_AUTO = PROGRAMS if sampling.ALL else PROGRAMS[::6]
CASES = [("speculate", name) for name in PROGRAMS] + [("auto", name) for name in OF_AUTO]
SECONDS = 2.0  # longer than any call takes that does not begin what is guarded


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """What each program gave, run in other processes: one that hangs ends, and the next goes on behind it."""
    found: dict[tuple[str, str], Any] = {}
    for mode in ("speculate", "auto"):
        waiting = [name for of, name in CASES if of == mode]
        while waiting:
            command = [
                sys.executable,
                "-m",
                "tests.speculate.guarded_programs",
                mode,
                str(tmp_path_factory.mktemp("p")),
            ]
            folder = Path(__file__).parents[2]
            ran = subprocess.run([*command, *waiting], capture_output=True, text=True, cwd=folder, timeout=400)
            begun = 0
            for line in ran.stdout.splitlines():
                told = json.loads(line)
                begun += "begins" in told
                found[mode, told.get("begins") or told["name"]] = told if "seen" in told else ran.stderr[-3000:]
            assert begun, ran.stderr
            del waiting[:begun]
    return found


@pytest.mark.parametrize(("mode", "name"), CASES)
def test_what_a_broken_assumption_guards_is_not_begun(mode: str, name: str, results: Any) -> None:
    told = results[mode, name]
    assert isinstance(told, dict), f"it did not end:\n{guarded_programs.source(name)}\n{told}"
    for ours, eager in told["seen"]:
        assert ours == eager
    assert told["took"] < SECONDS
    assert told["peak"] < guarded_programs.MEMORY
    assert told["graph"] or mode == "auto"


class Node:
    """Of a tree; or of a circle, by mistake."""

    def __init__(self, value: float, left: Any = None, right: Any = None) -> None:
        self.value, self.left, self.right = value, left, right
        self.children = [child for child in (left, right) if child is not None]


def _tree(depth: int) -> Node:
    return Node(float(depth), _tree(depth - 1), _tree(depth - 1)) if depth else Node(0.5)


def _chain(length: int) -> Node:
    made = Node(1.0)
    for _ in range(length):
        made = Node(1.0, made)
    return made


def _leftmost(node: Node) -> Node:
    while node.left is not None:
        node = node.left
    return node


def one_way(node: Any) -> tf.Tensor:
    """Calls itself once."""
    return tf.constant(0.0) if node is None else node.value + one_way(node.left)


def both_ways(node: Any) -> tf.Tensor:
    """Calls itself twice."""
    return tf.constant(0.0) if node is None else node.value + both_ways(node.left) + both_ways(node.right)


def over_a_list(node: Any) -> tf.Tensor:
    """Calls itself as often as there are children."""
    total = tf.constant(0.0) + node.value
    for child in node.children:
        total = total + over_a_list(child)
    return total


def by_number(node: Any, left: tf.Tensor) -> tf.Tensor:
    """Ends by a number, on a circle, too."""
    return tf.constant(0.0) if left <= 0 else node.value + by_number(node.left, left - 1)


@pytest.mark.parametrize("function", [one_way, both_ways, over_a_list])
def test_recursion_over_objects_in_a_circle_raises_what_python_raises(function: Any) -> None:
    """At once, in every call, and trees go on to run as graphs."""

    @rg.function(mode="speculate")
    def step(node: Any) -> tf.Tensor:
        return function(node)

    for depth in (1, 2, 3, 2, 3):
        assert float(step(_tree(depth))) == float(function(_tree(depth)))
    graphs = step.calls["graph"]
    assert graphs, step.explain()
    circle = _tree(3)
    last = _leftmost(circle)
    last.left, last.children = circle, [circle]
    for _ in range(3):
        with pytest.raises(RecursionError):
            step(circle)
    step(_tree(2))
    assert step.calls["graph"] > graphs, step.explain()


def test_recursion_over_objects_goes_as_deep_as_python_does() -> None:
    """A chain that is too long for Python raises; with a higher limit it has a value in both."""

    @rg.function(mode="speculate")
    def step(node: Any) -> tf.Tensor:
        return one_way(node)

    for length in (1, 3, 2, 5, 2):
        assert float(step(_chain(length))) == length + 1
    assert step.calls["graph"], step.explain()
    limit = sys.getrecursionlimit()
    long = _chain(2 * limit)
    with pytest.raises(RecursionError):
        step(long)
    sys.setrecursionlimit(20 * limit)
    try:
        for _ in range(3):
            assert float(step(long)) == float(one_way(long))
    finally:
        sys.setrecursionlimit(limit)
        while long is not None:  # freed one by one: their destructors would nest
            long = long.left


def test_recursion_that_ends_by_a_number_goes_round_a_circle() -> None:
    @rg.function(mode="speculate")
    def step(node: Any, count: tf.Tensor) -> tf.Tensor:
        return by_number(node, count)

    ring = _chain(3)
    _leftmost(ring).left = ring
    for count in (1, 5, 9, 2, 6, 30):
        assert float(step(ring, tf.constant(count))) == count
    graphs = step.calls["graph"]
    with pytest.raises(RecursionError):
        step(ring, tf.constant(10**6))
    assert float(step(ring, tf.constant(7))) == 7.0
    assert not graphs or step.calls["graph"] > graphs


def test_the_programs_are_many() -> None:
    assert len(PROGRAMS) >= 60
