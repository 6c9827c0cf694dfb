"""Batched equals eager Python, values and gradients: the shared programs and random ones, under every policy."""

from __future__ import annotations

import contextlib
import os

import pytest
import tensorflow as tf
from core import programs, random_programs
from hypothesis import Phase, given, seed, settings

from recgraph import testing

# How many random programs; the suite takes a few, `RECGRAPH_TEST_PROGRAMS=2000` many.
EXAMPLES = int(os.environ.get("RECGRAPH_TEST_PROGRAMS", "60"))


@pytest.mark.parametrize("gradient", ["cache", "recompute"])
@pytest.mark.parametrize("policy", testing.BATCH_POLICIES)
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=str)
def test_shared_programs(program: programs.Program, policy: str, gradient: str) -> None:
    """Values and gradients are those of the Python program, whatever block runs next."""
    with testing.batch_policy(policy):
        programs.check(program, engine="batched", gradient=gradient)
    assert testing.counters().live_frames == 0


def check(program: random_programs.Program) -> None:
    """As in the tests of the parallel engine; mapped over three rows, too."""
    captured, inputs = random_programs.captures_and_inputs(program)
    n, tolerance = tf.constant(program.n), 1e-4 if program.dtype == tf.float32 else 1e-9
    expected = programs.run(random_programs.as_python(program, captured), (n, *inputs), captured)
    rows = (tf.stack([n, n - 1, n]), *(tf.stack([value, value / 2, value]) for value in inputs))
    parallel = random_programs.as_subgraph(program, captured, engine="parallel")
    expected_rows = programs.run(parallel.map, rows, captured)
    for gradient in ("cache", "recompute"):
        subgraph = random_programs.as_subgraph(program, captured, engine="batched", gradient=gradient)
        programs.assert_same(programs.run(subgraph, (n, *inputs), captured), expected, tolerance)
        programs.assert_same(programs.run(subgraph.map, rows, captured), expected_rows, tolerance)
    assert testing.counters().live_frames == 0


@pytest.mark.slow
@pytest.mark.parametrize(("part", "policy"), [(0, None), (1, "random")])
def test_random_programs(part: int, policy: str | None) -> None:
    """Half of them with blocks picked at random."""

    @seed(100 + part)
    @settings(max_examples=EXAMPLES // 2, derandomize=False, database=None, phases=[Phase.generate], deadline=None)
    @given(random_programs.programs())
    def many(program: random_programs.Program) -> None:
        with testing.batch_policy(policy) if policy else contextlib.nullcontext():
            check(program)

    many()
