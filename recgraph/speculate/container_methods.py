"""Methods of lists, dicts, sets and deques: of working copies, and of containers that the call has made."""

from __future__ import annotations

import collections
from typing import Any

from recgraph.speculate import calls, containers, grown, protocols, residuals, searching, showing, varying_keys
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.values import Residual, StandIn, has_run, is_symbolic


class HeapMethod(StandIn):
    """A method of a container that was there before the call."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Calls it on the working copy; an append needs none."""
        owner, name = self.owner, self.name
        if isinstance(owner, list | collections.deque) and name == "append" and len(arguments) == 1:
            ev.need_sequence("an append")
            ev.heap.append(owner, arguments[0])
            return None
        is_early = (
            not isinstance(arguments[0], Residual) or varying_keys.is_varying(ev, owner, arguments[0])
            if arguments
            else False
        )
        if isinstance(owner, set) and name == "add" and varying_keys.is_varying(ev, owner, arguments[0]):
            varying_keys.later(ev, owner, set.add, [arguments[0]])
            return None
        if isinstance(owner, dict) and name == "get" and not named and is_early:
            found = containers.contains(ev, owner, arguments[0])
            return containers.subscript(ev, owner, arguments[0]) if found else (arguments[1:] or [None])[0]
        if name not in _READING:
            ev.need_sequence("a write to a container")
        target = containers.opened(ev, owner)
        return applied(ev, target, name, arguments, named)


_READING = frozenset({"get", "keys", "values", "items", "copy", "index", "count"})
# Methods whose first argument decides what becomes of a list.
_PLACED = frozenset({"pop", "insert", "rotate"})


def decided_arguments(
    ev: Evaluator, owner: Any, name: str, arguments: list[Any], named: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a method of a list, dict or set, with those known on which it depends what happens."""
    if name == "sort":
        return arguments, {key: ev.concrete(value) for key, value in named.items()}
    if isinstance(owner, set) or (isinstance(owner, collections.Counter) and name in ("update", "subtract")):
        return [_decided_members(ev, a) for a in arguments], named
    if name in ("move_to_end", "popitem"):
        return [ev.concrete(a) for a in arguments], {key: ev.concrete(a) for key, a in named.items()}
    if isinstance(owner, dict) or name in _PLACED:
        keys = [protocols.check_key(ev, ev.concrete(a)) for a in arguments[:1]]
        return [*keys, *arguments[1:]], named
    return arguments, named


def _decided_members(ev: Evaluator, value: Any) -> Any:
    if isinstance(value, list | set | frozenset):
        return [_decided_members(ev, member) for member in containers.iterate(ev, value)]
    if isinstance(value, dict):
        whole = containers.opened(ev, value)
        return {key: ev.concrete(number) for key, number in whole.items()}
    return protocols.check_key(ev, ev.concrete(value))


def applied(ev: Evaluator, target: Any, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Calls a method of a working copy, or of a container that the call has made."""
    if name in ("extend", "__iadd__") and isinstance(target, list):
        return target.extend(grown.pieces(ev, arguments[0]))
    arguments, named = decided_arguments(ev, target, name, arguments, named)
    if has_run(target):
        return grown.applied(ev, target, name, arguments)
    if name == "sort":
        target[:] = calls.call(ev, sorted, [list(target)], named)
        return None
    if name in searching.METHODS and not isinstance(target, dict | set):
        return searching.METHODS[name](ev, target, arguments)
    lifted = [containers.opened(ev, a) for a in arguments]
    try:
        return getattr(target, name)(*lifted, **named)
    except Exception as error:
        if any(map(is_unknown, residuals.leaves([*lifted, *named.values()]))):
            raise ev.refuse("container", f"{name} with a value that differs from call to call") from error
        if any(map(is_unknown, residuals.leaves([target]))):
            raise ev.refuse("raises", f"{name} of values that differ from call to call") from error
        raise ev.raised(error) from error


def is_unknown(value: Any) -> bool:
    """Whether a value is one that only the script or the graph knows."""
    return is_symbolic(value) or isinstance(value, Residual | showing.Showing)
