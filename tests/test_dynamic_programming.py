"""The recursions of examples/dynamic_programming.py against tables filled in NumPy, values and gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from examples import dynamic_programming as dp
from recgraph import testing

Numbers = np.random.Generator


def words(random: Numbers, most: int, kinds: int = 3) -> np.ndarray:
    return random.integers(0, kinds, random.integers(1, most)).astype(np.int32)


def edit_distance(random: Numbers) -> tuple[Any, Any]:
    a, b = words(random, 9), words(random, 9)
    table = np.add.outer(np.arange(len(a) + 1), np.arange(len(b) + 1))
    for i, j in itertools.product(range(1, len(a) + 1), range(1, len(b) + 1)):
        around = min(table[i - 1, j], table[i, j - 1]) + 1
        table[i, j] = min(around, table[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
    return dp.edit_distance(a, b), table[-1, -1]


def common_subsequence(random: Numbers) -> tuple[Any, Any]:
    a, b = words(random, 9), words(random, 9)
    found = {()}
    for letter in a:
        found |= {(*known, letter) for known in found}
    inside = lambda letters: all(letter in rest for rest in [iter(b)] for letter in letters)  # noqa: E731
    return dp.common_subsequence(a, b), max(len(letters) for letters in found if inside(letters))


def affine_alignment(random: Numbers) -> tuple[Any, Any]:
    """Each path is scored by itself: a run of steps in one direction is one gap."""
    rows, columns = random.integers(1, 4, 2)
    scores = random.normal(size=(rows, columns)).astype(np.float32)

    def best(i: int, j: int, last: str) -> float:
        if i == j == 0:
            return 0.0
        found = []
        if i and j:
            found.append(scores[i - 1, j - 1] + best(i - 1, j - 1, "pair"))
        for way, part in (("down", (i - 1, j)), ("right", (i, j - 1))):
            if min(part) >= 0:
                # From the end to the beginning: a gap is opened where the step before is of another kind.
                found.append(best(*part, way) - 0.25 - (0.75 if last != way else 0.0))
        return max(found)

    return dp.affine_alignment(scores, 1.0, 0.25), best(rows, columns, "")


def matrix_chain(random: Numbers) -> tuple[Any, Any]:
    sizes = random.integers(1, 9, random.integers(3, 8)).astype(np.int32)

    def cheapest(i: int, j: int) -> int:
        parts = [cheapest(i, k) + cheapest(k, j) + sizes[i] * sizes[k] * sizes[j] for k in range(i + 1, j)]
        return min(parts, default=0)

    return dp.matrix_chain(sizes), cheapest(0, len(sizes) - 1)


def knapsack(random: Numbers) -> tuple[Any, Any]:
    weights, values = (random.integers(1, 9, 6).astype(np.int32) for _ in range(2))
    capacity = int(random.integers(0, 20))
    choices = (np.array(chosen) for chosen in itertools.product([0, 1], repeat=6))
    return dp.knapsack(weights, values, capacity), max(c @ values for c in choices if c @ weights <= capacity)


def search_tree(random: Numbers) -> tuple[Any, Any]:
    frequencies = random.random(random.integers(1, 7)).astype(np.float32)

    def cheapest(i: int, j: int) -> float:
        below = [cheapest(i, k) + cheapest(k + 1, j) for k in range(i, j)]
        return min(below, default=0.0) + float(frequencies[i:j].sum())

    return dp.search_tree(frequencies), cheapest(0, len(frequencies))


def hidden_markov(random: Numbers) -> tuple[Any, Any]:
    transitions, emissions = random.normal(size=(3, 3)), random.normal(size=(4, 3))
    seen = words(random, 6, 4)
    scores = [
        sum(transitions[a, b] for a, b in itertools.pairwise((0, *path)))
        + sum(emissions[symbol, state] for symbol, state in zip(seen, path, strict=True))
        for path in itertools.product(range(3), repeat=len(seen))
    ]
    found = dp.hidden_markov(tf.constant(transitions, tf.float32), tf.constant(emissions, tf.float32), seen)
    return found, (np.log(np.exp(scores).sum()), max(scores))


CASES: list[Callable[[Numbers], tuple[Any, Any]]] = [
    edit_distance, common_subsequence, affine_alignment, matrix_chain, knapsack, search_tree, hidden_markov,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_recursions_find_what_tables_hold(case: Callable[[Numbers], tuple[Any, Any]]) -> None:
    """Or what trying everything finds."""
    for seed in range(8):
        found, expected = case(np.random.default_rng(seed))
        np.testing.assert_allclose(found, expected, rtol=1e-4, err_msg=f"seed {seed}")


def test_fibonacci() -> None:
    """As many invocations as there are numbers below, where the number itself is larger than any machine could run."""
    assert int(dp.fibonacci(90)) == 2880067194370816120
    before = testing.counters().invocations
    dp.fibonacci(50)
    assert testing.counters().invocations == before + 51


def slope(function: Callable[..., tf.Tensor], *arguments: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """A value, and its gradient by the first argument."""
    x = tf.constant(arguments[0], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x, *arguments[1:])
    return value, tf.convert_to_tensor(tape.gradient(value, x))


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_of_soft_warping(seed: int) -> None:
    """Cells added up in TensorFlow, one after another."""
    random = np.random.default_rng(seed)
    costs = random.random(random.integers(1, 7, 2)).astype(np.float32)

    def cells(costs: tf.Tensor, smoothing: float) -> tf.Tensor:
        rows, columns = costs.shape
        table = {(i, j): tf.constant(0.0 if i == j == 0 else 1e9) for i in range(rows + 1) for j in range(columns + 1)}
        for i, j in itertools.product(range(1, rows + 1), range(1, columns + 1)):
            before = tf.stack([table[i - 1, j - 1], table[i - 1, j], table[i, j - 1]])
            table[i, j] = costs[i - 1, j - 1] - smoothing * tf.reduce_logsumexp(-before / smoothing)
        return table[rows, columns]

    value, gradient = slope(dp.soft_dtw, costs, 0.5)
    expected, expected_gradient = slope(cells, costs, 0.5)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_ctc(seed: int) -> None:
    """TensorFlow's own loss."""
    random = np.random.default_rng(seed)
    logits, labels = random.normal(size=(12, 5)), random.integers(1, 5, random.integers(1, 5)).astype(np.int32)

    def theirs(logits: tf.Tensor, labels: np.ndarray) -> tf.Tensor:
        sizes = {"label_length": [len(labels)], "logit_length": [12]}
        return tf.nn.ctc_loss(labels[None], logits[None], **sizes, logits_time_major=False, blank_index=0)[0]

    value, gradient = slope(dp.ctc_loss, logits, labels)
    expected, expected_gradient = slope(theirs, logits, labels)
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_of_the_inside_algorithm(seed: int) -> None:
    """All parses of a sentence, written down one by one."""
    random = np.random.default_rng(seed)
    rules, sentence = random.normal(size=(3, 3, 3)), random.normal(size=(5, 3)).astype(np.float32)
    rules = tf.constant(rules, tf.float32)

    def parses(sentence: tf.Tensor, i: int, j: int) -> tf.Tensor:
        if j == i + 1:
            return sentence[i]
        parts = [parses(sentence, i, k)[:, None] + parses(sentence, k, j)[None, :] for k in range(i + 1, j)]
        return tf.reduce_logsumexp(tf.stack([tf.reduce_logsumexp(rules + part, [1, 2]) for part in parts]), 0)

    probability = dp.inside(3)
    value, gradient = slope(lambda sentence: probability(rules, sentence), sentence)
    expected, expected_gradient = slope(lambda sentence: parses(sentence, 0, 5)[0], sentence)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(gradient, 1), np.ones(5), atol=1e-5)  # each word is below one symbol
