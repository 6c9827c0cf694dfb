"""Lists, tuples, dicts and sets: those made during the call are real, those that were there before are the heap's."""

from __future__ import annotations

import ast
import collections
import enum
import operator
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from recgraph.speculate import (
    arrays,
    calls,
    grown,
    iterators,
    known,
    protocols,
    residuals,
    searching,
    shapes,
    varying_keys,
)
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.generators import Generator
from recgraph.speculate.generators import members as members_of
from recgraph.speculate.heap import check_plain, like
from recgraph.speculate.namespaces import ObjectDict
from recgraph.speculate.syntax import site_of
from recgraph.speculate.values import HELD, MISSING, Iteration, Residual, Rows, has_run, is_symbolic, is_tensor_like

COLLECTIONS = (list, tuple, dict, set, frozenset, collections.deque)
# How many members a loop may have and still be unrolled.
UNROLL = 2000
# How the members of something are taken that a star stands before.
Unpack: TypeAlias = Callable[[Evaluator, Any], list[Any]]


def opened(ev: Evaluator, container: Any) -> Any:
    """A container whose members are values of the call."""
    if isinstance(container, ObjectDict):
        return container.as_dict(ev)
    if isinstance(container, Iteration | Generator):
        return iterate(ev, container)
    if ev.heap.name_of(container) is None or not isinstance(container, COLLECTIONS):
        return container
    ev.heap.unsealed(container, ev.where())
    return ev.heap.open(container, ev.where())


def lift(ev: Evaluator, value: Any) -> Any:
    """A value as a function that is not converted may look at it, containers with all that they hold."""
    if isinstance(value, Residual) or is_symbolic(value):
        return value
    if isinstance(value, Iteration | Generator):
        value = iterate(ev, value)
    if isinstance(value, (*COLLECTIONS, ObjectDict)):
        whole = opened(ev, value)
        if isinstance(whole, dict):
            lifted = {key: lift(ev, v) for key, v in whole.items()}
            return like(whole, lifted)
        members = [lift(ev, v) for v in whole]
        if all(a is b for a, b in zip(members, whole, strict=True)) and whole is value:
            return value
        if isinstance(whole, collections.deque):
            return collections.deque(members, whole.maxlen)
        return type(whole)._make(members) if hasattr(whole, "_make") else type(whole)(members)
    if isinstance(value, shapes.PartialShape):
        return value
    if isinstance(value, ev.heap.eager_tensor_type):
        return ev.heap.captured(value)
    ev.heap.given(value, ev.where())
    return value


def subscript(ev: Evaluator, container: Any, index: Any) -> Any:
    """`container[index]`."""
    if is_tensor_like(container):
        return _of_tensor(ev, container, index)
    if isinstance(container, Iteration):
        raise ev.refuse("raises", "an iterator has no items")
    if isinstance(container, ObjectDict):
        return container.item(ev, index)
    if (members := grown.inside(ev, container)) is not None:
        return grown.item(ev, members, index)
    if isinstance(container, Rows) and isinstance(index, int):
        return container.row(tf.constant(index, tf.int64) if index >= 0 else container.count + index)
    if isinstance(container, shapes.PartialShape):
        found = _item(ev, container.dims, index)
        return shapes.PartialShape(found) if isinstance(index, slice) else found
    if isinstance(container, Residual):
        if container.is_array and (found := arrays.item(container, index)) is not None:
            return found
        return residuals.in_script(ev, _get_item, [container, lift(ev, index)], {})
    if protocols.is_object(index) and not isinstance(container, dict) and not protocols.is_object(container):
        index = residuals.python(ev, operator.index, [index])
    if hasattr(type(container), "__missing__"):
        index = protocols.check_key(ev, ev.concrete(index))
    if isinstance(container, dict) and varying_keys.is_varying(ev, container, index):
        return varying_keys.read(ev, container, index)
    if isinstance(index, Residual) and not index.late and _is_of_objects(ev, container):
        index = ev.concrete(index)
    if isinstance(index, Residual) or is_symbolic(index):
        return _by_unknown(ev, container, index)
    method = ev.of_class(type(container), "__getitem__")
    if isinstance(method, types.FunctionType) and known.is_users(method):
        return calls.call(ev, method, [container, index], {})
    if isinstance(container, dict):
        protocols.check_key(ev, index)
    if hasattr(type(container), "__missing__") and not ev.decided(contains(ev, container, index)):
        return _missing(ev, container, index)
    if ev.heap.name_of(container) is not None and isinstance(container, list | tuple | dict | collections.deque):
        if isinstance(container, collections.deque):
            return _item(ev, opened(ev, container), index)
        if isinstance(index, slice):
            return _item(ev, opened(ev, container), index)
        if not _is_there(ev, container, index):
            return _item(ev, opened(ev, container), index)
        seen, site = ev.seen()
        value = ev.heap.item(container, index, seen, site, ev.where())
        if value is MISSING:
            raise ev.raised(KeyError(index))
        return value
    if _is_plain_data(container):
        return residuals.python(ev, _get_item, [container, index])
    _check_known(ev, container)
    return _item(ev, container, index)


def _check_known(ev: Evaluator, container: Any) -> None:
    """That a container is one of which the rules know how it is read and written."""
    if not isinstance(container, COLLECTIONS):
        protocols.check(ev, operator.getitem, [container])


def _missing(ev: Evaluator, container: Any, index: Any) -> Any:
    """What a dict gives under a key that it does not have."""
    if isinstance(container, collections.Counter):
        return 0
    method = protocols.method(ev, type(container), "__missing__")
    if method is not None:
        return calls.call(ev, method, [container, index], {})
    factory = getattr(container, "default_factory", None)
    if factory is None:
        raise ev.raised(KeyError(index))
    value = calls.call(ev, factory, [], {})
    set_subscript(ev, container, index, value)
    return value


def _is_there(ev: Evaluator, container: Any, index: Any) -> bool:
    """Whether a container that was there before had an item when the call began, or was opened; noted if not."""
    if id(container) in ev.heap.opened or ("item", id(container), index) in ev.heap.shadow:
        return True
    if isinstance(container, dict):
        return index in container or contains(ev, container, index)
    return isinstance(index, int) and -len(container) <= index < len(container)


def _is_of_objects(ev: Evaluator, container: Any) -> bool:
    """Whether a container has members that the conversion must know: others than numbers and strings."""
    if not isinstance(container, list | tuple | dict):
        return known.is_users_type(type(container))
    members = list(container.values() if isinstance(container, dict) else container)
    return not all(isinstance(m, Residual | int | float | str) for m in members)


def _is_plain_data(container: Any) -> bool:
    return isinstance(container, str | bytes | range)


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
    if any(isinstance(leaf, Residual) or is_symbolic(leaf) for leaf in residuals.leaves([index])):
        raise ev.refuse("index", "an index that differs from call to call")


def _get_item(container: Any, index: Any) -> Any:
    return container[index]


def _of_tensor(ev: Evaluator, tensor: Any, index: Any) -> Any:
    if ev.heap.name_of(index) is not None:
        index = lift(ev, index)
    parts = index if isinstance(index, tuple) else (index,)
    return calls.native(ev, _get_item, [tensor, tuple(_part(ev, p) for p in parts)], {})


def _part(ev: Evaluator, part: Any) -> Any:
    if isinstance(part, slice):
        return slice(*(_part(ev, p) for p in (part.start, part.stop, part.step)))
    if isinstance(part, Residual):
        return tf.cast(residuals.as_tensor(ev, part), tf.int32)
    return part


def _by_unknown(ev: Evaluator, container: Any, index: Any) -> Any:
    """An index that differs from call to call: the one it has now is assumed, unless members are tensors alike."""
    if isinstance(index, Residual) and not index.late:
        return residuals.in_script(ev, _get_item, [lift(ev, container), index], {})
    members = opened(ev, container)
    if isinstance(members, list | tuple) and members and all(isinstance(m, tf.Tensor) for m in members):
        number = index.tensor if isinstance(index, Residual) else index
        return tf.stack(list(members))[tf.cast(number, tf.int32)]
    return subscript(ev, container, _assumed_index(ev, index))


def known_index(ev: Evaluator, container: Any, index: Any) -> Any:
    """An index into Python objects, the same for reading and writing."""
    of_graph = isinstance(index, Residual) and index.tensor is not None and isinstance(container, list | dict)
    return _assumed_index(ev, index) if of_graph else index


def _assumed_index(ev: Evaluator, index: Any) -> Any:
    """An index that comes out of the graph is taken to be that of the last call: a graph for each."""
    seen, site = ev.seen("index")
    is_number = isinstance(index, Residual) and index.tensor is not None and not index.is_array
    if not is_number or type(seen.last) is not int or index.tensor.dtype != tf.int64 or ev.callbacks or ev.rounds:
        raise ev.refuse("index", "an index that a tensor gives into Python objects")
    ev.assert_in_graph(tf.equal(index.tensor, seen.last), ev.noted("path", f"the index is {seen.last}"))
    return seen.last


def set_subscript(ev: Evaluator, container: Any, index: Any, value: Any) -> None:
    """`container[index] = value`."""
    if isinstance(container, Residual) and container.is_array:
        residuals.in_script(ev, operator.setitem, [container, lift(ev, index), lift(ev, value)], {})
        return
    if is_symbolic(index) or isinstance(container, Residual):
        raise ev.refuse("index", "an item is set under a key that a tensor gives")
    if isinstance(container, ObjectDict):
        container.set_item(ev, index, value)
        return
    if (members := grown.inside(ev, container)) is not None:
        ev.need_sequence("a write to a container")
        grown.set_item(ev, members, index, value)
        return
    if isinstance(index, Residual) and index.tensor is not None:
        index = _assumed_index(ev, index)
    if varying_keys.is_varying(ev, container, index):
        varying_keys.set_item(ev, container, index, value)
        return
    index = protocols.check_key(ev, ev.concrete(_known_slice(ev, index)))
    method = ev.of_class(type(container), "__setitem__")
    if isinstance(method, types.FunctionType) and known.is_users(method):
        calls.call(ev, method, [container, index, value], {})
    elif ev.heap.name_of(container) is not None:
        ev.need_sequence("a write to a container")
        ev.heap.set_item(container, index, value, ev.where())
    else:
        try:
            container[index] = value
        except (LookupError, TypeError, ValueError) as error:
            _check_key_known(ev, index)
            raise ev.raised(error) from error


def delete_subscript(ev: Evaluator, container: Any, index: Any) -> None:
    """`del container[index]`."""
    if is_symbolic(index):
        raise ev.refuse("index", "an item is deleted under a key that a tensor gives")
    if isinstance(container, ObjectDict):
        container.set_item(ev, index, MISSING)
        return
    if (members := grown.inside(ev, container)) is not None:
        ev.need_sequence("a write to a container")
        grown.applied(ev, members, "pop", [index])
        return
    index = protocols.check_key(ev, ev.concrete(_known_slice(ev, index)))
    method = ev.of_class(type(container), "__delitem__")
    if isinstance(method, types.FunctionType) and known.is_users(method):
        calls.call(ev, method, [container, index], {})
        return
    if ev.heap.name_of(container) is None or not isinstance(container, dict):
        _check_known(ev, container)
        target = opened(ev, container)
        try:
            del target[index]
        except (LookupError, TypeError) as error:
            raise ev.raised(error) from error
        return
    subscript(ev, container, index)  # that it is there is an assumption
    ev.need_sequence("a write to a container")
    ev.heap.set_item(container, index, MISSING, ev.where())


def contains(ev: Evaluator, container: Any, member: Any) -> Any:
    """`member in container`."""
    if is_symbolic(container) or is_symbolic(member):
        raise ev.refuse("in", "`in` with tensors")
    if isinstance(container, ObjectDict):
        return container.contains(ev, member)
    method = ev.of_class(type(container), "__contains__")
    if isinstance(method, types.FunctionType) and known.is_users(method):
        return calls.call(ev, method, [container, member], {})
    if isinstance(container, Iteration | Generator) or protocols.is_object(container):
        return any(searching.is_or_equals(ev, one, member) for one in iterators.of(ev, container))
    if varying_keys.is_varying(ev, container, member):
        return varying_keys.contains(ev, container, member)
    if isinstance(container, dict | set):
        member = protocols.check_key(ev, ev.concrete(member))
    name = ev.heap.name_of(container)
    ev.heap.unsealed(container, ev.where())
    check_plain(container, ev.where())
    if isinstance(container, dict | set | frozenset) and name is None:
        return member in container
    if isinstance(container, dict) and name is not None and not isinstance(member, Residual):
        if id(container) in ev.heap.opened:
            return member in ev.heap.opened[id(container)]
        key = ("item", id(container), member)
        if key in ev.heap.shadow:
            return ev.heap.shadow[key] is not MISSING
        found = member in container
        condition = f"({ev.heap.literal(member)} in {name}) is {found}"
        ev.script.assume(condition, assumption("keys", f"{member!r} {'is' if found else 'is not'} there", ev.where()))
        return found
    if isinstance(container, list | tuple) and any(map(protocols.is_object, [*opened(ev, container), member])):
        return any(searching.is_or_equals(ev, one, member) for one in opened(ev, container))
    return residuals.python(ev, _contains, [lift(ev, container), member])


def _contains(container: Any, member: Any) -> bool:
    return member in container


def iterate(ev: Evaluator, iterable: Any) -> list[Any]:
    """All members of something that a loop, a star or an unpacking goes through."""
    if isinstance(iterable, tf.Variable):  # one of Keras's cannot be gone through
        iterable = iterable.read_value()
    if isinstance(iterable, tf.Tensor):
        if iterable.shape.rank in (None, 0) or iterable.shape[0] is None:
            raise ev.refuse("trips", "a loop over a tensor of unknown length")
        return tf.unstack(iterable) if iterable.shape[0] else []
    if isinstance(iterable, Residual):
        return _members_of_residual(ev, iterable)
    if isinstance(iterable, shapes.PartialShape):
        return list(iterable.dims)
    if isinstance(iterable, Iteration):
        return iterators.collected(ev, iterators.of(ev, iterable))
    if isinstance(iterable, Generator):
        return members_of(ev, iterable)
    if isinstance(iterable, Rows):
        raise ev.refuse("trips", "as many members as a tensor says")
    if protocols.is_object(iterable):
        return iterate(ev, iterators.begun(ev, iterable))
    if isinstance(iterable, enum.EnumType):
        return list(iterable)
    if grown.inside(ev, iterable) is not None:
        raise grown.refuse(ev, "as many members as the graph says")
    container, iterable = iterable, opened(ev, iterable)
    _check_known(ev, container)
    if isinstance(iterable, _ITERABLES):
        members = list(iterable)
        if isinstance(container, list | tuple) and ev.heap.name_of(container) is not None:
            around = tuple(ev.managers)
            ev.places.update({id(member): (container, i, around) for i, member in enumerate(members)})
    else:
        raise ev.refuse("iterator", f"a {type(iterable).__name__} is gone through")
    if len(members) > UNROLL:
        raise ev.refuse("trips", f"a loop of {len(members)} rounds is not unrolled (limit {UNROLL})")
    return members


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


def elements(ev: Evaluator, nodes: list[ast.expr], unpack: Unpack | None = None) -> list[Any]:
    """The values of a display or of positional arguments, stars unpacked."""
    values: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            values.extend((unpack or iterate)(ev, ev.value(node.value)))
        else:
            values.append(ev.value(node))
    return values


def _members_of_residual(ev: Evaluator, iterable: Residual) -> list[Any]:
    if iterable.is_array and (members := arrays.members(iterable)) is not None:
        return members
    if iterable.late or not isinstance(iterable.example, np.ndarray | list | tuple | str | range):
        raise ev.refuse("iterator", "a loop over a value that differs from call to call")
    count = len(iterable.example)
    site = (site_of(ev.frame.syntax, ev.here, "trips"), 0)
    trips = assumption("length", f"{count} rounds of a loop", ev.where(), site)
    ev.script.assume(f"len({iterable.name}) == {count}", trips)
    return [residuals.in_script(ev, _get_item, [iterable, i], {}) for i in range(count)]


def length(ev: Evaluator, container: Any) -> Any:
    """`len(container)`."""
    if isinstance(container, Iteration):
        raise ev.refuse("raises", "an iterator has no length")
    if isinstance(container, tf.Tensor):
        return shapes.length(ev, container)
    if arrays.is_array(container) and container.tensor.shape.rank and container.tensor.shape[0] is not None:
        return int(container.tensor.shape[0])
    if isinstance(container, shapes.PartialShape):
        return len(container.dims)
    if isinstance(container, Rows):
        return Residual("", tensor=container.count, late=True, limit=HELD)
    more = ev.heap.appended.get(id(container), [])
    if not has_run(more) and (members := grown.inside(ev, container)) is not None:
        return grown.length(members)
    name = ev.heap.name_of(container)
    if name is None or id(container) in ev.heap.opened or not isinstance(container, COLLECTIONS):
        method = ev.of_class(type(container), "__len__")
        if isinstance(method, types.FunctionType) and known.is_users(method):
            return calls.call(ev, method, [container], {})
        whole = opened(ev, container)
        return len(whole) if isinstance(whole, COLLECTIONS) else residuals.python(ev, len, [whole])
    ev.heap.unsealed(container, ev.where())
    check_plain(container, ev.where())
    seen, site = ev.seen()
    if not isinstance(container, list) or not (seen.varies and seen.count > 1):
        whole = opened(ev, container)
        return grown.length(whole) if has_run(whole) else len(whole)
    now = Residual(ev.script.read(f"len({name})"), len(container))
    return residuals.operate(ev, operator.add, [now, grown.length(more) if has_run(more) else len(more)])
