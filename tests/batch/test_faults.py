"""The batched engine where something goes wrong, or is as large or as odd as it can be: nothing touches its neighbours,
and nothing is left behind."""

# ruff: noqa: PT012  (the statements before the one that fails are what makes it fail)

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from core.failing import nothing_is_left_behind, wait_until  # noqa: F401  (the fixture serves every test)

import recgraph as rg
from recgraph import testing

INT, FLOAT = tf.TensorSpec([], tf.int32), tf.TensorSpec([])
HERE = os.path.basename(__file__)


class Forest:
    """A tree RNN over random trees: an embedding, a matrix and a bias, of float32 rows `[1, 6]`."""

    def __init__(self, trees: int, leaves: int = 12, engine: str = "batched", seed: int = 3) -> None:
        rng = np.random.default_rng(seed)
        arrays = [testing.random_tree(int(rng.integers(1, leaves)), rng) for _ in range(trees)]
        starts = np.cumsum([0, *(len(word) for word, _, _ in arrays)]).astype(np.int32)
        word, left, right = (
            tf.constant(
                np.concatenate(
                    [np.where(t[i] < 0, -1, t[i] + s * (i > 0)) for t, s in zip(arrays, starts[:-1], strict=True)]
                )
            )
            for i in range(3)
        )
        self.roots = tf.constant(starts[1:] - 1)
        self.variables = [tf.Variable(rng.normal(size=shape), dtype=tf.float32) for shape in ((100, 6), (12, 6), (6,))]
        embedding, kernel, bias = self.variables
        row = tf.TensorSpec([1, 6])
        with rg.SubGraph("tree", outputs=row, engine=engine) as self.tree:
            node = self.tree.input(tf.int32)

            def inner() -> tf.Tensor:
                children = tf.concat([self.tree(left[node]), self.tree(right[node])], 1)
                return tf.tanh(tf.matmul(children, kernel) + bias)

            self.tree.output(tf.cond(word[node] < 0, inner, lambda: tf.gather(embedding, word[node][None])))

    def step(self) -> list[np.ndarray]:
        """States of the roots, and all gradients."""
        with tf.GradientTape() as tape:
            states = self.tree.map(self.roots)
            loss = tf.reduce_sum(tf.sin(states))
        gradients = tape.gradient(loss, self.variables)
        return [states.numpy(), *(tf.convert_to_tensor(gradient).numpy() for gradient in gradients)]


def make_down(**options: Any) -> rg.SubGraph:
    """x times itself and its neighbour below, n levels deep."""
    with rg.SubGraph("down", outputs=FLOAT, engine="batched", **options) as down:
        n, x = down.input(tf.int32), down.input()
        down.output(tf.cond(n > 0, lambda: tf.sin(x * down(n - 1, x)), lambda: x))
    return down


# The same again.


def test_the_same_input_gives_the_same_bits() -> None:
    """Values and gradients, though the roots are dealt out to threads, and while another step runs."""
    forest, other = Forest(60), Forest(40, seed=4)
    first = forest.step()
    ended = threading.Event()

    def disturb() -> None:
        while not ended.is_set():
            other.step()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(8):
            for one, again in zip(first, forest.step(), strict=True):
                np.testing.assert_array_equal(one, again)
    finally:
        ended.set()
        thread.join()
    for one, same in zip(first, Forest(60).step(), strict=True):
        np.testing.assert_array_equal(one, same)
    for one, parallel in zip(first, Forest(60, engine="parallel").step(), strict=True):
        np.testing.assert_allclose(one, parallel, rtol=1e-4, atol=1e-4)


# Rows apart.


def test_a_tree_of_nan_touches_no_other() -> None:
    """Not one bit of their states: they pass through the same products."""
    forest = Forest(40)
    states = forest.step()[0]
    word = 7
    forest.variables[0].scatter_update(tf.IndexedSlices(tf.fill([1, 6], np.nan), [word]))
    poisoned = forest.step()[0]
    touched = np.isnan(poisoned).any((1, 2))
    assert 0 < touched.sum() < len(touched)
    assert np.isnan(poisoned[touched]).all()
    np.testing.assert_array_equal(poisoned[~touched], states[~touched])


def test_wrong_input_says_nothing_against_schedules() -> None:
    """However often it comes: what is right afterwards is scheduled."""
    forest = Forest(3)
    roots = forest.roots
    for _ in range(5):
        with pytest.raises(tf.errors.InvalidArgumentError, match="out of range|not in"):
            forest.tree.map(roots + 10_000)
    forest.tree.map(roots)
    assert "\ntree: scheduled" in forest.tree.explain()


def test_a_failing_row_names_its_tree_and_path() -> None:
    """Of many trees in one batch; also inside of a map that a body makes."""
    with rg.SubGraph("walk", outputs=INT, engine="batched") as walk:
        n, limit = walk.input(tf.int32), walk.input(tf.int32)
        deeper = lambda: walk(n - 1, limit) + walk(n - 2, limit)  # noqa: E731
        walk.output(tf.cond(n > 0, deeper, lambda: tf.gather([5, 6], n + limit)))
    limits = tf.constant([1] * 20 + [7] + [1] * 11)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        walk.map(tf.fill([32], 3), limits)
    assert "call path: walk[20] > n" in str(caught.value)
    assert f"{HERE}:" in str(caught.value)
    with rg.SubGraph("all", outputs=INT, engine="batched") as everything:
        level = everything.input(tf.int32)
        everything.output(tf.reduce_sum(walk.map(level + tf.range(3), tf.stack([1, 1, 1 + 8 * level]))))
    for engine in ("batched", "parallel"):
        everything.engine = engine
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"call path: all\[1\] > level\[2\] > n"):
            everything.map(tf.constant([0, 1]))


def test_an_error_in_a_gradient_names_its_tree_and_frees_the_frames() -> None:
    """The backward run is batched, too."""

    @tf.custom_gradient
    def fragile(x: tf.Tensor) -> tuple[tf.Tensor, Any]:
        return tf.identity(x), lambda upstream: tf.debugging.check_numerics(upstream / x, "broken gradient")

    with rg.SubGraph("fragile", outputs=FLOAT, engine="batched") as subgraph:
        n, x = subgraph.input(tf.int32), subgraph.input()
        subgraph.output(tf.cond(n > 0, lambda: x + subgraph(n - 1, x), lambda: fragile(x)))
    x = tf.constant([1.0] * 10 + [0.0] + [1.0] * 5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = subgraph.map(tf.fill([16], 3), x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="broken gradient") as caught:
        tape.gradient(y, x)
    assert "call path: fragile[10] > n > n > n" in str(caught.value)
    del tape, y


def test_an_exception_in_python_code() -> None:
    """Of an operation that runs row by row."""

    def refuse(value: np.ndarray) -> np.ndarray:
        if value == 2:
            raise ValueError("no twos")
        return value

    with rg.SubGraph("strict", outputs=INT, engine="batched") as strict:
        n = strict.input(tf.int32)
        checked = tf.numpy_function(refuse, [n], tf.int32, stateful=False)
        checked.set_shape([])
        strict.output(tf.cond(checked > 0, lambda: strict(n - 1), lambda: n))
    assert int(strict(1)) == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)no twos.*call path: strict\[1\] > n > n, 3 levels"):
        strict.map(tf.constant([1, 4, 1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((tf.constant(1.5), tf.constant(1.0)), r"(?s)found: +float32 .*expected: +int32"),
        ((tf.constant([1, 2]), tf.constant(["a", "b"])), r"(?s)found: +string .*expected: +float32"),
        ((tf.constant([1, 2]), tf.constant([1.0, 2.0, 3.0])), "same first dimension"),
        ((tf.constant(1), tf.constant(1.0)), "scalar|first dimension|shape"),
    ],
)
def test_arguments_that_do_not_fit(arguments: Any, message: str) -> None:
    """Before anything runs, or with the shapes that were found."""
    with pytest.raises((rg.errors.RecgraphError, tf.errors.InvalidArgumentError), match=message):
        make_down().map(*arguments)


# Steps that end early.


def make_endless() -> rg.SubGraph:
    """Never ends, and never needs more memory."""
    with rg.SubGraph("endless", outputs=INT, engine="batched") as endless:
        n = endless.input(tf.int32)
        trip = lambda i: [tf.cond(i % 7 > 9, lambda: endless(i), lambda: (i + 1) % 1000)]  # noqa: E731
        endless.output(tf.while_loop(lambda i: i >= 0, trip, [n])[0])
    return endless


def test_a_step_that_is_cancelled() -> None:
    """In the middle of a batch of many trees."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        result = make_endless().map(tf.range(20))
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(result, options=tf.compat.v1.RunOptions(timeout_in_ms=700))
    wait_until(lambda: testing.counters().live_frames == 0)


def test_a_recorded_step_that_is_cancelled() -> None:
    """Its frames go with it."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with rg.SubGraph("endless", outputs=FLOAT, engine="batched") as endless:
            n, x = endless.input(tf.int32), endless.input()
            trip = lambda i, y: [(i + 1) % 1000, tf.sin(y + tf.cond(i > 9999, lambda: endless(i, y), lambda: x))]  # noqa: E731
            endless.output(tf.while_loop(lambda i, y: (i >= 0) & (y < 9.0), trip, [n, x])[1])
        x = tf.compat.v1.placeholder_with_default(tf.ones([6]), [6])
        (gradient,) = tf.gradients(endless.map(tf.range(6), x), x)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(gradient, options=tf.compat.v1.RunOptions(timeout_in_ms=700))
    wait_until(lambda: testing.counters().live_frames == 0)


def test_an_interrupted_step() -> None:
    """Ctrl-C while a step runs: the exception comes, and the next step is right."""
    forest, slow = Forest(30), make_down(max_depth=100_000)
    expected = forest.step()
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            slow.map(tf.fill([8], 3000), tf.fill([8], 0.5))
    for one, again in zip(expected, forest.step(), strict=True):
        np.testing.assert_array_equal(one, again)


def test_the_step_after_a_signal_that_was_handled() -> None:
    """Ctrl-C while Python runs concerns no graph, also where the next one begins before anybody has looked."""
    slow = make_down(max_depth=100_000)
    slow.map(tf.fill([8], 10), tf.fill([8], 0.5))
    for _ in range(100):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        slow.map(tf.fill([8], 300), tf.fill([8], 0.5))


def test_recovery() -> None:
    """After a failure the same SubGraph computes as before, with and without gradients."""
    with rg.SubGraph("picky", outputs=FLOAT, engine="batched") as picky:
        n, x = picky.input(tf.int32), picky.input()
        picky.output(tf.cond(n > 0, lambda: x * picky(n - 1, x), lambda: tf.gather([x], tf.cast(x > 3.0, tf.int32))))
    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError), tf.GradientTape() as tape:
            x = tf.constant([1.0, 4.0, 2.0, 1.0, 1.0])
            tape.watch(x)
            picky.map(tf.fill([5], 2), x)
        x = tf.constant([1.0, 2.0, 3.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = picky.map(tf.fill([3], 2), x)
        np.testing.assert_allclose(tape.gradient(y, x), 3 * x**2)
        del tape


# Several at once.


def test_steps_from_many_threads() -> None:
    """On one SubGraph, with gradients, some of them failing."""
    with rg.SubGraph("picky", outputs=FLOAT, engine="batched") as picky:
        n, x = picky.input(tf.int32), picky.input()
        picky.output(tf.cond(n > 0, lambda: x * picky(n - 1, x), lambda: tf.gather([x], tf.cast(x > 3.0, tf.int32))))
    wrong: list[Any] = []

    def work(number: int) -> None:
        for i in range(15):
            x = tf.fill([9], 1.0 + 0.1 * number if i % 3 else 4.0)
            try:
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = picky.map(tf.fill([9], number), x)
                if not np.allclose(tape.gradient(y, x), (number + 1) * x**number, rtol=1e-4) or not i % 3:
                    wrong.append((number, i))
            except tf.errors.InvalidArgumentError:
                if i % 3:
                    wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_sessions() -> None:
    """Each with its own variables, one program."""
    with tf.Graph().as_default():
        weight = tf.compat.v1.get_variable("weight", [], use_resource=True)
        down = make_down()
        results = down.map(tf.fill([10], 3), tf.fill([10], weight))
        gradient = tf.gradients(results, weight)[0]
        first, second = tf.compat.v1.Session(), tf.compat.v1.Session()
        with first, second:
            weight.load(0.5, first)
            weight.load(0.25, second)
            values = [session.run([results, gradient]) for session in (first, second, first, second)]
    for one, other in ((values[0], values[2]), (values[1], values[3])):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
    assert abs(values[0][0][0] - values[1][0][0]) > 1e-3


def test_a_process_that_forks() -> None:
    """A child that runs no step, as the workers of a data pipeline do, ends in peace; the parent goes on."""
    program = """
        import os
        import tensorflow as tf
        import recgraph as rg
        with rg.SubGraph("down", outputs=tf.TensorSpec([], tf.int32), engine="batched") as down:
            n = down.input(tf.int32)
            down.output(tf.cond(n > 0, lambda: 1 + down(n - 1), lambda: 0))
        assert down.map(tf.range(20)).numpy().tolist() == list(range(20))
        child = os.fork()
        if child == 0:
            os._exit(sum(range(10)))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 45
        assert down.map(tf.range(20)).numpy().tolist() == list(range(20))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr


# Shapes.


def test_a_map_of_no_rows_inside_of_a_body() -> None:
    """Forward and backward, where some trees have children and some have none."""
    with rg.SubGraph("sums", outputs=tf.TensorSpec([2]), engine="batched") as sums:
        n, x = sums.input(tf.int32), sums.input(shape=[2])
        below = sums.map(tf.range(n), tf.repeat(x[None], n, 0))
        sums.output(x + tf.sin(tf.reduce_sum(below, 0)))

    def eager(n: int, x: tf.Tensor) -> tf.Tensor:
        return x + tf.sin(tf.add_n([tf.zeros([2]), *(eager(i, x) for i in range(n))]))

    counts, x = [0, 3, 1, 0, 4], tf.reshape(tf.range(10.0) / 10.0, [5, 2])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        actual = sums.map(tf.constant(counts), x)
        expected = tf.stack([eager(n, x[i]) for i, n in enumerate(counts)])
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(actual, x), tape.gradient(expected, x), rtol=1e-4)
    del tape


def test_every_row_of_its_own_shape() -> None:
    """Nothing can be batched, and nothing is wrong."""
    with rg.SubGraph("sizes", outputs=FLOAT, engine="batched") as sizes:
        n = sizes.input(tf.int32)
        values = tf.cast(tf.range(n), tf.float32)
        deeper = lambda: tf.reduce_sum(tf.sin(values)[1:]) + sizes(n - 50)  # noqa: E731
        sizes.output(tf.cond(n > 50, deeper, lambda: tf.reduce_sum(tf.sin(values))))
    counts = np.random.default_rng(0).permutation(200)
    expected = [sum(np.sin(np.arange(m)).sum() for m in range(n, -1, -50) if m == n or m > 0) for n in counts]
    np.testing.assert_allclose(sizes.map(tf.constant(counts, tf.int32)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_node_with_a_hundred_thousand_children() -> None:
    """Forward and backward."""
    children, weight = 100_000, tf.Variable(0.5)
    with rg.SubGraph("wide", outputs=FLOAT, engine="batched") as wide:
        n, x = wide.input(tf.int32), wide.input()
        all_of_them = lambda: tf.reduce_mean(wide.map(tf.zeros([n], tf.int32), x * tf.cast(tf.range(n), tf.float32)))  # noqa: E731
        wide.output(tf.cond(n > 0, all_of_them, lambda: weight * x))
    with tf.GradientTape() as tape:
        y = wide.map(tf.constant([children, 3]), tf.constant([2.0, 1.0]))
    mean = (children - 1) / 2
    np.testing.assert_allclose(y, [0.5 * 2.0 * mean, 0.5], rtol=1e-4)
    np.testing.assert_allclose(tape.gradient(y, weight), 2.0 * mean + 1.0, rtol=1e-4)
    del tape


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand() -> None:
    """Forward, backward, and letting go."""
    length, weight = 100_000, tf.Variable(1.0)
    with rg.SubGraph("chain", outputs=FLOAT, engine="batched") as chain:
        n = chain.input(tf.int32)
        chain.output(tf.cond(n > 0, lambda: weight + chain(n - 1), lambda: 0.0))
    with tf.GradientTape() as tape:
        y = chain.map(tf.constant([length, 5]))
    np.testing.assert_allclose(y, [length, 5])
    np.testing.assert_allclose(tape.gradient(y, weight), length + 5)
    del tape
