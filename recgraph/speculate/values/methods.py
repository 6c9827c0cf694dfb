"""Methods of lists, dicts, sets and deques: of working copies, and of containers that the call has made."""

from __future__ import annotations

import collections
import operator
from typing import Any

from recgraph.cpython import messages
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import stand_ins
from recgraph.speculate.script.assumptions import NoException, SameDecision, SameType
from recgraph.speculate.script.stand_ins import MISSING, LateCall, MadeFunction, Residual, Showing, has_run, is_symbolic
from recgraph.speculate.values import lists, objects


class HeapMethod(MadeFunction):
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
        is_early = not isinstance(arguments[0], Residual) or is_varying(ev, owner, arguments[0]) if arguments else False
        if isinstance(owner, set) and name == "add" and is_varying(ev, owner, arguments[0]):
            later(ev, owner, set.add, [arguments[0]])
            return None
        if isinstance(owner, dict) and name == "get" and not named and is_early:
            found = ev.contains(owner, arguments[0])
            return ev.item(owner, arguments[0]) if found else (arguments[1:] or [None])[0]
        if name not in _READING:
            ev.need_sequence("a write to a container")
        target = ev.opened(owner)
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
        keys = [objects.check_key(ev, ev.concrete(a)) for a in arguments[:1]]
        return [*keys, *arguments[1:]], named
    return arguments, named


def _decided_members(ev: Evaluator, value: Any) -> Any:
    if isinstance(value, list | set | frozenset):
        return [_decided_members(ev, member) for member in ev.members(value)]
    if isinstance(value, dict):
        whole = ev.opened(value)
        return {key: ev.concrete(number) for key, number in whole.items()}
    return objects.check_key(ev, ev.concrete(value))


def applied(ev: Evaluator, target: Any, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Calls a method of a working copy, or of a container that the call has made."""
    if name in ("extend", "__iadd__") and isinstance(target, list):
        return target.extend(ev.pieces(arguments[0]))
    arguments, named = decided_arguments(ev, target, name, arguments, named)
    if has_run(target):
        return lists.applied(ev, target, name, arguments)
    if name == "sort":
        target[:] = ev.call(sorted, [list(target)], named)
        return None
    if name in METHODS and not isinstance(target, dict | set):
        return METHODS[name](ev, target, arguments)
    lifted = [ev.opened(a) for a in arguments]
    try:
        return getattr(target, name)(*lifted, **named)
    except Exception as error:
        if any(map(is_unknown, stand_ins.leaves([*lifted, *named.values()]))):
            raise ev.refuse(Feature.CONTAINER, f"{name} with a value that differs from call to call") from error
        if any(map(is_unknown, stand_ins.leaves([target]))):
            raise ev.refuse(Feature.RAISES, f"{name} of values that differ from call to call") from error
        raise ev.raised(error) from error


def is_unknown(value: Any) -> bool:
    """Whether a value is one that only the script or the graph knows."""
    return is_symbolic(value) or isinstance(value, Residual | Showing)


def _index(ev: Evaluator, target: Any, arguments: list[Any]) -> int:
    first, end = (ev.concrete(a) for a in [*arguments[1:], 0, len(target)][:2])
    for i in range(*slice(first, end).indices(len(target))):
        if objects.is_or_equals(ev, target[i], arguments[0]):
            return i
    raise ev.raised(messages.not_in_sequence(target, arguments[0]))


def _count(ev: Evaluator, target: Any, arguments: list[Any]) -> int:
    return sum(objects.is_or_equals(ev, member, arguments[0]) for member in list(target))


def _remove(ev: Evaluator, target: Any, arguments: list[Any]) -> None:
    for i, member in enumerate(list(target)):
        if objects.is_or_equals(ev, member, arguments[0]):
            del target[i]
            return
    raise ev.raised(messages.nothing_to_remove())


# What compares the members of a list with a value, one after the other.
METHODS = {"index": _index, "count": _count, "remove": _remove}


def is_varying(ev: Evaluator, container: Any, key: Any) -> bool:
    """Whether a key that differs from call to call is looked up by the script, in a container as it was before."""
    if type(container) not in (dict, set, list) or not isinstance(key, Residual) or key.late or key.tensor is not None:
        return False
    if not ev.heap.keys_may_vary:
        return False
    if ev.heap.name_of(container) is None or id(container) in ev.heap.opened or id(container) in ev.heap.appended:
        return False
    is_plain = isinstance(key.example, int | str | float)
    return is_plain and not any(slot[:2] == ("item", id(container)) for slot in ev.heap.shadow)


def _last_set(ev: Evaluator, container: Any, key: Residual) -> Any:
    """What the program has set under this very key, if it has set no other since."""
    last = ev.heap.sealed.get(id(container))
    return last[1] if last is not None and last[0] == key.name else MISSING


def contains(ev: Evaluator, container: Any, key: Residual) -> bool:
    """Whether a key is there: that it is, or is not, is assumed."""
    if _last_set(ev, container, key) is not MISSING:
        return True
    ev.heap.unsealed(container, ev.where())
    found = key.example in container
    condition = f"({key.name} in {ev.heap.name_of(container)}) is {found}"
    ev.script.assume(condition, ev.noted(SameDecision, f"a key {'is' if found else 'is not'} there"))
    return found


def read(ev: Evaluator, container: Any, key: Residual) -> Any:
    """The item of a dict under a key."""
    if (last := _last_set(ev, container, key)) is not MISSING:
        return last
    if not contains(ev, container, key):
        raise ev.refuse(Feature.RAISES, f"KeyError: {key.example!r}")
    seen, site = ev.seen()
    slot, name = ("key", id(container), key.name), f"{ev.heap.name_of(container)}[{key.name}]"
    what = f"an item of a {type(container).__name__}"
    return ev.heap.read(slot, name, container[key.example], what, seen, site, ev.where())


def set_item(ev: Evaluator, container: Any, key: Residual, value: Any) -> None:
    """After the graph, in order with what is printed; nobody may read the container in between."""
    name = ev.heap.name_of(container)
    if isinstance(container, list):
        what = ev.noted(NoException, "an index is in range")
        ev.script.assume(f"type({key.name}) is int and -len({name}) <= {key.name} < len({name})", what)
    later(ev, container, operator.setitem, [key, value])


def later(ev: Evaluator, container: Any, function: Any, arguments: list[Any]) -> None:
    """Calls a method that takes a key first after the graph."""
    ev.need_sequence("a write to a container")
    key = arguments[0]
    kind = f"type({key.name}) is {ev.script.constant(type(key.example))}"
    ev.script.assume(kind, ev.noted(SameType, f"a key that is a {type(key.example).__name__}"))
    ev.heap.sealed[id(container)] = (key.name, arguments[-1])
    ev.effects.append(LateCall(ev.script.name(), ev.script.constant(function), [container, *arguments], {}))
