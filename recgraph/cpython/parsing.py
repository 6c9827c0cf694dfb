"""Syntax trees of Python source, one thread at a time."""

from __future__ import annotations

import ast
import threading
from typing import Any, TypeVar

T = TypeVar("T")

# CPython 3.11 counts the depth of trees for all threads together, and fails when they differ (its issue 106905).
_PARSING = threading.Lock()


def parse(source: str | bytes, filename: str = "<unknown>", mode: str = "exec") -> Any:
    """The syntax tree of a text, as `ast.parse` gives it.

    Raises:
        SyntaxError: it is no Python.
    """
    with _PARSING:
        return ast.parse(source, filename, mode)


def copied(part: T) -> T:
    """A copy of a tree, which may be deep, or of a list of trees; what nodes have beside their fields is shared."""
    if isinstance(part, list):
        return [copied(each) for each in part]  # type: ignore[return-value]
    if not isinstance(part, ast.AST):
        return part
    made = _alone(part)
    left: list[ast.AST] = [made]
    while left:
        node = left.pop()
        parts = vars(node)
        for name in node._fields:  # others may note nodes at nodes, as IPython does with those around them
            value = parts.get(name)
            if isinstance(value, ast.AST):
                parts[name] = _alone(value)
                left.append(parts[name])
            elif isinstance(value, list):
                parts[name] = [_alone(each) if isinstance(each, ast.AST) else each for each in value]
                left += [each for each in parts[name] if isinstance(each, ast.AST)]
    return made


def _alone(node: Any) -> Any:
    """A copy of a node that refers to the same parts."""
    kind: Any = type(node)
    made = kind.__new__(kind)
    vars(made).update(vars(node))
    return made
