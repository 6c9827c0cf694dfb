"""Whether invocations of a single call can stand at the same place: then engine "auto" tries to batch it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf
from core import programs

import recgraph as rg

INT = tf.TensorSpec([], tf.int32)
WIDE = {"fibonacci", "tree_sum", "tree_rnn", "two_outputs"}


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=str)
def test_shared_programs(program: programs.Program) -> None:
    """Trees are wide; chains are not, nor is a loop, which makes one call after the other."""
    subgraph = program.make()
    assert isinstance(subgraph, rg.SubGraph)
    assert subgraph.may_be_batched(rows=False) == (program.name in WIDE)
    assert subgraph.may_be_batched(rows=True)


def leaf(name: str) -> rg.SubGraph:
    """Calls nothing."""
    with rg.SubGraph(name, outputs=INT) as made:
        made.output(made.input(tf.int32) + 1)
    return made


def around(*callees: rg.SubGraph) -> rg.SubGraph:
    """Calls one SubGraph after the other."""
    with rg.SubGraph("around", outputs=INT) as made:
        n = made.input(tf.int32)
        for callee in callees:
            n = callee(n)
        made.output(n)
    return made


def beside(first: rg.SubGraph, second: rg.SubGraph) -> Callable[[tf.Tensor], tf.Tensor]:
    """A body that calls both for the same number."""
    return lambda n: first(n) + second(n)


BELOW = leaf("below")
BODIES: dict[str, tuple[bool, Callable[[tf.Tensor], tf.Tensor]]] = {
    "no calls": (False, lambda n: n + 1),
    "two leaves side by side": (True, beside(BELOW, BELOW)),
    "one after the other": (False, lambda n: BELOW(tf.abs(BELOW(n)) + 1)),
    "different SubGraphs": (False, beside(leaf("one"), leaf("another"))),
    "the same below different ones": (True, beside(around(BELOW), around(BELOW))),
    "in a callee": (True, lambda n: around(BELOW, WIDE_ONE)(n)),
    "in two branches of one condition": (False, lambda n: tf.cond(n > 0, lambda: BELOW(n), lambda: BELOW(-n))),
    "in two conditions": (
        True,
        lambda n: tf.cond(n > 0, lambda: BELOW(n), lambda: 0) + tf.cond(n > 1, lambda: BELOW(n), lambda: 0),
    ),
    "in a branch": (True, lambda n: tf.cond(n > 0, lambda: beside(BELOW, BELOW)(n), lambda: 0)),
    "a map": (True, lambda n: tf.reduce_sum(BELOW.map(tf.range(n)))),
    "a loop": (False, lambda n: tf.while_loop(lambda i: i < 9, lambda i: [BELOW(i)], [n])[0]),
}
with rg.SubGraph("wide", outputs=INT) as WIDE_ONE:
    WIDE_ONE.output(beside(BELOW, BELOW)(WIDE_ONE.input(tf.int32)))


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    """Two calls meet where neither waits for the other and both may come to the same SubGraph."""
    expected, body = BODIES[name]
    with rg.SubGraph("body", outputs=INT) as subgraph:
        subgraph.output(body(subgraph.input(tf.int32)))
    assert subgraph.may_be_batched(rows=False) == expected


def test_engines_that_leave_no_choice() -> None:
    """Only "auto" asks."""
    for engine, expected in (("parallel", False), ("batched", True)):
        for make in (programs.make_factorial, programs.make_fibonacci):
            assert make(engine=engine).may_be_batched(rows=False) == expected
