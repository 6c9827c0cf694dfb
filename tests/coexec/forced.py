"""New paths by force: at one operation of a random program something happens that never happened before."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from tests.speculate.comparing import plain

# The call of a program in which it happens: by then its steps have a graph.
CALL: Final = 9
_SIMPLE: Final = (tf.Tensor, int, float, str, list)


class Detour:
    """Happens before one operation of one call.

    Args:
        at: the number of the operation.
        kind: what happens, one of KINDS.
        file: the program's.

    Attributes:
        seen: what could be seen there.
    """

    def __init__(self, at: int, kind: str, file: str) -> None:
        self.at, self.kind, self.file, self.has_happened = at, kind, file, False
        self.seen: list[Any] = []

    def __call__(self, call: int, number: int, state: Any) -> None:
        """Called before each operation, see `comparing.run_wrapped`."""
        if (call, number) == (CALL, self.at) and not self.has_happened:
            self.has_happened = True
            KINDS[self.kind](self, state)

    def _write(self, state: Any) -> None:
        """An operation that is in no program, and one that writes."""
        _total(state).assign(tf.math.expm1(tf.tanh(_total(state))))

    def _look(self, state: Any) -> None:
        """Everything that there is at this line is read."""
        self.seen += [self._locals(), plain(state)]

    def _draw(self, state: Any) -> None:
        """A new operation, everything that there is, and the random numbers that come next."""
        self._write(state)
        self._look(state)
        self.seen.append(plain([tf.random.uniform([]), tf.random.normal([], seed=1)]))

    def _raise(self, state: Any) -> None:
        """An exception, which the program may catch."""
        raise LookupError("a detour")

    def _locals(self) -> dict[str, Any]:
        """The values in the program's frames."""
        found = {}
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            if frame.f_code.co_filename == self.file:
                values = {name: plain(v) for name, v in frame.f_locals.items() if isinstance(v, _SIMPLE)}
                found[frame.f_code.co_name] = values
        return found


def _total(state: Any) -> tf.Variable:
    return next(part for part in state if isinstance(part, tf.Variable) and part.shape.rank == 1)


KINDS: Final[dict[str, Callable[..., None]]] = {
    "write": Detour._write,
    "look": Detour._look,
    "draw": Detour._draw,
    "raise": Detour._raise,
}
