"""Lists, tuples, dicts and sets: those made during the call are real, those that were there before are the heap's."""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from recgraph.speculate.machine.evaluator import UNROLL, Evaluator
from recgraph.speculate.observe import known
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import stand_ins
from recgraph.speculate.script.assumptions import SameDecision, SameKeys, SamePath
from recgraph.speculate.script.contexts import CalledBack, LoopRound
from recgraph.speculate.script.heap import check_plain, like
from recgraph.speculate.script.stand_ins import (
    COLLECTIONS,
    MISSING,
    MemberRun,
    Residual,
    StandIn,
    has_run,
    how_many,
    is_symbolic,
    is_tensor_like,
)
from recgraph.speculate.values import iterators, later, lists, methods, objects, script_calls
from recgraph.speculate.values.attributes import Attributes


class Known(Attributes):
    """What Python has: an object, module, function, number, string or container that is known while we convert."""

    name = "an object"

    @classmethod
    def takes(cls, value: Any) -> bool:
        """Whatever no other kind takes. A stand-in has a kind of its own."""
        return not isinstance(value, StandIn)

    def type(self) -> type:
        """Its class."""
        return type(self.it)

    def truth(self) -> Any:
        """By `__bool__` or `__len__`; of a container that was there before it is assumed to stay empty or not."""
        ev, value = self.ev, self.it
        if (members := ev.with_runs(value)) is not None:
            return how_many(members) > 0 if all(isinstance(m, MemberRun) for m in members) else True
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
                return ev.truth(ev.call(method, [value], {}))
        return bool(value)

    def _says_its_truth(self) -> bool:
        """Whether its class, a container's perhaps, has a method of the program's for it."""
        found = [self.ev.of_class(type(self.it), name) for name in ("__bool__", "__len__")]
        return any(isinstance(method, types.FunctionType) for method in found)

    def call(self, arguments: list[Any], named: dict[str, Any]) -> Any:
        """By its class's `__call__`, if that is the user's; else as what a library defines."""
        own = self.ev.of_class(type(self.it), "__call__")
        if isinstance(own, types.FunctionType) and known.is_users(own):
            return self.ev.call(own, [self.it, *arguments], named)
        return self.ev.library(self.it, arguments, named)

    def item(self, index: Any) -> Any:
        """By a method of the user's; of a container that was there before, the item it had then."""
        ev, container = self.ev, self.it
        if (members := ev.with_runs(container)) is not None:
            return lists.item(ev, members, index)
        if objects.is_object(index) and not isinstance(container, dict) and not objects.is_object(container):
            index = ev.python(operator.index, [index])
        if hasattr(type(container), "__missing__"):
            index = objects.check_key(ev, ev.concrete(index))
        if isinstance(container, dict) and methods.is_varying(ev, container, index):
            return methods.read(ev, container, index)
        if isinstance(index, Residual) and not index.late and _is_of_objects(container):
            index = ev.concrete(index)
        if isinstance(index, Residual) or is_symbolic(index):
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
            return ev.python(stand_ins.get_item, [container, index])
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
        method = self.ev.of_class(type(self.it), name)
        return method if isinstance(method, types.FunctionType) and known.is_users(method) else None

    def set_item(self, index: Any, value: Any) -> None:
        """By a method of the user's; in a container that was there before after the graph."""
        ev, container = self.ev, self.it
        if is_symbolic(index):
            raise ev.refuse(Feature.INDEX, "an item is assigned under a key that is a tensor")
        if (members := ev.with_runs(container)) is not None:
            ev.need_sequence("a write to a container")
            lists.set_item(ev, members, index, value)
            return
        if isinstance(index, Residual) and index.tensor is not None:
            index = _assumed_index(ev, index)
        if methods.is_varying(ev, container, index):
            methods.set_item(ev, container, index, value)
            return
        index = objects.check_key(ev, ev.concrete(_known_slice(ev, index)))
        method = self._method("__setitem__")
        if method is not None:
            ev.call(method, [container, index, value], {})
        elif ev.heap.name_of(container) is not None:
            ev.need_sequence("a write to a container")
            ev.heap.set_item(container, index, value, ev.where())
        else:
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
        index = objects.check_key(ev, ev.concrete(_known_slice(ev, index)))
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
        if is_symbolic(member):
            raise ev.refuse(Feature.IN, "`in` is used with a tensor")
        method = self._method("__contains__")
        if method is not None:
            return ev.call(method, [container, member], {})
        if methods.is_varying(ev, container, member):
            return methods.contains(ev, container, member)
        if isinstance(container, dict | set):
            member = objects.check_key(ev, ev.concrete(member))
        ev.heap.unsealed(container, ev.where())
        check_plain(container, ev.where())
        name = ev.heap.name_of(container)
        if isinstance(container, dict | set | frozenset) and name is None:
            return member in container
        if isinstance(container, dict) and not isinstance(member, Residual):
            return self._has_key(member)
        if isinstance(container, list | tuple) and any(map(objects.is_object, [*ev.opened(container), member])):
            return any(objects.is_or_equals(ev, one, member) for one in ev.opened(container))
        return ev.python(stand_ins.contains, [ev.lift(container), member])

    def _has_key(self, key: Any) -> bool:
        """Whether a dict that was there before has a key."""
        ev, container = self.ev, self.it
        if id(container) in ev.heap.opened:
            return key in ev.heap.opened[id(container)]
        slot = ("item", id(container), key)
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
        whole = ev.opened(container)
        _check_known(ev, container)
        if not isinstance(whole, _ITERABLES):
            raise ev.refuse(Feature.ITERATOR, f"a loop iterates over a {type(whole).__name__}")
        found = list(whole)
        if isinstance(container, list | tuple) and ev.heap.name_of(container) is not None:
            around = ev.contexts.managers
            ev.places.update({id(member): (container, i, around) for i, member in enumerate(found)})
        if len(found) > UNROLL:
            raise ev.refuse(Feature.TRIPS, f"a loop of {len(found)} rounds is not unrolled (limit {UNROLL})")
        return found

    def iterator(self) -> Iterator[Any]:
        """The members of a list as it grows and shrinks meanwhile, of a dict or set as long as it does not."""
        whole, members = self.ev.opened(self.it), self.members()
        if isinstance(whole, list):
            return iterators.of_list(self.ev, whole)
        if isinstance(whole, dict | set):
            return iterators.of_table(self.ev, whole, members)
        return iter(members)

    def pieces(self) -> list[Any]:
        """The members with runs, if there are runs."""
        members = self.ev.with_runs(self.it)
        return self.members() if members is None else list(members)

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
                return ev.call(method, [container], {})
            whole = ev.opened(container)
            return len(whole) if isinstance(whole, COLLECTIONS) else ev.python(len, [whole])
        ev.heap.unsealed(container, ev.where())
        check_plain(container, ev.where())
        seen, _ = ev.seen()
        if not isinstance(container, list) or not (seen.varies and seen.count > 1):
            whole = ev.opened(container)
            return lists.length(whole) if has_run(whole) else len(whole)
        now = Residual(ev.script.read(f"len({name})"), len(container))
        return ev.operate(operator.add, [now, lists.length(more) if has_run(more) else len(more)])

    def operate(self, function: Any, operands: Sequence[Any]) -> Any:
        """What moves the members of containers, or a pure function of Python's."""
        return later.operate(self.ev, function, operands)

    def opened(self) -> Any:
        """A container that was there before, as a working copy."""
        if self.ev.heap.name_of(self.it) is None or not isinstance(self.it, COLLECTIONS):
            return self.it
        self.ev.heap.unsealed(self.it, self.ev.where())
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
    return type(whole)._make(members) if hasattr(whole, "_make") else type(whole)(members)


class Object(Known):
    """An object of a class of the user's, whose methods decide what operators do."""

    precedence = 3

    @classmethod
    def takes(cls, value: Any) -> bool:
        """Objects of the user's classes, and exceptions."""
        return not isinstance(value, type) and objects.is_object(value)

    def contains(self, member: Any) -> Any:
        """By `__contains__`, else by its iterator."""
        if is_symbolic(member):
            raise self.ev.refuse(Feature.IN, "`in` is used with a tensor")
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
        if len(operands) > 1 and is_tensor_like(operands[0]) and later.takes_as_number(self.ev, operands[1]):
            return self.ev.kind(operands[0]).operate(function, operands)
        return objects.operate(self.ev, function, operands)


def _check_known(ev: Evaluator, container: Any) -> None:
    """That a container is one of which the rules know how it is read and written."""
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
    if id(container) in ev.heap.opened or ("item", id(container), index) in ev.heap.shadow:
        return True
    if isinstance(container, dict):
        return index in container or ev.contains(container, index)
    return isinstance(index, int) and -len(container) <= index < len(container)


def _is_of_objects(container: Any) -> bool:
    """Whether a container has members that the conversion must know: others than numbers and strings."""
    if not isinstance(container, list | tuple | dict):
        return known.is_users_type(type(container))
    members = list(container.values() if isinstance(container, dict) else container)
    return not all(isinstance(m, Residual | int | float | str) for m in members)


def _item(ev: Evaluator, container: Any, index: Any) -> Any:
    index = _known_slice(ev, index)
    try:
        return container[index]
    except (LookupError, TypeError) as error:
        _check_key_known(ev, index)
        raise ev.raised(error) from error


def _known_slice(ev: Evaluator, index: Any) -> Any:
    """A slice of a list or tuple: which members it has must be known."""
    if not isinstance(index, slice):
        return index
    return slice(*(ev.concrete(part) for part in (index.start, index.stop, index.step)))


def _check_key_known(ev: Evaluator, index: Any) -> None:
    """That an exception is the program's, and not because a value of ours was looked at as if it were Python's."""
    if any(isinstance(leaf, Residual) or is_symbolic(leaf) for leaf in stand_ins.leaves([index])):
        raise ev.refuse(Feature.INDEX, "an index varies from call to call")


def _by_unknown(ev: Evaluator, container: Any, index: Any) -> Any:
    """An index that differs from call to call: the one it has now is assumed, unless members are tensors alike."""
    if isinstance(index, Residual) and not index.late:
        return script_calls.in_script(ev, stand_ins.get_item, [ev.lift(container), index], {})
    members = ev.opened(container)
    if isinstance(members, list | tuple) and members and all(isinstance(m, tf.Tensor) for m in members):
        number = index.tensor if isinstance(index, Residual) else index
        return tf.stack(list(members))[tf.cast(number, tf.int32)]
    return ev.item(container, _assumed_index(ev, index))


def known_index(ev: Evaluator, container: Any, index: Any) -> Any:
    """An index into Python objects, the same for reading and writing."""
    of_graph = isinstance(index, Residual) and index.tensor is not None and isinstance(container, list | dict)
    return _assumed_index(ev, index) if of_graph else index


def _assumed_index(ev: Evaluator, index: Any) -> Any:
    """An index that comes out of the graph is taken to be that of the last call: a graph for each."""
    seen, site = ev.seen("index")
    is_number = isinstance(index, Residual) and index.tensor is not None and not index.is_array
    if (
        not is_number
        or type(seen.last) is not int
        or index.tensor.dtype != tf.int64
        or ev.inside(CalledBack, LoopRound)
    ):
        raise ev.refuse(Feature.INDEX, "a tensor indexes a Python container")
    ev.assert_in_graph(tf.equal(index.tensor, seen.last), ev.noted(SamePath, f"the index is {seen.last}"))
    return seen.last


_ITERABLES: Any = (
    *(
        list,
        tuple,
        dict,
        set,
        frozenset,
        str,
        bytes,
        range,
        collections.deque,
        Mapping,
        enumerate,
        zip,
        map,
        filter,
        reversed,
        tf.TensorShape,
    ),
    *map(type, ({}.keys(), {}.values(), {}.items(), iter([]))),
)
