"""Recursion over graphs with shared nodes beside plain Python, brute force and NumPy: values and gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph import testing


@pytest.fixture(scope="module")
def example(load: Callable[[str], Any]) -> Any:
    return load("directed_graphs")


def slopes(function: Callable[..., Any], *arguments: np.ndarray) -> list[np.ndarray]:
    """The values of a function of floats, and the gradients of a sum of them with other weights for each."""
    given = [tf.constant(argument, tf.float32) for argument in arguments]
    with tf.GradientTape() as tape:
        tape.watch(given)
        results = tf.nest.flatten(function(*given))
        weights = [np.cos(np.arange(np.size(result))).reshape(result.shape) for result in results]
        total = tf.add_n([tf.reduce_sum(w * result) for w, result in zip(weights, results, strict=True)])
    gradients = tape.gradient(total, given, unconnected_gradients="zero")
    return [tf.convert_to_tensor(one).numpy() for one in (*results, *gradients)]


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5)


def differences(function: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    """The gradient of a function of doubles, by its values around a point."""
    steps = np.eye(len(x)) * 1e-6
    return np.array([(function(x + step) - function(x - step)) / 2e-6 for step in steps])


@pytest.mark.parametrize("seed", range(3))
def test_a_dag_lstm(example: Any, seed: int) -> None:
    """Over random lattices; the reference computes nodes in order, and keeps what it has computed."""
    random, width, nodes = np.random.default_rng(seed), 3, 7
    edges = [(n, int(random.integers(0, n))) for n in range(1, nodes) for _ in range(random.integers(1, 4))]
    words = random.normal(size=(len(edges), 2))
    weights = random.normal(size=(2 + width, 4 * width)) / 2

    def reference(words: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        states = [(tf.zeros([width]), tf.zeros([width]))]
        for node in range(1, nodes):
            arriving, kept = tf.zeros([3 * width]), tf.zeros([width])
            for edge, (above, below) in enumerate(edges):
                if above == node:
                    h, memory = states[below]
                    gates = tf.linalg.matvec(weights, tf.concat([words[edge], h], 0), transpose_a=True)
                    arriving, kept = arriving + gates[width:], kept + tf.sigmoid(gates[:width]) * memory
            given, out, new = tf.split(arriving, 3)
            memory = tf.sigmoid(given) * tf.tanh(new) + kept
            states.append((tf.sigmoid(out) * tf.tanh(memory), memory))
        return states[-1][0]

    first, following = example.linked(edges, nodes)
    below = np.array([below for _, below in edges], np.int32)
    hidden = example.dag_lstm(2, width)
    assert_same(
        slopes(lambda *given: hidden(nodes - 1, first, following, below, *given), words, weights),
        slopes(reference, words, weights),
    )


def test_a_lattice_takes_its_nodes_and_edges(example: Any) -> None:
    """Of 60 places, each of which three words lead to: as many paths as no machine could follow."""
    edges = [(n, max(n - back, 0)) for n in range(1, 60) for back in (1, 2, 3)]
    first, following = example.linked(edges, 60)
    words, weights = np.ones([len(edges), 2], np.float32), np.ones([4, 8], np.float32) / 8
    hidden = example.dag_lstm(2, 2)
    before = testing.counters().invocations
    hidden(59, first, following, np.array([below for _, below in edges], np.int32), words, weights)
    assert testing.counters().invocations - before == 60 + 59 * 3 + 1  # and one end for all lists


@pytest.mark.parametrize("seed", range(3))
def test_an_expression_with_common_parts(example: Any, seed: int) -> None:
    """As its formula, in plain Python."""
    random, leaves, nodes = np.random.default_rng(seed), 4, 16
    operations = np.array([example.LEAF] * leaves + list(random.integers(1, 4, nodes - leaves)), np.int32)
    left, right = (
        np.array([*range(leaves), *(random.integers(max(0, n - 4), n) for n in range(leaves, nodes))], np.int32)
        for _ in range(2)
    )
    values = random.uniform(-1, 1, leaves)

    def reference(values: np.ndarray) -> float:
        known = list(values)
        for n in range(leaves, nodes):
            a, b = known[left[n]], known[right[n]]
            known.append({example.PLUS: a + b, example.TIMES: a * b, example.SINE: np.sin(a)}[operations[n]])
        return known[-1]

    found = slopes(lambda given: example.expression(nodes - 1, operations, left, right, given), values)
    assert_same(found, [np.float64(reference(values)), differences(reference, values)])


def reduced(truth: dict[tuple[bool, ...], bool], variables: int) -> list[tuple[int, int, int]]:
    """The nodes of the reduced ordered diagram of a table, the last one its root: variable, low, high."""
    nodes: list[tuple[int, int, int]] = [(0, 0, 0), (0, 0, 0)]
    known: dict[tuple[int, int, int], int] = {}

    def make(given: tuple[bool, ...]) -> int:
        if len(given) == variables:
            return int(truth[given])
        low, high = make((*given, False)), make((*given, True))
        if low == high:
            return low
        node = (len(given), low, high)
        if node not in known:
            known[node] = len(nodes)
            nodes.append(node)
        return known[node]

    root = make(())
    return nodes[: root + 1]


@pytest.mark.parametrize("seed", range(4))
def test_a_decision_diagram(example: Any, seed: int) -> None:
    """Against all assignments; with chances of 0 and 1 it is the function itself."""
    random, variables = np.random.default_rng(seed), 5
    assignments = list(itertools.product([False, True], repeat=variables))
    truth = {one: bool(random.integers(2)) for one in assignments}
    nodes = np.array(reduced(truth, variables), np.int32)
    root = len(nodes) - 1
    chances = random.uniform(0.1, 0.9, variables)

    def reference(p: np.ndarray) -> float:
        return sum(np.prod(np.where(one, p, 1 - p)) for one in assignments if truth[one])

    works = lambda given: example.decision_diagram(root, nodes[:, 0], nodes[:, 1], nodes[:, 2], given)  # noqa: E731
    assert_same(slopes(works, chances), [np.float64(reference(chances)), differences(reference, chances)])
    for one in assignments:
        assert works(tf.cast(one, tf.float32)) == truth[one]


def test_a_decision_diagram_of_many_variables(example: Any) -> None:
    """Whether an odd number of 40 is true: 79 nodes, and 2^40 assignments."""
    low, high, variables = [0, 1], [0, 1], [0, 0]
    even, odd = 0, 1
    for variable in reversed(range(40)):
        for one, other in ((even, odd), (odd, even)):
            low.append(one)
            high.append(other)
            variables.append(variable)
        even, odd = len(low) - 2, len(low) - 1
    chances = np.linspace(0.3, 0.7, 40)
    expected = (1 - np.prod(1 - 2 * chances)) / 2
    before = testing.counters().invocations
    result = example.decision_diagram(even, variables, low, high, chances.astype(np.float32))
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    assert testing.counters().invocations - before == 2 * 40 + 1


@pytest.mark.parametrize("seed", range(3))
def test_beliefs(example: Any, seed: int) -> None:
    """Against the sum over all assignments; the gradient of its logarithm are the beliefs."""
    random, nodes, states = np.random.default_rng(seed), 6, 3
    parents = [-1, *(int(random.integers(0, n)) for n in range(1, nodes))]
    children = [[n for n in range(nodes) if parents[n] == above] for above in range(nodes)]
    first = np.array([found[0] if found else -1 for found in children], np.int32)
    following = np.full(nodes, -1, np.int32)
    for found in children:
        for one, later in itertools.pairwise(found):
            following[one] = later
    alone, fit = random.normal(size=(nodes, states)), random.normal(size=(states, states))
    assignments = np.array(list(itertools.product(range(states), repeat=nodes)))

    def reference(alone: tf.Tensor, fit: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        scores = tf.add_n(
            [tf.gather(alone[n], assignments[:, n]) for n in range(nodes)]
            + [tf.gather_nd(fit, assignments[:, [parents[n], n]]) for n in range(1, nodes)]
        )
        chances, which = tf.nn.softmax(scores), tf.one_hot(assignments, states)
        return tf.einsum("a,ans->ns", chances, which), tf.reduce_logsumexp(scores)

    marginals = example.beliefs(states)
    tree = (np.array(parents, np.int32), first, following)
    assert_same(slopes(lambda *given: marginals(*tree, *given), alone, fit), slopes(reference, alone, fit))
    found, total = slopes(lambda given: marginals(*tree, given, tf.constant(fit, tf.float32))[0], alone)[0], None
    with tf.GradientTape() as tape:
        given = tf.constant(alone, tf.float32)
        tape.watch(given)
        total = marginals(*tree, given, tf.constant(fit, tf.float32))[1]
    np.testing.assert_allclose(tf.convert_to_tensor(tape.gradient(total, given)), found, atol=1e-5)


def test_the_example_runs(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """And says what it has found."""
    example.main()
    printed = capsys.readouterr().out
    assert "an expression of 2^60 leaves: 0.500, and its slope 1.074e+09" in printed
    assert "two of three work: 0.902, and the parts matter by ['0.38' '0.34' '0.26']" in printed
