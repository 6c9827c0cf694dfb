"""Which names of a function have a value for certain where a statement begins, and which are read before they have one.

A pass over its statements in order, which errs on one side only: a name that may have no value counts as having none.
"""

from __future__ import annotations

import ast
import collections
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from recgraph.speculate.observe.syntax import SCOPES, names_of_block

# The names that have a value; None where no way leads.
Bound: TypeAlias = frozenset[str] | None
# What does not swallow exceptions, so that what follows its block comes after all of it.
_LETTING_THROUGH: Final = frozenset({"GradientTape", "ForwardAccumulator", "name_scope", "device"})


class Bindings:
    """One pass.

    Attributes:
        before: by site of a statement, the names that have a value where it begins.
        exposed: the names that may be read before the statements have given them a value.
    """

    def __init__(self) -> None:
        self.before: dict[int, frozenset[str]] = {}
        self.exposed: set[str] = set()

    def block(self, statements: Iterable[ast.stmt], bound: Bound) -> Bound:
        """Goes through a block; what has a value after it."""
        for statement in statements:
            self.before[getattr(statement, "site", -1)] = bound or frozenset()
            rule = _RULES.get(type(statement), Bindings._plain)
            bound = None if bound is None else rule(self, statement, bound)
        return bound

    def _read(self, part: ast.AST | None, bound: frozenset[str]) -> None:
        if part is not None:
            self.exposed |= {n.id for n in ast.walk(part) if isinstance(n, ast.Name) and not _is_store(n)} - bound

    def _plain(self, statement: ast.stmt, bound: frozenset[str]) -> Bound:
        self._read(statement, bound)
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            self.exposed |= {statement.target.id} - bound
        if isinstance(statement, ast.Delete):
            return bound - mentioned([statement]).keys()
        return bound | _certainly(statement)

    def _ends(self, statement: ast.stmt, bound: frozenset[str]) -> Bound:
        self._read(statement, bound)
        return None

    def _if(self, statement: ast.If, bound: frozenset[str]) -> Bound:
        self._read(statement.test, bound)
        return _both(self.block(statement.body, bound), self.block(statement.orelse, bound))

    def _loop(self, statement: ast.For | ast.While, bound: frozenset[str]) -> Bound:
        if isinstance(statement, ast.For):
            self._read(statement.iter, bound)
            self._read(statement.target, bound)
            self.block(statement.body, bound | stored(statement.target))
        else:
            self._read(statement.test, bound)
            self.block(statement.body, bound)
        self.block(statement.orelse, bound)
        return bound

    def _with(self, statement: ast.With, bound: frozenset[str]) -> Bound:
        for item in statement.items:
            self._read(item, bound)
            if item.optional_vars is not None:
                bound |= stored(item.optional_vars)
        after = self.block(statement.body, bound)
        return after if all(_lets_through(item.context_expr) for item in statement.items) else bound

    def _try(self, statement: ast.Try, bound: frozenset[str]) -> Bound:
        after = self.block(statement.body, bound)
        for handler in statement.handlers:
            self._read(handler.type, bound)
            self.block(handler.body, bound | ({handler.name} if handler.name else set()))
        self.block(statement.orelse, after)
        return self.block(statement.finalbody, bound)

    def _match(self, statement: ast.Match, bound: frozenset[str]) -> Bound:
        self._read(statement.subject, bound)
        for case in statement.cases:
            self._read(case.pattern, bound)
            self._read(case.guard, bound)
            self.block(case.body, bound)
        return bound


_RULES: Final[dict[type[ast.stmt], Callable[..., Bound]]] = {
    **dict.fromkeys((ast.Return, ast.Raise, ast.Break, ast.Continue), Bindings._ends),
    **dict.fromkeys((ast.For, ast.While), Bindings._loop),
    **dict.fromkeys((ast.Try, ast.TryStar), Bindings._try),
    ast.If: Bindings._if,
    ast.With: Bindings._with,
    ast.Match: Bindings._match,
}


def _both(one: Bound, other: Bound) -> Bound:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def _is_store(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def stored(target: ast.AST) -> frozenset[str]:
    """The names that a target of an assignment gives a value."""
    return frozenset(n.id for n in ast.walk(target) if isinstance(n, ast.Name) and _is_store(n))


def _certainly(statement: ast.stmt) -> frozenset[str]:
    """The names that a plain statement gives a value, if it ends."""
    if isinstance(statement, ast.Assign):
        return functools.reduce(frozenset.union, map(stored, statement.targets), frozenset())
    if isinstance(statement, ast.AugAssign):
        return stored(statement.target)
    if isinstance(statement, ast.AnnAssign):
        return stored(statement.target) if statement.value is not None else frozenset()
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
        return frozenset(names_of_block([statement]).bound)
    return frozenset()


def _lets_through(manager: ast.expr) -> bool:
    function = manager.func if isinstance(manager, ast.Call) else manager
    return isinstance(function, ast.Attribute) and function.attr in _LETTING_THROUGH


def may_catch(statement: ast.stmt) -> bool:
    """Whether an exception that is raised in a statement may be caught in it."""
    parts = list(ast.walk(statement))
    if any(isinstance(part, ast.Try | ast.TryStar) for part in parts):
        return True
    managers = [item.context_expr for part in parts if isinstance(part, ast.With) for item in part.items]
    return not all(map(_lets_through, managers))


def mentioned(nodes: Iterable[ast.AST]) -> collections.Counter[str]:
    """How often each name stands in some nodes, in the functions in them too."""
    return collections.Counter(name for node in nodes for part in ast.walk(node) for name in _names(part))


_NAMED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


def _names(part: ast.AST) -> Iterator[str]:
    if isinstance(part, ast.Name):
        yield part.id
    elif isinstance(part, ast.arg):
        yield part.arg
    elif isinstance(part, ast.alias):
        yield part.asname or part.name.partition(".")[0]
    elif isinstance(part, ast.Global | ast.Nonlocal):
        yield from part.names
    elif isinstance(part, _NAMED) and part.name:
        yield part.name
    elif isinstance(part, ast.MatchMapping) and part.rest:
        yield part.rest


def captured(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names that stand in functions and generators in some nodes, which may be called later."""
    scopes = [n for node in nodes for n in ast.walk(node) if isinstance(n, (*SCOPES, ast.GeneratorExp))]
    return frozenset(mentioned(scopes))
