"""Whether several workers share the steps that run now: what a scope of a cluster says to all that runs steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from recgraph.errors import NotShared

_listeners: list[Callable[[], None]] = []
_scopes: list[Callable[[], contextlib.AbstractContextManager[None]]] = []


def is_shared() -> bool:
    """Whether a scope of a cluster of several workers is open."""
    return bool(_scopes)


def bounded() -> contextlib.AbstractContextManager[None]:
    """A context for the call of a graph that waits for other workers: in a scope it ends when they do not come."""
    return _scopes[-1]() if _scopes else contextlib.nullcontext()


@contextlib.contextmanager
def shared(bound: Callable[[], contextlib.AbstractContextManager[None]]) -> Iterator[None]:
    """While a scope is open. Whoever `listen`s learns of its begin and its end.

    Args:
        bound: what `bounded` gives in it.
    """
    _scopes.append(bound)
    _tell()
    try:
        yield
    finally:
        _scopes.pop()
        _tell()


def listen(listener: Callable[[], None]) -> None:
    """Calls a function whenever a scope begins or ends."""
    _listeners.append(listener)


def _tell() -> None:
    for listener in _listeners:
        listener()


def refuse(what: str, next_step: str) -> None:
    """Raises an error in a scope.

    Args:
        what: runs steps whose work cannot be divided, such as `rg.steps`.
        next_step: what to do in its place.

    Raises:
        NotShared: a scope is open.
    """
    if is_shared():
        raise NotShared(f"{what} cannot share its steps with other workers", next_step=next_step)
