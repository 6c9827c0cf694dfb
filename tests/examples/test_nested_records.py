"""The network over JSON records: it learns what takes the nesting, and computes what plain recursion computes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def example(load: Callable[[str], Any]) -> Any:
    return load("nested_records")


@pytest.mark.slow
@pytest.mark.long
def test_it_learns_what_takes_the_nesting(example: Any) -> None:
    nested, flat = example.main(steps=500), example.main(steps=500, nested=False)
    assert nested["as deep as those seen"] > 0.97
    assert nested["two levels deeper"] > 0.93
    for name, accuracy in flat.items():
        assert nested[name] > accuracy + 0.08


def is_overloaded(value: Any, weights: dict[str, float]) -> tuple[float, bool]:
    if "thing" in value:
        return weights[value["thing"]] * value["count"], False
    inner = [is_overloaded(item, weights) for item in value["items"]]
    weight = sum(each for each, _ in inner)
    return weight, weight > value["limit"] or any(bad for _, bad in inner)


def test_the_answers_are_those_of_the_records(example: Any) -> None:
    texts, answers = example.records(60, [0, 1, 2, 3], seed=9)
    assert [is_overloaded(json.loads(text), example.WEIGHTS)[1] for text in texts] == list(answers)
    assert answers.sum() == 30


def state_of(example: Any, model: Any, key: int, value: Any) -> np.ndarray:
    """What the network makes of one value, by recursion over Python's objects."""
    kinds, keys, strings = (table.weights[0].numpy() for table in (model.kinds, model.keys, model.strings))
    members: list[tuple[int, Any]] = []
    if isinstance(value, dict):
        kind, members = example.OBJECT, [(example.bucket(name), each) for name, each in value.items()]
    elif isinstance(value, list):
        kind, members = example.LIST, [(example.bucket(""), each) for each in value]
    else:
        kind = example.STRING if isinstance(value, str) else example.NUMBER
    below = sum((state_of(example, model, *member) for member in members), np.zeros(example.SIZE))
    amount = [float(value)] if kind == example.NUMBER else [0.0]
    string = example.bucket(value) if kind == example.STRING else 0
    mix, new = ([weight.numpy() for weight in layer.weights] for layer in (model.mix, model.new))
    mixed = np.concatenate([below, amount, kinds[kind], keys[key], strings[string]]) @ mix[0] + mix[1]
    return np.concatenate([np.maximum(mixed, 0), below, amount]) @ new[0] + new[1]


def test_a_record_means_what_plain_recursion_makes_of_it(example: Any) -> None:
    texts, _ = example.records(12, [0, 1, 2], seed=4)
    model = example.Reader()
    found = model(example.arrays(texts)).numpy()
    kernel, bias = (weight.numpy() for weight in model.out.weights)
    expected = [state_of(example, model, 0, json.loads(text)) @ kernel[:, 0] + bias[0] for text in texts]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
