"""Graphs of `rg.function` with substitutions: steps compute what they did, and what is slower is not used."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from optimize.random_networks import SIZE, RandomNetwork, assert_close

import recgraph as rg
from recgraph import racing, tf_private
from recgraph.errors import SignatureError
from recgraph.optimize import costs, remembering
from recgraph.optimize.bridge import alternatives, graphs
from recgraph.optimize.remembering import GraphTiming
from recgraph.speculate.run import ab_timing
from tests import sampling

STEPS = sampling.count("programs", 4)
SEED = sampling.seed(0)


@pytest.fixture(autouse=True)
def _own_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is measured here is not remembered elsewhere, nor does what was measured elsewhere decide."""
    monkeypatch.setattr(remembering, "memory_file", lambda: tmp_path / "graphs.json")
    monkeypatch.setattr(costs, "cache_file", lambda: tmp_path / "costs.json")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other form is looked for at once, and runs as if it were known to be faster."""
    monkeypatch.setattr(remembering, "recall", lambda key: GraphTiming(is_better=True, before=2.0, after=1.0))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search has a minute: beside other work the same takes more of a processor's time."""
    have_seconds(monkeypatch, 60.0)


def have_seconds(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Searches have so many seconds of a processor."""
    monkeypatch.setattr(alternatives, "PATIENCE", seconds)


class Step:
    """A random network that learns, with what all-or-nothing is about: checks, counts, random numbers, branches."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.network = RandomNetwork(seed)
        self.momenta = [tf.Variable(tf.zeros_like(one)) for one in self.network.trainable_variables]
        self.count = tf.Variable(0)
        self.total = tf.Variable(0.0)

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*self.network.trainable_variables, *self.momenta, self.count, self.total]

    def __call__(self, x: tf.Tensor, y: tf.Tensor, rounds: tf.Tensor) -> tf.Tensor:
        """One step."""
        own = self.network.trainable_variables
        self.count.assign_add(1)
        with tf.GradientTape() as tape:
            made = self.network.cell(x, y)
            if self.seed % 2:
                for _ in tf.range(rounds):
                    made = tf.tanh(made @ self.network.matrices[0]) * tf.sigmoid(made @ self.network.matrices[1])
            if self.seed % 3 == 0:
                if tf.reduce_sum(made) > 0.0:
                    made = self.network.cell(made, x)
                    self.total.assign_add(1.0)
                else:
                    made = made @ self.network.matrices[2] + x @ self.network.matrices[3]
            if self.seed % 5 == 0:
                made = tf.nn.dropout(made, 0.3)
            loss = tf.reduce_mean(tf.square(made))
        gradients = tape.gradient(loss, own, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        tf.debugging.assert_less(loss, 1e6)
        for variable, momentum, gradient in zip(own, self.momenta, gradients, strict=True):
            momentum.assign(0.9 * momentum + gradient)
            variable.assign_sub(0.05 * momentum)
        self.total.assign_add(loss)
        return loss


def taken(step: Step, call: Any, count: int = 10, rows: int = 3) -> list[np.ndarray]:
    """What some steps give, and the variables after them."""
    random = np.random.default_rng(step.seed)
    tf.random.set_seed(step.seed)
    results = []
    for _ in range(count):
        x, y = tf.constant(random.normal(size=(2, rows, SIZE)).astype(np.float32))
        results.append(call(x, y, tf.constant(random.integers(1, 4))).numpy())
    return [*results, *(one.numpy() for one in step.variables)]


def products(function: Any) -> list[tuple[int, int]]:
    """How many matrix products each graph has been said to have, before and after."""
    return [(int(a), int(b)) for a, b in re.findall(r"matmul (\d+) -> (\d+)", str(function.explain()))]


@pytest.mark.parametrize("seed", range(SEED, SEED + STEPS))
def test_random_steps_compute_the_same(seed: int, at_once: None) -> None:
    """`--programs` asks for more."""
    eager, plain, optimized = (Step(seed) for _ in range(3))
    functions = [
        rg.function(one.__call__, mode="speculate", optimize=asked)
        for one, asked in ((plain, False), (optimized, True))
    ]
    expected = taken(eager, eager)
    assert_close(taken(plain, functions[0]), expected)
    assert_close(taken(optimized, functions[1]), expected)
    assert functions[1].calls["graph"] >= 4, functions[1].explain()
    assert "substitutions" not in functions[0].explain()
    assert "substitutions" in functions[1].explain()
    assert "no longer used" not in functions[1].explain()


class Gates:
    """The gates of a cell as printed, in a step that learns or a call that does not."""

    def __init__(self, learns: bool = True) -> None:
        random = np.random.default_rng(0)
        self.learns = learns
        self.weights = [tf.Variable(random.normal(0, 0.4, (SIZE, SIZE)).astype(np.float32)) for _ in range(8)]
        self.calls = tf.Variable(0)

    def __call__(self, x: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
        """A step, or a call."""
        self.calls.assign_add(1)
        with tf.GradientTape() as tape:
            tape.watch(self.weights)
            a, b, c, d = (x @ self.weights[2 * i] + h @ self.weights[2 * i + 1] for i in range(4))
            loss = tf.reduce_sum((tf.sigmoid(a) * tf.tanh(b) + tf.sigmoid(c) * tf.sigmoid(d)) ** 2)
        if self.learns:
            for one, gradient in zip(self.weights, tape.gradient(loss, self.weights), strict=True):
                one.assign_sub(0.1 * gradient)
        return loss

    def run(self, function: Any, count: int, rows: int = 4) -> list[np.ndarray]:
        """Losses and weights."""
        random = np.random.default_rng(1)
        pairs = (tf.constant(random.normal(size=(2, rows, SIZE)).astype(np.float32)) for _ in range(count))
        losses = [function(x, h).numpy() for x, h in pairs]
        return [*losses, *(one.numpy() for one in self.weights), self.calls.numpy()]


def gates(learns: bool = True, **named: Any) -> tuple[Gates, Any]:
    """The gates, and them as a function."""
    made = Gates(learns)
    return made, rg.function(made.__call__, mode="speculate", strict=True, **{"optimize": True, **named})


@pytest.mark.parametrize("learns", [True, False])
def test_gates_become_few_products(learns: bool, at_once: None, patient: None) -> None:
    """Forward, and of the backward pass the products by transposed weights and those that are gradients of weights."""
    expected, (made, function) = Gates(learns), gates(learns)
    assert_close(made.run(function, 10), expected.run(expected, 10))
    assert function.calls == {"eager": 3, "graph": 7, "fallback": 0}
    ((before, after),) = products(function)
    assert before == (16 if learns else 8)
    assert after < before / 2


def test_a_search_without_time_decides_nothing_for_later_ones(monkeypatch: pytest.MonkeyPatch, at_once: None) -> None:
    """As on a busy machine: neither for graphs that are alike in this process, nor in a file for other processes."""
    graphs._search.cache_clear()  # what other tests have found
    have_seconds(monkeypatch, 1e-9)
    made, function = gates(learns=False)
    made.run(function, 10)
    assert not products(function)
    assert not remembering.memory_file().exists()
    have_seconds(monkeypatch, 60.0)
    made, function = gates(learns=False)
    made.run(function, 10)
    ((before, after),) = products(function)
    assert after < before / 2


def test_batches_of_any_size(at_once: None) -> None:
    """A product of rows whose number is not known may fail for all that TensorFlow knows, so that writes wait for it.

    They wait for what it is made of once it is put together with others.
    """
    expected, (made, function) = Gates(), gates()
    for rows in (4, 3, 2, 5, 6, 4):
        assert_close(made.run(function, 3, rows), expected.run(expected, 3, rows))
    assert any(after < before for before, after in products(function)), function.explain()
    assert "?" in function.explain() or "None" in function.explain()


def test_rows_of_which_some_are_not_counted(at_once: None) -> None:
    """Two inputs of one weight, of one row and of any number, are put together, and what is cut off again has them."""
    first, second = Gates(learns=False).weights[:2]

    def step(x: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.tanh(last @ first) @ second, tf.tanh(x @ first) @ second

    function = rg.function(step, mode="speculate", strict=True, optimize=True)
    for rows in (4, 3, 2, 5, 6, 4):
        x, last = tf.random.normal([rows, SIZE]), tf.random.normal([1, SIZE])
        assert_close([one.numpy() for one in function(x, last)], [one.numpy() for one in step(x, last)])
    assert any(after < before for before, after in products(function)), function.explain()


class Attention:
    """Projections of one input, written in three ways, in a step that learns."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.weights = [tf.Variable(random.normal(0, 0.4, (8, 8)).astype(np.float32)) for _ in range(4)]
        self.heads = [tf.Variable(random.normal(0, 0.4, (8, 2, 4)).astype(np.float32)) for _ in range(2)]
        self.out = tf.Variable(random.normal(0, 0.4, (2, 4, 8)).astype(np.float32))

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """A step."""
        variables = [*self.weights, *self.heads, self.out]
        with tf.GradientTape() as tape:
            q, k = (tf.einsum("btd,dhk->bthk", x, one) for one in self.heads)
            v = tf.reshape(tf.matmul(x, self.weights[0]), [2, 3, 2, 4])
            weights = tf.nn.softmax(tf.einsum("bthk,bshk->bhts", q, k))
            mixed = tf.einsum("bthk,hkd->btd", tf.einsum("bhts,bshk->bthk", weights, v), self.out)
            y = tf.nn.gelu(tf.tensordot(mixed, self.weights[1], 1)) + tf.matmul(x, self.weights[2], transpose_b=True)
            loss = tf.reduce_mean(tf.einsum("btw,vw->btv", y, self.weights[3]) ** 2)
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    def run(self, function: Any, count: int) -> list[np.ndarray]:
        """Losses and weights."""
        random = np.random.default_rng(1)
        losses = [function(tf.constant(random.normal(size=(2, 3, 8)).astype(np.float32))).numpy() for _ in range(count)]
        return [*losses, *(one.numpy() for one in (*self.weights, *self.heads, self.out))]


def test_projections_of_stacks_are_products_of_matrices(at_once: None) -> None:
    """Those of the backward pass are summed over the stack by the product itself."""
    expected, made = Attention(), Attention()
    function = rg.function(made.__call__, mode="speculate", strict=True, optimize=True)
    assert_close(made.run(function, 10), expected.run(expected, 10))
    (found,) = re.findall(r"(\d+) products of stacks by one matrix, and (\d+) sums", str(function.explain()))
    assert (int(found[0]), int(found[1])) == (16, 2)
    ((before, after),) = products(function)
    assert after < before


def test_what_the_measurement_says_is_done_and_remembered(monkeypatch: pytest.MonkeyPatch, patient: None) -> None:
    """Both forms take turns on calls that happen once each; the verdict is kept for the next process."""
    monkeypatch.setattr(ab_timing, "CALLS", 2)
    monkeypatch.setattr(ab_timing, "SECONDS", 0.0)
    for better in (True, False):
        costs = {"plain": 2.0, "other": 1.0 if better else 3.0}
        monkeypatch.setattr(ab_timing, "AdaptiveBenchmark", lambda ways, costs=costs: _Fixed(ways, costs))
        monkeypatch.setattr(remembering, "recall", lambda key: None)
        kept: dict[str, GraphTiming] = {}
        monkeypatch.setattr(remembering, "remember", kept.__setitem__)
        expected, (made, function) = Gates(), gates()
        assert_close(made.run(function, 120), expected.run(expected, 120))
        (verdict,) = kept.values()
        assert verdict == GraphTiming(better, 2.0, costs["other"])
        assert ("used" if better else "left as it was") in function.explain()
        monkeypatch.setattr(remembering, "recall", kept.get)
        expected, (made, function) = Gates(), gates()
        assert_close(made.run(function, 6), expected.run(expected, 6))
        assert "on this machine, before: 2000000 -> " in function.explain()
        assert bool(products(function)) is better  # what was slower is not even looked for


def test_what_is_not_sure_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where some calls take much longer than others, by what the machine does besides perhaps."""
    monkeypatch.setattr(remembering, "remember", lambda key, verdict: pytest.fail("it was remembered"))
    made, function = gates()
    made.run(function, 4)
    alternative = function._graphs[0]._turns._alternative
    alternative.decide(True, 2.0, 1.0, is_sure=False)
    assert alternative.is_better


class _Fixed(racing.AdaptiveBenchmark):
    """A contest in which each way takes as long as it is told."""

    def __init__(self, ways: Any, costs: dict[str, float]) -> None:
        super().__init__(ways)
        self._costs = costs

    def add(self, seconds: float) -> None:
        super().add(self._costs[self.way])


def test_nothing_is_looked_for_in_the_first_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that hardly runs is not worth it, and no first call waits."""
    monkeypatch.setattr(alternatives.Substituted, "make", lambda self: pytest.fail("it was looked for"))
    made, function = gates()
    made.run(function, 3 + ab_timing.CALLS)
    assert "looked for after" in function.explain()


def test_a_tape_around_the_call_gets_gradients(at_once: None) -> None:
    """The other form has none, so a call that is recorded runs the graph itself."""
    (weights,), one = [Gates(learns=False).weights[:1]], tf.ones([2, SIZE])
    function = rg.function(
        lambda x: x @ weights[0] + tf.tanh(x @ weights[0] @ weights[0]), mode="speculate", optimize=True
    )
    for _ in range(6):
        function(one)
        with tf.GradientTape() as tape:
            result = function(one)
    with tf.GradientTape() as other:
        expected = one @ weights[0] + tf.tanh(one @ weights[0] @ weights[0])
    assert_close([tape.gradient(result, weights[0]).numpy()], [other.gradient(expected, weights[0]).numpy()])


def test_a_broken_assumption_leaves_no_trace(at_once: None) -> None:
    """The check is in the other form, too, and what writes waits for it."""
    made = Gates()

    def step(x: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
        made.calls.assign_add(1)
        result = made(x, h)
        if tf.reduce_sum(x) > 1e3:
            made.calls.assign_add(100)
        return result

    function = rg.function(step, mode="speculate", optimize=True)
    one = tf.ones([4, SIZE])
    for _ in range(6):
        function(one, one)
    assert made.calls.numpy() == 12
    assert products(function)
    expected = Gates()
    expected.weights = [tf.Variable(weight) for weight in made.weights]
    function(one * 1e3, one)
    expected(one * 1e3, one)
    assert made.calls.numpy() == 114
    assert_close([weight.numpy() for weight in made.weights], [weight.numpy() for weight in expected.weights])
    assert function.calls["fallback"] == 1


def test_a_form_that_fails_is_not_used_again(at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call runs eagerly then, and the next ones by the graph itself."""
    monkeypatch.setattr(ab_timing.tf_private, "fast_call", _failing(ab_timing.tf_private.fast_call))
    expected, (made, function) = Gates(), gates()
    assert_close(made.run(function, 8), expected.run(expected, 8))
    assert function.calls == {"eager": 3, "graph": 4, "fallback": 1}
    assert "no longer used, since a call failed: InternalError" in function.explain()


def _failing(fast_call: Any) -> Any:
    made = []

    def fails(tensors: Any) -> Any:
        raise tf.errors.InternalError(None, None, "no")

    def call(concrete: Any) -> Any:
        made.append(concrete)
        return fast_call(concrete) if len(made) == 1 else fails

    return call


def test_a_graph_is_as_it_was_after_its_other_form_was_made(at_once: None) -> None:
    """Inputs, order and outputs are put back."""
    made, function = gates()
    made.run(function, 4)
    concrete = function._graphs[0]._turns._alternative._concrete
    again = {node.name: node for node in tf_private.concrete_like(concrete, concrete.graph).function_def.node_def}
    for node in concrete.function_def.node_def:
        assert list(node.input) == list(again[node.name].input)
        assert dict(node.attr) == dict(again[node.name].attr)
    assert len(again) > len(concrete.function_def.node_def)  # what was added is there, and used by nobody


def test_several_threads_take_their_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who finds a turn taken runs the graph itself."""
    monkeypatch.setattr(ab_timing, "CALLS", 2)
    monkeypatch.setattr(ab_timing, "SECONDS", 0.0)
    made, function = gates(learns=False)
    made.run(function, 5)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(made.run(function, 40)[:40])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_close([np.array(one) for one in results], [np.array(Gates(False).run(Gates(False), 40)[:40])] * 3)
    assert made.calls.numpy() == 125


def test_the_switches(monkeypatch: pytest.MonkeyPatch, at_once: None) -> None:
    """An argument, for a function that does not say the variable, and its veto."""
    for variable, asked, expected in (("1", None, True), ("1", False, False), ("0", True, False), (None, None, False)):
        if variable is None:
            monkeypatch.delenv("RECGRAPH_OPTIMIZE", raising=False)
        else:
            monkeypatch.setenv("RECGRAPH_OPTIMIZE", variable)
        made, function = gates(optimize=asked)
        made.run(function, 4)
        assert ("substitutions" in function.explain()) is expected
    with pytest.raises(SignatureError, match="optimize=True needs"):
        rg.function(lambda: None, mode="coexec", optimize=True)


def test_verdicts_are_kept_in_a_file(tmp_path: Path) -> None:
    """A damaged file is no file."""
    path = tmp_path / "some" / "graphs.json"
    assert remembering.recall("a", path) is None
    remembering.remember("a", GraphTiming(is_better=True, before=2.0, after=1.0), path)
    remembering.remember("b", GraphTiming(is_better=False), path)
    assert remembering.recall("a", path) == GraphTiming(is_better=True, before=2.0, after=1.0)
    assert remembering.recall("b", path) == GraphTiming(is_better=False)
    for text in ("[1]", '{"a": 3}', '{"a": {"is_better": 1}}', "{"):
        path.write_text(text, encoding="utf-8")
        assert remembering.recall("a", path) is None
    path.unlink()
    path.mkdir()
    remembering.remember("a", GraphTiming(is_better=True), path)  # which cannot be written
