"""Keys that differ from call to call: the script looks them up in what was there before the call."""

from __future__ import annotations

import operator
from typing import Any

from recgraph.speculate import calls
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.values import MISSING, Residual


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
    ev.script.assume(condition, ev.noted("decision", f"a key {'is' if found else 'is not'} there"))
    return found


def read(ev: Evaluator, container: Any, key: Residual) -> Any:
    """The item of a dict under a key."""
    if (last := _last_set(ev, container, key)) is not MISSING:
        return last
    if not contains(ev, container, key):
        raise ev.refuse("raises", f"KeyError: {key.example!r}")
    seen, site = ev.seen()
    slot, name = ("key", id(container), key.name), f"{ev.heap.name_of(container)}[{key.name}]"
    what = f"an item of a {type(container).__name__}"
    return ev.heap.read(slot, name, container[key.example], what, seen, site, ev.where())


def set_item(ev: Evaluator, container: Any, key: Residual, value: Any) -> None:
    """After the graph, in order with what is printed; nobody may read the container in between."""
    name = ev.heap.name_of(container)
    if isinstance(container, list):
        what = ev.noted("raises", "an index is in range")
        ev.script.assume(f"type({key.name}) is int and -len({name}) <= {key.name} < len({name})", what)
    later(ev, container, operator.setitem, [key, value])


def later(ev: Evaluator, container: Any, function: Any, arguments: list[Any]) -> None:
    """Calls a method that takes a key first after the graph."""
    ev.need_sequence("a write to a container")
    key = arguments[0]
    kind = f"type({key.name}) is {ev.script.constant(type(key.example))}"
    ev.script.assume(kind, ev.noted("type", f"a key that is a {type(key.example).__name__}"))
    ev.heap.sealed[id(container)] = (key.name, arguments[-1])
    ev.effects.append(calls.LateCall(ev.script.name(), ev.script.constant(function), [container, *arguments], {}))
