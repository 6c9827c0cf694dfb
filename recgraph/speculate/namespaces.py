"""The `__dict__` of an object of the user's: its items are the object's attributes, by whichever name they are read."""

from __future__ import annotations

import ast
from typing import Any

from recgraph.speculate import attributes, containers
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.values import MISSING, StandIn


class ObjectDict(StandIn):
    """`vars(owner)`."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def contains(self, ev: Evaluator, name: Any, node: ast.AST) -> bool:
        """`name in vars(owner)`."""
        name = ev.concrete(name, node)
        key = ("attribute", id(self.owner), name)
        if key in ev.heap.shadow:
            return ev.heap.shadow[key] is not MISSING
        found, held = name in self.owner.__dict__, ev.heap.name_of(self.owner)
        if held is not None:
            ev.script.assume(f"({name!r} in {held}.__dict__) is {found}", ev.noted("presence", f".{name}", node))
        return found

    def item(self, ev: Evaluator, name: Any, node: ast.AST) -> Any:
        """`vars(owner)[name]`."""
        if not self.contains(ev, name, node):
            raise ev.raised(KeyError(ev.concrete(name, node)), node)
        return attributes.of_instance(ev, self.owner, ev.concrete(name, node), node)

    def set_item(self, ev: Evaluator, name: Any, value: Any, node: ast.AST) -> None:
        """`vars(owner)[name] = value`; `MISSING` deletes it."""
        if value is MISSING:
            self.item(ev, name, node)
        attributes.put_plainly(ev, self.owner, ev.concrete(name, node), value, node)

    def names(self, ev: Evaluator, node: ast.AST) -> list[str]:
        """Its keys, in order."""
        heap, held, now = ev.heap, ev.heap.name_of(self.owner), tuple(self.owner.__dict__)
        if held is None:
            return list(now)
        ev.script.assume(
            f"tuple({held}.__dict__) == {now!r}", ev.noted("keys", f"of a {type(self.owner).__name__}", node)
        )
        slots = {key[2]: v for key, v in heap.shadow.items() if key[:2] == ("attribute", id(self.owner))}
        gone = {name for name in slots if ("attribute", id(self.owner), name) in heap.deleted}
        kept = [name for name in now if name not in gone]
        return [*kept, *(name for name, value in slots.items() if name not in kept and value is not MISSING)]

    def as_dict(self, ev: Evaluator, node: ast.AST) -> dict[str, Any]:
        """A new dict with what it holds."""
        return {name: attributes.of_instance(ev, self.owner, name, node) for name in self.names(ev, node)}


class Method(StandIn):
    """A method of an `ObjectDict`."""

    def __init__(self, owner: ObjectDict, name: str) -> None:
        self.owner, self.name = owner, name

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Calls it."""
        owner, name = self.owner, self.name
        if name in ("keys", "values", "items", "copy"):
            return getattr(owner.as_dict(ev, node), name)(*arguments, **named)
        if name == "get" and arguments:
            found = owner.contains(ev, arguments[0], node)
            return owner.item(ev, arguments[0], node) if found else (arguments[1:] or [None])[0]
        if name == "setdefault" and len(arguments) == 2:
            if not owner.contains(ev, arguments[0], node):
                owner.set_item(ev, arguments[0], arguments[1], node)
            return owner.item(ev, arguments[0], node)
        if name == "update":
            for key, value in _updates(ev, arguments, named, node).items():
                owner.set_item(ev, key, value, node)
            return None
        if name == "pop" and arguments and (len(arguments) == 1 or owner.contains(ev, arguments[0], node)):
            value = owner.item(ev, arguments[0], node)
            owner.set_item(ev, arguments[0], MISSING, node)
            return value
        if name == "pop" and arguments:
            return arguments[1]
        raise ev.refuse("namespace", f"{name} of the attributes of an object", node)


def _updates(ev: Evaluator, arguments: list[Any], named: dict[str, Any], node: ast.AST) -> dict[str, Any]:
    given = [a.as_dict(ev, node) if isinstance(a, ObjectDict) else containers.opened(ev, a, node) for a in arguments]
    made: dict[str, Any] = {}
    for part in [*given, named]:
        made.update(part)
    return made
