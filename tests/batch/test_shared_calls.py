"""Calls that are given the same are one: values and gradients are those of recursion that computes every path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from core import random_graphs
from core.failing import nothing_is_left_behind  # noqa: F401  (the fixture serves every test)
from core.random_graphs import World
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import recgraph as rg
from recgraph import testing
from tests import sampling

Arrays = list[np.ndarray]
TOLERANCES = {tf.float64: 1e-9, tf.float32: 2e-5, tf.float16: 0.02, tf.bfloat16: 0.12}


def assert_close(found: Arrays, expected: Arrays, tolerance: float, what: str) -> None:
    """To so much of the largest of an array."""
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{what}, {i}"
        a, b = a.astype(np.float64), b.astype(np.float64)
        largest = max(1.0, float(np.max(np.abs(b), initial=0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * largest, err_msg=f"{what}, {i}")


def arrays(tensors: Sequence[Any]) -> Arrays:
    return [tf.convert_to_tensor(tensor).numpy() for tensor in tensors]


def vectors_for(graph: random_graphs.Graph, dtype: tf.DType) -> tf.Tensor:
    """One for each root; two of them are the same numbers."""
    values = np.random.default_rng(1).uniform(-1, 1, [len(graph.roots), random_graphs.WIDTH])
    values[-1] = values[0]
    return tf.cast(values, dtype)


def run(call: Callable[..., Any], graph: random_graphs.Graph, world: World, whole: bool) -> Arrays:
    """Results of all roots, and the gradients of a sum of them or of one alone."""
    roots, ks, xs = np.int32(graph.roots), np.int32([i % 2 for i in range(len(graph.roots))]), vectors_for(graph, world.dtype)
    with tf.GradientTape() as tape:
        tape.watch(xs)
        results = call(roots, ks, xs)
        loss = tf.reduce_sum(results[0] * 1.5) + tf.reduce_sum(results[1]) if whole else results[0][0, 1]
    gradients = tape.gradient(loss, [*world.weights, xs], unconnected_gradients="zero")
    return arrays([*results, *gradients])


def mapped(subgraph: rg.SubGraph) -> Callable[..., Any]:
    """All roots in one call."""
    return lambda roots, ks, xs: subgraph.map(tf.convert_to_tensor(roots), tf.convert_to_tensor(ks), xs)


def one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """A call for each root."""

    def call(roots: Any, ks: Any, xs: tf.Tensor) -> Any:
        results = [function(tf.constant(r), tf.constant(k), x) for r, k, x in zip(roots, ks, tf.unstack(xs), strict=True)]
        return [tf.stack(parts) for parts in zip(*results, strict=True)]

    return call


def check(program: Sequence[random_graphs.Body], graphs: Sequence[random_graphs.Graph], dtype: tf.DType, **options: Any) -> rg.SubGraph:
    """Values and gradients in all ways."""
    world = World(dtype)
    subgraph, python = random_graphs.as_subgraph(world, program, **options), random_graphs.as_python(world, program)
    calls = {"map": mapped(subgraph), "calls": one_by_one(subgraph), "tf.function": tf.function(mapped(subgraph))}
    for number, graph in enumerate(graphs):
        world.show(graph)
        for whole in (True, False):
            expected = run(one_by_one(python), graph, world, whole)
            for name, call in calls.items():
                if name == "tf.function" and number > 0:
                    continue
                for way in testing.BATCH_WAYS if name == "map" else ("scheduled",):
                    with testing.batch_way(way):
                        found = run(call, graph, world, whole)
                    assert_close(found, expected, TOLERANCES[dtype], f"{name}, {way}, {whole}, {graph}")
                    assert testing.counters().live_frames == 0
    return subgraph


PROGRAMS = sampling.count("programs", 4)


def check_many(vectors: Sequence[str], start: int, dtypes: Sequence[tf.DType], programs: int = PROGRAMS) -> None:
    """Random programs on random graphs."""

    @seed(sampling.seed(start))
    @settings(max_examples=programs, derandomize=False, database=None, phases=sampling.PHASES, deadline=None)
    @given(
        random_graphs.bodies(vectors),
        st.lists(random_graphs.graphs(), min_size=2, max_size=3),
        st.sampled_from(dtypes),
        st.sampled_from(["batched", "batched", "auto", "parallel"]),
        st.sampled_from(["cache", "recompute"]),
    )
    def many(program: Any, graphs: Any, dtype: tf.DType, engine: str, gradient: str) -> None:
        check(program, graphs, dtype, engine=engine, gradient=gradient)

    many()


def test_random_programs() -> None:
    """In float32 and float64."""
    check_many(random_graphs.VECTORS, 41, [tf.float32, tf.float64])


def test_random_programs_in_short_numbers() -> None:
    """Sums of gradients are rounded once."""
    check_many(random_graphs.VECTORS, 42, [tf.float16, tf.bfloat16], max(1, PROGRAMS // 2))


def test_random_programs_with_gradients_of_their_own() -> None:
    """They may be no linear functions of what comes from above: then nothing may be added up before."""
    check_many((*random_graphs.VECTORS, *["clipped", "squared"] * 4), 43, [tf.float32, tf.float64])
