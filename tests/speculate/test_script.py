"""The script of a graph: which names an expression has, found with and without parsing it."""

from __future__ import annotations

import ast
import sys
from typing import Any

import pytest

from recgraph.speculate.script.script import Let
from recgraph.speculate.script.symbolic import has_run


@pytest.mark.parametrize(
    "expression",
    ["v5", "v5[17]", "v5[k3][v2]", "v1.state", "v1.state[0]", "1e5", "v1['v2']", "v5[-1]", "[v1 for v1 in v2]", "ü[1]"],
)
def test_names_are_those_of_the_parsed_expression(expression: str) -> None:
    """A number, a text and an attribute are no names."""
    parsed = {node.id for node in ast.walk(ast.parse(expression, mode="eval")) if isinstance(node, ast.Name)}
    assert Let("v9", expression).names == parsed


def test_a_long_list_is_looked_through_without_a_frame_for_each_member() -> None:
    """It is done for each operation on it: a text is a list of many thousands."""
    frames = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal frames
        frames += event == "call"

    members, before = list(range(1000)), sys.getprofile()
    sys.setprofile(count)
    try:
        found = has_run(members)
    finally:
        sys.setprofile(before)
    assert not found
    assert frames < 10
