"""What compares the members of lists and tuples with a value, one after the other: `index`, `count`, `remove`."""

from __future__ import annotations

import operator
from typing import Any

from recgraph.speculate import residuals
from recgraph.speculate.evaluator import Evaluator


def is_or_equals(ev: Evaluator, one: Any, other: Any) -> bool:
    """How containers compare what they hold."""
    return one is other or ev.decided(residuals.operate(ev, operator.eq, [one, other]))


def _index(ev: Evaluator, target: Any, arguments: list[Any]) -> int:
    first, end = (ev.concrete(a) for a in [*arguments[1:], 0, len(target)][:2])
    for i in range(*slice(first, end).indices(len(target))):
        if is_or_equals(ev, target[i], arguments[0]):
            return i
    text = "list.index(x): x not in list" if isinstance(target, tuple) else f"{arguments[0]!r} is not in list"
    raise ev.raised(ValueError(text))


def _count(ev: Evaluator, target: Any, arguments: list[Any]) -> int:
    return sum(is_or_equals(ev, member, arguments[0]) for member in list(target))


def _remove(ev: Evaluator, target: Any, arguments: list[Any]) -> None:
    for i, member in enumerate(list(target)):
        if is_or_equals(ev, member, arguments[0]):
            del target[i]
            return
    raise ev.raised(ValueError("list.remove(x): x not in list"))


# What compares the members of a list with a value, one after the other.
METHODS = {"index": _index, "count": _count, "remove": _remove}
