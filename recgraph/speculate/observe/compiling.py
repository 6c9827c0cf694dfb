"""Compiles a syntax tree that was changed, under the user's file name and lines, with a hook by which it calls us."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import Any

from recgraph.speculate.observe.syntax import FunctionNode, Syntax

# Stands for the hook until the code is compiled, then becomes it: a name of ours would show in the closures of
# functions made inside, which TensorFlow's AutoGraph compares with their source.
_HOOK = "recgraph: the hook"
# Who looks at the names around would find the hook.
LOOKING = frozenset({"locals", "vars", "dir", "eval", "exec"})


def looks_around(code: types.CodeType) -> bool:
    """Whether a function, or one that it makes, may look at the names around it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return bool(LOOKING & set(code.co_names)) or any(map(looks_around, inner))


def hooked(method: str, *arguments: ast.expr) -> ast.Call:
    """A call of a method of the hook."""
    return ast.Call(ast.Attribute(ast.Constant(_HOOK), method, ast.Load()), list(arguments), [])


def compiled(node: FunctionNode, syntax: Syntax, original: types.CodeType) -> types.CodeType:
    """The code of a function that was `original`, without decorators, defaults and annotations."""
    if isinstance(node, ast.FunctionDef):
        node.decorator_list, node.returns = [], None
    node.args.defaults, node.args.kw_defaults = [], [None] * len(node.args.kwonlyargs)
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return named_as(_inside(node, syntax, original), original)


def named_as(code: types.CodeType, original: types.CodeType) -> types.CodeType:
    """The code under the name of another; the names of functions and classes in it, which messages tell, follow."""
    before, after = code.co_qualname, original.co_qualname

    def renamed(inner: types.CodeType) -> types.CodeType:
        old = inner.co_qualname
        new = after + old.removeprefix(before) if old == before or old.startswith(f"{before}.") else old
        is_class = not inner.co_flags & inspect.CO_OPTIMIZED  # it has its name among its constants
        constants = tuple(
            renamed(value) if isinstance(value, types.CodeType) else new if is_class and value == old else value
            for value in inner.co_consts
        )
        return inner.replace(co_qualname=new, co_consts=constants)

    return renamed(code).replace(co_name=original.co_name)


def _inside(node: FunctionNode, syntax: Syntax, original: types.CodeType) -> types.CodeType:
    """Compiled inside of a function whose arguments are the names that the closure has."""
    inside: ast.stmt = node if isinstance(node, ast.FunctionDef) else ast.Expr(node)
    names = list(original.co_freevars)
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    if syntax.mangled:  # private names are those of the class
        inside = ast.ClassDef(syntax.mangled, [], [], [inside], [])
    body: list[ast.stmt] = [inside]
    if isinstance(node, ast.FunctionDef) and node.name not in names:
        body.insert(0, ast.Global([node.name]))  # to call itself it looks there
    outer = ast.FunctionDef("outer", arguments, body, [])
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, node)], []))
    whole = compile(module, syntax.filename, "exec", dont_inherit=True, flags=original.co_flags & 0x1000000)
    code = whole
    for _ in range(3 if syntax.mangled else 2):
        code = next(c for c in code.co_consts if isinstance(c, types.CodeType))
    return code


def with_hook(
    code: types.CodeType, hook: Any, change: Callable[[types.CodeType], types.CodeType] = lambda code: code
) -> types.CodeType:
    """The code with the hook among its constants, and that of the functions in it, each changed perhaps."""

    def constant(value: Any) -> Any:
        if isinstance(value, types.CodeType):
            return change(with_hook(value, hook, change))
        return hook if value == _HOOK else value

    return code.replace(co_consts=tuple(map(constant, code.co_consts)))


def with_code(function: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    """A copy of a function with other code, which shares its closure."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made
