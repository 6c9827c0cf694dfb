"""Which names a function binds itself, and where the others are found."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from recgraph.speculate.syntax import FunctionNode, Syntax

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclasses.dataclass
class Names:
    """The names of a function: those it binds, and those it declares `global` or `nonlocal`."""

    bound: set[str] = dataclasses.field(default_factory=set)
    globals: set[str] = dataclasses.field(default_factory=set)
    nonlocals: set[str] = dataclasses.field(default_factory=set)


def names_of(node: FunctionNode) -> Names:
    """The names of a function, nested functions left out."""
    names = Names({argument.arg for argument in _arguments(node.args)})
    body: list[Any] = node.body if isinstance(node.body, list) else [node.body]
    for part in body:
        _collect(part, names, False)
    names.bound -= names.globals | names.nonlocals
    return names


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    yield from (argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None)


def _collect(node: ast.AST, names: Names, in_comprehension: bool) -> None:
    if isinstance(node, ast.Global):
        names.globals.update(node.names)
    elif isinstance(node, ast.Nonlocal):
        names.nonlocals.update(node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del) and not in_comprehension:
        names.bound.add(node.id)
    elif isinstance(node, ast.NamedExpr):
        names.bound.add(node.target.id)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        names.bound.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        names.bound.add(node.rest)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        names.bound.add(node.name)
    if isinstance(node, _SCOPES):
        return
    for child in ast.iter_child_nodes(node):
        # A comprehension's target is its own; a walrus in it is the function's.
        _collect(child, names, in_comprehension or isinstance(node, _COMPREHENSIONS))


@dataclasses.dataclass(eq=False)
class Frame:
    """A function that is being converted.

    Attributes:
        syntax: of the function.
        names: that it binds.
        locals: their values.
        function: the function object, for its globals and closure; of a function made during the call that of the
            function around it.
        outer: the frame around it, of a function made during the call or of a comprehension.
        rests: what comes after the statement that is being converted, in each block around it.
        taker: of a generator, what is done with what it yields.
        scopes: where in `rests` each scope begins that a branch may be a part of (`branches.py`).
    """

    syntax: Syntax
    names: Names
    function: Any
    locals: dict[str, Any] = dataclasses.field(default_factory=dict)
    outer: Frame | None = None
    rests: list[list[ast.stmt]] = dataclasses.field(default_factory=list)
    scopes: list[int] = dataclasses.field(default_factory=lambda: [0])
    taker: Any = None

    @contextlib.contextmanager
    def at(self, depth: int) -> Iterator[None]:
        """While the rest of a block runs, only what comes after that block is left."""
        rests, self.rests = self.rests, self.rests[:depth]
        try:
            yield
        finally:
            self.rests = rests
