"""The parser: it finds precedence from answers alone, reads longer expressions, and computes what recursion does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture(scope="module")
def example(load: Callable[[str], Any]) -> Any:
    return load("parser")


def bracketed(example: Any, rather: np.ndarray, numbers: list[int], operators: list[int]) -> str:
    """An expression with brackets where it is cut."""
    if not operators:
        return str(numbers[0])
    wins = [
        sum(np.log1p(np.exp(-rather[one, operators[cut]])) for one in operators[:cut])
        + sum(np.log1p(np.exp(rather[operators[cut], other])) for other in operators[cut + 1 :])
        for cut in range(len(operators))
    ]
    cut = int(np.argmin(wins))
    left = bracketed(example, rather, numbers[: cut + 1], operators[:cut])
    right = bracketed(example, rather, numbers[cut + 1 :], operators[cut + 1 :])
    return f"({left} {example.OPERATORS[operators[cut]]} {right})"


@pytest.mark.slow
@pytest.mark.long
def test_it_finds_precedence_from_answers_and_goes_on_to_longer_expressions(example: Any) -> None:
    keras.utils.set_random_seed(1)
    model = example.Parser()
    example.train(model, 2400)
    rather = model.rather.weights[0].numpy().reshape(3, 3)
    numbers, operators, answers = example.expressions(100, range(12, 13), seed=10**7)
    for row, answer in enumerate(answers):
        tree = bracketed(example, rather, list(numbers[row]), list(operators[row, :-1]))
        assert eval(tree) % example.BASE == answer, tree
    found = model(numbers, operators).numpy().argmax(1)
    assert np.mean(found == answers) > 0.9


def test_answers_are_those_of_python(example: Any) -> None:
    numbers, operators, answers = example.expressions(200, range(1, 8), seed=1)
    texts = [example.text(*each) for each in zip(numbers, operators, strict=True)]
    assert [eval(text) % 5 for text in texts] == list(answers)
    assert {text.count(" ") // 2 + 1 for text in texts} == set(range(1, 8))


def test_a_state_is_what_plain_recursion_gives(example: Any) -> None:
    """With all cuts and with the best one."""
    keras.utils.set_random_seed(3)
    model = example.Parser()
    numbers, operators, _ = example.expressions(6, range(1, 6), seed=4)
    model(numbers, operators)
    model.rather.weights[0].assign(tf.random.stateless_normal([9, 1], [5, 6]))
    rather = model.rather.weights[0].numpy().reshape(3, 3)

    def read(row: int, first: int, last: int, soft: bool) -> np.ndarray:
        if first == last:
            return model.numbers(tf.constant([numbers[row, first]])).numpy()
        found = operators[row, first:last]
        cuts = range(last - first)
        scores = [
            -sum(np.log1p(np.exp(-rather[found[one], found[cut]])) for one in range(cut))
            - sum(np.log1p(np.exp(rather[found[cut], found[other]])) for other in range(cut + 1, len(cuts)))
            for cut in cuts
        ]
        chosen = cuts if soft else [int(np.argmax(scores))]
        states = [
            model.compose(
                tf.constant([found[cut]]),
                read(row, first, first + cut, soft),
                read(row, first + cut + 1, last, soft),
            ).numpy()
            for cut in chosen
        ]
        weights = np.exp(np.array(scores)[list(chosen)])
        return sum(np.float32(weight) * state for weight, state in zip(weights / weights.sum(), states, strict=True))

    for soft in (True, False):
        expected = [read(row, 0, int(np.argmax(operators[row] < 0)), soft)[0] for row in range(len(numbers))]
        logits = model.out(tf.stack(expected)[:, : example.SIZE]).numpy()
        np.testing.assert_allclose(model(numbers, operators, soft=soft).numpy(), logits, rtol=1e-3, atol=1e-4)


def test_the_baseline_reads_up_to_the_end(example: Any) -> None:
    """What is behind the last number changes nothing."""
    keras.utils.set_random_seed(2)
    model = example.LeftToRight()
    numbers, operators, _ = example.expressions(20, range(1, 5), seed=8)
    behind = np.arange(numbers.shape[1]) > np.argmax(operators < 0, 1)[:, None]
    others = np.where(behind, (numbers + 1) % example.BASE, numbers)
    np.testing.assert_array_equal(model(numbers, operators).numpy(), model(others, operators).numpy())
