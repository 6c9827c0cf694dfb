"""Whether a function of the user's may be run by a library while the graph is made: it is seen to compute only.

So it is with the functions that `tf.custom_gradient` and its like wrap. They run once then, and their names are looked
up once: both must make no difference.
"""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from recgraph.speculate.observe import known
from recgraph.speculate.observe.reasons import Inconvertible
from recgraph.speculate.observe.syntax import syntax_of

_FORBIDDEN = (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.Import, ast.ImportFrom, ast.ClassDef)
_SAFE_BUILTINS = frozenset({"len", "range", "zip", "enumerate", "tuple", "list", "float", "int", "isinstance", "sum"})


def wrapped(function: Any) -> types.FunctionType | None:
    """The function of the user's that a library's decorator has wrapped; a `tf.function` is traced eagerly, too."""
    inner = None if hasattr(function, "get_concrete_function") else getattr(function, "__wrapped__", None)
    return inner if isinstance(inner, types.FunctionType) and known.is_users(inner) else None


def only_computes(function: types.FunctionType) -> bool:
    """Whether it assigns to its own names only and reads nothing else that can change."""
    try:
        node = syntax_of(function).node
    except Inconvertible:
        return False
    parts = list(_running_parts(node))
    own = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    own |= {part.arg for part in parts if isinstance(part, ast.arg)}
    own |= {part.name for part in parts if isinstance(part, ast.FunctionDef)}
    return not any(_is_more(part, own, function) for part in parts[1:])


def _running_parts(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations and decorators."""
    yield node
    for name, field in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST):
                    yield from _running_parts(child)


def _is_more(part: ast.AST, own: set[str], function: types.FunctionType) -> bool:
    if isinstance(part, _FORBIDDEN):
        return True
    if isinstance(part, ast.Attribute | ast.Subscript):
        return not isinstance(part.ctx, ast.Load)
    if not isinstance(part, ast.Name) or part.id in own:
        return False
    return not _stays(part.id, function)


def _stays(name: str, function: types.FunctionType) -> bool:
    """Whether a name from outside stands for a library's module, a variable, or a function that computes only."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    value = cells[name].cell_contents if name in cells else function.__globals__.get(name)
    if value is None:
        return name in _SAFE_BUILTINS and hasattr(builtins, name)
    if isinstance(value, types.ModuleType):
        return value.__name__.split(".")[0] in ("tensorflow", "keras")
    return isinstance(value, tf.Variable | tf.DType)
