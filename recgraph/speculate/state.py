"""What a piece of the program has changed, and how it is taken back.

A *slot* is a place that the program can assign: a local name, an attribute or item in the shadow, a member of a list
or dict made during the call.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import types
from collections.abc import Collection, Iterator
from typing import Any, TypeAlias

from recgraph.speculate import calls, known, merging
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.values import MISSING, Missing, Unsure, has_run

Slot: TypeAlias = tuple[int, Any]
WHOLE = object()  # in a slot: all members of a list or set


def name_of(what: str, node: ast.AST) -> str:
    """A local name of ours, which nothing else around has."""
    place = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    return f"<{what} of {type(node).__name__} in {place}>"


@contextlib.contextmanager
def held(ev: Evaluator, members: list[Any], node: Any) -> Iterator[list[Any]]:
    """A list of ours that branches and loops may change, too."""
    name, slots = name_of("list", node), ev.frame.locals
    slots[name] = members
    try:
        yield members
    finally:
        slots.pop(name, None)


class State:
    """All slots as they are at one moment."""

    def __init__(self, ev: Evaluator) -> None:
        self._ev = ev
        self._held: dict[int, tuple[Any, Any]] = {}
        self._effects, self._assertions = len(ev.effects), len(ev.assertions)
        self._reached = dict(ev.reached)
        self._opened = set(ev.heap.opened)
        self._moved: list[tuple[int, dict[Any, Any], Any, Any]] = []  # what went into a container that was opened
        self._script = ev.script.mark()
        self._heap = ev.heap.mark()
        self._names: set[int] = set()
        for frame in ev.frames:
            self._hold_frame(frame)
        heap = ev.heap
        for place in (heap.shadow, heap.opened, heap.appended, heap.deleted, heap.sealed):
            self._hold(place)

    def _hold_frame(self, frame: Any) -> None:
        while frame is not None:
            self._names.add(id(frame.locals))
            self._hold(frame.locals)
            frame = frame.outer

    def _hold(self, thing: Any) -> None:
        if id(thing) in self._held:
            return
        if isinstance(thing, list | dict | set | collections.deque):
            self._held[id(thing)] = (thing, thing.copy())
        elif isinstance(thing, calls.Closure):
            self._hold_frame(thing.frame)
        elif self._is_made(thing):
            self._held[id(thing)] = (thing, thing)
        for member in self._members(thing):
            self._hold(member)

    def _is_made(self, thing: Any) -> bool:
        """Whether a thing is an object of the user's that was made during the call."""
        is_users = known.is_users_type(type(thing)) and not isinstance(thing, type)
        return self._ev.heap.name_of(thing) is None and is_users and hasattr(thing, "__dict__")

    def _members(self, thing: Any) -> Iterator[Any]:
        if isinstance(thing, dict):
            yield from thing.values()
        elif isinstance(thing, list | tuple | collections.deque):
            yield from thing
        elif isinstance(thing, types.MethodType):
            yield thing.__self__
        elif self._is_made(thing):
            yield thing.__dict__

    def _adopt(self) -> None:
        """Containers that were opened meanwhile were so all the time: opening only reads."""
        opened = self._ev.heap.opened
        for identity in set(opened) - self._opened:
            self._opened.add(identity)
            self._held[id(opened[identity])] = (opened[identity], self._at_first(identity))
            self._copy_of(opened)[identity] = opened[identity]

    def _at_first(self, identity: int) -> Any:
        """What a container held, with what the program had set until then under single keys."""
        heap = self._ev.heap
        members = heap.originals[identity][1].copy()
        more = self._copy_of(heap.appended).pop(identity, None)
        if more is not None:
            members += self._copy_of(more)
            self._moved.append((identity, heap.appended, identity, more))
        written = self._copy_of(heap.shadow)
        for slot in [slot for slot in written if slot[:2] == ("item", identity)]:
            value = written.pop(slot)
            self._moved.append((identity, heap.shadow, slot, value))
            members.pop(slot[2], None) if value is MISSING else members.update({slot[2]: value})
        return members

    def _copy_of(self, thing: Any) -> Any:
        return self._held[id(thing)][1]

    def restore(self) -> None:
        """Makes everything as it was."""
        self._adopt()
        for thing, copy in self._held.values():
            if isinstance(thing, list):
                thing[:] = copy
            elif isinstance(thing, dict | set):
                thing.clear()
                thing.update(copy)
            elif isinstance(thing, collections.deque):
                thing.clear()
                thing.extend(copy)
        del self._ev.assertions[self._assertions :]
        del self._ev.effects[self._effects :]
        self._ev.reached = dict(self._reached)

    def undo(self) -> None:
        """Restores, and takes back what was read and assumed."""
        self.restore()
        opened = self._ev.heap.opened
        self._ev.heap.reset(self._heap)
        closed = set(opened) - set(self._ev.heap.originals)
        for identity in closed:
            del opened[identity]
        for identity, place, key, value in self._moved:
            if identity in closed:  # what was written before it was opened is by itself again
                place[key] = value
        self._ev.script.reset(self._script)

    def changes(self) -> dict[Slot, Any]:
        """The slots that have another value now."""
        self._adopt()
        if any(place is self._ev.heap.appended for _, place, _, _ in self._moved):
            raise self._ev.refuse("merge", "a list that grew before is read or cut as a tensor decides")
        if len(self._ev.effects) != self._effects:
            raise self._ev.refuse("effect in branch", "something is printed, or a late value made, as a tensor decides")
        found: dict[Slot, Any] = {}
        for key, (thing, copy) in self._held.items():
            if isinstance(thing, collections.deque):
                if len(thing) != len(copy) or any(a is not b for a, b in zip(thing, copy, strict=True)):
                    raise self._ev.refuse("merge", "a deque changes as a tensor decides")
            elif isinstance(thing, set):
                found.update({(key, WHOLE): set(thing)} if thing != copy else {})
            elif isinstance(thing, list) and (len(thing) != len(copy) or has_run([*copy, *thing])):
                if len(thing) != len(copy) or any(a is not b for a, b in zip(thing, copy, strict=True)):
                    found[key, WHOLE] = list(thing)
            elif isinstance(thing, list):
                found.update({(key, i): v for i, v in enumerate(thing) if v is not copy[i]})
            elif isinstance(thing, dict):
                names = [n for n in {**copy, **thing} if thing.get(n, MISSING) is not copy.get(n, MISSING)]
                found.update({(key, n): thing.get(n, MISSING) for n in names})
        return found

    def get(self, slot: Slot) -> Any:
        """What is in a slot now."""
        thing = self._held[slot[0]][0]
        if slot[1] is WHOLE:
            return thing.copy()
        if isinstance(thing, list):
            return thing[slot[1]]
        heap = self._ev.heap
        absent: Any = heap.previous.get(slot[1], MISSING) if thing is heap.shadow else MISSING
        return thing.get(slot[1], [] if thing is heap.appended else absent)

    def lists(self, changes: Collection[Slot]) -> dict[Slot, Any]:
        """The lists of which single members have changed, as a whole: on another way they may grow."""
        keys = {key for key, place in changes if isinstance(self._held[key][0], list) and place is not WHOLE}
        return {(key, WHOLE): list(self._held[key][0]) for key in keys}

    def is_name(self, slot: Slot) -> bool:
        """Whether a slot is a local name."""
        return slot[0] in self._names

    def merged(self, slot: Slot, one: Any, other: Any) -> Any:
        """The template for both values of a slot. Only a local name may have none on one way."""
        if one is other or not any(isinstance(value, Missing | Unsure) for value in (one, other)):
            return merging.template(self._ev, one, other)
        if slot[0] not in self._names:
            raise self._ev.refuse("merge", "what is there on one way only meets after a branch or round")
        return merging.Maybe.of(self._ev, one, other)

    def set(self, slot: Slot, value: Any) -> None:
        """Puts a value into a slot."""
        thing = self._held[slot[0]][0]
        if slot[1] is WHOLE and isinstance(thing, list):
            thing[:] = value
        elif slot[1] is WHOLE:
            thing.clear()
            thing.update(value)
        elif isinstance(value, Missing) and isinstance(thing, dict) and thing is not self._ev.heap.shadow:
            thing.pop(slot[1], None)
        else:
            thing[slot[1]] = value
