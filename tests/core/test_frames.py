"""Activations: kept only where a gradient may ask for them, and never longer than it may."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf
from core import programs

import recgraph as rg
from recgraph import testing

FLOAT = tf.TensorSpec([])
both_modes = pytest.mark.parametrize("gradient", ["cache", "recompute"])


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Before and after every test."""
    assert live() == (0, 0)
    yield
    gc.collect()
    assert live() == (0, 0)


def live() -> tuple[int, int]:
    """Frames and their bytes."""
    now = testing.counters()
    return now.live_frames, now.live_bytes


def make_wide(size: int, **options: str) -> rg.SubGraph:
    """A chain of squares of a vector: each level needs its own value."""
    spec = tf.TensorSpec([size])
    with rg.SubGraph("wide", outputs=spec, **options) as wide:
        n, x = wide.input(tf.int32), wide.input(tf.float32, [size])
        wide.output(tf.cond(n > 0, lambda: tf.sin(wide(n - 1, x)), lambda: x))
    return wide


@both_modes
def test_frames_live_from_the_forward_run_to_the_gradient(gradient: str) -> None:
    """They are counted, and gone when the tape is."""
    wide, x = make_wide(1000, gradient=gradient), tf.ones([1000])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = wide(10, x)
    frames, size = live()
    assert frames >= 11
    assert 10 * 4000 <= size < 13 * (2 * 4000 + 500)
    tape.gradient(y, x)
    del tape, y
    assert live() == (0, 0)


@both_modes
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=str)
def test_nothing_after_a_step(program: programs.Program, gradient: str) -> None:
    """Of any program, eager or staged."""
    subgraph = program.make(gradient=gradient)
    for function in (subgraph, tf.function(subgraph)):
        programs.run(function, program.arguments[-1], program.variables())
        gc.collect()
        assert live() == (0, 0)


@both_modes
def test_a_tape_that_is_dropped(gradient: str) -> None:
    """Nobody asked for the gradient."""
    wide, x = make_wide(10, gradient=gradient), tf.Variable(tf.ones([10]))
    for function in (wide, tf.function(wide)):
        with tf.GradientTape() as tape:
            y = function(5, x)
        assert live()[0] > 0
        del tape, y
        gc.collect()
        assert live() == (0, 0)


def test_inference_stores_nothing() -> None:
    """Looked at from the deepest invocation: eagerly, staged, and in a function that has a gradient elsewhere."""
    seen: list[int] = []

    def look(x: tf.Tensor) -> tf.Tensor:
        seen.append(live()[0])
        return x

    with rg.SubGraph("watched", outputs=FLOAT, engine="parallel") as watched:
        n, x = watched.input(tf.int32), watched.input()
        base = lambda: tf.ensure_shape(tf.numpy_function(look, [x], tf.float32), [])  # noqa: E731
        pair = lambda: tf.sin(watched(n - 1, x) * x)  # noqa: E731
        watched.output(tf.cond(n > 0, lambda: tf.cond(n > 5, lambda: pair() + 0.0 * watched(0, x), pair), base))
    x = tf.Variable(1.0)
    watched(8, x)
    staged = tf.function(watched)
    staged(8, x)
    with tf.GradientTape() as tape:
        staged(8, tf.constant(1.0))
    del tape
    assert set(seen) == {0}


@both_modes
def test_only_what_the_gradient_needs_is_stored(gradient: str) -> None:
    """A sum of large vectors needs none of them."""
    spec = tf.TensorSpec([10_000])
    with rg.SubGraph("linear", outputs=spec, gradient=gradient) as linear:
        n, x = linear.input(tf.int32), linear.input(tf.float32, [10_000])
        linear.output(tf.cond(n > 0, lambda: 2.0 * linear(n - 1, x) + 3.0, lambda: 0.5 * x))
    x = tf.ones([10_000])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = linear(10, x)
    assert live()[1] < (40_000 if gradient == "cache" else 11 * 2 * 40_000 + 10_000)
    del tape, y


def deep(x: tf.Tensor) -> tf.Tensor:
    """Twenty values that the gradient needs."""
    for _ in range(20):
        x = tf.sin(x)
    return x


def kept(subgraph: rg.SubGraph) -> int:
    """Bytes between the forward run and the gradient, of a chain of ten calls."""
    x = tf.ones([1000])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = subgraph(10, x)
    size = live()[1]
    del tape, y
    return size


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_recompute_keeps_inputs_and_results_of_calls_only(engine: str) -> None:
    """Values inside of a body cost nothing between the runs, nor what is computed for a branch."""
    sizes = {}
    for gradient in ("cache", "recompute"):
        options = {"outputs": tf.TensorSpec([1000]), "gradient": gradient, "engine": engine}
        with rg.SubGraph("deep", **options) as subgraph:
            n, x = subgraph.input(tf.int32), subgraph.input(tf.float32, [1000])
            y = deep(x)
            subgraph.output(tf.cond(n > 0, lambda: deep(subgraph(n - 1, x) * y), lambda: deep(y)))  # noqa: B023
        sizes[gradient] = kept(subgraph)
    assert sizes["cache"] > 10 * 40 * 4000
    assert sizes["recompute"] < 12 * 2 * 4400


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_recompute_in_a_loop(engine: str) -> None:
    """What goes into each iteration is kept, and nothing inside of it."""
    sizes = {}
    for gradient in ("cache", "recompute"):
        options = {"outputs": tf.TensorSpec([1000]), "gradient": gradient, "engine": engine}
        with rg.SubGraph("looped", **options) as subgraph:
            n, x = subgraph.input(tf.int32), subgraph.input(tf.float32, [1000])
            looped = lambda x: tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, deep(x)), [0, x])[1]  # noqa: E731
            subgraph.output(tf.cond(n > 0, lambda: subgraph(n - 1, looped(x)), lambda: x))  # noqa: B023
        sizes[gradient] = kept(subgraph)
    assert sizes["cache"] > 10 * 3 * 20 * 4000
    assert sizes["recompute"] < 12 * 5 * 4400


@both_modes
def test_counts_of_invocations(gradient: str) -> None:
    """Exactly the calls that the program makes; recompute makes no call twice."""
    wide, x = make_wide(3, gradient=gradient), tf.Variable(tf.ones([3]))
    before = testing.counters().invocations
    wide(9, x)
    assert testing.counters().invocations - before == 10
    with tf.GradientTape() as tape:
        y = wide(9, x)
    after = testing.counters().invocations
    assert after - before == 20
    tape.gradient(y, x)
    assert testing.counters().invocations - after == 10


def test_peak_of_live_invocations() -> None:
    """A chain of ten is ten deep; the peak can be reset."""
    wide = make_wide(1)
    testing.counters(reset_peak=True)
    wide(9, [1.0])
    assert testing.counters(reset_peak=True).peak_invocations == 10
    assert testing.counters().peak_invocations == 0


@both_modes
def test_a_step_that_trains_many_times_is_flat(gradient: str) -> None:
    """Nothing piles up over steps, in a loop within one graph either."""
    program = next(program for program in programs.PROGRAMS if program.name == "tree_rnn")
    rnn = program.make(gradient=gradient)
    weights = program.variables()

    @tf.function
    def train() -> None:
        for _ in tf.range(50):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(rnn.map([8, 2, 7]))
            for weight, change in zip(weights, tape.gradient(loss, weights), strict=True):
                weight.assign_sub(0.0 * tf.convert_to_tensor(change))

    train()
    assert live() == (0, 0)


FORK = """
import os, sys
import tensorflow as tf
from core import programs

program = programs.PROGRAMS[4]
child = os.fork()
if child == 0:
    try:
        import recgraph
        program.make()
        os._exit(0)
    except BaseException:
        os._exit(1)
_, status = os.waitpid(child, 0)
programs.check(program)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_process_that_forks() -> None:
    """A child that only imports and defines, as data loaders' workers do, neither hangs nor breaks its parent."""
    done = subprocess.run(
        [sys.executable, "-c", FORK], cwd=Path(__file__).parents[1], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]


@both_modes
def test_no_frame_outlives_its_step(gradient: str) -> None:
    """Not for an instant: what a thread still holds when the step's result is there would be seen here."""
    weight = tf.Variable(0.9)
    with rg.SubGraph("fork", outputs=tf.TensorSpec([]), gradient=gradient) as fork:
        n, x = fork.input(tf.int32), fork.input(tf.float32)
        fork.output(
            tf.cond(n > 0, lambda: fork(n - 1, x) * weight + tf.sin(fork(n - 2, x * weight)), lambda: tf.tanh(x))
        )
    late = 0
    with testing.policy("random"):
        for _ in range(300):
            with tf.GradientTape() as tape:
                y = fork(3, 0.5)
            tape.gradient(y, weight)
            del y, tape
            late += live()[0] > 0
    assert late == 0
