"""How a call's arguments become the values of a function's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def binder(function: Any) -> Callable[..., tuple[Any, ...]]:
    """A function with the same parameters that gives their values in order."""
    parameters = inspect.signature(function).parameters.values()
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
