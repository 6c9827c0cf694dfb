"""What a piece of the program has changed, and how it is taken back.

A *slot* is a place that the program can assign: a local name, an attribute or item in the shadow, a member of a list
or dict made during the call.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import functools
import gc
import types
from collections.abc import Callable, Collection, Iterable, Iterator, MappingView
from typing import Any, TypeAlias, TypeVar

from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import keras_state, known
from recgraph.speculate.observe.profile import same
from recgraph.speculate.observe.reasons import Feature, Inconvertible, ProgramException
from recgraph.speculate.script.symbolic import (
    MISSING,
    DynamicValue,
    Generator,
    Iteration,
    IterationSpace,
    MadeFunction,
    MaybeUnbound,
    Missing,
    has_run,
)
from recgraph.speculate.values import arrays, merging
from recgraph.speculate.values.merging import OptionalSpec, TreeSpec

T = TypeVar("T")
Slot: TypeAlias = tuple[int, Any]
WHOLE = object()  # in a slot: all members of a list or set
# Local names of ours: how a scope was left, as a number, and the result of a function that was left so.
RESULT_WAY, RESULT = "<way>", "<result>"
RETURNS = 3


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


class _OpenedLate(Inconvertible):
    """A container was opened after a `State` was made, and single members of it had been changed, or are elsewhere."""

    def __init__(self, where: str) -> None:
        super().__init__(
            Feature.MERGE, "a container is read as a whole on one way, and was changed before or on another", where
        )


def attempt(ev: Evaluator, piece: Callable[[ProgramState], T]) -> T:
    """What a piece of the conversion gives, which gets the state before it.

    Raises:
        Inconvertible: of the piece. Everything is as it was before it.
    """
    first = before = ProgramState(ev)
    while True:
        try:
            return piece(before)
        except _OpenedLate as late:
            before.put_back()
            before.forget_ways()
            for container, _ in list(ev.heap.originals.values()):
                ev.heap.open(container, late.where)
            before = ProgramState(ev)
        except (Inconvertible, ProgramException):
            first.undo()
            raise


def _is_as(thing: Any, copy: Any) -> bool:
    """Whether a list or dictionary holds the same objects as its copy."""
    if not isinstance(thing, list | dict) or len(thing) != len(copy):
        return False
    pairs = zip(thing, copy, strict=True)
    values = zip(thing.values(), copy.values(), strict=True) if isinstance(thing, dict) else ()
    return all(a is b for a, b in (*pairs, *values))


def _is_changed(thing: Any, copy: Any) -> bool:
    """Whether a container, or an array of the graph, is another than its copy."""
    if isinstance(thing, DynamicValue):
        return thing.name != copy["name"]
    if isinstance(thing, set):
        return not are_same(thing, copy)
    if isinstance(thing, collections.deque):
        return len(thing) != len(copy) or any(a is not b for a, b in zip(thing, copy, strict=True))
    return not _is_as(thing, copy)


def _copied(container: Any) -> Any:
    """What is in a container now; of a set with its order."""
    return list(container) if isinstance(container, set) else container.copy()


def are_same(table: Any, copy: list[Any]) -> bool:
    """Whether a set has the members that it had, in their order, and as they were: 1 and True are equal."""
    return same(tuple(table), tuple(copy)) or list(map(id, table)) == list(map(id, copy))


# Objects of Python's own that may hold a list, dict or array of the program's.
_REFERRING = (Iterator, MappingView, functools.partial, types.BuiltinMethodType)


def is_array(value: Any) -> bool:
    """Whether a value is an array of the graph, which the program may change in place."""
    return isinstance(value, DynamicValue) and value.is_array


def _is_later_array(value: Any) -> bool:
    """Whether a value is an array of the graph or the script: once it is changed, another is in its place."""
    return is_array(value) or arrays.is_early(value)


def _changes(value: Any) -> bool:
    """Whether the program can change a value in place, or one that a tuple holds."""
    if isinstance(value, tuple):
        return any(map(_changes, value))
    return isinstance(value, list | dict) or is_array(value)


def _within(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()


def _holds_twice(value: Any) -> bool:
    """Whether a list, dict or array is in a value in two places."""
    seen: set[int] = set()
    waiting = [*_within(value)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list | dict) or is_array(one):
            if id(one) in seen:
                return True
            seen.add(id(one))
        waiting.extend(_within(one))
    return False


class References:
    """How many names, attributes and members refer to each list, dict, tuple and array."""

    def __init__(self) -> None:
        self._counts: collections.Counter[int] = collections.Counter()
        self._visited: dict[int, Any] = {}  # which keeps things, so that their ids stay their own

    def add(self, container: Any) -> None:
        """One more refers to it."""
        self._counts[id(container)] += 1

    def is_new(self, thing: Any) -> bool:
        """Whether this is the first question about a thing."""
        if id(thing) in self._visited:
            return False
        self._visited[id(thing)] = thing
        return True

    def are_several(self, value: Any, most: int = 1) -> bool:
        """Whether more than so many refer to a list, dict or array, or to one in it."""
        if self._counts[id(value)] > most and _changes(value):
            return True
        if not isinstance(value, list | dict | tuple):
            return False
        if most == 0 and _holds_twice(value):  # what nobody holds yet has not been counted
            return True
        return any(self.are_several(one, most) for one in _within(value))


class ProgramState:
    """All slots as they are at one moment."""

    def __init__(self, ev: Evaluator) -> None:
        self._ev = ev
        self._held: dict[int, tuple[Any, Any]] = {}
        self._effects, self._assertions = len(ev.effects), len(ev.assertions)
        self._reached, self._replaced, self._replaced_in = dict(ev.reached), dict(ev.replaced), len(ev.replaced_in)
        self._opened = set(ev.heap.opened)
        self._script = ev.script.mark()
        self._heap = ev.heap.mark()
        self._arrays = arrays.Contents(ev)
        self._names: set[int] = set()
        for frame in ev.frames:
            self._hold_frame(frame)
        heap = ev.heap
        for place in (heap.shadow, heap.opened, heap.appended, heap.deleted, heap.sealed, heap.set_calls):
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
            self._held[id(thing)] = (thing, _copied(thing))
        elif isinstance(thing, MadeFunction):
            self._hold_frame(thing.frame)
        elif self._is_made(thing):
            self._held[id(thing)] = (thing, thing)
        elif _is_later_array(thing):
            self._held[id(thing)] = (thing, vars(thing).copy())
        for member in self._members(thing):
            self._hold(member)

    def _is_made(self, thing: Any) -> bool:
        """Whether a thing is an object of the user's that was made during the call."""
        is_users = known.is_users_type(type(thing)) and not isinstance(thing, type)
        if keras_state.has_state(thing):  # Keras's are made where no tensor decides: there is nothing to put back
            return False
        return self._ev.heap.name_of(thing) is None and is_users and hasattr(thing, "__dict__")

    def _members(self, thing: Any) -> Iterator[Any]:
        if isinstance(thing, dict):
            yield from thing.values()
        elif isinstance(thing, list | tuple | collections.deque):
            yield from thing
        elif isinstance(thing, types.MethodType):
            yield thing.__self__
        elif isinstance(thing, MadeFunction):
            yield from getattr(thing, "defaults", ())
            yield from getattr(thing, "named_defaults", ())
        elif isinstance(thing, functools.partial):
            yield from (thing.func, *thing.args, *thing.keywords.values())
        elif isinstance(thing, BaseException):
            yield from thing.args
        elif self._is_made(thing):
            yield thing.__dict__

    def _adopt(self) -> None:
        """Containers that were opened meanwhile were so all the time: opening only reads.

        Raises:
            Inconvertible: one had single members written before: it has to be opened before we are made.
        """
        heap = self._ev.heap
        for identity in set(heap.opened) - self._opened:
            written = self._copy_of(heap.shadow)
            if identity in self._copy_of(heap.appended) or any(slot[:2] == ("item", identity) for slot in written):
                raise _OpenedLate(self._ev.where())
            self._opened.add(identity)
            self._held[id(heap.opened[identity])] = heap.opened[identity], _copied(heap.originals[identity][1])
            self._copy_of(heap.opened)[identity] = heap.opened[identity]

    def check_opened(self, slots: Iterable[Slot]) -> None:
        """Checks that no container has single members changed on one way, and was opened on another.

        Raises:
            Inconvertible: one has: it has to be opened before we are made.
        """
        heap = self._ev.heap
        for key, place in slots:
            thing = self._held[key][0]
            is_single = thing is heap.appended or (thing is heap.shadow and place[0] == "item")
            if is_single and (place if thing is heap.appended else place[1]) in heap.opened:
                raise _OpenedLate(self._ev.where())

    def _copy_of(self, thing: Any) -> Any:
        return self._held[id(thing)][1]

    def restore(self) -> None:
        """Makes everything as it was; what was read and assumed stays so."""
        self._adopt()
        self.put_back()

    def put_back(self) -> None:
        """Restores; containers that were opened since are closed."""
        for thing, copy in self._held.values():
            if not isinstance(thing, DynamicValue) and not _is_changed(thing, copy):
                continue
            if isinstance(thing, list):
                thing[:] = copy
            elif isinstance(thing, dict | set):
                thing.clear()
                thing.update(copy)
            elif isinstance(thing, collections.deque):
                thing.clear()
                thing.extend(copy)
            elif isinstance(thing, DynamicValue):
                vars(thing).update(copy)
        self._arrays.put_back()
        del self._ev.assertions[self._assertions :]
        del self._ev.effects[self._effects :]
        self._ev.reached, self._ev.replaced = dict(self._reached), dict(self._replaced)

    def forget_ways(self) -> None:
        """What happened on ways since is not to happen: they are converted anew, or are not taken."""
        del self._ev.replaced_in[self._replaced_in :]

    def undo(self) -> None:
        """Restores, and takes back what was read and assumed."""
        self.put_back()
        self.forget_ways()
        opened = self._ev.heap.opened
        self._ev.heap.reset(self._heap)
        for identity in set(opened) - set(self._ev.heap.originals):
            del opened[identity]
        self._ev.script.reset(self._script)

    def is_changed(self) -> bool:
        """Whether something has another value now."""
        self._adopt()
        return self._arrays.are_changed() or any(_is_changed(*pair) for pair in self._held.values())

    def changes(self) -> dict[Slot, Any]:
        """The slots that have another value now."""
        self._adopt()
        if len(self._ev.effects) != self._effects:
            raise self._ev.refuse(
                Feature.EFFECT_IN_BRANCH, "something is printed, or a late value made, as a tensor decides"
            )
        if self._arrays.are_changed():
            raise self._array_changed()
        found: dict[Slot, Any] = {}
        for key, (thing, copy) in self._held.items():
            if isinstance(thing, list) and _is_changed(thing, copy):
                self._ev.twins.check(thing)
            if isinstance(thing, collections.deque):
                if _is_changed(thing, copy):
                    raise self._ev.refuse(Feature.MERGE, "a deque is modified inside a tensor-dependent branch")
            elif isinstance(thing, DynamicValue) and _is_changed(thing, copy):
                raise self._array_changed()
            elif isinstance(thing, set):
                found.update({} if are_same(thing, copy) else {(key, WHOLE): set(thing)})
            elif isinstance(thing, list) and (len(thing) != len(copy) or has_run([*copy, *thing])):
                if len(thing) != len(copy) or any(a is not b for a, b in zip(thing, copy, strict=True)):
                    found[key, WHOLE] = list(thing)
            elif isinstance(thing, list):
                found.update({(key, i): v for i, v in enumerate(thing) if v is not copy[i]})
            elif isinstance(thing, dict):
                self._check_order(thing, copy)
                names = [n for n in {**copy, **thing} if thing.get(n, MISSING) is not copy.get(n, MISSING)]
                found.update({(key, n): thing.get(n, MISSING) for n in names})
        return found

    def _check_order(self, thing: dict[Any, Any], copy: dict[Any, Any]) -> None:
        """Checks that keys which were in a dict, or names in an object, are where they were, before those that are new.

        Raises:
            Inconvertible: one has another place now.
        """
        if id(thing) in self._names:
            return
        before, now = self._orders(thing, copy), self._orders(thing, thing)
        for owner, keys in now.items():
            kept = [key for key in before.get(owner, ()) if key[0] in thing]
            if keys[: len(kept)] != kept:
                raise merging.another_order(self._ev)

    def _orders(self, thing: dict[Any, Any], keys: Iterable[Any]) -> dict[Any, list[tuple[Any, type]]]:
        """Keys of a dict, with their types: 1 and True are one. Those of `Heap.shadow` by the object they belong to."""
        found: dict[Any, list[tuple[Any, type]]] = {}
        for key in keys:
            owner = key[:2] if thing is self._ev.heap.shadow else None
            found.setdefault(owner, []).append((key, type(key)))
        return found

    def new_keys(self, changes: Iterable[Slot]) -> dict[Any, list[tuple[Any, type]]]:
        """The keys and names that were not there, in their order, by the dict or object to which they were added."""
        added: dict[int, list[Any]] = {}
        for key, place in changes:
            thing = self._held[key][0]
            if key not in self._names and isinstance(thing, dict) and isinstance(self.get((key, place)), Missing):
                added.setdefault(key, []).append(place)
        every = ((key, self._orders(self._held[key][0], keys)) for key, keys in added.items())
        return {(key, owner): names for key, orders in every for owner, names in orders.items()}

    def _array_changed(self) -> Inconvertible:
        return self._ev.refuse(Feature.MERGE, "an array is modified inside a tensor-dependent branch or loop")

    def references(self) -> References:
        """Who refers to which list, dict, tuple or array now."""
        found = References()
        for frame in self._ev.frames:
            self._note_frame(frame, found)
        for place in (self._ev.heap.shadow, self._ev.heap.opened, self._ev.heap.appended):
            self._note_members(place, found)
        return found

    def _note_frame(self, frame: Any, found: References) -> None:
        while frame is not None and found.is_new(frame.locals):
            is_left = frame.locals.get(RESULT_WAY) == RETURNS  # its names are not read any more
            names = (RESULT,) if is_left else frame.locals.keys()
            for name in list(names):
                self._note(frame.locals[name], found)
            frame = frame.outer

    def _note(self, thing: Any, found: References) -> None:
        if isinstance(thing, list | dict | tuple) or is_array(thing):
            found.add(thing)
        if isinstance(thing, MadeFunction | Generator):
            self._note_frame(thing.frame, found)
            if found.is_new(thing):
                self._note_members(thing, found)
        elif isinstance(thing, MaybeUnbound):
            self._note(thing.value, found)
        elif isinstance(thing, Iteration):
            members = thing.members
            for member in (
                [source for source, _ in members.sources] if isinstance(members, IterationSpace) else [members]
            ):
                self._note(member, found)
        elif found.is_new(thing):
            self._note_members(thing, found)
            for member in gc.get_referents(thing) if isinstance(thing, _REFERRING) else ():
                if isinstance(member, (list, dict, tuple, Iteration, *_REFERRING)) or is_array(member):
                    self._note(member, found)

    def _note_members(self, thing: Any, found: References) -> None:
        for member in list(self._members(thing)):
            self._note(member, found)

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

    def holder(self, key: int) -> Any:
        """What has the slots with a key."""
        return self._held[key][0]

    def has(self, slot: Slot) -> bool:
        """Whether there is such a slot."""
        key, place = slot
        if key not in self._held:
            return False
        thing = self._held[key][0]
        return place is WHOLE or isinstance(thing, dict) or (isinstance(thing, list) and place < len(thing))

    def lists(self, changes: Collection[Slot]) -> dict[Slot, Any]:
        """The lists of which single members have changed, as a whole: on another way they may grow."""
        keys = {key for key, place in changes if isinstance(self._held[key][0], list) and place is not WHOLE}
        return {(key, WHOLE): list(self._held[key][0]) for key in keys}

    def is_name(self, slot: Slot) -> bool:
        """Whether a slot is a local name."""
        return slot[0] in self._names

    def merged(self, slot: Slot, one: Any, other: Any) -> TreeSpec:
        """The template for both values of a slot. Only a local name may have none on one way."""
        if one is other or not any(isinstance(value, Missing | MaybeUnbound) for value in (one, other)):
            return merging.template(self._ev, one, other)
        if slot[0] not in self._names:
            raise self._ev.refuse(Feature.MERGE, "an attribute or item exists after one of the two branches only")
        return OptionalSpec.of(self._ev, one, other)

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
