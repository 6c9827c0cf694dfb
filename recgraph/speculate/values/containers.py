"""Lists, tuples, dicts and sets: those made during the call are real, those that were there before are the heap's.

A method of one that was there before is called on its working copy.
"""

from __future__ import annotations

import collections
import enum
import operator
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.cpython import messages
from recgraph.speculate.machine.evaluator import UNROLL, Evaluator
from recgraph.speculate.observe import known
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.assumptions import SameDecision, SameKeys, SameLength, SamePath
from recgraph.speculate.script.contexts import CalledBack, LoopRound
from recgraph.speculate.script.heap import check_plain, item_of, like
from recgraph.speculate.script.symbolic import (
    COLLECTIONS,
    CONTAINERS,
    DICTS,
    MISSING,
    MUTABLE,
    DynamicValue,
    IterationSpace,
    ListSegment,
    OwnersMethod,
    SymbolicValue,
    has_run,
    how_many,
    is_of_graph,
    is_symbolic,
    is_tensor_like,
    is_unknown,
    rebuilt,
)
from recgraph.speculate.values import arrays, attributes, dynamic, iterators, lists, lookups, objects, state, texts
from recgraph.speculate.values.attributes import Attributes

_NATURAL = {bool: tf.bool, int: tf.int64, float: tf.float64}


class ConcreteValue(Attributes):
    """What Python has: an object, module, function, number, string or container that is known while we convert."""

    name = "an object"

    @classmethod
    def takes(cls, value: Any) -> bool:
        """Whatever no other kind takes. A symbolic value has a kind of its own."""
        return not isinstance(value, SymbolicValue)

    def type(self) -> type:
        """Its class."""
        return type(self.it)

    def truth(self) -> Any:
        """By `__bool__` or `__len__`; of a container that was there before it is assumed to stay empty or not."""
        ev, value = self.ev, self.it
        if (members := ev.with_runs(value)) is not None:
            return how_many(members) > 0 if all(isinstance(m, ListSegment) for m in members) else True
        name = ev.heap.name_of(value)
        if isinstance(value, COLLECTIONS) and name is not None and not self._says_its_truth():
            ev.heap.unsealed(value, ev.where())
            if id(value) in ev.heap.opened:
                return bool(ev.heap.opened[id(value)])
            if ev.heap.appended.get(id(value)):
                return True
            ev.script.assume(f"bool({name}) is {bool(value)}", ev.noted(SameDecision, "emptiness"))
            return bool(value)
        for name in ("__bool__", "__len__"):
            method = ev.of_class(type(value), name)
            if isinstance(method, types.FunctionType):
                return ev.truth(objects.of_special(ev, name, value))
        return bool(value)

    def _says_its_truth(self) -> bool:
        """Whether its class, a container's perhaps, has a method of the program's for it."""
        found = [self.ev.of_class(type(self.it), name) for name in ("__bool__", "__len__")]
        return any(isinstance(method, types.FunctionType) for method in found)

    def get(self, name: str) -> Any:
        """Of a container that was there before, a method of its working copy."""
        ev, owner = self.ev, self.it
        if not isinstance(owner, COLLECTIONS) or ev.heap.name_of(owner) is None or not attributes.is_native(owner):
            return super().get(name)
        if name in getattr(owner, "_fields", ()):
            return super().get(name)
        is_method = callable(getattr(type(owner), name, None))
        return HeapMethod(owner, name) if is_method else attributes.of_instance(ev, owner, name)

    def call(self, arguments: list[Any], named: dict[str, Any]) -> Any:
        """By its class's `__call__`, if that is the user's; else as what a library defines."""
        own = self._method("__call__")
        if own is not None:
            return self.ev.call(own, [self.it, *arguments], named)
        return self.ev.library(self.it, arguments, named)

    def item(self, index: Any) -> Any:
        """By a method of the user's; of a container that was there before, the item it had then."""
        ev, container = self.ev, self.it
        if (members := ev.with_runs(container)) is not None:
            return lists.item(ev, members, index)
        if not isinstance(container, dict) and not objects.is_object(container):
            index = objects.index(ev, index)
        if hasattr(type(container), "__missing__"):
            index = objects.check_key(ev, ev.concrete(index))
        if isinstance(container, dict) and lookups.is_varying(ev, container, index):
            return lookups.read_varying(ev, container, index)
        if lookups.is_place_varying(ev, container, index):
            return lookups.read_place(ev, container, index)
        if lookups.is_part(ev, container, index):
            return lookups.read_part(ev, container, index)
        if isinstance(index, DynamicValue) and not index.late and _is_of_objects(container):
            index = ev.concrete(index)
        if isinstance(index, DynamicValue) or is_symbolic(index):
            return _by_unknown(ev, container, index)
        method = self._method("__getitem__")
        if method is not None:
            return ev.call(method, [container, index], {})
        if isinstance(container, dict):
            objects.check_key(ev, index)
        if hasattr(type(container), "__missing__") and not ev.decided(self.contains(index)):
            return _missing(ev, container, index)
        if ev.heap.name_of(container) is not None and isinstance(container, list | tuple | dict | collections.deque):
            return self._held_item(index)
        if isinstance(container, str | bytes | range):
            return ev.python(symbolic.get_item, [container, index])
        _check_known(ev, container)
        return _item(ev, container, index)

    def _held_item(self, index: Any) -> Any:
        """The item of a container that was there before."""
        ev, container = self.ev, self.it
        is_whole = isinstance(container, collections.deque) or isinstance(index, slice)
        if is_whole or not _is_there(ev, container, index):
            return _item(ev, ev.opened(container), index)
        seen, site = ev.seen()
        value = ev.heap.item(container, index, seen, site, ev.where())
        if value is MISSING:
            raise ev.raised(KeyError(index))
        return value

    def _method(self, name: str) -> Any:
        """A method of the user's that its class has, None if it has none."""
        return objects.method(self.ev, type(self.it), name)

    def set_item(self, index: Any, value: Any) -> None:
        """By a method of the user's; in a container that was there before after the graph."""
        ev, container = self.ev, self.it
        if is_symbolic(index):
            raise ev.refuse(Feature.INDEX, "an item is assigned under a key that is a tensor")
        if (members := ev.with_runs(container)) is not None:
            ev.need_sequence("a write to a container")
            lists.set_item(ev, members, index, value)
            return
        if is_of_graph(index):
            index = _assumed_index(ev, index)
        if lookups.is_varying(ev, container, index):
            lookups.set_varying(ev, container, index, value)
            return
        index = objects.check_key(ev, ev.concrete(_known_index(ev, container, index)))
        method = self._method("__setitem__")
        if method is not None:
            ev.call(method, [container, index, value], {})
        elif ev.heap.name_of(container) is not None:
            ev.need_sequence("a write to a container")
            ev.heap.set_item(container, index, value, ev.where())
        else:
            _check_takes(ev, container, index, value)
            try:
                container[index] = value
            except (LookupError, TypeError, ValueError) as error:
                _check_key_known(ev, index)
                raise ev.raised(error) from error

    def delete_item(self, index: Any) -> None:
        """As `set_item`."""
        ev, container = self.ev, self.it
        if is_symbolic(index):
            raise ev.refuse(Feature.INDEX, "an item is deleted under a key that is a tensor")
        if (members := ev.with_runs(container)) is not None:
            ev.need_sequence("a write to a container")
            lists.applied(ev, members, "pop", [index])
            return
        index = objects.check_key(ev, ev.concrete(_known_index(ev, container, index)))
        method = self._method("__delitem__")
        if method is not None:
            ev.call(method, [container, index], {})
            return
        if ev.heap.name_of(container) is None or not isinstance(container, dict):
            _check_known(ev, container)
            target = ev.opened(container)
            try:
                del target[index]
            except (LookupError, TypeError) as error:
                raise ev.raised(error) from error
            return
        self.item(index)  # that it is there is an assumption
        ev.need_sequence("a write to a container")
        ev.heap.set_item(container, index, MISSING, ev.where())

    def contains(self, member: Any) -> Any:
        """By a method of the user's; of a dict that was there before whether the key is there is assumed."""
        ev, container = self.ev, self.it
        method = self._method("__contains__")
        if method is not None:
            return ev.call(bool, [ev.call(method, [container, member], {})], {})
        if lookups.is_varying(ev, container, member):
            return lookups.has_varying(ev, container, member)
        if isinstance(container, dict | set | frozenset):
            member = objects.check_key(ev, ev.concrete(member))
        ev.heap.unsealed(container, ev.where())
        check_plain(container, ev.where())
        name = ev.heap.name_of(container)
        if isinstance(container, dict | set | frozenset) and name is None:
            return member in container
        if isinstance(container, dict) and not isinstance(member, DynamicValue):
            return self._has_key(member)
        if isinstance(container, set | frozenset):
            return member in ev.heap.open(container, ev.where())
        if isinstance(container, list | tuple) and any(map(objects.is_object, [*ev.opened(container), member])):
            return any(objects.is_or_equals(ev, one, member) for one in ev.opened(container))
        return ev.python(symbolic.contains, [ev.lift(container), member])

    def _has_key(self, key: Any) -> bool:
        """Whether a dict that was there before has a key."""
        ev, container = self.ev, self.it
        if id(container) in ev.heap.opened:
            return key in ev.heap.opened[id(container)]
        slot = item_of(container, key)
        if slot in ev.heap.shadow:
            return ev.heap.shadow[slot] is not MISSING
        found = key in container
        condition = f"({ev.heap.literal(key)} in {ev.heap.name_of(container)}) is {found}"
        ev.script.assume(condition, ev.noted(SameKeys, f"{key!r} {'is' if found else 'is not'} there"))
        return found

    def members(self) -> list[Any]:
        """Those that it has now; of a container that was there before the length, or the keys, are assumed."""
        ev, container = self.ev, self.it
        if ev.with_runs(container) is not None:
            raise ev.refuse_runs("the number of iterations is known only in the graph")
        if type(container) in COLLECTIONS:  # before all are read
            _check_few(ev, container)
        whole = ev.opened(container)
        _check_known(ev, container)
        if not isinstance(whole, _ITERABLES):
            raise ev.refuse(Feature.ITERATOR, f"a loop iterates over a {type(whole).__name__}")
        found = list(whole)
        if isinstance(container, list | tuple) and ev.heap.name_of(container) is not None:
            around = ev.contexts.managers
            ev.places.update({id(member): (container, i, around) for i, member in enumerate(found)})
        _check_few(ev, found)
        return found

    def iterator(self) -> Iterator[Any]:
        """The members of a list as it grows and shrinks meanwhile, of a dict, set or deque as long as it does not."""
        whole, members = self.ev.opened(self.it), self.members()
        if isinstance(whole, list):
            return iterators.of_list(self.ev, whole)
        if isinstance(whole, (dict, set, collections.deque, *_VIEWS)):
            return iterators.of_table(self.ev, whole)
        return iter(members)

    def pieces(self) -> list[Any]:
        """The members with runs, if there are runs."""
        members = self.ev.with_runs(self.it)
        return self.members() if members is None else list(members)

    def rows(self, varies: bool) -> IterationSpace | None:
        """Of a list whose length only the graph knows; of a range where loops are not unrolled."""
        ev, members = self.ev, self.it
        is_rolled = not ev.optimizations.unrolling or (ev.is_rolled and varies)
        if type(members) is range and is_rolled and len(members) > 1:
            return iterators.known_range(members, begins=True)
        runs = ev.with_runs(members)
        return None if runs is None else lists.rows(ev, runs)

    def length(self) -> Any:
        """By a method of the user's; of a container that was there before it is assumed, or read each time."""
        ev, container = self.ev, self.it
        more = ev.heap.appended.get(id(container), [])
        if not has_run(more) and (members := ev.with_runs(container)) is not None:
            return lists.length(members)
        name = ev.heap.name_of(container)
        if name is None or id(container) in ev.heap.opened or not isinstance(container, COLLECTIONS):
            method = self._method("__len__")
            if method is not None:
                return objects.of_special(ev, "__len__", container)
            is_set = name is not None and isinstance(container, set | frozenset)
            whole = ev.heap.open(container, ev.where()) if is_set else ev.opened(container)
            return len(whole) if isinstance(whole, COLLECTIONS) else ev.python(len, [whole])
        ev.heap.unsealed(container, ev.where())
        check_plain(container, ev.where())
        seen, site = ev.seen()
        is_read = isinstance(container, list) or (isinstance(container, collections.deque) and not more)
        if not is_read:  # a deque that is full does not grow
            whole = ev.heap.open(container, ev.where())
            return lists.length(whole) if has_run(whole) else len(whole)
        if not (seen.varies and seen.count > 1):
            same = SameLength(f"length of a {type(container).__name__}", ev.where(), site)
            ev.script.assume(f"len({name}) == {len(container)}", same)
            return lists.length([*container, *more]) if has_run(more) else len(container) + len(more)
        now = DynamicValue(ev.script.read(f"len({name})"), len(container))
        return ev.operate(operator.add, [now, lists.length(more) if has_run(more) else len(more)])

    def operate(self, function: Any, operands: Sequence[Any]) -> Any:
        """What moves the members of containers, or a pure function of Python's."""
        return dynamic.operate(self.ev, function, operands)

    def tensor(self, dtype: tf.DType | None = None) -> tf.Tensor:
        """A constant."""
        natural = _NATURAL.get(type(self.it)) if dtype is None else dtype
        return tf.convert_to_tensor(self.it, natural)

    def code(self) -> str:
        """A name, a constant, or a container made anew of what it holds."""
        ev, value = self.ev, self.it
        kind = type(value)
        if kind in (list, tuple):
            parts = "".join(f"{ev.code(v)}, " for v in value)
            return f"[{parts}]" if kind is list else f"({parts})"
        if kind is dict:
            return "{" + "".join(f"{ev.code(k)}: {ev.code(v)}, " for k, v in value.items()) + "}"
        if kind is slice:
            return f"slice({ev.code(value.start)}, {ev.code(value.stop)}, {ev.code(value.step)})"
        if (name := ev.heap.name_of(value)) is not None:
            return name
        if isinstance(value, np.ndarray):  # as it is now: the call may change it afterwards
            return ev.script.constant(value.copy("K"))
        if kind not in CONTAINERS and not (issubclass(kind, tuple) and hasattr(kind, "_make")):
            return ev.script.constant(value)
        make = ev.script.constant(kind)
        if kind is collections.defaultdict:
            return f"{make}({ev.code(value.default_factory)}, {ev.code(dict(value))})"
        if kind is collections.deque:
            return f"{make}({ev.code(list(value))}, {value.maxlen})"
        if kind in DICTS:
            return f"{make}({ev.code(dict(value))})"
        return f"{make}{'._make' if hasattr(kind, '_make') else ''}({ev.code(list(value))})"

    def opened(self) -> Any:
        """A container that was there before, as a working copy."""
        if self.ev.heap.name_of(self.it) is None or not isinstance(self.it, COLLECTIONS):
            return self.it
        self.ev.heap.unsealed(self.it, self.ev.where())
        self.ev.heap.check_order(self.it, self.ev.where())
        return self.ev.heap.open(self.it, self.ev.where())

    def lift(self) -> Any:
        """A container with all that it holds; an object as it is, which is this very one in every call."""
        if isinstance(self.it, COLLECTIONS):
            return lifted(self.ev, self.ev.opened(self.it), self.it)
        self.ev.heap.given(self.it, self.ev.where())
        return self.it


def lifted(ev: Evaluator, whole: Any, given: Any = None) -> Any:
    """A container of lifted members: itself, if it is what was given and they are the same."""
    if isinstance(whole, dict):
        return like(whole, {key: ev.lift(v) for key, v in whole.items()})
    members = [ev.lift(v) for v in whole]
    if whole is given and all(a is b for a, b in zip(members, whole, strict=True)):
        return given
    if isinstance(whole, collections.deque):
        return collections.deque(members, whole.maxlen)
    return rebuilt(whole, members)


class Object(ConcreteValue):
    """An object of a class of the user's, whose methods decide what operators do."""

    precedence = 3

    @classmethod
    def takes(cls, value: Any) -> bool:
        """Objects of the user's classes, and exceptions."""
        return not isinstance(value, type) and objects.is_object(value)

    def contains(self, member: Any) -> Any:
        """By `__contains__`, else by its iterator."""
        if self._method("__contains__") is not None:
            return super().contains(member)
        return any(objects.is_or_equals(self.ev, one, member) for one in self.iterator())

    def begin(self) -> Any:
        """By its methods `__iter__` and `__next__`, or `__getitem__`."""
        return iterators.begun(self.ev, self.it)

    def members(self) -> list[Any]:
        """What its iterator gives."""
        return self.ev.members(self.begin())

    def iterator(self) -> Iterator[Any]:
        """Its iterator."""
        return self.ev.iterator(self.begin())

    def operate(self, function: Any, operands: Sequence[Any]) -> Any:
        """By the methods of both operands, in Python's order."""
        if len(operands) > 1 and is_tensor_like(operands[0]) and dynamic.takes_as_number(self.ev, operands[1]):
            return self.ev.kind(operands[0]).operate(function, operands)
        if len(operands) > 1 and function in (operator.mod, operator.imod) and texts.is_text(operands[0]):
            return self.ev.python(function, operands)
        return objects.operate(self.ev, function, operands)


class RecordValue(Object):
    """A named tuple or a member of an enumeration of whose class the program has written operators or `__iter__`."""

    name = "a record or a member of an enumeration"

    @classmethod
    def takes(cls, value: Any) -> bool:
        """Those for which Python does not do what it does for all."""
        kind = type(value)
        is_one = issubclass(kind, enum.Enum) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
        return is_one and known.is_users_type(kind) and any(map(known.is_users_function, _own_methods(kind)))

    def operate(self, function: Any, operands: Sequence[Any]) -> Any:
        """By a method of the program's, if one of the operands has it for this operator."""
        if objects.define(self.ev, function, operands):
            return super().operate(function, operands)
        kinds = [ConcreteValue(self.ev, o) if self.takes(o) else self.ev.kind(o) for o in operands]
        return max(kinds, key=lambda kind: kind.precedence).operate(function, operands)

    def contains(self, member: Any) -> Any:
        """As of a tuple."""
        return ConcreteValue.contains(self, member)

    def begin(self) -> Any:
        """Itself."""
        return self.it

    def members(self) -> list[Any]:
        """As of a tuple."""
        self._check_plain()
        return ConcreteValue.members(self)

    def iterator(self) -> Iterator[Any]:
        """As of a tuple."""
        return iter(self.members())

    def opened(self) -> Any:
        """As of a tuple."""
        self._check_plain()
        return super().opened()

    def lift(self) -> Any:
        """As of a tuple."""
        self._check_plain()
        return super().lift()

    def _check_plain(self) -> None:
        if self._method("__iter__") is not None:
            raise self.ev.refuse(Feature.CONTAINER, f"the class {type(self.it).__name__} overrides __iter__")


_OPERATORS = frozenset({"__iter__", *(f"__{r}{name.strip('_')}__" for name in operator.__all__ for r in ("", "r"))})


def _own_methods(kind: type) -> Iterator[Any]:
    """What a class derived from a built-in one has for operators and to go through its objects."""
    bases = [base for base in kind.__mro__ if known.is_users_type(base)]
    return (found for base in bases for name, found in vars(base).items() if name in _OPERATORS)


class Dataset(ConcreteValue):
    """A dataset, or an iterator over one: what goes through it is left to Python."""

    name = "a dataset"
    of = tf_private.DATASETS

    @classmethod
    def takes(cls, value: Any) -> bool:
        """Those of TensorFlow."""
        return isinstance(value, cls.of)

    def begin(self) -> Any:
        """Is refused."""
        raise self.ev.refuse(Feature.DATASET, "a loop goes through a dataset")

    def members(self) -> list[Any]:
        """Is refused."""
        return self.begin()

    def iterator(self) -> Iterator[Any]:
        """Is refused."""
        return self.begin()

    def rows(self, varies: bool) -> None:
        """Is refused."""
        self.begin()


def _check_known(ev: Evaluator, container: Any) -> None:
    """Checks that a container is one of which the rules know how it is read and written."""
    if not isinstance(container, COLLECTIONS):
        objects.check(ev, operator.getitem, [container])


def _missing(ev: Evaluator, container: Any, index: Any) -> Any:
    """What a dict gives under a key that it does not have."""
    if isinstance(container, collections.Counter):
        return 0
    method = objects.method(ev, type(container), "__missing__")
    if method is not None:
        return ev.call(method, [container, index], {})
    factory = getattr(container, "default_factory", None)
    if factory is None:
        raise ev.raised(KeyError(index))
    value = ev.call(factory, [], {})
    ev.set_item(container, index, value)
    return value


def _is_there(ev: Evaluator, container: Any, index: Any) -> bool:
    """Whether a container that was there before had an item when the call began, or was opened; noted if not."""
    if id(container) in ev.heap.opened or item_of(container, index) in ev.heap.shadow:
        return True
    if isinstance(container, dict):
        return index in container or ev.contains(container, index)
    return isinstance(index, int) and -len(container) <= index < len(container)


def _is_of_objects(container: Any) -> bool:
    """Whether a container has members that the conversion must know: others than numbers and strings."""
    if not isinstance(container, list | tuple | dict):
        return known.is_users_type(type(container))
    members = list(container.values() if isinstance(container, dict) else container)
    return not all(isinstance(m, DynamicValue | int | float | str) for m in members)


def _check_few(ev: Evaluator, members: Any) -> None:
    """Checks that a loop over these may be unrolled."""
    if len(members) > UNROLL:
        raise ev.refuse(Feature.TRIPS, f"a loop of {len(members)} rounds is not unrolled (limit {UNROLL})")


def _item(ev: Evaluator, container: Any, index: Any) -> Any:
    index = _known_index(ev, container, index)
    try:
        found = container[index]
    except (LookupError, TypeError) as error:
        _check_key_known(ev, index)
        raise ev.raised(error) from error
    if isinstance(found, MUTABLE) and not isinstance(container, COLLECTIONS):
        raise ev.refuse(Feature.CONTAINER, f"a {type(container).__name__} holds a {type(found).__name__}")
    return arrays.made(ev, found, [container])


def _known_index(ev: Evaluator, container: Any, index: Any) -> Any:
    """Which members of a list or tuple an index or a slice means must be known."""
    if isinstance(index, slice):
        parts = (index.start, index.stop, index.step)
        return slice(*(ev.concrete(objects.index(ev, part)) for part in parts))
    is_place = isinstance(container, list | tuple | collections.deque) and not objects.is_object(container)
    return objects.index(ev, index) if is_place else index


def _check_takes(ev: Evaluator, container: Any, index: Any, value: Any) -> None:
    """Checks that an array made by the call is set to what is known now. One of which the script has a view stays.

    Raises:
        Inconvertible: it is not: what NumPy would raise is not what the program would see.
    """
    if not isinstance(container, np.ndarray | np.flatiter):
        return
    array = container.base if isinstance(container, np.flatiter) else container
    if any(map(is_unknown, symbolic.leaves([index, value]))):
        raise ev.refuse(Feature.LATE_VALUE, "an item of an array is assigned that differs from call to call")
    if not ev.heap.is_made(array) or not array.flags.writeable:
        raise ev.refuse(Feature.ARRAY, "the call modifies an array that it did not make, or of which there is a view")


def _check_key_known(ev: Evaluator, index: Any) -> None:
    """Checks that an exception is the program's, not that a value of ours was looked at as if it were Python's."""
    if any(isinstance(leaf, DynamicValue) or is_symbolic(leaf) for leaf in symbolic.leaves([index])):
        raise ev.refuse(Feature.INDEX, "an index varies from call to call")


def _by_unknown(ev: Evaluator, container: Any, index: Any) -> Any:
    """An index that differs from call to call: the one it has now is assumed, unless members are tensors alike."""
    if isinstance(index, DynamicValue) and not index.late:
        return ev.in_script(symbolic.get_item, [ev.lift(container), index])
    members = ev.opened(container)
    if isinstance(members, list | tuple) and members and all(isinstance(m, tf.Tensor) for m in members):
        number = index.tensor if isinstance(index, DynamicValue) else index
        return tf.stack(list(members))[tf.cast(number, tf.int32)]
    if is_symbolic(index) and (not isinstance(container, list | tuple) or objects.is_object(container)):
        raise ev.refuse(Feature.INDEX, "a tensor indexes a Python container that is no list")
    return ev.item(container, _assumed_index(ev, index))


def known_index(ev: Evaluator, container: Any, index: Any) -> Any:
    """An index into Python objects, the same for reading and writing."""
    of_graph = is_of_graph(index) and isinstance(container, list | dict)
    return _assumed_index(ev, index) if of_graph else index


def _assumed_index(ev: Evaluator, index: Any) -> Any:
    """An index that comes out of the graph is taken to be that of the last call: a graph for each."""
    seen, site = ev.seen("index")
    number = index.tensor if is_of_graph(index) and not index.is_array else index
    is_number = isinstance(number, tf.Tensor) and number.dtype.is_integer and number.shape.rank == 0
    if not is_number or type(seen.last) is not int or ev.inside(CalledBack, LoopRound):
        raise ev.refuse(Feature.INDEX, "a tensor indexes a Python container")
    if not number.dtype.min <= seen.last <= number.dtype.max:
        raise ev.refuse(Feature.INDEX, "the index was of another dtype before")
    ev.assert_in_graph(tf.equal(number, seen.last), ev.noted(SamePath, f"the index is {seen.last}"))
    return seen.last


_VIEWS: Any = tuple(map(type, ({}.keys(), {}.values(), {}.items())))
_ITERABLES: Any = (
    list, tuple, dict, set, frozenset, str, bytes, range, collections.deque, Mapping, enumerate, zip, map, filter,
    reversed, tf.TensorShape, *_VIEWS, type(iter([])),
)  # fmt: skip


class HeapMethod(OwnersMethod):
    """A method of a container that was there before the call."""

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Calls it on the working copy; an append needs none."""
        owner, name = self.owner, self.name
        if isinstance(owner, list | collections.deque) and name == "append" and len(arguments) == 1:
            ev.need_sequence("an append")
            ev.heap.append(owner, arguments[0])
            return None
        varies = bool(arguments) and lookups.is_varying(ev, owner, arguments[0])
        is_early = varies or (bool(arguments) and not isinstance(arguments[0], DynamicValue))
        if isinstance(owner, set) and name == "add" and varies:
            lookups.set_later(ev, owner, set.add, [arguments[0]])
            return None
        if isinstance(owner, dict) and name == "get" and not named and is_early:
            found = ev.contains(owner, arguments[0])
            return ev.item(owner, arguments[0]) if found else (arguments[1:] or [None])[0]
        if name not in _READING:
            ev.need_sequence("a write to a container")
        if isinstance(owner, set) and name == "pop":  # which one depends on those that were taken before
            raise ev.refuse(Feature.CONTAINER, "a member is popped from a set that was there before the call")
        if not isinstance(owner, set):
            return applied(ev, ev.opened(owner), name, arguments, named)
        target = ev.heap.open(owner, ev.where())
        arguments, _ = decided_arguments(ev, target, name, arguments, {})
        result = change_set(ev, owner, name, arguments, lambda: applied(ev, target, name, arguments, named))
        if not isinstance(result, bool | None):
            ev.heap.check_order(owner, ev.where())
        return result


def change_set(ev: Evaluator, owner: set[Any], name: str, arguments: list[Any], change: Callable[[], Any]) -> Any:
    """Calls a method of the working copy of a set, and keeps the call for the script if it changes the set.

    The order of a set depends on all that was done to it.
    """
    target = ev.heap.open(owner, ev.where())
    first = list(target)
    given = [a.copy() if isinstance(a, list | set | dict) else a for a in arguments]
    result = change()
    if not state.are_same(target, first):
        ev.heap.set_calls.setdefault(id(owner), []).append((name, given))
    return result


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
    if not isinstance(owner, dict) and name in _PLACED:
        arguments = [*(objects.index(ev, a) for a in arguments[:1]), *arguments[1:]]
    if isinstance(owner, dict) or name in _PLACED:
        keys = [objects.check_key(ev, ev.concrete(a)) for a in arguments[:1]]
        return [*keys, *arguments[1:]], named
    return arguments, named


def _decided_members(ev: Evaluator, value: Any) -> Any:
    if isinstance(value, list | set | frozenset):
        members = ev.members(value)
        decided = [_decided_members(ev, member) for member in members]
        is_set = not isinstance(value, list) and all(a is b for a, b in zip(decided, members, strict=True))
        return ev.opened(value) if is_set else decided
    if isinstance(value, dict):
        whole = ev.opened(value)
        return {key: ev.concrete(number) for key, number in whole.items()}
    return objects.check_key(ev, ev.concrete(value))


# Methods that go through their arguments.
_GOING_THROUGH = frozenset({
    "update", "subtract", "extend", "extendleft", "union", "intersection", "difference", "symmetric_difference",
    "intersection_update", "difference_update", "symmetric_difference_update", "issubset", "issuperset", "isdisjoint",
})  # fmt: skip


def mapping(ev: Evaluator, value: Any) -> Any:
    """What `**` takes the items of: an object of the program's gives them by its methods `keys` and `__getitem__`."""
    if not is_mapping(ev, value):
        if objects.is_object(value) and not isinstance(value, dict):
            raise ev.refuse(Feature.RAISES, f"a {type(value).__name__} is no mapping")
        return ev.opened(value)
    keys = ev.members(ev.call(ev.get(value, "keys"), [], {}))
    return {objects.check_key(ev, ev.concrete(key)): ev.item(value, key) for key in keys}


def is_mapping(ev: Evaluator, value: Any) -> bool:
    """Whether a value is an object of the program's, and of no built-in class, that says its keys."""
    is_own = objects.is_object(value) and not isinstance(value, dict)
    return is_own and objects.method(ev, type(value), "keys") is not None


def _gone_through(ev: Evaluator, target: Any, argument: Any) -> Any:
    """What a method takes its members from; what the program's own classes do then is converted, too."""
    if isinstance(target, dict) and is_mapping(ev, argument):
        return mapping(ev, argument)
    is_own = objects.is_object(argument) and not isinstance(argument, COLLECTIONS)
    return ev.members(argument) if is_own else argument


def applied(ev: Evaluator, target: Any, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Calls a method of a working copy, or of a container that the call has made."""
    if name in _GOING_THROUGH:
        arguments = [_gone_through(ev, target, argument) for argument in arguments]
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
        if any(map(is_unknown, symbolic.leaves([*lifted, *named.values()]))):
            raise ev.refuse(Feature.CONTAINER, f"{name} with a value that differs from call to call") from error
        if any(map(is_unknown, symbolic.leaves([target]))):
            raise ev.refuse(Feature.RAISES, f"{name} of values that differ from call to call") from error
        raise ev.raised(error) from error


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
