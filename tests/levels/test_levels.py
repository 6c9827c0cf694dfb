"""Calls in levels give what eager recursion gives: plain, one by one and mapped, and compiled by XLA."""

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
from recgraph.errors import DefinitionError, Unbatchable
from tests import sampling

Arrays = list[np.ndarray]
TOLERANCES = {tf.float64: 1e-9, tf.float32: 2e-5}
PROGRAMS = sampling.count("programs", 6)


def arrays(tensors: Sequence[Any]) -> Arrays:
    return [tf.convert_to_tensor(tensor).numpy() for tensor in tensors]


def assert_close(found: Arrays, expected: Arrays, tolerance: float, what: str) -> None:
    """To so much of the largest of an array."""
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{what}, {i}"
        largest = max(1.0, float(np.max(np.abs(b), initial=0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * largest, err_msg=f"{what}, {i}")


def inputs_of(graph: random_graphs.Graph, dtype: tf.DType) -> tuple[tf.Tensor, ...]:
    """Nodes, integers and vectors, one for each root."""
    count = len(graph.roots)
    vectors = np.random.default_rng(1).uniform(-1, 1, [count, random_graphs.WIDTH])
    return tf.constant(graph.roots, tf.int32), tf.range(count) % 2, tf.cast(vectors, dtype)


def with_gradients(call: Callable[..., Any], world: World, given: tuple[tf.Tensor, ...], *plans: Any) -> list[Any]:
    """Results of all roots, and the gradients of both by weights and vectors."""
    with tf.GradientTape() as tape:
        tape.watch(given[2])
        results = call(*plans, *given)
        loss = tf.reduce_sum(results[0] * 1.5) + tf.reduce_sum(results[1])
    gradients = tape.gradient(loss, [*world.weights, given[2]], unconnected_gradients="zero")
    return [*results, *map(tf.convert_to_tensor, gradients)]


def one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """A call for each root."""

    def call(*given: tf.Tensor) -> Any:
        results = [function(*row) for row in zip(*map(tf.unstack, given), strict=True)]
        return [tf.stack(parts) for parts in zip(*results, strict=True)]

    return call


@pytest.mark.slow
def test_random_graphs() -> None:
    """Also where nodes share children, functions call one another, and integers decide besides nodes."""

    @seed(sampling.seed(11))
    @settings(max_examples=PROGRAMS, derandomize=False, database=None, phases=sampling.PHASES, deadline=None)
    @given(
        random_graphs.bodies(),
        st.lists(random_graphs.graphs(most_paths=60), min_size=2, max_size=3),
        st.sampled_from(list(TOLERANCES)),
    )
    def many(program: Any, graphs: Any, dtype: tf.DType) -> None:
        world = World(dtype)
        subgraph = random_graphs.as_subgraph(world, program, engine="levels")
        python = random_graphs.as_python(world, program)
        calls = {"map": subgraph.map, "tf.function": tf.function(subgraph.map), "calls": one_by_one(subgraph)}
        for graph in graphs:
            world.show(graph)
            given_ = inputs_of(graph, dtype)
            expected = arrays(with_gradients(one_by_one(python), world, given_))
            for name, call in calls.items():
                found = arrays(with_gradients(call, world, given_))
                assert_close(found, expected, TOLERANCES[dtype], f"{name}, {graph}, {program}")

    many()


@pytest.mark.slow
def test_random_graphs_under_xla() -> None:
    """A call, its gradient and the sums in one compiled function; `width` cuts levels into parts."""

    @seed(sampling.seed(12))
    @settings(
        max_examples=max(1, PROGRAMS // 3), derandomize=False, database=None, phases=sampling.PHASES, deadline=None
    )
    @given(
        random_graphs.bodies(),
        st.lists(random_graphs.graphs(most_paths=40), min_size=2, max_size=2),
        st.sampled_from([1, 3, 16]),
    )
    def many(program: Any, graphs: Any, width: int) -> None:
        world = World(tf.float32)
        levels = rg.levels.Levels(random_graphs.as_subgraph(world, program), width=width)
        python = random_graphs.as_python(world, program)
        compiled = tf.function(lambda plan, *given: with_gradients(levels, world, given, plan), jit_compile=True)
        for graph in graphs:
            world.show(graph)
            given_ = inputs_of(graph, tf.float32)
            expected = arrays(with_gradients(one_by_one(python), world, given_))
            found = arrays(compiled(levels.plan(*given_), *given_))
            assert_close(found, expected, TOLERANCES[tf.float32], f"{width}, {graph}, {program}")

    many()


class Trees:
    """A network over random binary trees, whose structure is in a variable."""

    def __init__(self, engine: str = "auto") -> None:
        rng = np.random.default_rng(0)
        self.table = tf.Variable(np.zeros([1, 3], np.int32), shape=[None, 3], trainable=False)
        self.words, self.kernel, self.bias = self.weights = [
            tf.Variable(rng.uniform(-0.8, 0.8, shape), dtype=tf.float32) for shape in ([9, 3], [6, 3], [3])
        ]
        with rg.SubGraph("tree", tf.TensorSpec([], tf.int32), tf.TensorSpec([1, 3]), engine=engine) as self.tree:
            word, left, right = tf.unstack(tf.gather(self.table, self.tree.declared_arguments()), num=3)

            def inner() -> tf.Tensor:
                below = tf.concat([self.tree(left), self.tree(right)], 1)
                return tf.tanh(below @ self.kernel + self.bias)

            self.tree.output(tf.cond(word >= 0, lambda: tf.gather(self.words, word[None]), inner))

    def show(self, rng: np.random.Generator, count: int, most: int = 20) -> tf.Tensor:
        """Puts trees of 1 to `most` leaves into the table. Returns their roots."""
        rows: list[list[int]] = []

        def grow(leaves: int) -> int:
            below = (-1, -1)
            if leaves > 1:
                left = int(rng.integers(1, leaves))
                below = (grow(left), grow(leaves - left))
            rows.append([-1 if leaves > 1 else int(rng.integers(9)), *below])
            return len(rows) - 1

        roots = [grow(int(rng.integers(1, most))) for _ in range(count)]
        self.table.assign(rows)
        return tf.constant(roots)

    def step(self, call: Callable[..., tf.Tensor], *given: Any) -> list[Any]:
        """A loss and its gradients."""
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(call(*given) ** 2)
        return [loss, *map(tf.convert_to_tensor, tape.gradient(loss, self.weights))]


@pytest.mark.slow
def test_few_compilations() -> None:
    """Batches of other trees have tables of the same sizes, and every table is a parameter of what was compiled."""
    trees, rng, traces = Trees(), np.random.default_rng(3), []
    levels, plain = rg.levels.Levels(trees.tree), tf.function(lambda roots: trees.step(trees.tree.map, roots))

    @tf.function(jit_compile=True)
    def compiled(plan: rg.levels.LevelPlan, roots: tf.Tensor) -> list[Any]:
        traces.append(plan)
        return trees.step(levels, plan, roots)

    for batch in range(200):
        roots = trees.show(rng, 25)
        plan = levels.plan(roots)
        found = compiled(plan, roots)
        if batch % 10 == 0:
            assert_close(arrays(found), arrays(plain(roots)), 1e-5, f"batch {batch}")
    assert len(traces) <= 5
    module = compiled.experimental_get_compiler_ir(plan, roots)(stage="hlo")
    entry = module[module.index("ENTRY") :]
    tables = [table for parts in (plan.forward[0], plan.backward[0]) for table in parts if table.shape[0] > 0]
    for shape in {f"s32[{','.join(map(str, table.shape))}]" for table in tables}:
        given_ = sum(f"s32[{','.join(map(str, table.shape))}]" == shape for table in tables)
        parameters = [line for line in entry.splitlines() if " parameter(" in line and f"= {shape}" in line]
        assert len(parameters) >= given_, shape


def test_trains_with_an_optimizer_in_a_compiled_step() -> None:
    """Weights change as they do with the batched engine."""
    found = []
    for engine in ("batched", "levels"):
        trees, optimizer = Trees(engine), tf.keras.optimizers.Adam(0.01)
        optimizer.build(trees.weights)
        levels = rg.levels.Levels(trees.tree) if engine == "levels" else None

        def step(*given: Any, trees: Any = trees, optimizer: Any = optimizer, levels: Any = levels) -> tf.Tensor:
            loss, *gradients = trees.step(levels or trees.tree.map, *given)
            optimizer.apply_gradients(zip(gradients, trees.weights, strict=True))
            return loss

        function, rng, losses = tf.function(step, jit_compile=engine == "levels"), np.random.default_rng(5), []
        for _ in range(3):
            roots = trees.show(rng, 6, most=6)
            losses.append(float(function(*([levels.plan(roots)] if levels else []), roots)))
        found.append([np.array(losses), *(weight.numpy() for weight in trees.weights)])
    assert_close(found[1], found[0], 1e-5, "after three steps")


def test_saved_and_loaded(tmp_path: Any) -> None:
    """A SavedModel gives the same."""
    trees = Trees("levels")
    roots = trees.show(np.random.default_rng(1), 5)
    module = tf.Module()
    module.weights, module.table = trees.weights, trees.table
    module.call = tf.function(trees.tree.map, input_signature=[tf.TensorSpec([None], tf.int32)])
    expected = module.call(roots).numpy()
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_array_equal(loaded.call(roots).numpy(), expected)


def test_no_rows() -> None:
    """A call of no roots gives no rows, and gradients of zeros."""
    trees = Trees("levels")
    trees.show(np.random.default_rng(1), 1)
    for value in arrays(trees.step(trees.tree.map, tf.zeros([0], tf.int32))):
        assert not value.any()


def test_what_values_decide_is_refused() -> None:
    """With the reason."""
    with rg.SubGraph("again", tf.TensorSpec([]), tf.TensorSpec([]), engine="levels", gradient="recompute") as again:
        x = again.declared_arguments()
        again.output(tf.cond(x < 1.0, lambda: x, lambda: again(x - 1.0)))
    with pytest.raises(Unbatchable, match="gradient='recompute' in levels"):
        again(tf.constant(5.0))
    with rg.SubGraph("halve", tf.TensorSpec([]), tf.TensorSpec([]), engine="levels") as halve:
        x = halve.declared_arguments()
        halve.output(tf.cond(x < 1.0, lambda: x, lambda: halve(halve(x / 2.0))))
    with pytest.raises(Unbatchable, match="results of calls decide which calls there are"):
        halve(tf.constant(5.0))


def test_rows_of_unknown_size_are_refused() -> None:
    """They name the value."""
    inputs = (tf.TensorSpec([], tf.int32), tf.TensorSpec([None]))
    with rg.SubGraph("grow", inputs, tf.TensorSpec([None]), engine="levels") as grow:
        n, x = grow.declared_arguments()
        grow.output(tf.cond(n < 1, lambda: x, lambda: grow(n - 1, x) + 1.0))
    with pytest.raises(Unbatchable, match=r"a result of SubGraph 'grow', which has rows of unknown size"):
        grow(3, [1.0])


def test_circles_depth_and_failures_are_errors() -> None:
    """They say what they say in the other engines."""
    trees = Trees("levels")
    trees.table.assign([[-1, 0, 0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="the recursion never ends"):
        trees.tree.map([0])
    trees.table.assign([[-1, 1, 9], [1, -1, -1]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="indices"):
        trees.tree.map([0])
    with rg.SubGraph("deep", tf.TensorSpec([], tf.int32), tf.TensorSpec([]), engine="levels", max_depth=9) as deep:
        n = deep.declared_arguments()
        deep.output(tf.cond(n < 1, lambda: 0.0, lambda: 1.0 + deep(n - 1)))
    assert deep(8) == 8.0
    with pytest.raises(tf.errors.ResourceExhaustedError, match="deep"):
        deep(9)


def test_two_tapes() -> None:
    """First derivatives by either of them; second ones are an error that names the engine that has them."""
    trees = Trees("levels")
    roots = trees.show(np.random.default_rng(1), 2)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = tf.reduce_sum(trees.tree.map(roots) ** 2)
        gradient = inner.gradient(loss, trees.kernel)
    with pytest.raises(tf.errors.OpError, match="has no second derivatives in levels; use engine='batched'"):
        outer.gradient(gradient, trees.bias)
    with tf.GradientTape() as one, tf.GradientTape() as other:
        loss = tf.reduce_sum(trees.tree.map(roots) ** 2)
    for found in (one.gradient(loss, trees.kernel), other.gradient(loss, trees.kernel)):
        np.testing.assert_allclose(found, gradient, rtol=1e-5)


def test_plans_are_made_outside_of_functions() -> None:
    """An error says so, also for what is no SubGraph."""
    trees = Trees()
    levels = rg.levels.Levels(trees.tree)
    with pytest.raises(DefinitionError, match="before the function"):
        tf.function(lambda: levels.plan(trees.show(np.random.default_rng(1), 1)))()
    with pytest.raises(DefinitionError, match="those of a SubGraph"):
        rg.levels.Levels(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="at least one row"):
        rg.levels.Levels(trees.tree, width=0)
