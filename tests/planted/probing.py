"""Probes: says which of some places of the sources a process comes past, without a change of the files.

A process that starts with `RECGRAPH_PROBES` has each place's statement preceded by a call when a file is loaded. It is
that of a dictionary's own method, so that nothing that looks at frames sees more of them; the first time a place is
passed, its number is appended to a file, whichever process it is. This file is also read where nothing else of ours is.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

PROBES, HITS = "RECGRAPH_PROBES", "RECGRAPH_PROBES_HIT"
_NAME = "__recgraph_probe__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


SEEN: Seen | None = None  # those of this process


class Seen(dict[int, None]):
    """The places that were passed since `clear`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __missing__(self, number: int) -> None:
        self[number] = None
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.write(file, b"%d\n" % number)
        os.close(file)


def taken(path: Path) -> set[int]:
    """The places that any process passed since the last call."""
    with path.open("a+", encoding="utf-8") as file:
        file.seek(0)
        found = {int(line) for line in file}
        file.truncate(0)
    return found


def statement_at(tree: ast.Module, line: int, column: int) -> ast.stmt | None:
    """The innermost statement at a place, its end included, or else the first behind it."""
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    around = [node for node in statements if _begin(node) <= (line, column) <= _end(node)]
    behind = [node for node in statements if _begin(node) > (line, column)]
    return max(around, key=_begin) if around else min(behind, key=_begin, default=None)


def _begin(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def insert(tree: ast.Module, places: Mapping[int, ast.stmt]) -> None:
    """Puts a probe before each of these statements of a tree; that of a function is passed when it is called."""
    numbers: dict[ast.stmt, list[int]] = {}
    for number, statement in places.items():
        numbers.setdefault(statement, []).append(number)
    for node in list(ast.walk(tree)):
        if isinstance(node, _FUNCTIONS) and node in numbers:
            behind = 1 if ast.get_docstring(node, clean=False) is not None else 0
            node.body[behind:behind] = _calls(numbers.pop(node), node.body[0])
    for node in list(ast.walk(tree)):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                new = [[*_calls(numbers.get(statement, ()), statement), statement] for statement in statements]
                setattr(node, field, [statement for part in new for statement in part])


def _calls(numbers: Iterable[int], at: ast.stmt) -> list[ast.stmt]:
    """Probes with these numbers: of no width, so that they are not what stands at their place."""
    calls = [ast.parse(f"{_NAME}({number})").body[0] for number in numbers]
    for node in (node for call in calls for node in ast.walk(call)):
        if isinstance(node, ast.expr | ast.stmt):
            node.lineno = node.end_lineno = at.lineno
            node.col_offset = node.end_col_offset = at.col_offset
    return calls


def compiled(text: bytes, path: str, places: Sequence[tuple[int, int, int]]) -> CodeType:
    """The code of a file, with probes at these numbers, lines and columns."""
    tree = ast.parse(text)
    found = {number: statement_at(tree, line, column) for number, line, column in places}
    insert(tree, {number: statement for number, statement in found.items() if statement is not None})
    return compile(tree, path, "exec", dont_inherit=True)


def start() -> Seen | None:
    """Has probes put into the files that this process loads, if its environment asks for it."""
    if PROBES not in os.environ or HITS not in os.environ:
        return None
    places = json.loads(Path(os.environ[PROBES]).read_text(encoding="utf-8"))
    seen = Seen(os.environ[HITS])
    setattr(builtins, _NAME, seen.__getitem__)
    loader: Any = importlib.machinery.SourceFileLoader
    get_code = loader.get_code

    def with_probes(self: Any, name: str) -> CodeType | None:
        path = self.get_filename(name)
        found: CodeType | None = (
            compiled(self.get_data(path), path, places[path]) if path in places else get_code(self, name)
        )
        return found

    loader.get_code = with_probes
    return seen
