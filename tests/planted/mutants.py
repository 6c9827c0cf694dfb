"""Bugs that a machine makes: one small change of the syntax tree each, spread over the packages.

A mutant is named by its file, the function it is in, the kind of change and a number among those of this kind there, so
it keeps its name where other functions are edited. Which ones are taken depends on the names and a seed alone.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.planted import Bug

REPOSITORY = Path(__file__).parents[2]
PACKAGES = {
    **{name: f"recgraph/{name}" for name in ("core", "batch", "speculate", "coexec", "optimize", "distribute")},
    **{"keras": "recgraph/keras", "data": "data", "train": "recgraph/train", "models": "models"},
}
EACH, SEED = 12, 0

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv}
}
_TEXTS = {"__repr__", "__str__", "__format__"}  # functions whose results only people read
_SPEAKERS = {"log", "logs", "logger", "logging", "warnings", "_log", "click", "console", "print", "echo", "warn"}
_FIXED = {"isinstance", "issubclass", "getattr", "setattr", "hasattr"}  # swapped, they fail wherever they are called


@dataclass(frozen=True)
class Mutant(Bug):
    """A bug with where it is and what changes there; it may be anybody's to catch, so it has no tests.

    Attributes:
        line: where the change begins.
        before: the text that is changed, without what surrounds it to make it the only one of the file.
        after: what it becomes.
    """

    line: int = 0
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Change:
    """A node of a syntax tree and the text that is put in its place."""

    kind: str
    function: str
    node: ast.expr | ast.stmt
    text: str


def changes_of(tree: ast.Module) -> Iterator[Change]:
    """All changes of a file that can be made, in the order of its text."""
    yield from _below(tree, "")


def _below(node: ast.AST, function: str) -> Iterator[Change]:
    if _is_left_out(node):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    if isinstance(node, ast.expr | ast.stmt):
        for kind, target, text in _changes(node):
            yield Change(kind, function, target, text)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params", "format_spec"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _below(child, function)


def _is_left_out(node: ast.AST) -> bool:
    """What only people or type checkers read: messages, and the texts of objects."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            return True
        case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.FunctionDef(name=name):
            return name in _TEXTS
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Call(func=function):
            names = {
                part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "") for part in _dots(function)
            }
            return bool(names & _SPEAKERS) or any(name.endswith(("Error", "Warning")) for name in names)
    return False


def _dots(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of `a.b.c`."""
    yield node
    while isinstance(node, ast.Attribute):
        node = node.value
        yield node


def _changes(node: ast.expr | ast.stmt) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """The kind, the node and its new text of each change at a node."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARED:
            yield "compare", node, _with(node, "ops", [_COMPARED[type(operator)]()])
        case ast.Constant(value=bool()):
            yield "constant", node, str(not node.value)
        case ast.Constant(value=int()):
            yield "constant", node, str(node.value + 1)
        case ast.BoolOp():
            yield "logic", node, _with(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.BinOp(op=operator) if type(operator) in _CALCULATED and not _is_text(node):
            yield "arithmetic", node, _with(node, "op", _CALCULATED[type(operator)]())
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node, f"({ast.unparse(node.operand)})"
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield "condition", test, f"(not ({ast.unparse(test)}))"
        case ast.Expr(value=ast.Call()) if not _is_left_out(node.value):
            yield "call", node, "pass"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return", node, "return None"
        case ast.AugAssign(op=operator) if type(operator) in _CALCULATED:
            yield "augmented", node, _with(node, "op", _CALCULATED[type(operator)]())
        case ast.Continue():
            yield "loop", node, "break"
        case ast.Call():
            yield from _changes_of_call(node)


def _changes_of_call(node: ast.Call) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """The first two arguments swapped, and each keyword dropped."""
    match node.args:
        case [first, second, *rest] if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
            name = getattr(node.func, "id", "")
            if ast.dump(first) != ast.dump(second) and name not in _FIXED:
                yield "arguments", node, _with(node, "args", [second, first, *rest])
    for i in range(len(node.keywords)):
        if node.keywords[i].arg not in (None, "strict"):
            yield "keyword", node, _with(node, "keywords", node.keywords[:i] + node.keywords[i + 1 :])


def _with(node: ast.expr | ast.stmt, field: str, value: object) -> str:
    """The text of a node with another value of a field; in parentheses, so that it fits everywhere."""
    changed = copy.copy(node)
    setattr(changed, field, value)
    text = ast.unparse(changed)
    return text if isinstance(node, ast.Call | ast.stmt) else f"({text})"


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr | ast.Constant) and not _is_number(side) for side in (node.left, node.right)
    )


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def named_changes(file: str, tree: ast.Module) -> dict[str, Change]:
    """The changes of a file by the names of their mutants."""
    counts: dict[tuple[str, str], int] = {}
    found = {}
    for change in changes_of(tree):
        number = counts[change.function, change.kind] = counts.get((change.function, change.kind), -1) + 1
        found[f"{file}:{change.function or 'module'}:{change.kind}:{number}"] = change
    return found


def mutant_of(name: str, file: str, text: str, change: Change) -> Mutant:
    """The mutant that a change of a file makes."""
    start, end = _span(text, change.node)
    before = text[start:end]
    first, last = start, end
    while text.count(text[first:last]) != 1:  # whole lines around it, until they occur once
        first = text.rfind("\n", 0, max(first - 1, 0)) + 1
        last = text.find("\n", last + 1) if text.find("\n", last + 1) >= 0 else len(text)
    new = text[first:start] + change.text + text[end:last]
    line = change.node.lineno
    what = f"{file}:{line}: `{_short(before)}` becomes `{_short(change.text)}`."
    return Mutant(name, what, file, text[first:last], new, (), line, before, change.text)


def _span(text: str, node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Where a node begins and ends in a text; the tree counts columns in bytes."""
    lines = text.splitlines(keepends=True)

    def place(line: int, column: int) -> int:
        return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())

    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)


def _short(text: str) -> str:
    """A text in one line of at most a hundred characters."""
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:97]}..."


def select(names: Iterable[str], count: int, seed: int = SEED) -> list[str]:
    """So many of these mutants, of all kinds by turns, and no two of one function."""
    kinds: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest()):
        kinds.setdefault(name.split(":")[2], []).append(name)
    taken: dict[str, str] = {}
    while len(taken) < count and any(kinds.values()):
        for kind in sorted(kinds):
            free = [name for name in kinds[kind] if _function(name) not in taken]
            kinds[kind] = free[1:]
            if free and len(taken) < count:
                taken[_function(free[0])] = free[0]
    return sorted(taken.values())


def _function(name: str) -> str:
    """The file and the function of a mutant."""
    return ":".join(name.split(":")[:2])


@cache
def chosen_mutants(seed: int = SEED) -> dict[str, list[Mutant]]:
    """The mutants that are tried, by package."""
    return {package: _chosen_below(folder, seed) for package, folder in PACKAGES.items()}


def _chosen_below(folder: str, seed: int) -> list[Mutant]:
    paths = sorted((REPOSITORY / folder).rglob("*.py"))
    texts = {str(path.relative_to(REPOSITORY)): path.read_text(encoding="utf-8") for path in paths}
    changes: dict[str, Change] = {}
    for file, text in texts.items():
        changes |= named_changes(file, ast.parse(text))
    files = {name: name.split(":")[0] for name in select(changes, EACH, seed)}
    return [mutant_of(name, file, texts[file], changes[name]) for name, file in files.items()]
