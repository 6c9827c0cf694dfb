"""Batched equals eager Python, values and gradients: the shared programs and random ones, under every policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tensorflow as tf
from core import programs, random_programs
from hypothesis import given, seed, settings

from recgraph import testing
from tests import sampling

# How many random programs; the suite takes a few, `--programs=2000` many.
EXAMPLES = sampling.count("programs", 8)


@pytest.mark.parametrize("gradient", ["cache", "recompute"])
@pytest.mark.parametrize("policy", testing.BATCH_POLICIES)
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=str)
def test_shared_programs(program: programs.Program, policy: str, gradient: str) -> None:
    """Values and gradients are those of the Python program, whatever block runs next."""
    with testing.batch_policy(policy):
        programs.check(program, engine="batched", gradient=gradient)
    assert testing.counters().live_frames == 0


def check(program: random_programs.Program) -> None:
    """A single call, and three rows of a map."""
    captured, inputs = random_programs.captures_and_inputs(program)
    n, tolerance = tf.constant(program.n), 1e-4 if program.dtype == tf.float32 else 1e-9
    reference = random_programs.as_python(program, captured)
    single = (n, *inputs)
    rows = (tf.stack([n, n - 1, n]), *(tf.stack([value, value / 2, value]) for value in inputs))
    expected = programs.run(reference, single, captured)
    expected_rows = programs.run(lambda *rows: row_after_row(reference, rows), rows, captured)
    for gradient in ("cache", "recompute"):
        options = {"engine": "batched", "gradient": gradient}
        subgraph = random_programs.as_subgraph(program, captured, **options)
        mapped = random_programs.summed(subgraph, **options) if program.vectors else subgraph
        programs.assert_same(programs.run(subgraph, single, captured), expected, tolerance)
        programs.assert_same(programs.run(mapped.map, rows, captured), expected_rows, tolerance)
    assert testing.counters().live_frames == 0


def row_after_row(function: Callable[..., Any], rows: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The results of each row, stacked; of vectors the sums."""
    results = [function(*row) for row in zip(*map(tf.unstack, rows), strict=True)]
    return [
        tf.stack([tf.reduce_sum(v) if v.shape.rank else v for v in values]) for values in zip(*results, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("part", "policy"), list(enumerate(testing.BATCH_POLICIES)))
def test_random_programs(part: int, policy: str) -> None:
    """A quarter under each policy."""

    @seed(sampling.seed(100) + part)
    @settings(max_examples=EXAMPLES // 4, derandomize=False, database=None, phases=sampling.PHASES, deadline=None)
    @given(random_programs.programs())
    def many(program: random_programs.Program) -> None:
        with testing.batch_policy(policy):
            check(program)

    many()
