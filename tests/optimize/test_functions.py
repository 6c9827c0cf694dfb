"""`rg.optimize`: functions of TensorFlow compute what they did, with gradients, and after saving."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from optimize.random_networks import SIZE, RandomNetwork, assert_close

import recgraph as rg
from recgraph import tf_private
from recgraph.optimize import choosing
from recgraph.optimize.bridge import functions, graphs
from recgraph.optimize.costs import Costs
from recgraph.optimize.parts import InParts
from recgraph.optimize.problem import Leaf, Problem
from recgraph.optimize.search import Backtracking
from recgraph.optimize.terms import read_term
from recgraph_command import main
from tests import sampling

GRAPHS = sampling.count("programs", 4)
SEED = sampling.seed(0)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the rewritten graph without measuring, whatever the machine does beside."""
    monkeypatch.setattr(functions, "_in_turns", lambda calls, seconds: (1.0, 0.5, 0))


def products(concrete: Any) -> int:
    """How many matrix products a function runs, those of its branches and loops included."""
    return sum(op.type == "MatMul" for op in graphs.all_operations(concrete.graph))


def weights(count: int, size: int = SIZE) -> list[tf.Variable]:
    random = np.random.default_rng(1)
    return [tf.Variable(random.normal(0, 0.5, (size, size)).astype(np.float32)) for _ in range(count)]


def computed(call: Any, arguments: list[Any], variables: list[tf.Variable]) -> list[np.ndarray]:
    """The results of a call, and the gradients by variables."""
    with tf.GradientTape() as tape:
        results = tf.nest.flatten(call(*arguments))
        loss = tf.add_n([tf.reduce_sum(one**2) for one in results])
    gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
    return [np.asarray(tf.convert_to_tensor(one)) for one in (*results, *gradients)]


@pytest.mark.parametrize("search", list(graphs.SEARCHES))
@pytest.mark.parametrize("seed", range(SEED, SEED + GRAPHS))
def test_random_functions_compute_the_same(seed: int, search: str, always: None, tmp_path: Path) -> None:
    """With gradients, and from a SavedModel. `--programs` asks for more."""
    if search == "saturation":
        pytest.importorskip("egglog")
    network = RandomNetwork(seed)
    network.call = tf.function(network.cell, autograph=False)
    specs = [tf.TensorSpec([3, SIZE], name="x"), tf.TensorSpec([3, SIZE], name="y")]
    plain = network.call.get_concrete_function(*specs)
    rows = list(tf.constant(np.random.default_rng(seed).normal(size=(2, 3, SIZE)).astype(np.float32)))
    variables = network.trainable_variables
    optimized = rg.optimize(plain, search=search)
    assert optimized.structured_input_signature == plain.structured_input_signature
    assert_close(computed(optimized, rows, variables), computed(plain, rows, variables))
    network.optimized = optimized
    tf.saved_model.save(network, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    own = [*network.matrices, *network.vectors]
    there = [*loaded.matrices, *loaded.vectors]
    assert_close(computed(loaded.optimized, rows, there), computed(plain, rows, own))


def test_products_of_one_input_become_one(always: None) -> None:
    """In the graph, in functions that it calls, in branches, and in loops; with the same results and gradients."""
    w = weights(6)

    @tf.function
    def inner(x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x @ w[0]) + tf.sigmoid(x @ w[1])

    @tf.function
    def outer(x: tf.Tensor, n: tf.Tensor) -> dict[str, Any]:
        y = inner(x)
        for _ in tf.range(n):
            y = tf.tanh(y @ w[2]) * tf.sigmoid(y @ w[3])
        if n > 2:
            y = y @ w[4] + tf.nn.relu(y @ w[5])
        return {"y": y, "rest": [x, None]}

    specs = tf.TensorSpec([2, SIZE]), tf.TensorSpec([], tf.int32)
    plain = outer.get_concrete_function(*specs)
    optimized = rg.optimize(outer, *specs)
    assert (products(plain), products(optimized)) == (6, 3)
    assert optimized.is_rewritten
    assert "substitutions in outer" in optimized.explain()
    assert optimized(tf.ones([2, SIZE]), tf.constant(1))["rest"][1] is None
    assert [id(v) for v in optimized.variables] == [id(v) for v in plain.variables]
    for n in (1, 3):
        arguments = [tf.constant(np.random.default_rng(n).normal(size=(2, SIZE)).astype(np.float32)), tf.constant(n)]
        found, expected = (
            computed(lambda *given, one=one: one(*given)["y"], arguments, w) for one in (optimized, plain)
        )
        assert_close(found, expected)
    again = rg.optimize(optimized, *arguments)
    assert_close([np.asarray(again(*arguments)["y"])], [np.asarray(optimized(*arguments)["y"])])


def test_an_input_that_is_reshaped_for_each_product_is_one(always: None) -> None:
    """As `tf.tensordot` does, and so the projections of attention."""
    w = weights(3)
    attention = tf.function(lambda x: [tf.tensordot(x, one, 1) for one in w], autograph=False)
    optimized = rg.optimize(attention, tf.TensorSpec([2, 4, SIZE]))
    assert products(optimized) == 1
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 4, SIZE)).astype(np.float32))
    assert_close(computed(optimized, [x], w), computed(attention, [x], w))


def test_a_weight_that_several_steps_read_is_one_unless_it_changes_between(always: None) -> None:
    (w,) = weights(1, 200)

    @tf.function(autograph=False)
    def steps(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        return [tf.tanh(x @ w), tf.sigmoid(y @ w)]

    @tf.function(autograph=False)
    def changing(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        first = tf.tanh(x @ w)
        w.assign_add(tf.ones_like(w))
        return [first, tf.sigmoid(y @ w)]

    rows = list(tf.constant(np.random.default_rng(0).normal(size=(2, 1, 200), scale=0.1).astype(np.float32)))
    optimized = rg.optimize(steps, *rows)
    assert products(optimized) == 1
    assert_close(computed(optimized, rows, [w]), computed(steps, rows, [w]))
    found = graphs.rewritten(changing.get_concrete_function(*rows).graph, 2, 60.0)
    assert found.graph is None


def test_weights_that_change_between_calls_are_read_anew(always: None) -> None:
    """What is put together is kept only as long as the weights are the same."""
    w = weights(2)
    gates = tf.function(lambda x: (tf.tanh(x @ w[0]), tf.sigmoid(x @ w[1])), autograph=False)
    x = tf.ones([1, SIZE])
    optimized = rg.optimize(gates, x)
    for step in range(8):
        assert_close([np.asarray(one) for one in optimized(x)], [np.asarray(one) for one in gates(x)])
        if step % 4 == 3:
            w[step // 4].assign_add(tf.ones_like(w[0]))


def test_a_saved_model_is_optimized_and_saved_again(always: None, tmp_path: Path) -> None:
    """Its signature stays as it is."""
    model = tf.Module()
    model.w = w = weights(3)

    @tf.function(input_signature=[tf.TensorSpec([None, SIZE], name="rows")])
    def gates(rows: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"a": tf.tanh(rows @ w[0]), "b": tf.sigmoid(rows @ w[1]) + rows @ w[2]}

    tf.saved_model.save(model, str(tmp_path / "plain"), signatures=gates)
    optimized = rg.optimize(tmp_path / "plain")
    assert products(optimized) == 1
    tf.saved_model.save(optimized.model, str(tmp_path / "optimized"), signatures=optimized)
    x = tf.constant(np.random.default_rng(0).normal(size=(5, SIZE)).astype(np.float32))
    expected = gates(x)
    found = tf.saved_model.load(str(tmp_path / "optimized")).signatures["serving_default"](rows=x)
    assert set(found) == {"a", "b"}
    assert_close([np.asarray(found[key]) for key in "ab"], [np.asarray(expected[key]) for key in "ab"])
    out = tmp_path / "by command"
    done = CliRunner().invoke(main, ["optimize", "model", str(tmp_path / "plain"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "matmul 3 -> 1" in done.output
    found = tf.saved_model.load(str(out)).signatures["serving_default"](rows=x)
    assert_close([np.asarray(found[key]) for key in "ab"], [np.asarray(expected[key]) for key in "ab"])
    with pytest.raises(functions.OptimizeError, match="no such signature"):
        rg.optimize(tmp_path / "plain", signature="train")


def test_what_is_not_faster_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    w = weights(2)
    gates = tf.function(lambda x: (tf.tanh(x @ w[0]), tf.sigmoid(x @ w[1])), autograph=False)
    plain = gates.get_concrete_function(tf.TensorSpec([None, SIZE]))
    monkeypatch.setattr(functions, "_in_turns", lambda calls, seconds: (1.0, 0.99, 5))
    optimized = rg.optimize(plain)
    assert not optimized.is_rewritten
    assert optimized.graph is plain.graph
    assert "left as it was" in optimized.explain()


def test_timing_takes_turns_and_ends() -> None:
    """Each call is made equally often, and the time is kept."""
    calls: list[int] = []
    before, after, count = functions._in_turns([lambda: calls.append(0), lambda: calls.append(1)], 0.0)
    assert calls.count(0) == calls.count(1) == functions._FIRST + count
    assert count == functions._FEWEST
    assert before > 0
    assert after > 0


def test_functions_with_effects_are_not_called_to_be_timed() -> None:
    counter, w = tf.Variable(0), weights(2)

    @tf.function
    def counting(x: tf.Tensor) -> tf.Tensor:
        counter.assign_add(1)
        return tf.tanh(x @ w[0]) + x @ w[1]

    optimized = rg.optimize(counting, tf.TensorSpec([1, SIZE]))
    assert "to time it would have effects" in optimized.explain()
    assert int(counter) == 0
    dropping = tf.function(lambda x: tf.nn.dropout(tf.tanh(x @ w[0]) + x @ w[1], 0.5), autograph=False)
    assert "to time it would have effects" in rg.optimize(dropping, tf.TensorSpec([1, SIZE])).explain()
    with rg.SubGraph("recursive", outputs=tf.TensorSpec([1, SIZE])) as recursive:
        recursive.output(recursive.input(shape=[1, SIZE]) @ w[0])
    calling = tf.function(lambda x: tf.tanh(recursive(x) @ w[0]) + x @ w[1], autograph=False)
    assert "to time it would have effects" in rg.optimize(calling, tf.TensorSpec([1, SIZE])).explain()


def test_a_gradient_of_its_own_is_kept_or_refused(always: None) -> None:
    """`tf.nn.silu` has one."""
    w = weights(2)
    gates = tf.function(lambda x: tf.nn.silu(x @ w[0]) + x @ w[1], autograph=False)
    x = tf.ones([1, SIZE])
    kept = rg.optimize(gates, x)
    assert "gradient of its own" in kept.explain()
    assert_close(computed(kept, [x], w), computed(gates, [x], w))
    inference = rg.optimize(gates, x, gradients=False)
    assert inference.is_rewritten
    assert_close([np.asarray(inference(x))], [np.asarray(gates(x))])
    with pytest.raises(LookupError, match="gradients=False"):
        computed(inference, [x], w)


def test_what_xla_compiles_is_left_as_it_is() -> None:
    """XLA has no kernel for merged weights."""
    w = weights(2)
    gates = tf.function(lambda x: tf.tanh(x @ w[0]) + tf.sigmoid(x @ w[1]), autograph=False, jit_compile=True)
    optimized = rg.optimize(gates, tf.TensorSpec([1, SIZE]))
    assert not optimized.is_rewritten
    assert "XLA" in optimized.explain()


def test_what_cannot_be_optimized_is_said() -> None:
    with pytest.raises(functions.OptimizeError, match="this cannot be optimized"):
        rg.optimize(len)
    with pytest.raises(functions.OptimizeError, match="there is no such search"):
        rg.optimize(len, search="fast")
    with pytest.raises(functions.OptimizeError, match="training=True needs gradients=True"):
        rg.optimize(len, training=True, gradients=False)
    w = weights(2)
    ragged = tf.function(lambda x: (tf.tanh(x.to_tensor(shape=[2, SIZE]) @ w[0]), x.to_tensor(shape=[2, SIZE]) @ w[1]))
    chosen = tf.function(lambda x, i: (tf.tanh(x @ w[0]), x @ w[1], 1 // i), autograph=False)
    with pytest.raises(
        functions.OptimizeError, match="cannot be called with the arguments that it is to be timed with"
    ):
        rg.optimize(chosen, tf.TensorSpec([1, SIZE]), tf.TensorSpec([], tf.int32))
    with pytest.raises(functions.OptimizeError, match="give one to time with"):
        rg.optimize(ragged, tf.RaggedTensorSpec([2, None], tf.float32))


def test_layers_that_are_alike_are_searched_once() -> None:
    """And what each part puts together is in one graph."""
    leaves = {f"{name}{i}": Leaf((8, 8, 1, 1), name != "x") for i in range(3) for name in "xwv"}
    roots = tuple(read_term(text) for i in range(3) for text in (f"x{i} @ w{i}", f"x{i} @ v{i}"))
    given = Problem(roots, leaves)
    searched: list[Problem] = []
    backtracking = Backtracking(choosing.rules())

    def search(part: Problem, costs: Costs, seconds: float) -> Any:
        searched.append(part)
        return backtracking(part, costs, seconds)

    found = InParts(search)(given, Costs(), 60.0)
    assert len(searched) == 1
    assert found.after < found.before
    assert all("concat" in str(root) for root in found.roots)


def test_parts_that_would_wait_for_each_other_are_not_both_put_together() -> None:
    """Each alone can be; with both, neither could begin."""
    leaves = {name: Leaf((8, 8, 1, 1), True) for name in ("w", "v", "r", "s")}
    for name, needs in {"a": [], "b": [3], "c": [], "d": [0]}.items():
        leaves[name] = Leaf((1, 8, 1, 1), needs=frozenset(needs))
    texts = ["sigmoid(a @ w)", "sigmoid(b @ w)", "sigmoid(c @ r)", "sigmoid(d @ r)"]
    given = Problem(tuple(map(read_term, texts)), leaves)
    found = InParts(Backtracking(choosing.rules()))(given, Costs(), 60.0)
    assert given.is_in_order(found.roots)


def test_a_call_of_a_rewritten_function_in_a_graph_has_gradients(always: None) -> None:
    w = weights(2)
    gates = tf.function(lambda x: tf.tanh(x @ w[0]) + tf.sigmoid(x @ w[1]), autograph=False)
    x = tf.ones([2, SIZE])
    optimized = rg.optimize(gates, x)
    assert optimized.is_rewritten
    assert isinstance(optimized, tf_private.ConcreteFunction)

    @tf.function(autograph=False)
    def step(one: Any) -> list[tf.Tensor]:
        return tf.gradients(one(x), w)

    assert_close([np.asarray(g) for g in step(optimized)], [np.asarray(g) for g in step(gates)])


def test_graphs_within_a_graph_share_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search is given what those before have left; with nothing left there is none."""
    w = weights(2)
    given: list[float] = []

    def search(problem: Problem, costs: Costs, seconds: float) -> Any:
        given.append(seconds)
        return SimpleNamespace(seconds=3.0, is_better=False, is_complete=True)

    def products(x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x @ w[0]) + tf.sigmoid(x @ w[1])

    def nested(x: tf.Tensor) -> tf.Tensor:
        return products(x) + tf.cond(x[0, 0] > 0.0, lambda: products(x), lambda: products(x) + 1.0)

    monkeypatch.setattr(graphs, "_search", lambda name: search)
    traced = tf.function(nested, autograph=False).get_concrete_function(tf.TensorSpec([2, SIZE]))
    found = graphs.rewritten(traced.graph, 1, seconds=4.0, gradients=False)
    assert given == [4.0, 1.0]
    assert found.seconds == 6.0
