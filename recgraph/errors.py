"""The exceptions of recgraph: what went wrong, where, what was found and expected, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar

from recgraph.cpython.sources import told

__all__ = [
    "BranchError",
    "DefinitionError",
    "GradientError",
    "NativeLibraryError",
    "NotAGraph",
    "NotCoexecuted",
    "NotShared",
    "RecgraphError",
    "ScopeError",
    "SignatureError",
    "SymbolicError",
    "TreeError",
    "Unbatchable",
]


class RecgraphError(Exception):
    """Base of all exceptions that recgraph raises on purpose.

    Every subclass has an `id`, a word that stays the same in all releases, to search for and to test.

    Args:
        message: one sentence that says what went wrong.
        where: the place in the user's program, `file:line`, or the file at fault.
        found: what was found.
        expected: what was expected.
        next_step: what the user can do about it.

    Examples:
        >>> print(RecgraphError("no such tree", where="trees.txt:3", next_step="check the file"))
        no such tree [recgraph]
          where:     trees.txt:3
          next step: check the file
    """

    id: ClassVar[str] = "recgraph"
    ag_pass_through: ClassVar[bool] = True  # AutoGraph leaves an exception with this mark the type that it has
    _keras_call_info_injected: ClassVar[bool] = (
        True  # Keras makes another of one without this mark, from its first line
    )

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        found: str | None = None,
        expected: str | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(message)
        self.where = where
        self.found = found
        self.expected = expected
        self.next_step = next_step

    def __str__(self) -> str:
        parts = {
            "where": self.where,
            "found": self.found,
            "expected": self.expected,
            "next step": self.next_step,
        }
        lines = [f"  {name + ':':<10} {text}" for name, text in parts.items() if text]
        return told("\n".join([f"{self.args[0]} [{self.id}]", *lines]))


def did_you_mean(given: object, allowed: Iterable[str]) -> str | None:
    """The next step for a name that is nearly one of those that there are; None for another one."""
    near = difflib.get_close_matches(given, list(allowed), n=1) if isinstance(given, str) else []
    return f"did you mean {near[0]!r}?" if near else None


class NativeLibraryError(RecgraphError, ImportError):
    """The op library is missing or was built for another TensorFlow."""

    id = "native-library"


class DefinitionError(RecgraphError):
    """The definition of a SubGraph is incomplete or contradictory."""

    id = "definition"


class BranchError(DefinitionError, TypeError):
    """The branches of a `tf.cond` or `tf.switch_case` in a body return different structures or dtypes."""

    id = "branches"


class SymbolicError(DefinitionError, TypeError):
    """A body asks a tensor for its value, which there is none of while the body is defined."""

    id = "symbolic"


class SignatureError(RecgraphError, TypeError):
    """Arguments or results do not match a signature."""

    id = "signature"


class ScopeError(RecgraphError):
    """A SubGraph is used where the tensors it captures cannot be reached."""

    id = "scope"


class GradientError(RecgraphError, LookupError):
    """A SubGraph cannot be differentiated."""

    id = "gradient"


class TreeError(RecgraphError, ValueError):
    """What is to be read as trees is none, or a node has no value that a feature can be."""

    id = "tree"


class Unbatchable(RecgraphError):
    """A SubGraph contains something that only the parallel engine can run."""

    id = "unbatchable"

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(
            f"{what} cannot be batched",
            where=where or None,
            next_step="use engine='auto' or 'parallel', or write it another way",
        )


class NotAGraph(RecgraphError):
    """A function cannot run as a graph, and `strict=True` does not allow running it eagerly."""

    id = "not-a-graph"


class NotCoexecuted(NotAGraph):
    """A step cannot be co-executed, and `strict=True` does not allow running it eagerly."""

    id = "not-coexecuted"


class NotShared(NotAGraph):
    """Steps are run in a way in which their work cannot be divided between workers."""

    id = "not-shared"


def __dir__() -> list[str]:
    """What is public, for completion."""
    return sorted([*__all__, "__doc__", "__name__"])
