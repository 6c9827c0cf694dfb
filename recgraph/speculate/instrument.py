"""A function that runs as it did and tells a profile what it sees.

The syntax tree gets a call around each expression of interest and is compiled again under the user's file name and line
numbers, with the function's own globals, closure and defaults: tracebacks and debuggers show the user's program.
"""

from __future__ import annotations

import ast
import copy
import types
from typing import Any

from recgraph.speculate import known
from recgraph.speculate.profile import Profile
from recgraph.speculate.reasons import Inconvertible
from recgraph.speculate.syntax import FunctionNode, Syntax, syntax_of

_HOOK = "recgraph_observer"


class Observer:
    """What instrumented functions call. One for a profile."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._functions: dict[types.CodeType, types.CodeType | None] = {}

    def see(self, site: Any, value: Any) -> Any:
        """Passes a value on."""
        self.profile.see(site, value)
        return value

    def enter(self, place: Any, arguments: dict[str, Any]) -> None:
        """A function begins."""
        self.profile.enter(place, arguments)

    def leave(self, place: Any) -> None:
        """A function ends."""
        self.profile.leave(place)

    def returned(self, place: Any, value: Any) -> Any:
        """Passes the result of a function on."""
        self.profile.returned(place, value)
        return value

    def observed(self, callee: Any) -> Any:
        """A callee that is observed too, where it is a Python function of the user's."""
        if isinstance(callee, types.MethodType) and isinstance(callee.__func__, types.FunctionType):
            inner = self.observed(callee.__func__)
            return types.MethodType(inner, callee.__self__) if inner is not callee.__func__ else callee
        if not isinstance(callee, types.FunctionType) or not known.is_users(callee):
            return callee
        code = self._code(callee)
        return callee if code is None else _with_code(callee, code, self)

    def _code(self, function: types.FunctionType) -> types.CodeType | None:
        code = function.__code__
        if code not in self._functions:
            try:
                self._functions[code] = _instrumented(syntax_of(function), code)
            except Inconvertible:
                self._functions[code] = None
        return self._functions[code]


def _with_code(function: types.FunctionType, code: types.CodeType, observer: Observer) -> types.FunctionType:
    """A copy of a function with other code, which shares its closure."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[_HOOK] = types.CellType(observer)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


def _instrumented(syntax: Syntax, code: types.CodeType) -> types.CodeType | None:
    """The code that observes; None for generators and coroutines, which are left alone."""
    if code.co_flags & (0x20 | 0x80 | 0x200):
        return None
    node = _Observing(syntax).visit(copy.deepcopy(syntax.node))
    if isinstance(node, ast.FunctionDef):
        node.decorator_list, node.returns = [], None
        _announce(node, syntax)
    node.args.defaults, node.args.kw_defaults = [], [None] * len(node.args.kwonlyargs)
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return _compiled(node, syntax.filename, code)


def _announce(node: ast.FunctionDef, syntax: Syntax) -> None:
    """Tells when the function begins, with its arguments, and when it ends."""
    place: Any = syntax.key
    names = [argument.arg for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
    arguments = ast.Dict([ast.Constant(name) for name in names], [ast.Name(name, ast.Load()) for name in names])
    enter = ast.Expr(_hook("enter", ast.Constant(place), arguments))
    leave = ast.Expr(_hook("leave", ast.Constant(place)))
    node.body = [ast.copy_location(part, node) for part in (enter, ast.Try(node.body, [], [], [leave]))]


def _hook(method: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(_HOOK, ast.Load()), method, ast.Load()), list(arguments), [])


def _compiled(node: FunctionNode, filename: str, original: types.CodeType) -> types.CodeType:
    """Compiled inside of a function whose arguments are the names that the closure has."""
    inside: ast.stmt = node if isinstance(node, ast.FunctionDef) else ast.Expr(node)
    names = [_HOOK, *original.co_freevars]
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    outer = ast.FunctionDef("outer", arguments, [inside], [])
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, node)], []))
    whole = compile(module, filename, "exec", dont_inherit=True, flags=original.co_flags & 0x1000000)
    outer_code = next(c for c in whole.co_consts if isinstance(c, types.CodeType))
    return next(c for c in outer_code.co_consts if isinstance(c, types.CodeType))


class _Observing(ast.NodeTransformer):
    """Wraps expressions in calls of the observer. Sites are the numbers that `Syntax` gave to nodes."""

    def __init__(self, syntax: Syntax) -> None:
        self.syntax = syntax
        self.depth = 0

    def _site(self, node: ast.AST) -> ast.expr:
        place: Any = (*self.syntax.key, getattr(node, "site", -1))
        return ast.Constant(place)

    def _seen(self, node: ast.expr) -> ast.expr:
        return ast.copy_location(_hook("see", self._site(node), node), node)

    def visit_Return(self, node: ast.Return) -> ast.Return:
        """What the function returns, not those inside of it."""
        self.generic_visit(node)
        if node.value is not None and self.depth == 1:
            place: Any = self.syntax.key
            node.value = ast.copy_location(_hook("returned", ast.Constant(place), node.value), node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return self._seen(node) if isinstance(node.ctx, ast.Load) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        return self._seen(node) if isinstance(node.ctx, ast.Load) else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._seen(node) if isinstance(node.ctx, ast.Load) and node.id != "super" else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A callee is observed, and what it returns."""
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == "super"):
            node.func = ast.copy_location(_hook("observed", node.func), node.func)
        return self._seen(node)

    def _test(self, node: Any) -> Any:
        """The truth of a condition is a site of its own: that of the statement."""
        self.generic_visit(node)
        truth = ast.Call(ast.Name("bool", ast.Load()), [node.test], [])
        node.test = ast.copy_location(_hook("see", self._site(node), truth), node.test)
        return node

    visit_If = visit_While = visit_IfExp = visit_Assert = _test

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        """`a.b += c` reads `a.b`, too: it becomes `o = a; x = o.b; x += c; o.b = x`, which is what Python does."""
        site = self._site(node.target)
        self.generic_visit(node)
        steps: list[ast.stmt] = []
        target = node.target
        if isinstance(target, ast.Attribute | ast.Subscript):
            target.value = self._kept("owner", target.value, steps)
        if isinstance(target, ast.Subscript):
            target.slice = self._kept("index", target.slice, steps)
        current = copy.deepcopy(target)
        current.ctx = ast.Load()
        self._kept("value", _hook("see", site, current), steps)
        name = f"{_HOOK}_value"
        steps.append(ast.AugAssign(ast.Name(name, ast.Store()), node.op, node.value))
        steps.append(ast.Assign([target], ast.Name(name, ast.Load())))
        return [ast.copy_location(step, node) for step in steps]

    def _kept(self, what: str, value: ast.expr, steps: list[ast.stmt]) -> ast.expr:
        """Keeps a value under a name of our own."""
        steps.append(ast.Assign([ast.Name(f"{_HOOK}_{what}", ast.Store())], value))
        return ast.Name(f"{_HOOK}_{what}", ast.Load())

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node
