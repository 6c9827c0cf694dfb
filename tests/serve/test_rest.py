"""JSON to tensors and back, in both forms of TensorFlow Serving, and what is said of anything else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.serve import rest
from recgraph.serve.errors import RefusedRequest

TEXTS = {"texts": tf.TensorSpec([None], tf.string)}
PAIR = {"x": tf.TensorSpec([None, 2]), "n": tf.TensorSpec([None], tf.int32)}


def read(body: Any, specs: dict[str, tf.TensorSpec]) -> dict[str, Any]:
    """The arguments in a body, as lists."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return {name: value.tolist() for name, value in rest.arguments(rest.request(text), specs).items()}


@pytest.mark.parametrize(
    ("body", "specs", "expected"),
    [
        ({"instances": ["a", "\u00e9"]}, TEXTS, {"texts": [b"a", "\u00e9".encode()]}),
        ({"instances": [{"texts": "a"}]}, TEXTS, {"texts": [b"a"]}),
        ({"instances": [{"b64": "/w=="}]}, TEXTS, {"texts": [b"\xff"]}),
        ({"instances": []}, TEXTS, {"texts": []}),
        ({"inputs": ["a"]}, TEXTS, {"texts": [b"a"]}),
        ({"inputs": {"texts": ["a"]}, "signature_name": "s"}, TEXTS, {"texts": [b"a"]}),
        ({"instances": [{"x": [1, 2.5], "n": 3}]}, PAIR, {"x": [[1.0, 2.5]], "n": [3]}),
        ({"inputs": {"x": [[1, 2], [3, 4]], "n": [3]}}, PAIR, {"x": [[1.0, 2.0], [3.0, 4.0]], "n": [3]}),
        ({"inputs": [[True]]}, {"b": tf.TensorSpec([1, 1], tf.bool)}, {"b": [[True]]}),
        ({"inputs": 7}, {"n": tf.TensorSpec([], tf.int64)}, {"n": 7}),
    ],
)
def test_requests(body: Any, specs: dict[str, tf.TensorSpec], expected: dict[str, Any]) -> None:
    assert read(body, specs) == expected


@pytest.mark.parametrize(
    ("body", "specs", "text"),
    [
        (b"{", TEXTS, "the body is no JSON: Expecting property name"),
        (b"\xff", TEXTS, "the body is no JSON: "),
        (b"[" * 100_000, TEXTS, "the body is nested too deep"),
        (b'{"inputs": [NaN]}', TEXTS, "the body is no JSON: NaN is no number"),
        ([], TEXTS, "the body is a list, expected an object"),
        ({}, TEXTS, "the body has to have either 'instances' or 'inputs'"),
        ({"inputs": [], "instances": []}, TEXTS, "the body has to have either 'instances' or 'inputs'"),
        ({"instance": []}, TEXTS, "unknown fields: 'instance', known: 'inputs', 'instances', 'signature_name'"),
        ({"inputs": [], "signature_name": 1}, TEXTS, "'signature_name' is no string"),
        ({"instances": "a"}, TEXTS, "'instances' is a string, expected a list"),
        ({"instances": [1]}, TEXTS, "'texts' has the number 1 in it, expected string[]"),
        ({"instances": [{"text": "a"}]}, TEXTS, "'texts' has an object in it, expected string[]"),
        ({"instances": [{"b64": "?"}]}, TEXTS, "'texts' has an object in it, expected string[]"),
        ({"instances": [["a"]]}, TEXTS, "'texts' has a list in it, expected string[]"),
        ({"inputs": None}, TEXTS, "'texts' has null in it, expected string[]"),
        ({"instances": ["a"]}, PAIR, "'instances'[0] is a string, expected an object with 'n', 'x'"),
        ({"instances": [{"x": [1, 2]}]}, PAIR, "'instances'[0] has 'x', expected 'n', 'x'"),
        ({"inputs": [1]}, PAIR, "'inputs' is a list, expected an object with 'n', 'x'"),
        ({"inputs": {"x": [[1, 2]], "m": [3]}}, PAIR, "'inputs' has 'm', 'x', expected 'n', 'x'"),
        ({"inputs": {"x": [[1, 2], [3]], "n": [3]}}, PAIR, "'x' has lists of different lengths"),
        ({"inputs": {"x": [[1, 2, 3]], "n": [3]}}, PAIR, "'x' has the shape [1, 3], expected (None, 2)"),
        ({"inputs": {"x": [[1, "2"]], "n": [3]}}, PAIR, "'x' has a string in it, expected float32[][2]"),
        ({"inputs": {"x": [[1, True]], "n": [3]}}, PAIR, "'x' has a truth value in it, expected float32[][2]"),
        ({"inputs": {"x": [[1, 10**400]], "n": [3]}}, PAIR, "'x' has the number 10000000000000000000 in it"),
        ({"inputs": {"x": [[1, 2]], "n": [2.5]}}, PAIR, "'n' has the number 2.5 in it, expected int32[]"),
        ({"inputs": {"x": [[1, 2]], "n": [2**31]}}, PAIR, "'n' has the number 2147483648 in it, expected int32[]"),
    ],
)
def test_what_is_wrong_is_named(body: Any, specs: dict[str, tf.TensorSpec], text: str) -> None:
    with pytest.raises(RefusedRequest) as refused:
        read(body, specs)
    assert str(refused.value).startswith(text)
    assert refused.value.status == 400


def test_answers_have_the_form_of_the_request() -> None:
    two = {"p": np.array([[0.1, 0.9], [1, 0]], np.float32), "s": np.array([b"a", b"\xff"], object)}
    odd = {"p": two["p"], "nodes": np.zeros([3, 1])}
    texts = ["a", {"b64": "/w=="}]
    third = float(np.float32(0.1)), float(np.float32(0.9))
    rows = [{"p": list(third), "s": texts[0]}, {"p": [1.0, 0.0], "s": texts[1]}]
    assert json.loads(rest.response({"instances": []}, two)) == {"predictions": rows}
    columns = {"p": [list(third), [1.0, 0.0]], "s": texts}
    assert json.loads(rest.response({"inputs": []}, two)) == {"outputs": columns}
    assert json.loads(rest.response({"instances": []}, {"s": two["s"]})) == {"predictions": texts}
    assert json.loads(rest.response({"inputs": []}, {"s": two["s"]})) == {"outputs": texts}
    text = r"results have different first axes \('p' \[2, 2\], 'nodes' \[3, 1\]\): ask with 'inputs'"
    with pytest.raises(RefusedRequest, match=text):
        rest.response({"instances": []}, odd)


def test_floats_come_back_as_they_were() -> None:
    """The shortest number that is read as the same one, and that of a float64 is the float32."""
    values = np.random.default_rng(0).uniform(-1, 1, 1000).astype(np.float32)
    found = json.loads(rest.response({"inputs": []}, {"x": values}))["outputs"]
    np.testing.assert_array_equal(np.array(found, np.float32), values)
