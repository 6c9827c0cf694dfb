"""What the script looks up in containers that were there before the call, as they were then: items under keys and at
places that differ from call to call, and parts of sequences, of which nothing else need be known.
"""

from __future__ import annotations

import collections
import operator
from typing import Any, Final

import numpy as np

from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.assumptions import NoException, SameDecision, SameLength, SameType
from recgraph.speculate.script.symbolic import MISSING, DynamicValue, LateCall

_PLAIN: Final = (int, float, str, bytes, bool, type(None))


def is_varying(ev: Evaluator, container: Any, key: Any) -> bool:
    """Whether a key that differs from call to call is looked up by the script, in a container as it was before."""
    if (
        type(container) not in (dict, set, list)
        or not isinstance(key, DynamicValue)
        or key.late
        or key.tensor is not None
    ):
        return False
    if not ev.heap.keys_may_vary:
        return False
    if ev.heap.name_of(container) is None or id(container) in ev.heap.opened or id(container) in ev.heap.appended:
        return False
    is_plain = isinstance(key.example, int | str | float)
    return is_plain and not any(slot[:2] == ("item", id(container)) for slot in ev.heap.shadow)


def _last_set(ev: Evaluator, container: Any, key: DynamicValue) -> Any:
    """What the program has set under this very key, if it has set no other since."""
    last = ev.heap.sealed.get(id(container))
    return last[1] if last is not None and last[0] == key.name else MISSING


def has_varying(ev: Evaluator, container: Any, key: DynamicValue) -> bool:
    """Whether a key is there: that it is, or is not, is assumed."""
    if _last_set(ev, container, key) is not MISSING:
        return True
    ev.heap.unsealed(container, ev.where())
    found = key.example in container
    condition = f"({key.name} in {ev.heap.name_of(container)}) is {found}"
    ev.script.assume(condition, ev.noted(SameDecision, f"a key {'is' if found else 'is not'} there"))
    return found


def read_varying(ev: Evaluator, container: Any, key: DynamicValue) -> Any:
    """The item of a dict under a key."""
    if (last := _last_set(ev, container, key)) is not MISSING:
        return last
    if not has_varying(ev, container, key):
        raise ev.refuse(Feature.RAISES, f"KeyError: {key.example!r}")
    seen, site = ev.seen()
    slot, name = ("key", id(container), key.name), f"{ev.heap.name_of(container)}[{key.name}]"
    what = f"an item of a {type(container).__name__}"
    return ev.heap.read(slot, name, container[key.example], what, seen, site, ev.where())


def is_place_varying(ev: Evaluator, sequence: Any, index: Any) -> bool:
    """Whether an index that differs from call to call is looked up by the script, in a sequence as it was before."""
    if not isinstance(index, DynamicValue) or index.late or index.tensor is not None or type(index.example) is bool:
        return False
    if type(sequence) not in (list, tuple, collections.deque) or not isinstance(index.example, int | np.integer):
        return False
    if ev.heap.name_of(sequence) is None or id(sequence) in ev.heap.appended or ev.heap.is_changed(sequence):
        return False
    return not any(slot[:2] == ("item", id(sequence)) for slot in ev.heap.shadow)


def read_place(ev: Evaluator, sequence: Any, index: DynamicValue) -> Any:
    """The member of a sequence at a place that the script knows."""
    ev.heap.unsealed(sequence, ev.where())
    name = ev.heap.name_of(sequence)
    if not -len(sequence) <= index.example < len(sequence):
        raise ev.refuse(Feature.RAISES, f"IndexError: {index.example!r}")
    inside = f"-len({name}) <= {index.name} < len({name})"
    ev.script.assume(inside, ev.noted(NoException, "an index is in range"))
    seen, site = ev.seen()
    slot, what = ("place", id(sequence), index.name), f"a member of a {type(sequence).__name__}"
    member = sequence[index.example]
    if type(member) is tuple:  # two places may have one tuple in this call; nobody can tell that from two equal ones
        member = (*member,)
    return ev.heap.read(slot, f"{name}[{index.name}]", member, what, seen, site, ev.where())


def is_part(ev: Evaluator, sequence: Any, index: Any) -> bool:
    """Whether a part is taken of a list or tuple that was there before and is as it was."""
    if type(sequence) not in (list, tuple) or type(index) is not slice or not all(map(_is_bound, _bounds(index))):
        return False
    if index.step is not None and (type(index.step) is not int or not index.step):
        return False
    if ev.heap.name_of(sequence) is None or id(sequence) in ev.heap.opened or id(sequence) in ev.heap.appended:
        return False
    is_known = not any(isinstance(bound, DynamicValue) for bound in _bounds(index))
    is_plain = is_known or are_plain(sequence[slice(*map(symbolic.example_of, _bounds(index)))])
    return is_plain and not any(slot[:2] == ("item", id(sequence)) for slot in ev.heap.shadow)


def read_part(ev: Evaluator, sequence: Any, index: slice) -> Any:
    """Its members, where it is known which; else plain data that the script has."""
    ev.heap.unsealed(sequence, ev.where())
    name, bounds = ev.heap.name_of(sequence), _bounds(index)
    if not any(isinstance(bound, DynamicValue) for bound in bounds):
        same = ev.noted(SameLength, f"length of a {type(sequence).__name__}")
        ev.script.assume(f"len({name}) == {len(sequence)}", same)
        return type(sequence)(ev.heap.members_at(sequence, range(len(sequence))[index], ev.where()))
    part, example = ev.script.name(), sequence[slice(*map(symbolic.example_of, bounds))]
    code = ":".join("" if bound is None else ev.code(bound) for bound in bounds)
    ev.script.compute(part, f"{name}[{code}]", ev.noted(NoException, f"a part of a {type(sequence).__name__}"))
    ev.script.scope["are_plain"] = are_plain
    ev.script.assume(f"are_plain({part})", ev.noted(SameType, "numbers and strings"))
    return DynamicValue(part, example)


def _bounds(index: slice) -> tuple[Any, Any, Any]:
    return index.start, index.stop, index.step


def _is_bound(bound: Any) -> bool:
    """Whether a bound of a slice is known before the graph."""
    if isinstance(bound, DynamicValue):
        return not bound.late and bound.tensor is None and type(bound.example) is int
    return bound is None or type(bound) is int


def are_plain(members: Any) -> bool:
    """Whether all are numbers, strings or `None`."""
    return all(type(member) in _PLAIN for member in members)


def set_varying(ev: Evaluator, container: Any, key: DynamicValue, value: Any) -> None:
    """After the graph, in order with what is printed; nobody may read the container in between."""
    name = ev.heap.name_of(container)
    if isinstance(container, list):
        what = ev.noted(NoException, "an index is in range")
        ev.script.assume(f"type({key.name}) is int and -len({name}) <= {key.name} < len({name})", what)
    set_later(ev, container, operator.setitem, [key, value])


def set_later(ev: Evaluator, container: Any, function: Any, arguments: list[Any]) -> None:
    """Calls a method that takes a key first after the graph."""
    ev.need_sequence("a write to a container")
    key = arguments[0]
    kind = f"type({key.name}) is {ev.script.constant(type(key.example))}"
    ev.script.assume(kind, ev.noted(SameType, f"a key that is a {type(key.example).__name__}"))
    ev.heap.sealed[id(container)] = (key.name, arguments[-1])
    ev.effects.append(LateCall(ev.script.name(), ev.script.constant(function), [container, *arguments], {}))
