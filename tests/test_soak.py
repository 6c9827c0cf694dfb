"""A process that makes and drops SubGraphs and functions all day stays flat, by counts and by a short soak."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import native, tf_private
from tests import sampling

# SubGraphs and functions that are made; each takes a third of a second.
MADE = sampling.count("repeats", 60)


def programs() -> list[int]:
    """How many programs are registered in the process, and how many are known on a device."""
    gc.collect()
    return [int(count) for count in native.ops().recgraph_count_programs().numpy()]


def made(number: int, engine: str) -> tuple[rg.SubGraph, tf.Variable]:
    """A SubGraph that no other is the same as."""
    scale = tf.Variable(1.0)
    with rg.SubGraph("made", outputs=tf.TensorSpec([]), engine=engine) as call:
        n = call.input(tf.int32)
        call.output(tf.cond(n < 1, lambda: scale * float(number), lambda: call(n - 1)))
    return call, scale


@pytest.mark.slow
def test_programs_of_dropped_subgraphs_are_freed() -> None:
    functions = tf_private.known_functions()
    for number in range(MADE):
        call, scale = made(number, ("parallel", "batched")[number % 2])
        with tf.GradientTape() as tape:
            value = call(2)
        assert tape.gradient(value, scale).numpy() == number
        if number == MADE // 2:
            half = programs()
    assert all(count <= before + 4 for count, before in zip(programs(), half, strict=True))
    assert tf_private.known_functions() < functions + 30  # each type of an eager operation is one


def test_a_subgraph_lives_as_long_as_something_calls_it() -> None:
    call, scale = made(1000, "parallel")
    with tf.GradientTape() as tape:
        value = call(2)
    dropped = weakref.ref(call)
    del call
    for number in range(40):  # more than linger
        made(2000 + number, "parallel")[0](1)
    gc.collect()
    assert dropped() is not None
    assert tape.gradient(value, scale).numpy() == 1000.0


def test_the_same_program_twice_is_freed_with_the_last_one() -> None:
    first, _ = made(5000, "parallel")
    second, _ = made(5000, "parallel")
    first(1), second(1)
    key = first.program(False).key
    assert key == second.program(False).key
    del first
    for number in range(40):
        made(6000 + number, "parallel")[0](1)
    gc.collect()
    assert second(1).numpy() == 5000.0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["speculate", "coexec", "auto"])
def test_dropped_functions_leave_nothing(mode: str) -> None:
    kept: list[weakref.ref[object]] = []
    counts = []
    for number in range(MADE):
        scope = {"factor": float(number)}
        exec("def made(x):\n    y = x * factor\n    return y + 1.0 if factor > 2.0 else y", scope)
        function, x = rg.function(scope["made"], mode=mode), tf.constant(2.0)
        for _ in range(6):
            assert function(x).numpy() == 2.0 * number + (number > 2)
        kept.append(weakref.ref(scope["made"]))
        del function, scope
        if number % 10 == 9:
            gc.collect()
            counts.append((tf_private.known_functions(), sum(ref() is not None for ref in kept)))
    half = len(counts) // 2
    assert counts[-1][0] <= counts[half][0] + 2, counts
    assert counts[-1][1] <= counts[half][1] + 2, counts


_DROPPING = """
import tensorflow as tf
import recgraph as rg
from recgraph.coexec import device

for number in range(200):
    scope = {"factor": float(number)}
    exec("def made(x):\\n    y = x * factor\\n    return y + 1.0 if factor > 2.0 else y", scope)
    function, x = rg.function(scope["made"], mode="coexec"), tf.constant(2.0)
    for _ in range(6):
        assert function(x).numpy() == 2.0 * number + (number > 2)
    del function, scope
print(len(device._loops()._places))
"""


@pytest.mark.slow
def test_places_of_dropped_functions_are_forgotten() -> None:
    """In a module's own lines: TensorFlow keeps the code of a function that computes below other frames."""
    command = [sys.executable, "-c", _DROPPING]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert int(ran.stdout) < 300  # of nearly 400


@pytest.mark.slow
def test_a_short_soak() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--minutes", str(sampling.minutes("soak-minutes", 0.2))],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-2000:]
    assert process.stdout.splitlines()[-1] == "flat"
