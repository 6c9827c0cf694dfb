"""Calls of what `dataclasses` has for data classes."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from typing import Any

from recgraph.speculate import attributes, calls, containers, library_calls, protocols
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.special import SPECIAL, Arguments, Special, special


@special(dataclasses.replace)
def _replace(ev: Evaluator, arguments: Arguments, named: dict[str, Any], node: ast.AST) -> Any:
    owner = arguments[0]
    fields = [f.name for f in dataclasses.fields(owner) if f.init]
    given = {name: named[name] if name in named else attributes.get(ev, owner, name, node) for name in fields}
    return calls.call(ev, type(owner), [], {**given, **named}, node)


@special(dataclasses.fields)
def _fields(ev: Evaluator, arguments: Arguments, named: dict[str, Any], node: ast.AST) -> Any:
    return dataclasses.fields(arguments[0])


@special(dataclasses.is_dataclass)
def _is_dataclass(ev: Evaluator, arguments: Arguments, named: dict[str, Any], node: ast.AST) -> bool:
    return (protocols.is_object(arguments[0]) or isinstance(arguments[0], type)) and dataclasses.is_dataclass(
        arguments[0]
    )


def _as(make: Callable[[list[tuple[str, Any]]], Any]) -> Special:
    """All that a data class holds, data classes in it included; `make` makes something of names and values."""

    def whole(ev: Evaluator, value: Any, node: ast.AST) -> Any:
        if protocols.is_object(value) and dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            return make([(name, whole(ev, attributes.get(ev, value, name, node), node)) for name in names])
        inside = containers.opened(ev, value, node)
        if type(inside) in (list, tuple):
            return type(inside)(whole(ev, member, node) for member in inside)
        if type(inside) is dict:
            return {key: whole(ev, member, node) for key, member in inside.items()}
        return library_calls.deep_copy(ev, value, {}, node)

    return lambda ev, arguments, named, node: whole(ev, arguments[0], node)


SPECIAL[dataclasses.asdict] = _as(dict)
SPECIAL[dataclasses.astuple] = _as(lambda pairs: tuple(value for _, value in pairs))
