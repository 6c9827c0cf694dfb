"""Calls that are given the same are one: values and gradients are those of recursion that computes every path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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
    roots, ks, xs = (
        np.int32(graph.roots),
        np.int32([i % 2 for i in range(len(graph.roots))]),
        vectors_for(graph, world.dtype),
    )
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
        results = [
            function(tf.constant(r), tf.constant(k), x) for r, k, x in zip(roots, ks, tf.unstack(xs), strict=True)
        ]
        return [tf.stack(parts) for parts in zip(*results, strict=True)]

    return call


def check(
    program: Sequence[random_graphs.Body], graphs: Sequence[random_graphs.Graph], dtype: tf.DType, **options: Any
) -> rg.SubGraph:
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


# Particular graphs.


def ladder(size: int, words: dict[int, int] | None = None, left: dict[int, int] | None = None, **options: Any) -> Any:
    """Node i calls i - 1 and i - 2; but for those nodes. The SubGraph and the embedding that it captures."""
    below = [[-1, -1, *range(1 - k, size - 1 - k)] for k in range(2)]
    for node, child in (left or {}).items():
        below[0][node] = child
    of_nodes = [node % 3 for node in range(size)]
    for node, word in (words or {}).items():
        of_nodes[node] = word
    lefts, rights, word_of = (tf.constant(values) for values in (*below, of_nodes))
    embedding = tf.Variable(np.linspace(0.1, 1.2, 6, dtype=np.float32).reshape(3, 2))
    with rg.SubGraph("step", random_graphs.NODE, tf.TensorSpec([2]), engine="batched", **options) as step:
        node = step.declared_arguments()
        word = lambda: tf.gather(embedding, tf.gather(word_of, node))  # noqa: E731

        def inner() -> tf.Tensor:
            one, other = step(tf.gather(lefts, node)), step(tf.gather(rights, node))
            return 0.6 * one + (0.4 * tf.tanh(other) + 0.1) * word()

        step.output(tf.cond(tf.gather(lefts, node) < 0, word, inner))
    return step, embedding


def values_of_ladder(size: int, embedding: np.ndarray) -> np.ndarray:
    """The results of all nodes, from the smallest to the largest."""
    values = [embedding[0], embedding[1]]
    for node in range(2, size):
        values.append(0.6 * values[-1] + (0.4 * np.tanh(values[-2]) + 0.1) * embedding[node % 3])
    return np.array(values)


def test_ten_thousand_shared_nodes() -> None:
    """As many invocations as nodes, forwards and backwards."""
    size = 10_000
    step, embedding = ladder(size)
    before = testing.counters().invocations
    with tf.GradientTape() as tape:
        result = step(tf.constant(size - 1))
    np.testing.assert_allclose(result, values_of_ladder(size, embedding.numpy())[-1], rtol=1e-4)
    gradient = tf.convert_to_tensor(tape.gradient(result, embedding))
    assert testing.counters().invocations - before <= 2 * size + 2
    assert f"{2 * (size - 2) + 1} calls asked for, {size} computed" in step.explain()
    slope = np.zeros([3, 2])
    for place in np.ndindex(3, 2):
        moved = [embedding.numpy().astype(np.float64) for _ in range(2)]
        moved[0][place] += 1e-6
        moved[1][place] -= 1e-6
        slope[place] = np.sum(values_of_ladder(size, moved[0])[-1] - values_of_ladder(size, moved[1])[-1]) / 2e-6
    np.testing.assert_allclose(gradient, slope, rtol=1e-3, atol=1e-6)


def test_roots_are_among_the_nodes() -> None:
    """Each node once, however many of them one thread is asked for."""
    roots = [39, 38, 20, 5]
    step, embedding = ladder(40)
    before = testing.counters().invocations
    np.testing.assert_allclose(step.map(tf.constant(roots)), values_of_ladder(40, embedding.numpy())[roots], rtol=1e-5)
    assert testing.counters().invocations - before == 40


FAILURES = {
    "a leaf's word": ({"words": {1: 7}}, "indices[0] = 7 is not in [0, 3)"),
    "a word in the middle": ({"words": {30: -2}}, "indices[0] = -2 is not in [0, 3)"),
    "a child": ({"left": {30: 99}}, "indices = 99 is not in [0, 60)|indices[0] = 99 is not in [0, 60)"),
    "too deep": ({"max_depth": 50}, "more than max_depth = 50 invocations deep"),
    "itself": ({"left": {30: 30}}, "goes round in a circle: "),
    "a node above it": ({"left": {30: 40}}, "goes round in a circle: "),
    "the root": ({"left": {30: 59}}, "goes round in a circle: step(59) > "),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_takes_no_longer_than_what_is_well(name: str) -> None:
    """In another way it would be found after 2^30 calls; a call path leads to it, and the next call is well."""
    options, words = FAILURES[name]
    step, _ = ladder(60, **options)
    before = testing.counters().invocations
    with pytest.raises(tf.errors.OpError) as caught:
        step.map(tf.constant([0, 59]))
    assert any(text in str(caught.value) for text in words.split("|")), str(caught.value)
    assert "call path: step[1]" in str(caught.value)
    assert testing.counters().invocations - before <= 150
    np.testing.assert_allclose(step(tf.constant(0)), [0.1, 0.32], rtol=1e-5)


def test_endless_calls_with_other_numbers() -> None:
    """They are told by their depth."""
    with rg.SubGraph("more", random_graphs.NODE, tf.TensorSpec([]), engine="batched", max_depth=1000) as more:
        n = more.declared_arguments()
        more.output(tf.cond(n < -5, lambda: 1.0, lambda: more(n + 1) + more(n + 2)))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="max_depth = 1000"):
        more(tf.constant(0))


def test_second_derivatives() -> None:
    """Those of gradients by weights and by what is handed down."""
    world = World(tf.float64)
    same = random_graphs.Call(0, 0, "same", "same", 0, "always")
    other = random_graphs.Call(0, 1, "stopped", "same", 1, "always")
    program = (random_graphs.Body((same, other, same), ("add", "mul", "add"), "both"),)
    world.show(random_graphs.Graph((-1, -1, 0, 2, 2), (-1, -1, 1, 2, 3), (0, 1, 2, 3, 0), (4,)))
    x = tf.constant([0.4, -0.7], tf.float64)

    def derivatives(call: Callable[..., Any]) -> Arrays:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(call(tf.constant(4), tf.constant(0), x)[0])
            first = [tf.convert_to_tensor(g) for g in inner.gradient(loss, [*world.weights, x])]
            total = tf.add_n([tf.reduce_sum(gradient**2) for gradient in first])
        return arrays([*first, *outer.gradient(total, [*world.weights, x])])

    subgraph = random_graphs.as_subgraph(world, program, engine="batched")
    expected = derivatives(random_graphs.as_python(world, program))
    assert_close(derivatives(subgraph), expected, 1e-9, "second derivatives")


def test_a_persistent_tape() -> None:
    """Its frames are read more than once, in all ways."""
    step, embedding = ladder(12)
    with tf.GradientTape(persistent=True) as tape:
        results = step.map(tf.constant([11, 10, 11]))
        losses = [tf.reduce_sum(results), results[1, 0], tf.reduce_sum(results**2)]
    for loss in losses:
        found = []
        for way in testing.BATCH_WAYS:
            with testing.batch_way(way):
                found.append(tf.convert_to_tensor(tape.gradient(loss, embedding)).numpy())
        assert_close(found[:2], [found[2]] * 2, 1e-5, "ways")
    del tape


def test_threads_share_a_subgraph() -> None:
    """Each call has its own table of calls."""
    step, embedding = ladder(300)
    wanted = values_of_ladder(300, embedding.numpy())
    with ThreadPoolExecutor(4) as pool:
        for node, found in pool.map(lambda node: (node, step(tf.constant(node)).numpy()), [299, 150, 299, 7] * 5):
            np.testing.assert_allclose(found, wanted[node], rtol=1e-4, atol=1e-6)


def test_a_saved_model(tmp_path: Path) -> None:
    """It is as quick, and its gradient is as right."""
    module = tf.Module()
    step, module.embedding = ladder(60)
    module.run = tf.function(lambda node: step(node), input_signature=[random_graphs.NODE], autograph=False)
    expected = module.run(tf.constant(59)).numpy()
    with tf.GradientTape() as tape:
        result = module.run(tf.constant(59))
    gradient = tf.convert_to_tensor(tape.gradient(result, module.embedding))
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    with tf.GradientTape() as tape:
        result = loaded.run(tf.constant(59))
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    np.testing.assert_allclose(tf.convert_to_tensor(tape.gradient(result, loaded.embedding)), gradient, rtol=1e-5)
