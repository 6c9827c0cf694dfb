"""Syntax trees of Python source."""

from __future__ import annotations

import ast
import inspect

from recgraph.cpython import parsing


def test_a_copy_is_the_same_tree_of_other_nodes() -> None:
    """With lines, and with what was noted at its nodes; changes of one are not seen in the other."""
    tree = parsing.parse(inspect.getsource(inspect))
    tree.body[0].site, tree.body[1].around = 3, tree
    made = parsing.copied(tree)
    assert ast.dump(made, include_attributes=True) == ast.dump(tree, include_attributes=True)
    assert (made.body[0].site, made.body[1].around) == (3, tree)
    assert not {id(node) for node in ast.walk(made)} & {id(node) for node in ast.walk(tree)}
    made.body.pop()
    assert len(made.body) == len(tree.body) - 1
    assert [type(node) for node in parsing.copied(tree.body)] == [type(node) for node in tree.body]


def test_a_copy_of_a_deep_tree() -> None:
    """Python's own recursion would end before."""
    tree: ast.expr = ast.Constant(1)
    for _ in range(100_000):
        tree = ast.UnaryOp(ast.USub(), tree)
    made, depth = parsing.copied(tree), 0
    while isinstance(made, ast.UnaryOp):
        made, depth = made.operand, depth + 1
    assert depth == 100_000
    while isinstance(tree, ast.UnaryOp):  # piece by piece, as Python's own recursion frees it otherwise
        tree = tree.operand
