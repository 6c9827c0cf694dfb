"""What is around the node that is being converted: a stack of contexts, the innermost last.

A rule enters one with `ev.within(context)` for as long as it holds; others ask `ev.contexts` what they are in.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, TypeVar


@dataclasses.dataclass(frozen=True, eq=False)
class Context:
    """Something around us."""


@dataclasses.dataclass(frozen=True, eq=False)
class CalledBack(Context):
    """A function that TensorFlow has called: when, and how often, is TensorFlow's affair, so it may have no effects.

    Attributes:
        elsewhere: whether it is converted in a graph of its own, out of which no assumption is checked.
    """

    elsewhere: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class RecursiveBody(CalledBack):
    """The body of a function that calls itself: nothing can be assumed in it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Fork(Context):
    """A branch or loop that a tensor decides: what happens in it may not happen."""


@dataclasses.dataclass(frozen=True, eq=False)
class LoopRound(Fork):
    """A round of a loop in the graph."""


@dataclasses.dataclass(frozen=True, eq=False)
class Catching(Context):
    """A block in which exceptions may be caught."""


@dataclasses.dataclass(frozen=True, eq=False)
class Handling(Context):
    """The handler of an exception.

    Attributes:
        error: the exception, or a dynamic value for one.
    """

    error: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Managed(Context):
    """The block of a `with`.

    Attributes:
        manager: the context manager, by id.
    """

    manager: int


@dataclasses.dataclass(frozen=True, eq=False)
class Building(Context):
    """A library that adds operations.

    Attributes:
        graph: to which it does.
    """

    graph: Any


@dataclasses.dataclass(frozen=True, eq=False)
class MakingVariable(Context):
    """The program makes a variable, which nobody else has yet."""


C = TypeVar("C", bound=Context)


class Contexts:
    """The stack."""

    def __init__(self) -> None:
        self._stack: list[Context] = []

    @contextlib.contextmanager
    def within(self, context: Context) -> Iterator[None]:
        """While something is around us."""
        self._stack.append(context)
        try:
            yield
        finally:
            self._stack.pop()

    def all(self, kind: type[C]) -> list[C]:
        """Those of one kind, the innermost last."""
        return [context for context in self._stack if isinstance(context, kind)]

    def has(self, *kinds: type[Context]) -> bool:
        """Whether one of these kinds is around us."""
        return any(isinstance(context, kinds) for context in self._stack)

    @property
    def managers(self) -> tuple[int, ...]:
        """The context managers around us, tapes for instance, by id."""
        return tuple(context.manager for context in self.all(Managed))

    @property
    def forks(self) -> int:
        """How many branches and loops of tensors are around us."""
        return len(self.all(Fork))
