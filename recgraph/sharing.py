"""Whether several workers share the steps that run now: what a scope of a cluster says to all that runs steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from recgraph.errors import NotShared

_listeners: list[Callable[[], None]] = []
_scopes = 0


def is_shared() -> bool:
    """Whether a scope of a cluster of several workers is open."""
    return _scopes > 0


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """While a scope is open. Whoever `listen`s learns of its begin and its end."""
    global _scopes
    _scopes += 1
    _tell()
    try:
        yield
    finally:
        _scopes -= 1
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
