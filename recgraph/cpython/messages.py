"""Exceptions as the interpreter raises them: of the same class, with the same text."""

from __future__ import annotations

import collections
import sys
from typing import Any


def undefined(name: str) -> NameError:
    """A global name that is not there."""
    return NameError(f"name {name!r} is not defined", name=name)


def unbound_local(name: str) -> UnboundLocalError:
    """A local name without a value."""
    return UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with a value")


def unbound_free(name: str) -> NameError:
    """A name of a function around without a value."""
    text = f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope"
    return NameError(text, name=name)


def no_attribute(kind: type, name: str) -> AttributeError:
    """An attribute that is read and is not there."""
    return AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name)


def nothing_to_delete(kind: type, name: str) -> AttributeError:
    """An attribute that is deleted and is not there."""
    return AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")


def no_place_for_attribute(owner: Any, name: str) -> AttributeError:
    """An attribute that is set on an object that has no place for it."""
    kind = type(owner)
    nowhere = " and no __dict__ for setting new attributes" if sys.version_info >= (3, 13) else ""
    why = f"attribute {name!r} is read-only" if hasattr(kind, name) else f"has no attribute {name!r}{nowhere}"
    return AttributeError(f"{kind.__name__!r} object {why}", name=name, obj=owner)


def too_few_values(expected: int, got: int, has_star: bool = False) -> ValueError:
    """An unpacking of fewer values than there are targets."""
    return ValueError(f"not enough values to unpack (expected {'at least ' if has_star else ''}{expected}, got {got})")


def too_many_values(expected: int) -> ValueError:
    """An unpacking of more values than there are targets."""
    return ValueError(f"too many values to unpack (expected {expected})")


def changed_size(table: Any) -> RuntimeError:
    """A dict, a view of one, a set or a deque that grows or shrinks while a loop goes through it."""
    if isinstance(table, collections.deque):
        return RuntimeError("deque mutated during iteration")
    return RuntimeError(f"{'Set' if isinstance(table, set) else 'dictionary'} changed size during iteration")


def not_in_sequence(sequence: Any, member: Any) -> ValueError:
    """`index` of what a list or tuple does not hold."""
    return ValueError("tuple.index(x): x not in tuple" if isinstance(sequence, tuple) else f"{member!r} is not in list")


def nothing_to_remove() -> ValueError:
    """`remove` of what a list does not hold."""
    return ValueError("list.remove(x): x not in list")
