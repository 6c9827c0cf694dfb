"""The batched engine as a user meets it: what it explains, what it cannot batch, its errors, depth, saving."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from core.failing import nothing_is_left_behind  # noqa: F401  (the fixture serves every test)

import recgraph as rg
from recgraph import testing
from recgraph.batch import compiler

FLOAT = tf.TensorSpec([])
HERE = os.path.basename(__file__)


def make_sum(engine: str = "batched", name: str = "total", **options: Any) -> rg.SubGraph:
    """n + (n - 1) + ... + 1, times a weight at every step."""
    with rg.SubGraph(name, outputs=FLOAT, engine=engine, **options) as total:
        n, x = total.input(tf.int32), total.input()
        total.output(tf.cond(n > 0, lambda: tf.cast(n, tf.float32) * x + total(n - 1, x), lambda: 0.0 * x))
    return total


def block_counts(subgraph: rg.SubGraph) -> list[tuple[int, int]]:
    """Runs and rows of the blocks that have run, as `explain` shows them: those with most rows first."""
    lines = re.findall(r"^ +[\d.]+ % +(\d+) +(\d+) +([\d.]+)  \w+[.\w]*\.block\d+: \w", subgraph.explain(), re.M)
    assert all(f"{int(rows) / int(runs):.1f}" == mean for runs, rows, mean in lines)
    return sorted(((int(runs), int(rows)) for runs, rows, _ in lines), key=lambda counts: -counts[1])


def test_rows_share_their_blocks() -> None:
    """A hundred roots take as many batches as the deepest of each thread's."""
    total = make_sum()
    result = total.map(tf.range(100), tf.ones([100]))
    np.testing.assert_allclose(result, [n * (n + 1) / 2 for n in range(100)])
    assert "pick by" in total.explain()
    assert 'engine "batched"' in total.explain()
    (runs, rows), *_ = block_counts(total)
    assert rows == sum(n + 1 for n in range(100))
    assert 100 <= runs <= 100 + 50


def test_explain_shows_what_blocks_have_done() -> None:
    """Nothing before the first call; then runs, rows and shares of the time, added up over calls."""
    total = make_sum(name="explained")  # SubGraphs that are the same program are counted together
    assert "blocks have run" not in total.explain()
    for calls in (1, 2):
        total.map(tf.constant([5, 3, 0]), tf.ones([3]))
        assert "blocks have run for 0.0" in total.explain()
        # Asking whether to go on, and on the way back adding.
        assert block_counts(total)[0] == (6 * calls, 11 * calls)
    shares = [float(share) for share in re.findall(r"^ +([\d.]+) %", total.explain(), re.M)]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=0.5)


def test_explain_counts_what_runs_row_by_row_for_each_row() -> None:
    """One row a run says it all."""
    with rg.SubGraph("ranges", outputs=tf.TensorSpec([], tf.int32), engine="batched") as ranges:
        ranges.output(tf.reduce_sum(tf.range(ranges.input(tf.int32))))
    ranges.map(tf.constant([1, 2, 4]))
    assert block_counts(ranges) == [(3, 3), (3, 3)]


def test_no_rows() -> None:
    """An empty batch gives empty results and a zero gradient."""
    total, x = make_sum(), tf.Variable(2.0)
    with tf.GradientTape() as tape:
        result = total.map(tf.zeros([0], tf.int32), tf.fill([0], 1.0) * x)
    assert result.shape == [0]
    assert tape.gradient(result, x) == 0.0


@pytest.mark.parametrize("engine", ["auto", "parallel", "batched"])
def test_engines_agree(engine: str) -> None:
    """What is scheduled is run batched by "auto", without a trial of the other engine."""
    total, x = make_sum(engine), tf.Variable(1.5)
    step = tf.function(lambda: total.map(tf.constant([3, 0, 7]), tf.fill([3], x)))
    for _ in range(12):
        with tf.GradientTape() as tape:
            result = tf.reduce_sum(step())
        np.testing.assert_allclose(result, 1.5 * (6 + 28))
        np.testing.assert_allclose(tape.gradient(result, x), 6 + 28)
    if engine == "auto":
        assert "total: scheduled" in total.explain()
        assert "us an invocation parallel" not in total.explain()


@pytest.mark.parametrize("staged", [False, True], ids=["eager", "function"])
def test_single_calls_take_the_engine_that_costs_less(staged: bool) -> None:
    """With and without a gradient, where values decide: they are the same, whichever engine is tried."""
    with rg.SubGraph("tree", outputs=FLOAT) as tree:
        n, x = tree.input(tf.int32), tree.input()

        def inner() -> tf.Tensor:
            below = tree(n - 1, x) + tree(n - 2, x)
            return tf.sin(below + tf.cond(below > 99.0, lambda: tree(0, x), lambda: 0.0))

        tree.output(tf.cond(n > 1, inner, lambda: x * tf.cast(n + 1, x.dtype)))
    function = tf.function(tree) if staged else tree
    with tf.GradientTape() as tape:
        x = tf.constant(0.3)
        tape.watch(x)
        expected = eager_sines(6, x)
    slope = tape.gradient(expected, x)
    for _ in range(20):
        np.testing.assert_allclose(function(6, x), expected, rtol=1e-5)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(6, x)
        np.testing.assert_allclose(tape.gradient(value, x), slope, rtol=1e-5)
    report = [line for line in tree.explain().splitlines() if "single calls" in line]
    assert any(
        re.match(r"training, single calls: (parallel|batched), [\d.]+ us an invocation", line) for line in report
    )
    assert staged or any(line.startswith("inference, single calls: ") for line in report)
    assert all(" 0.00 " not in line for line in report)  # both were tried
    assert testing.counters().live_frames == 0


def eager_sines(n: int, x: tf.Tensor) -> tf.Tensor:
    """The same in Python."""
    return tf.sin(eager_sines(n - 1, x) + eager_sines(n - 2, x)) if n > 1 else x * (n + 1)


def test_single_calls_with_nothing_to_batch_run_parallel() -> None:
    """And no plan is made for them."""
    total = make_sum("auto")
    assert float(total(4, 1.0)) == 10
    assert [program.plan for program in total.programs.values()] == [None]
    assert "single calls run parallel: no two of their invocations can be batched" in total.explain()


@pytest.mark.parametrize("leaf_first", [False, True])
def test_a_result_that_only_some_need_does_not_hold_the_others_up(leaf_first: bool) -> None:
    """The sum over a tree is left behind while the states go up: one block for all of it at the end."""
    with rg.SubGraph("tree", outputs=(FLOAT, FLOAT), engine="batched") as tree:
        n = tree.input(tf.int32)

        def inner() -> tuple[tf.Tensor, tf.Tensor]:
            (left, left_sum), (right, right_sum) = tree(n - 1), tree(n - 2)
            return tf.tanh(left + right), left_sum + right_sum

        leaf = lambda: (tf.cast(n, tf.float32), tf.constant(0.0))  # noqa: E731
        state, below = tf.cond(n <= 1, leaf, inner) if leaf_first else tf.cond(n > 1, inner, leaf)
        tree.output((state, below + tf.exp(state)))
    with testing.batch_policy("agenda"):
        states, sums = tree.map(tf.constant([9, 5]))
    expected = [eager_tree(9), eager_tree(5)]
    np.testing.assert_allclose(states, [state for state, _ in expected], rtol=1e-5)
    np.testing.assert_allclose(sums, [total for _, total in expected], rtol=1e-5)
    # Of equal calls there is one: 8 nodes have children and 2 have none. Two more of them are found in each round.
    found, levels = [(3, 8), (4, 10)], [(8, 8), (8, 8), (9, 10)]
    assert sorted(block_counts(tree)) == [(1, 2), (1, 10), *found, *levels]


def test_what_is_not_to_blame_stays_scheduled() -> None:
    """Rows of several shapes above a recursion: only what has them is given up, or refused where they are sure."""
    total = make_sum()
    with rg.SubGraph("shorter", outputs=FLOAT, engine="batched") as shorter:
        n, x = shorter.input(tf.int32), shorter.input(tf.float32, [None])
        shorter.output(tf.cond(n > 0, lambda: shorter(n - 1, x[1:]), lambda: tf.reduce_sum(x) + total(3, 1.0)))
    with rg.SubGraph("leaves", outputs=tf.TensorSpec([None]), engine="batched") as leaves:
        n = leaves.input(tf.int32)
        leaves.output(
            tf.cond(n > 0, lambda: tf.concat([leaves(n - 1), leaves(n - 1)], 0), lambda: tf.cast(n, tf.float32)[None])
        )
    with rg.SubGraph("filled_up", outputs=tf.TensorSpec([8]), engine="batched") as filled_up:
        found = leaves(filled_up.input(tf.int32))
        filled_up.output(tf.ensure_shape(tf.pad(found, [[0, 8 - tf.size(found)]]), [8]))
    for _ in range(6):
        np.testing.assert_allclose(shorter.map(tf.constant([0, 1, 2]), tf.ones([3, 5])), [11, 10, 9])
        assert filled_up.map(tf.constant([0, 3, 1])).shape == [3, 8]
    assert "shorter: not scheduled, a row or a block did not fit" in shorter.explain()
    assert re.search("^total: scheduled", shorter.explain(), re.M)
    assert re.search("^filled_up: not scheduled, rows of .* may differ in shape", filled_up.explain(), re.M)
    assert re.search("^leaves: scheduled", filled_up.explain(), re.M)


def eager_tree(n: int) -> tuple[float, float]:
    """The same in Python."""
    if n <= 1:
        return float(n), float(np.exp(n))
    (left, left_sum), (right, right_sum) = eager_tree(n - 1), eager_tree(n - 2)
    state = float(np.tanh(left + right))
    return state, left_sum + right_sum + float(np.exp(state))


def test_what_has_no_batched_form_runs_row_by_row() -> None:
    """And is named."""
    with rg.SubGraph("ranges", outputs=tf.TensorSpec([], tf.int32), engine="batched") as ranges:
        n = ranges.input(tf.int32)
        ranges.output(tf.cond(n > 1, lambda: tf.reduce_sum(tf.range(n)) + ranges(n - 1), lambda: 0))
    np.testing.assert_array_equal(ranges.map(tf.constant([1, 2, 4])), [0, 1, 6 + 3 + 1])
    assert "row by row, Range has no batched form" in ranges.explain()


def test_operations_without_batched_forms_are_all_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that reads what another gives, or stands behind a concatenation: two passes do."""
    made: list[Any] = []
    program = compiler.FlowProgram
    monkeypatch.setattr(compiler, "FlowProgram", lambda *given: made.append(given) or program(*given))
    with rg.SubGraph("ranges", outputs=tf.TensorSpec([], tf.int32), engine="batched") as ranges:
        n = ranges.input(tf.int32)

        def longer() -> tf.Tensor:
            joined = tf.concat([tf.range(n), tf.range(2, n + 2)], 0)
            return tf.reduce_sum(tf.range(tf.reduce_sum(joined))) + ranges(n - 1)

        ranges.output(tf.cond(n > 1, longer, lambda: tf.reduce_max(tf.range(n + 5))))
    expected = [sum(sum(range(sum(range(k)) + sum(range(2, k + 2)))) for k in range(2, n + 1)) + 5 for n in (1, 2, 4)]
    np.testing.assert_array_equal(ranges.map(tf.constant([1, 2, 4])), expected)
    assert len(made) == 2
    assert ranges.explain().count("row by row, Range has no batched form") == 4


CONDITIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "int32": lambda n: n,
    "int64": lambda n: tf.cast(n, tf.int64),
    "uint8": lambda n: tf.cast(n, tf.uint8),
    "double": lambda n: tf.cast(n, tf.float64) / 3,
    "unknown": lambda n: tf.reshape(n, tf.zeros([0 * n], tf.int32)),
    "string": lambda n: tf.where(n > 0, "x", ""),
    "vector": lambda n: tf.repeat([0], 2 * n),
    "bools": lambda n: tf.repeat([False], 2 * n),
}


@pytest.mark.parametrize("engine", ["parallel", "batched"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_that_are_no_bool(name: str, engine: str) -> None:
    """Of branches and loops: numbers, strings, and vectors, of which any element counts, whatever it is."""
    with rg.SubGraph("counted", outputs=tf.TensorSpec([], tf.int32), engine=engine) as counted:
        n = counted.input(tf.int32)
        counted.output(tf.cond(CONDITIONS[name](n), lambda: 1 + counted(n - 1), lambda: 0))
    with rg.SubGraph("looped", outputs=tf.TensorSpec([], tf.int32), engine=engine) as looped:
        m = looped.input(tf.int32)
        condition = lambda i, _: CONDITIONS[name](i)  # noqa: E731
        looped.output(tf.while_loop(condition, lambda i, total: (i - 1, total + 1), [m, 0])[1])
    for subgraph in (counted, looped):
        assert subgraph.map(tf.constant([3, 0, 5])).numpy().tolist() == [3, 0, 5]


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_what_cannot_be_a_condition(engine: str) -> None:
    """The row is named."""
    with rg.SubGraph("wrong", outputs=tf.TensorSpec([], tf.int32), engine=engine) as wrong:
        n = wrong.input(tf.int32)
        unusual = lambda: tf.cond(tf.cast(n, tf.float16), lambda: 1, lambda: 2)  # noqa: E731
        wrong.output(tf.cond(n < 3, lambda: wrong(n + 1), unusual))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="(?s)half cannot be converted to a boolean.*test_engine.*wrong > n > n"
    ):
        wrong(1)
    assert testing.counters().live_frames == 0


def test_parts_of_unknown_length_are_joined() -> None:
    """Concatenation up the recursion: every element is copied once."""
    with rg.SubGraph("numbers", outputs=tf.TensorSpec([None]), engine="batched") as numbers:
        n = numbers.input(tf.int32)
        one = tf.cast(n, tf.float32)[None]
        numbers.output(tf.cond(n > 0, lambda: tf.concat([numbers(n - 1), one, numbers(n - 2)], 0), lambda: one))
    np.testing.assert_array_equal(numbers(3), [0, 1, -1, 2, 0, 3, 0, 1, -1])
    assert "join" in numbers.explain()
    with pytest.raises(tf.errors.InvalidArgumentError, match="rows 0 and 1 differ in shape"):
        numbers.map(tf.constant([3, 2]))


def test_what_is_computed_of_a_join_of_what_is_computed() -> None:
    """The same call's result is read before and after: one block cannot do both."""
    with rg.SubGraph("folded", outputs=tf.TensorSpec([None]), engine="batched") as folded:
        n = folded.input(tf.int32)

        def more() -> tf.Tensor:
            shorter = folded(n - 1)
            both = tf.concat([tf.sin(shorter), shorter], 0)
            return tf.concat([tf.tanh(both), both + shorter[0], [1.0]], 0)

        folded.output(tf.cond(n > 0, more, lambda: tf.constant([0.5])))

    def eager(n: int) -> np.ndarray:
        if n == 0:
            return np.array([0.5])
        shorter = eager(n - 1)
        both = np.concatenate([np.sin(shorter), shorter])
        return np.concatenate([np.tanh(both), both + shorter[0], [1.0]])

    np.testing.assert_allclose(folded(4), eager(4), rtol=1e-5)


def test_strings() -> None:
    """Rows that are not plain memory."""
    with rg.SubGraph("spelled", outputs=tf.TensorSpec([], tf.string), engine="batched") as spelled:
        n = spelled.input(tf.int32)
        letter = tf.gather(["a", "b", "c"], n % 3)
        spelled.output(tf.cond(n > 0, lambda: tf.strings.join([spelled(n - 1), letter]), lambda: letter))
    assert spelled.map(tf.constant([0, 2, 4])).numpy().tolist() == [b"a", b"abc", b"abcab"]


def test_a_failing_row_is_named() -> None:
    """Operation, line and call path, though it failed in a batch."""
    with rg.SubGraph("failing", outputs=tf.TensorSpec([], tf.int32), engine="batched") as failing:
        n = failing.input(tf.int32)
        checked = lambda: tf.gather([1, 2], n + 4)  # noqa: E731
        failing.output(tf.cond(n > 0, lambda: failing(n - 1) + failing(n - 2), checked))
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        failing.map(tf.constant([2, 3]))
    assert "call path: failing[0] > n" in str(caught.value)
    assert f"{HERE}:" in str(caught.value)
    assert testing.counters().live_frames == 0


def test_a_gradient_that_is_the_same_for_all_rows() -> None:
    """A contribution that no row has computed counts once for each."""

    @tf.custom_gradient
    def biased(x: tf.Tensor) -> tuple[tf.Tensor, Any]:
        return tf.identity(x), lambda upstream: tf.constant([2.0, 3.0])

    weight, other = tf.Variable([1.0, 1.0]), tf.Variable([1.0, 1.0])
    with rg.SubGraph("biased", outputs=tf.TensorSpec([2]), engine="batched") as subgraph:
        n = subgraph.input(tf.int32)
        below = tf.cond(n > 0, lambda: subgraph(n - 1), lambda: tf.zeros([2]))
        subgraph.output(biased(weight) + other + below)
    with tf.GradientTape() as tape:
        y = subgraph.map(tf.constant([3, 0, 1]))
    same, computed = tape.gradient(y, [weight, other])
    np.testing.assert_allclose(tf.convert_to_tensor(same), [7 * 2, 7 * 3])
    np.testing.assert_allclose(tf.convert_to_tensor(computed), [7, 7])


def test_nan_in_one_tree_touches_no_other() -> None:
    """Neither forward nor backward."""
    total = make_sum()
    x = tf.constant([1.0, float("nan"), 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = total.map(tf.constant([3, 3, 3]), x)
    assert np.isnan(result.numpy()).tolist() == [False, True, False]
    np.testing.assert_allclose(tape.gradient(result, x).numpy()[[0, 2]], [6, 6])


def test_a_recursion_without_end() -> None:
    """Stops at max_depth with the call path; where nothing decides what is called, it says so."""
    for has_branch in (False, True):
        with rg.SubGraph("endless", outputs=FLOAT, engine="batched", max_depth=1000) as endless:
            x = endless.input()
            deeper = lambda: endless(x + 1.0)  # noqa: B023, E731
            endless.output(tf.cond(x < 0.0, lambda: x, deeper) if has_branch else deeper())  # noqa: B023
        if not has_branch:
            with pytest.raises(tf.errors.InvalidArgumentError, match="there is a call whatever the arguments are"):
                endless(0.0)
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"(?s)max_depth = 1000.*call path: endless > x > x"):
        endless(0.0)


def test_a_recursion_without_end_that_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take all memory long before it is deep."""
    monkeypatch.setenv("RECGRAPH_MEMORY_GB", "0.6")
    with rg.SubGraph("endless", outputs=FLOAT, engine="batched") as endless:
        x = endless.input()
        endless.output(tf.cond(x < 0.0, lambda: x, lambda: endless(x + 1.0) + endless(2.0 * x)))
    message = r"(?s)may never end: \d+ invocations are live.* of the 0.6 GB.*call path: endless > x > x"
    with pytest.raises(tf.errors.ResourceExhaustedError, match=message):
        endless(1.0)


def _own_memory() -> float:
    """GB that the process has for itself."""
    _, resident, shared = (int(number) for number in Path("/proc/self/statm").read_text().split()[:3])
    return (resident - shared) * 4096 / 1e9


@pytest.mark.parametrize("engine", ["batched", "parallel"])
def test_a_recursion_without_end_whose_rows_are_large(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few invocations take all memory: it is looked at by what they hold, too."""
    allowed = _own_memory() + 0.6
    monkeypatch.setenv("RECGRAPH_MEMORY_GB", f"{allowed:.2f}")
    row = tf.TensorSpec([250_000])
    with rg.SubGraph("endless", outputs=row, engine=engine) as endless:
        x = endless.input(tf.float32, [250_000])
        endless.output(tf.cond(x[0] < 0.0, lambda: x, lambda: endless(x + 1.0) + x))
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"may never end: \d{2,4} invocations are live"):
        endless(tf.ones([250_000]))
    assert _own_memory() < 2 * allowed + 1.0


def test_two_calls_of_one_graph_run_at_once() -> None:
    """Each waits for the other in its body: one after another, neither would end."""
    barrier = threading.Barrier(2)

    def meet(n: np.ndarray) -> np.ndarray:
        barrier.wait(timeout=60)
        return n

    with rg.SubGraph("meeting", outputs=tf.TensorSpec([], tf.int32), engine="batched") as meeting:
        n = meeting.input(tf.int32)
        same = tf.numpy_function(meet, [n], tf.int32, stateful=False)
        same.set_shape([])
        meeting.output(same + 1)

    @tf.function
    def both(n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return meeting(n), meeting(n + 1)

    assert [int(result) for result in both(tf.constant(3))] == [4, 5]


def test_counters_while_it_runs() -> None:
    """Three chains, each of which waits for what is below."""
    seen = []

    def look(n: np.ndarray) -> np.ndarray:
        seen.append(testing.counters().live_invocations)
        return n

    with rg.SubGraph("watched", outputs=tf.TensorSpec([], tf.int32), engine="batched") as watched:
        n = watched.input(tf.int32)
        same = tf.numpy_function(look, [n], tf.int32, stateful=False)
        same.set_shape([])
        watched.output(tf.cond(same > 0, lambda: watched(n - 1), lambda: 0))
    before = testing.counters(reset_peak=True).invocations
    watched.map(tf.constant([3, 3, 3]))
    after = testing.counters()
    assert seen == [3, 3, 3, 6, 6, 6, 9, 9, 9, 12, 12, 12]
    assert (after.invocations - before, after.live_invocations, after.peak_invocations) == (12, 0, 12)


@pytest.mark.slow
def test_a_long_chain() -> None:
    """Depth costs heap, never stack: forward, backward and when the frames are let go."""
    total, x = make_sum(), tf.constant([1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = total.map(tf.constant([20_000]), x)
    np.testing.assert_allclose(tape.gradient(result, x), [20_000 * 20_001 / 2], rtol=1e-3)
    del tape, result
    assert testing.counters().live_frames == 0


def test_two_steps_at_once() -> None:
    """On one SubGraph, from two threads."""
    total, wrong = make_sum(), []

    def work(n: int) -> None:
        for _ in range(20):
            with tf.GradientTape() as tape:
                x = tf.fill([8], 1.0)
                tape.watch(x)
                result = total.map(tf.fill([8], n), x)
            if not np.allclose(tape.gradient(result, x), n * (n + 1) / 2):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (5, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_persistent_tape() -> None:
    """The frames of one forward run serve two gradients."""
    total, x = make_sum(), tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        result = total.map(tf.constant([2, 4]), x)
    for _ in range(2):
        np.testing.assert_allclose(tape.gradient(result, x), [3, 10])
    del tape


def test_it_is_saved_and_served(tmp_path: Path) -> None:
    """The plan travels with the program."""
    module = tf.Module()
    module.weight = tf.Variable(3.0)
    total = make_sum()
    signature = [tf.TensorSpec([None], tf.int32)]
    module.serve = tf.function(lambda n: total.map(n, tf.fill(tf.shape(n), module.weight)), signature)
    expected = module.serve(tf.constant([1, 4]))
    tf.saved_model.save(module, str(tmp_path), module.serve)
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_allclose(loaded.serve(tf.constant([1, 4])), expected)
    loaded.weight.assign(1.0)
    np.testing.assert_allclose(loaded.serve(tf.constant([1, 4])), [1, 10])
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        served = tf.compat.v1.saved_model.load(session, ["serve"], str(tmp_path)).signature_def["serving_default"]
        (given,), (result,) = served.inputs.values(), served.outputs.values()
        np.testing.assert_allclose(session.run(result.name, {given.name: [1, 4]}), expected)
