"""Syntax trees of Python source, one thread at a time."""

from __future__ import annotations

import ast
import threading
from typing import Any

# CPython 3.11 counts the depth of trees for all threads together, and fails when they differ (its issue 106905).
_PARSING = threading.Lock()


def parse(source: str | bytes, filename: str = "<unknown>", mode: str = "exec") -> Any:
    """The syntax tree of a text, as `ast.parse` gives it.

    Raises:
        SyntaxError: it is no Python.
    """
    with _PARSING:
        return ast.parse(source, filename, mode)
