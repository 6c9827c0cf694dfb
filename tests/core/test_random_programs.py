"""Random recursive programs: as SubGraphs they give what eager Python gives, values and gradients, in both modes."""

from __future__ import annotations

import contextlib

import pytest
import tensorflow as tf
from core import programs, random_programs
from hypothesis import given, seed, settings

from recgraph import testing
from tests import sampling

# How many programs in each part; the suite takes a few, `--programs=200` many.
PROGRAMS = sampling.count("programs", 10)


def check(program: random_programs.Program) -> None:
    """Two captured variables, two captured tensors and all float inputs are differentiated for."""
    captured, inputs = random_programs.captures_and_inputs(program)
    n, tolerance = tf.constant(program.n), 1e-4 if program.dtype == tf.float32 else 1e-9
    expected = programs.run(random_programs.as_python(program, captured), (n, *inputs), captured)
    for gradient in ("cache", "recompute"):
        subgraph = random_programs.as_subgraph(program, captured, gradient=gradient, engine="parallel")
        programs.assert_same(programs.run(subgraph, (n, *inputs), captured), expected, tolerance)
    assert testing.counters().live_frames == 0


@pytest.mark.slow
@pytest.mark.parametrize(("part", "policy"), [(0, None), (1, None), (2, None), (3, None), (4, "random")])
def test_programs(part: int, policy: str | None) -> None:
    """Some; the last ones in random order. `--programs` asks for more."""

    @seed(sampling.seed(0) + part)
    # Not made smaller when one fails: that takes minutes, and the program is printed as it is.
    @settings(max_examples=PROGRAMS, derandomize=False, database=None, phases=sampling.PHASES)
    @given(random_programs.programs())
    def many(program: random_programs.Program) -> None:
        with testing.policy(policy) if policy else contextlib.nullcontext():
            check(program)

    many()
