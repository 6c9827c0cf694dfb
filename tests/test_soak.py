"""A process that makes and drops SubGraphs and functions all day stays flat, by counts and by a short soak."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import native, tf_private
from recgraph.coexec import device
from recgraph.keras import state
from tests import sampling, soak

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


def deep(depth: int, work: Callable[[], Any]) -> Any:
    """Work below other frames: TensorFlow keeps the code of functions that run operations there."""
    return work() if depth == 0 else deep(depth - 1, work)


def test_places_of_dropped_functions_are_forgotten() -> None:
    """Whether TensorFlow keeps their code or not."""
    for depth in (0, 20):
        codes, places = [], []
        for number in range(4):
            scope = {"factor": float(number)}
            exec("def made(x):\n    y = x * factor\n    return y + 1.0 if factor > 2.0 else y", scope)
            function, x = rg.function(scope["made"], mode="coexec"), tf.constant(2.0)
            for _ in range(3):
                assert deep(depth, lambda function=function, x=x: function(x)).numpy() == 2.0 * number + (number > 2)
            codes.append(weakref.ref(scope["made"].__code__))
            del function, scope
            gc.collect()
            places.append(len(device._loops()._places))
        assert max(places) <= places[0] + 1, places  # which is another function's


# Caches without a bound that have arguments, and what bounds those.
BOUNDED = {
    "core/signature.py:_range_of": "the dtypes",
    "cpython/installed.py:is_installed": "the files",
    "draw/fonts.py:_letters_of": "the installed fonts",
    "tf_private/taping.py:of_some": "the function that defines it",
    "tf_private/taping.py:together": "the function that defines it",
    "ops/lookup.py:_is_registered_as_pure": "the registered operations",
    "optimize/bridge/graphs.py:_search": "the ways to search",
    "optimize/enumeration.py:_fits": "a process that generates",
    "optimize/saturation.py:_engine": "the shipped rules",
    "optimize/saturation.py:_program": "the shipped rules",
    "optimize/search.py:_index": "the shipped rules",
    "serve/rest.py:_reader": "the dtypes",
}


def test_no_cache_without_a_bound_keeps_what_programs_make() -> None:
    """Functions, classes and graphs that are made and dropped would stay in it; weak keys, or a size, let them go."""
    package, found = Path(rg.__file__).parent, []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [ast.unparse(one) for one in getattr(node, "decorator_list", ())]
            if {"cache", "functools.cache", "functools.lru_cache(None)"} & set(names) and node.args.args:
                found.append(f"{path.relative_to(package)}:{node.name}")
    assert sorted(found) == sorted(BOUNDED)


def test_layers_of_dropped_classes_leave_neither_class_nor_code() -> None:
    scope: dict[str, Any] = {}
    exec("class Data:\n    pass\n\ndef made(x):\n    return x.first, len(x)", scope)
    kept = [weakref.ref(scope["Data"]), weakref.ref(scope["made"].__code__)]
    assert state._is_users(scope["Data"]) in (True, False)
    assert state._names_in(scope["made"].__code__) == ("first", "len")
    scope.clear()
    gc.collect()
    assert [one() for one in kept] == [None, None]


def test_what_tensorflow_alone_leaves() -> None:
    """What the soak takes for TensorFlow's: its numbers would hide a leak of ours if TensorFlow left less."""
    assert soak.left_by_tensorflow(soak.fail) == pytest.approx(1.0, abs=0.2)
    assert soak.left_by_tensorflow(soak.in_thread) == pytest.approx(1.0, abs=0.2)
    with rg.SubGraph("failing", outputs=tf.TensorSpec([])) as failing:
        n = failing.input(tf.int32)
        failing.output(tf.cond(n < 0, lambda: tf.gather([1.0], n), lambda: failing(n - 1)))

    def fail() -> None:
        with pytest.raises(tf.errors.InvalidArgumentError):
            failing(5)

    before = soak.look()
    assert soak.left_by_tensorflow(fail) == pytest.approx(1.0, abs=0.2)
    assert soak.look()["objects"] <= before["objects"] + 200  # of pytest's


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
