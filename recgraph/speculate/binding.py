"""How a call's arguments become the values of a function's parameters."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any


def signature_of(function: Any) -> inspect.Signature:
    """What a function itself takes, whatever it says about what it wraps."""
    if not isinstance(function, types.FunctionType):
        return inspect.signature(function)
    plain = types.FunctionType(function.__code__, {}, function.__name__, function.__defaults__, function.__closure__)
    plain.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(plain)


def names_of_parameters(function: Any) -> list[str]:
    """The names of a function's parameters, in the order of its signature."""
    code = function.__code__
    names = list(code.co_varnames)
    positional, named = code.co_argcount, code.co_kwonlyargcount
    stars = names[positional + named :]
    star = [stars.pop(0)] if code.co_flags & inspect.CO_VARARGS else []
    last = stars[:1] if code.co_flags & inspect.CO_VARKEYWORDS else []
    return [*names[:positional], *star, *names[positional : positional + named], *last]


def arguments_of(function: Any, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call a function with, so that its parameters have these values."""
    code = function.__code__
    positional, named = code.co_argcount, code.co_kwonlyargcount
    star = bool(code.co_flags & inspect.CO_VARARGS)
    arguments = (*values[:positional], *(values[positional] if star else ()))
    names = names_of_parameters(function)[positional + star :][:named]
    keywords = dict(zip(names, values[positional + star :], strict=False))
    if code.co_flags & inspect.CO_VARKEYWORDS:
        keywords.update(values[positional + star + named])
    return arguments, keywords


def binder(function: Any) -> Callable[..., tuple[Any, ...]]:
    """A function with the same parameters that gives their values in order."""
    parameters = signature_of(function).parameters.values()
    scope: dict[str, Any] = {}
    parts, names, stars = [], [], False
    for i, parameter in enumerate(parameters):
        text = parameter.name
        names.append(text)
        if parameter.kind is parameter.VAR_POSITIONAL:
            text, stars = f"*{text}", True
        elif parameter.kind is parameter.VAR_KEYWORD:
            text = f"**{text}"
        elif parameter.kind is parameter.KEYWORD_ONLY and not stars:
            parts.append("*")
            stars = True
        if parameter.default is not parameter.empty:
            scope[f"d{i}"] = parameter.default
            text += f"=d{i}"
        parts.append(text)
        following = list(parameters)[i + 1 : i + 2]
        if parameter.kind is parameter.POSITIONAL_ONLY and (not following or following[0].kind is not parameter.kind):
            parts.append("/")
    exec(f"def bind({', '.join(parts)}): return ({''.join(name + ', ' for name in names)})", scope)
    bind: Callable[..., tuple[Any, ...]] = scope["bind"]
    return bind
