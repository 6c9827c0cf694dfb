"""The syntax tree of a function, found from its code object."""

from __future__ import annotations

import ast
import functools
import linecache
import threading
import types
from collections.abc import Callable, Iterator
from typing import TypeAlias

from recgraph.speculate.reasons import Inconvertible

# Two threads that parse at once may find CPython 3.11's count of the depth of trees wrong: a SystemError.
_PARSING = threading.Lock()
FunctionNode: TypeAlias = ast.FunctionDef | ast.Lambda


class Syntax:
    """A function's syntax tree. Its nodes are numbered: a number is a *site* of the program.

    Attributes:
        node: the function's definition.
        filename: the user's file.
        mangled: the class around it, whose private names it uses, or "".
        key: what tells its sites from those of other functions.
    """

    def __init__(self, node: FunctionNode, filename: str, mangled: str) -> None:
        self.node, self.filename, self.mangled = node, filename, mangled
        self.key = (filename, node.lineno, node.col_offset)
        for number, part in enumerate(ast.walk(node)):
            part.site = number  # type: ignore[attr-defined]

    @classmethod
    def within(cls, outer: Syntax, node: FunctionNode) -> Syntax:
        """A function inside of another, whose sites are its own."""
        made = cls.__new__(cls)
        made.node, made.filename, made.mangled, made.key = node, outer.filename, outer.mangled, outer.key
        return made

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        """Its nodes by number."""
        return list(ast.walk(self.node))

    @property
    def name(self) -> str:
        """The function's name; lambdas have none of their own."""
        return self.node.name if isinstance(self.node, ast.FunctionDef) else "<lambda>"

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements; a lambda returns its expression."""
        if isinstance(self.node, ast.FunctionDef):
            return self.node.body
        return [ast.copy_location(ast.Return(self.node.body), self.node.body)]

    def private(self, name: str) -> str:
        """The name that a private name of a class stands for."""
        if not self.mangled or not name.startswith("__") or name.endswith("__"):
            return name
        return f"_{self.mangled.lstrip('_')}{name}"

    def where(self, node: ast.AST) -> str:
        """The user's line of a node."""
        return f"{self.filename}:{getattr(node, 'lineno', self.node.lineno)}"


def site_of(syntax: Syntax, node: ast.AST, what: str = "value") -> tuple[object, ...]:
    """The place in the profile for the values of a node, or for its truth."""
    return (*syntax.key, getattr(node, "site", -1), what)


def syntax_of_code(code: types.CodeType) -> Syntax:
    """The syntax tree that `code` was compiled from.

    Raises:
        Inconvertible: there is no source, or several functions in it that cannot be told apart.
    """
    return _syntax_in(code.co_filename, code)


@functools.cache
def _syntax_in(filename: str, code: types.CodeType) -> Syntax:
    """Code objects of two files are equal where their functions are: the file has to be told."""
    found = [(node, name) for node, name in _functions(filename) if _begins(node) == code.co_firstlineno]
    found = [(node, name) for node, name in found if _name(node) == code.co_name]
    if len(found) > 1:
        found = [(node, name) for node, name in found if _place(node) == _code_place(code)]
    if len(found) != 1:
        raise Inconvertible("no source", f"the source of {code.co_name} was not found", f"{filename}:1")
    return Syntax(found[0][0], filename, found[0][1])


def syntax_of(function: Callable[..., object]) -> Syntax:
    """The syntax tree of a Python function."""
    return syntax_of_code(function.__code__)


@functools.lru_cache(64)
def _functions(filename: str) -> list[tuple[FunctionNode, str]]:
    """All functions of a file, with the class around each."""
    text = "".join(linecache.getlines(filename))
    try:
        with _PARSING:
            tree = ast.parse(text, filename)
        return list(_inside(tree, ""))
    except SyntaxError:
        return []


def _inside(node: ast.AST, around: str) -> Iterator[tuple[FunctionNode, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child, around
        yield from _inside(child, child.name if isinstance(child, ast.ClassDef) else around)


def _begins(node: FunctionNode) -> int:
    decorators = getattr(node, "decorator_list", None)
    return decorators[0].lineno if decorators else node.lineno


def _name(node: FunctionNode) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else "<lambda>"


def _place(node: FunctionNode) -> tuple[int, int]:
    """Where its first statement or its expression begins."""
    first = node.body[0] if isinstance(node.body, list) else node.body
    return first.lineno, first.col_offset


def _code_place(code: types.CodeType) -> tuple[int, int]:
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    return min(places) if places else (0, 0)
