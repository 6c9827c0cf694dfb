"""Calls of what `dataclasses` has for data classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from recgraph.speculate import attributes, calls, containers, library_calls, protocols
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.special import SPECIAL, Arguments, Special, special


@special(dataclasses.replace)
def _replace(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    owner = arguments[0]
    fields = [f.name for f in dataclasses.fields(owner) if f.init]
    given = {name: named[name] if name in named else attributes.get(ev, owner, name) for name in fields}
    return calls.call(ev, type(owner), [], {**given, **named})


@special(dataclasses.fields)
def _fields(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    return dataclasses.fields(arguments[0])


@special(dataclasses.is_dataclass)
def _is_dataclass(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> bool:
    return (protocols.is_object(arguments[0]) or isinstance(arguments[0], type)) and dataclasses.is_dataclass(
        arguments[0]
    )


def _as(make: Callable[[list[tuple[str, Any]]], Any]) -> Special:
    """All that a data class holds, data classes in it included; `make` makes something of names and values."""

    def whole(ev: Evaluator, value: Any) -> Any:
        if protocols.is_object(value) and dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            return make([(name, whole(ev, attributes.get(ev, value, name))) for name in names])
        inside = containers.opened(ev, value)
        if type(inside) in (list, tuple):
            return type(inside)(whole(ev, member) for member in inside)
        if type(inside) is dict:
            return {key: whole(ev, member) for key, member in inside.items()}
        return library_calls.deep_copy(ev, value, {})

    return lambda ev, arguments, named: whole(ev, arguments[0])


SPECIAL[dataclasses.asdict] = _as(dict)
SPECIAL[dataclasses.astuple] = _as(lambda pairs: tuple(value for _, value in pairs))
