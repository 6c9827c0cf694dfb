"""The network over syntax trees: it uses the structure, and computes what plain recursion over Python's nodes gives."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def example(load: Callable[[str], Any]) -> Any:
    return load("syntax_trees")


@pytest.mark.slow
@pytest.mark.long
def test_it_tells_what_belongs_into_a_hole(example: Any) -> None:
    found = example.main(epochs=4)
    assert found["the tree"] > 0.58
    assert found["the tree"] > found["a bag of nodes"] + 0.1
    assert found["the tree"] > found["the most frequent part"] + 0.1


SOURCE = "def f(a, b):\n    if a < b:\n        return f(b, [a, 1])\n    c = a.x + b\n    return c\n"


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_a_tree_means_what_plain_recursion_makes_of_it(example: Any) -> None:
    function = ast.parse(SOURCE).body[0]
    holes = [None, *example.parts(function)[:4]]
    model = example.Reader()
    found = model(*example.joined([example.rows(function, hole) for hole in holes])).numpy()
    embedding, (kernel, bias), out = (
        model.embedding.weights[0].numpy(),
        *([weight.numpy() for weight in layer.weights] for layer in (model.gates, model.out)),
    )

    def read(nodes: list[ast.AST], hole: ast.AST | None) -> tuple[np.ndarray, np.ndarray]:
        nodes = [node for node in nodes if not isinstance(node, ast.expr_context)]
        if not nodes:
            return np.zeros(example.SIZE), np.zeros(example.SIZE)
        is_hole = nodes[0] is hole
        below, cell_below = read([] if is_hole else list(ast.iter_child_nodes(nodes[0])), hole)
        beside, cell_beside = read(nodes[1:], hole)
        kind = example.HOLE if is_hole else example.TYPES.index(type(nodes[0]).__name__)
        i, f, g, o, new = np.split(np.concatenate([embedding[kind], below, beside]) @ kernel + bias, 5)
        cell = sigmoid(i) * np.tanh(new) + sigmoid(f + 1) * cell_below + sigmoid(g + 1) * cell_beside
        return sigmoid(o) * np.tanh(cell), cell

    expected = [read([function], hole)[0] @ out[0] + out[1] for hole in holes]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_a_hole_hides_what_was_in_it(example: Any) -> None:
    """Two functions that differ only there are the same rows."""
    one, other = (ast.parse(f"def f(x):\n    return {text}\n").body[0] for text in ("x + 1", "x.y"))
    rows = [example.rows(tree, tree.body[0].value) for tree in (one, other)]
    np.testing.assert_array_equal(*rows)
