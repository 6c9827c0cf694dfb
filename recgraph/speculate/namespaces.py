"""The `__dict__` of an object of the user's: its items are the object's attributes, by whichever name they are read."""

from __future__ import annotations

from typing import Any

from recgraph.speculate import attributes, containers
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.values import MISSING, StandIn


class ObjectDict(StandIn):
    """`vars(owner)`."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def contains(self, ev: Evaluator, name: Any) -> bool:
        """`name in vars(owner)`."""
        name = ev.concrete(name)
        key = ("attribute", id(self.owner), name)
        if key in ev.heap.shadow:
            return ev.heap.shadow[key] is not MISSING
        found, held = name in self.owner.__dict__, ev.heap.name_of(self.owner)
        if held is not None:
            ev.script.assume(f"({name!r} in {held}.__dict__) is {found}", ev.noted("presence", f".{name}"))
        return found

    def item(self, ev: Evaluator, name: Any) -> Any:
        """`vars(owner)[name]`."""
        if not self.contains(ev, name):
            raise ev.raised(KeyError(ev.concrete(name)))
        return attributes.of_instance(ev, self.owner, ev.concrete(name))

    def set_item(self, ev: Evaluator, name: Any, value: Any) -> None:
        """`vars(owner)[name] = value`; `MISSING` deletes it."""
        if value is MISSING:
            self.item(ev, name)
        attributes.put_plainly(ev, self.owner, ev.concrete(name), value)

    def names(self, ev: Evaluator) -> list[str]:
        """Its keys, in order."""
        heap, held, now = ev.heap, ev.heap.name_of(self.owner), tuple(self.owner.__dict__)
        if held is None:
            return list(now)
        ev.script.assume(f"tuple({held}.__dict__) == {now!r}", ev.noted("keys", f"of a {type(self.owner).__name__}"))
        slots = {key[2]: v for key, v in heap.shadow.items() if key[:2] == ("attribute", id(self.owner))}
        gone = {name for name in slots if ("attribute", id(self.owner), name) in heap.deleted}
        kept = [name for name in now if name not in gone]
        return [*kept, *(name for name, value in slots.items() if name not in kept and value is not MISSING)]

    def as_dict(self, ev: Evaluator) -> dict[str, Any]:
        """A new dict with what it holds."""
        return {name: attributes.of_instance(ev, self.owner, name) for name in self.names(ev)}


class Method(StandIn):
    """A method of an `ObjectDict`."""

    def __init__(self, owner: ObjectDict, name: str) -> None:
        self.owner, self.name = owner, name

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Calls it."""
        owner, name = self.owner, self.name
        if name in ("keys", "values", "items", "copy"):
            return getattr(owner.as_dict(ev), name)(*arguments, **named)
        if name == "get" and arguments:
            found = owner.contains(ev, arguments[0])
            return owner.item(ev, arguments[0]) if found else (arguments[1:] or [None])[0]
        if name == "setdefault" and len(arguments) == 2:
            if not owner.contains(ev, arguments[0]):
                owner.set_item(ev, arguments[0], arguments[1])
            return owner.item(ev, arguments[0])
        if name == "update":
            for key, value in _updates(ev, arguments, named).items():
                owner.set_item(ev, key, value)
            return None
        if name == "pop" and arguments and (len(arguments) == 1 or owner.contains(ev, arguments[0])):
            value = owner.item(ev, arguments[0])
            owner.set_item(ev, arguments[0], MISSING)
            return value
        if name == "pop" and arguments:
            return arguments[1]
        raise ev.refuse("namespace", f"{name} of the attributes of an object")


def _updates(ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    given = [a.as_dict(ev) if isinstance(a, ObjectDict) else containers.opened(ev, a) for a in arguments]
    made: dict[str, Any] = {}
    for part in [*given, named]:
        made.update(part)
    return made
