"""Whether several workers share the steps that run now: what a scope of a cluster says to all that runs steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from recgraph.errors import NotShared


class World(Protocol):
    """What gradients become in a scope. A graph is of the world that it was made in, and serves again in that one."""

    def bounded(self, graph: Any) -> contextlib.AbstractContextManager[None]:
        """A context for the call of a graph that waits for other workers: it ends when they do not come."""


_listeners: list[Callable[[World | None], None]] = []
_scopes: list[World] = []


def is_shared() -> bool:
    """Whether a scope of a cluster of several workers is open."""
    return bool(_scopes)


def world() -> World | None:
    """Returns the world of the open scope; None where each process is for itself."""
    return _scopes[-1] if _scopes else None


def bounded(graph: Any) -> contextlib.AbstractContextManager[None]:
    """A context for the call of a graph that waits for other workers: in a scope it ends when they do not come."""
    return _scopes[-1].bounded(graph) if _scopes else contextlib.nullcontext()


@contextlib.contextmanager
def shared(entered: World) -> Iterator[None]:
    """While a scope is open. Whoever `listen`s learns of its begin and its end.

    Args:
        entered: what `world` gives in it.
    """
    _scopes.append(entered)
    _tell()
    try:
        yield
    finally:
        _scopes.pop()
        _tell()


def listen(listener: Callable[[World | None], None]) -> None:
    """Calls a function with the world that begins whenever a scope begins or ends."""
    _listeners.append(listener)


def _tell() -> None:
    for listener in _listeners:
        listener(world())


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
