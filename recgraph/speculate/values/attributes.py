"""Attributes of objects, and assignment to targets of every kind."""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.cpython import messages
from recgraph.defects import described
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.machine.protocol import Kind
from recgraph.speculate.observe import keras_state, known
from recgraph.speculate.observe.known import DATA_TYPES
from recgraph.speculate.observe.profile import Seen, is_plain
from recgraph.speculate.observe.reasons import Feature, Inconvertible, ProgramException
from recgraph.speculate.script.assumptions import Presence, SameKeys, SameObject
from recgraph.speculate.script.draws import GENERATORS
from recgraph.speculate.script.heap import slot_of
from recgraph.speculate.script.symbolic import (
    COLLECTIONS,
    MISSING,
    MUTABLE,
    BoundConstantMethod,
    DynamicValue,
    MadeFunction,
    Missing,
    OwnersMethod,
    SymbolicValue,
    is_variable,
    read_variable,
)
from recgraph.speculate.values import arrays, keras_call_locals, library_calls, objects

_ABSENT = object()
# What programs replace in a library's module.
_STREAMS = ("stdin", "stdout", "stderr")
_OF_EXCEPTIONS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)


class Attributes(Kind):
    """What has attributes: an object, a class, a module, a function, or data."""

    def get(self, name: str) -> Any:
        """By Python's rules: of what the user's classes define, of what was there before, of what the call has set."""
        ev, owner = self.ev, self.it
        if isinstance(owner, tuple) and name in getattr(owner, "_fields", ()) and not _is_asked_first(owner, name):
            return ev.item(owner, owner._fields.index(name))  # type: ignore[attr-defined]
        if is_native(owner):
            return _native(ev, owner, name)
        held = ev.heap.shadow.get(slot_of(owner, name), _ABSENT)
        if held is _ABSENT or (not isinstance(owner, type | types.ModuleType) and _is_asked_first(owner, name)):
            return _of_object(ev, owner, name)
        if not isinstance(held, Missing):
            return held
        if isinstance(owner, type | types.ModuleType) or objects.slots_of(type(owner)):
            raise _no_attribute(ev, owner, name)
        return _of_object(ev, owner, name)  # what its class has is seen again

    def has(self, name: str) -> bool:
        """Assumed to stay so; where a method of the user's may run, it is found by reading the attribute."""
        ev, owner = self.ev, self.it
        key = slot_of(owner, name)
        if ev.heap.shadow.get(key, MISSING) is not MISSING:
            return True
        if key in ev.heap.shadow or runs_something(ev, owner, name):
            return objects.read_or(ev, owner, name, MISSING) is not MISSING
        found, held = hasattr(owner, name), ev.heap.path_to(owner)
        if held is not None:
            ev.script.assume(f"hasattr({held}, {name!r}) is {found}", ev.noted(Presence, f".{name}"))
        return found

    def put(self, name: str, value: Any) -> None:
        """By a property, a descriptor, or in the object itself."""
        ev, owner = self.ev, self.it
        if name in ("__class__", "__dict__") or (isinstance(owner, _FUNCTIONS) and hasattr(type(owner), name)):
            raise ev.refuse(Feature.ATTRIBUTE, f"the program assigns {name} of an object")
        kind = type(owner)
        setter = ev.of_class(kind, name)
        if isinstance(setter, property):
            function = setter.fdel if value is MISSING else setter.fset
            if function is None:
                raise ev.refuse(Feature.RAISES, f"{name} of {kind.__name__} cannot be set or deleted")
            ev.call(function, [owner] if value is MISSING else [owner, value], {})
            return
        if _is_users_descriptor(ev, setter) and hasattr(type(setter), "__set__"):
            given = ("__delete__", [owner]) if value is MISSING else ("__set__", [owner, value])
            _described(ev, owner, kind, name, *given)
            return
        own = ev.of_class(kind, "__delattr__" if value is MISSING else "__setattr__")
        if isinstance(own, types.FunctionType) and not known.is_frameworks(own):
            raise ev.refuse(Feature.CUSTOM_ACCESS, f"{kind.__name__} has accessors of its own")
        put_plainly(ev, owner, name, value)


def _is_asked_first(owner: Any, name: str) -> bool:
    """Whether a class has a property or a descriptor of the program's, which hides what its objects hold."""
    found = inspect.getattr_static(type(owner), name, None)
    is_own = known.is_users_type(type(found)) and any(hasattr(type(found), n) for n in ("__set__", "__delete__"))
    return isinstance(found, property) or is_own


def _holds(ev: Evaluator, owner: Any, name: str) -> bool:
    """Whether an object itself has an attribute by now."""
    held = ev.heap.shadow.get(slot_of(owner, name), _ABSENT)
    return name in getattr(owner, "__dict__", {}) if held is _ABSENT else held is not MISSING


def _assume_not_held(ev: Evaluator, owner: Any, name: str, what: str) -> None:
    """Checks that an object itself has no attribute of a name, unless the call has deleted it."""
    held = ev.heap.path_to(owner)
    if held is not None and hasattr(owner, "__dict__") and slot_of(owner, name) not in ev.heap.shadow:
        ev.script.assume(f"{name!r} not in {held}.__dict__", ev.noted(Presence, what))


# What a class has that runs nothing when it is read.
_SILENT = (
    type(None), int, float, str, list, dict, tuple, set, types.FunctionType, types.MemberDescriptorType, staticmethod
)  # fmt: skip


def runs_something(ev: Evaluator, owner: Any, name: str) -> bool:
    """Whether a method of the user's may run where an attribute is read."""
    kind = owner if isinstance(owner, type) else type(owner)
    if not objects.is_object(owner):
        return False
    found, hook = inspect.getattr_static(kind, name, None), objects.method(ev, kind, "__getattr__")
    return hook is not None or not isinstance(found, _SILENT)


def is_native(owner: Any) -> bool:
    """Whether attributes are read as they are: of frameworks' objects, data, modules of frameworks."""
    if isinstance(owner, types.ModuleType):
        return known.is_library(owner.__name__)
    if isinstance(owner, type):
        return not known.is_users_type(owner)
    if known.is_users_type(type(owner)):
        return False
    if isinstance(owner, COLLECTIONS):
        return True
    return known.is_frameworks_object(owner) or isinstance(owner, _FUNCTIONS) or not hasattr(owner, "__dict__")


def _native(ev: Evaluator, owner: Any, name: str) -> Any:
    if type(owner) in GENERATORS:
        return getattr(owner, name)
    if ev.heap.name_of(owner) is not None and isinstance(
        owner, np.generic | np.random.Generator | np.random.RandomState
    ):
        raise ev.refuse(Feature.LIBRARY_OBJECT, f"{type(owner).__name__} runs eagerly")
    if is_variable(owner) and name == "numpy":
        ev.heap.given(owner, ev.where())
        return BoundConstantMethod(lambda: arrays.of(read_variable(owner)))
    if isinstance(owner, types.MethodType) and not hasattr(types.MethodType, name):
        return ev.get(owner.__func__, name)
    if name == "__dict__" and not isinstance(owner, type | types.ModuleType):
        return ObjectDict(owner)
    if known.is_users_function(owner) and not ev.heap.is_made(owner):
        return _of_function(ev, owner, name)
    if isinstance(owner, functools.partial):
        return of_instance(ev, owner, name)
    if isinstance(owner, types.CellType):
        return ev.read_cell(owner)
    if owner is sys and name in _STREAMS:
        return DynamicValue(ev.script.read(f"{ev.script.constant(sys)}.{name}"), getattr(sys, name))
    if _is_the_programs(owner, name):
        return of_instance(ev, owner, name)
    ev.heap.given(owner, ev.where())
    seen = library_calls.converted(ev) if known.is_frameworks_object(owner) else contextlib.nullcontext()
    try:
        with seen:  # a property may call what the user has written
            value = getattr(owner, name)
    except AttributeError as error:
        if type(owner) in DATA_TYPES:
            raise ev.raised(error) from error
        raise ev.refuse(Feature.RAISES, described(error)) from error
    if _is_kept(owner, name, value) and (held := ev.heap.path_to(owner)) is not None:
        noted, site = ev.seen()
        what = f"{type(owner).__name__}.{name}"
        return ev.heap.read(slot_of(owner, name), f"{held}.{name}", value, what, noted, site, ev.where())
    if isinstance(value, ev.heap.eager_tensor_type):
        return ev.heap.captured(value)
    return keras_call_locals.taken(ev, owner, value)


def _is_the_programs(owner: Any, name: str) -> bool:
    """Whether a library's object has an attribute itself that the program may have put there, or may change."""
    attributes, found = getattr(owner, "__dict__", {}), inspect.getattr_static(type(owner), name, None)
    if name not in attributes or hasattr(type(found), "__set__"):
        return False
    is_librarys = isinstance(owner, type | types.ModuleType) or keras_state.has_state(owner)
    return not is_librarys or _may_change(attributes[name])


def _is_kept(owner: Any, name: str, value: Any) -> bool:
    """Whether a library's object gives what it keeps, and the program may change, not what it makes for who asks."""
    if isinstance(owner, tf.Variable) and name == "trainable":
        return True
    is_made = isinstance(inspect.getattr_static(type(owner), name, None), property)
    is_found = any(held is value for held in getattr(owner, "__dict__", {}).values())
    return _may_change(value) and (is_found or not is_made)


def _may_change(value: Any) -> bool:
    """Whether the program may change a value in place, or what a tuple holds."""
    return isinstance(value, (*MUTABLE, np.ndarray)) or (isinstance(value, tuple) and any(map(_may_change, value)))


def _of_function(ev: Evaluator, owner: types.FunctionType, name: str) -> Any:
    """What a function of the user's says of itself, or was given by a decorator."""
    if name == "__kwdefaults__":
        raise ev.refuse(Feature.ATTRIBUTE, f"the program reads __kwdefaults__ of {owner.__name__}")
    value = ev.attribute(owner, name)
    expression = f"{ev.heap.path_to(owner)}.{name}"
    if name == "__globals__":
        ev.heap.names.setdefault(id(value), ev.script.constant(value))
        return value
    seen, site = ev.seen()
    what, where = f"{owner.__name__}.{name}", ev.where()
    return ev.heap.read(slot_of(owner, name), expression, value, what, seen, site, where)


def _of_object(ev: Evaluator, owner: Any, name: str) -> Any:
    """An attribute of an object, class or module of the user's, by Python's rules."""
    of_class = owner if isinstance(owner, type) else type(owner)
    if not isinstance(owner, types.ModuleType | type) and has_own_access(ev, of_class):
        raise ev.refuse(Feature.CUSTOM_ACCESS, f"{of_class.__name__} has accessors of its own")
    if name == "__dict__" and not isinstance(owner, type) and hasattr(owner, "__dict__"):
        if isinstance(owner, types.ModuleType):
            raise ev.refuse(Feature.NAMESPACE, f"the program reads __dict__ of the module {owner.__name__}")
        return ObjectDict(owner)
    found = inspect.getattr_static(of_class, name, _ABSENT)
    if not isinstance(owner, type | types.ModuleType):
        _check_given(ev, of_class, name, found)
    if isinstance(owner, BaseException) and isinstance(found, _OF_EXCEPTIONS):
        return _of_exception(ev, owner, name)
    if isinstance(owner, type | types.ModuleType):
        return of_namespace(ev, owner, name)
    if isinstance(found, property):
        return ev.call(ev.of_class(of_class, name).fget, [owner], {})
    if isinstance(owner, enum.Enum) and isinstance(found, types.DynamicClassAttribute):
        own = getattr(found, "fget", None)
        if known.is_users_function(own):
            return ev.call(own, [owner], {})
        value = getattr(owner, name)  # its name or value
        return of_instance(ev, owner, "_value_") if value is owner._value_ and not is_plain(value) else value
    is_held = _holds(ev, owner, name)
    if _is_users_descriptor(ev, found) and (not is_held or hasattr(type(found), "__set__")):
        return _described(ev, owner, of_class, name, "__get__", [owner, of_class])
    if is_held or isinstance(found, types.MemberDescriptorType):
        return of_instance(ev, owner, name)
    if found is _ABSENT:
        fallback = ev.of_class(of_class, "__getattr__")
        if known.is_users_function(fallback):
            _assume_absent(ev, owner, of_class, name)
            return ev.call(fallback, [owner, name], {})
        if known.is_frameworks_object(owner):
            return _native(ev, owner, name)
        raise _no_attribute(ev, owner, name)
    return _of_class(ev, owner, of_class, name, found)


def _assume_absent(ev: Evaluator, owner: Any, of_class: type, name: str) -> None:
    """Neither an object nor its class has an attribute, nor will have it next time."""
    ev.of_class(of_class, name)
    _assume_not_held(ev, owner, name, f"no .{name}")


def _of_exception(ev: Evaluator, owner: BaseException, name: str) -> Any:
    """What exceptions have in fixed places: their arguments, the value of a `StopIteration`."""
    if not ev.heap.is_made(owner) or name in ("__traceback__", "__context__"):
        raise ev.refuse(Feature.EXCEPTION, f"{name} of an exception")
    return getattr(owner, name)


def _no_attribute(ev: Evaluator, owner: Any, name: str) -> Inconvertible | ProgramException:
    """What reading an attribute raises that is not there, nor will be next time."""
    kind, held = type(owner), ev.heap.path_to(owner)
    error = messages.no_attribute(kind, name)
    if isinstance(owner, type | types.ModuleType) or hasattr(kind, "__slots__") or hasattr(kind, "__getattr__"):
        return ev.refuse(Feature.RAISES, described(error))
    if held is not None and slot_of(owner, name) not in ev.heap.shadow:
        ev.script.assume(f"not hasattr({held}, {name!r})", ev.noted(Presence, f"no .{name}"))
    return ev.raised(error)


def has_own_access(ev: Evaluator, kind: type) -> bool:
    """Whether a class of the user's decides itself what reading any attribute gives; it is assumed to go on so."""
    access = ev.of_class(kind, "__getattribute__")
    return isinstance(access, types.FunctionType) and not known.is_frameworks(access)


def of_instance(ev: Evaluator, owner: Any, name: str) -> Any:
    """An attribute that an object has itself."""
    key = slot_of(owner, name)
    if ev.heap.shadow.get(key, MISSING) is not MISSING:
        return ev.heap.shadow[key]
    is_hidden = _is_asked_first(owner, name)
    value = owner.__dict__[name] if is_hidden else ev.attribute(owner, name)
    held = ev.heap.path_to(owner)
    if held is None:
        return value
    seen, site = ev.seen()
    place = f"{held}.__dict__[{name!r}]" if is_hidden else f"{held}.{name}"
    return ev.heap.read(key, place, value, f"{type(owner).__name__}.{name}", seen, site, ev.where())


def _is_users_descriptor(ev: Evaluator, found: Any) -> bool:
    return any(objects.method(ev, type(found), name) for name in ("__get__", "__set__", "__delete__"))


def _described(ev: Evaluator, owner: Any, of_class: type, name: str, method: str, arguments: list[Any]) -> Any:
    """A method of a descriptor of the user's, which is an object as others are."""
    base = next(base for base in of_class.__mro__ if name in base.__dict__)
    descriptor, what = base.__dict__[name], f"{base.__name__}.{name}"
    if not hasattr(type(descriptor), "__set__"):
        _assume_not_held(ev, owner, name, f"{what} is the class's")
    expression = f"{ev.script.constant(base)}.__dict__[{name!r}]"
    found = ev.heap.read(("descriptor", id(base), name), expression, descriptor, what, Seen(), None, ev.where())
    function = objects.method(ev, type(found), method)
    if function is None:
        raise ev.refuse(Feature.DESCRIPTOR, f"{what} has no {method}")
    return ev.call(function, [found, *arguments], {})


def _of_class(ev: Evaluator, owner: Any, of_class: type, name: str, found: Any) -> Any:
    """A method, or a value that the class has for all its objects."""
    _assume_not_held(ev, owner, name, f"{of_class.__name__}.{name} is the class's")
    value = of_namespace(ev, of_class, name)
    if isinstance(found, types.FunctionType):
        return types.MethodType(value, owner)
    if isinstance(found, functools.cached_property):
        made = ev.call(found.func, [owner], {})
        ev.put(owner, name, made)
        return made
    if isinstance(found, staticmethod | classmethod) or not hasattr(type(found), "__get__"):
        return value
    if known.is_frameworks(found) or not isinstance(found, types.FunctionType):
        return getattr(owner, name)
    raise ev.refuse(Feature.DESCRIPTOR, f"{name} is a descriptor of its own kind")


def of_namespace(ev: Evaluator, owner: Any, name: str) -> Any:
    """An attribute of a class or a module."""
    of_metaclass = ev.of_class(type(owner), name)
    if isinstance(of_metaclass, property):
        return ev.call(of_metaclass.fget, [owner], {})
    holder = _holder(ev, owner, name) if isinstance(owner, type) else owner
    if slot_of(holder, name) in ev.heap.shadow:
        return ev.heap.shadow[slot_of(holder, name)]
    if isinstance(owner, type) and _is_users_descriptor(ev, vars(holder).get(name)):
        return _described(ev, None, owner, name, "__get__", [None, owner])
    value = ev.attribute(owner, name)
    where = ev.where()
    expression = f"{ev.script.constant(owner)}.{name}"
    if isinstance(value, types.MethodType):
        inner = f"{expression}.__func__"
        ev.script.assume(f"{inner} is {ev.script.constant(value.__func__)}", SameObject(f"{name} is as it was", where))
        return value
    seen, site = ev.seen()
    return ev.heap.read(slot_of(holder, name), expression, value, name, seen, site, where)


def _holder(ev: Evaluator, kind: type, name: str) -> type:
    """Which of a class and its bases has an attribute, as the call has left them; the class itself where none has."""
    for base in kind.__mro__:
        held = ev.heap.shadow.get(slot_of(base, name), _ABSENT)
        if held is not MISSING and (held is not _ABSENT or name in base.__dict__):
            return base
    return kind


def _check_given(ev: Evaluator, kind: type, name: str, found: Any) -> None:
    """Checks that the call has given a class only data, in place of data, under the name of an object's attribute.

    Args:
        ev: the conversion.
        kind: the class.
        name: of the attribute.
        found: what the class had when the call began.
    """
    given = ev.heap.shadow.get(slot_of(_holder(ev, kind, name), name), _ABSENT)
    is_run = isinstance(given, MadeFunction) or any(hasattr(type(value), "__get__") for value in (found, given))
    if given is not _ABSENT and (found is _ABSENT or is_run):
        ev.check_not_given(kind, name)


def put_plainly(ev: Evaluator, owner: Any, name: str, value: Any) -> None:
    """What `object.__setattr__` does to an object without descriptors."""
    kind = type(owner)
    is_librarys = known.is_frameworks_object(owner) and not known.is_users_type(kind)
    if is_librarys and not isinstance(owner, type | types.ModuleType):
        raise ev.refuse(Feature.FRAMEWORK, f"an attribute of a {kind.__name__} is assigned, which its library may read")
    held = ev.heap.path_to(owner)
    if held is None and not ev.heap.is_made(owner):
        raise ev.refuse(Feature.OBJECT, f"an attribute of a {kind.__name__} is assigned, which a library made")
    if held is None:
        if ev.contexts.forks and (objects.slots_of(type(owner)) or isinstance(owner, np.ndarray)):
            raise ev.refuse(Feature.SLOTS, f"a new {type(owner).__name__} is modified inside a tensor-dependent branch")
        if _is_asked_first(owner, name):
            owner.__dict__.update({name: value}) if value is not MISSING else owner.__dict__.pop(name)
            return
        try:
            object.__setattr__(owner, name, value) if value is not MISSING else object.__delattr__(owner, name)
        except AttributeError as error:
            raise ev.raised(error) from error
        return
    if value is MISSING:
        _check_presence(ev, owner, name)
    _check_place(ev, owner, name)
    ev.heap.held.append(owner)
    if isinstance(owner, type):
        _assume_shared(ev, owner, name)
    place = f"{held}.__dict__[{name!r}]" if _is_asked_first(owner, name) else f"{held}.{name}"
    ev.write_slot(slot_of(owner, name), place, value, _current(owner, name))


def _assume_shared(ev: Evaluator, kind: type, name: str) -> None:
    """Checks that derived classes have no attribute of their own in place of one that the call sets."""
    classes: list[type] = type.__subclasses__(kind)
    for derived in classes:
        if name not in vars(derived):
            shared = ev.noted(Presence, f"{derived.__name__}.{name} is that of {kind.__name__}")
            ev.script.assume(f"{name!r} not in {ev.script.constant(derived)}.__dict__", shared)
            _assume_shared(ev, derived, name)


def _check_presence(ev: Evaluator, owner: Any, name: str) -> None:
    """Checks that an object itself has an attribute that is deleted: what its class has or computes does not count."""
    held = ev.heap.shadow.get(slot_of(owner, name), _ABSENT)
    if held is _ABSENT:
        held = _current(owner, name)
        if held is not MISSING:
            of_instance(ev, owner, name)  # that it is there is an assumption
        elif hasattr(owner, "__dict__") and not isinstance(owner, type | types.ModuleType):
            _assume_absent(ev, owner, type(owner), name)
    if isinstance(held, Missing):
        if isinstance(owner, type | types.ModuleType) or objects.slots_of(type(owner)):
            raise ev.refuse(Feature.RAISES, f"{name} is deleted and not there")
        raise ev.raised(messages.nothing_to_delete(type(owner), name))


def _check_place(ev: Evaluator, owner: Any, name: str) -> None:
    """Checks that an object has a place for an attribute."""
    kind = type(owner)
    if hasattr(owner, "__dict__") or isinstance(ev.of_class(kind, name), types.MemberDescriptorType):
        return
    raise ev.raised(messages.no_place_for_attribute(owner, name))


def _current(owner: Any, name: str) -> Any:
    """What an object has under a name when the call begins, its class left aside."""
    found = inspect.getattr_static(owner, name, MISSING)
    if isinstance(found, types.MemberDescriptorType):
        return getattr(owner, name, MISSING)
    return getattr(owner, "__dict__", {}).get(name, MISSING)


class ObjectDict(SymbolicValue):
    """`vars(owner)`."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner


class NamespaceMethod(OwnersMethod):
    """A method of an `ObjectDict`."""

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Calls it."""
        owner, name = self.owner, self.name
        if name in ("keys", "values", "items", "copy"):
            return getattr(ev.opened(owner), name)(*arguments, **named)
        if name == "get" and arguments:
            return ev.item(owner, arguments[0]) if ev.contains(owner, arguments[0]) else (arguments[1:] or [None])[0]
        if name == "setdefault" and len(arguments) == 2:
            if not ev.contains(owner, arguments[0]):
                ev.set_item(owner, *arguments)
            return ev.item(owner, arguments[0])
        if name == "update":
            for part in [*map(ev.opened, arguments), named]:
                for key, value in dict(part).items():
                    ev.set_item(owner, key, value)
            return None
        if name == "pop" and arguments and (len(arguments) == 1 or ev.contains(owner, arguments[0])):
            value = ev.item(owner, arguments[0])
            ev.delete_item(owner, arguments[0])
            return value
        if name == "pop" and arguments:
            return arguments[1]
        raise ev.refuse(Feature.NAMESPACE, f"{name} of the attributes of an object")


class Namespace(Kind):
    """The `__dict__` of an object."""

    name = "the attributes of an object"
    of = ObjectDict

    def type(self) -> type:
        """A dict."""
        return dict

    def truth(self) -> bool:
        """Whether the object has attributes."""
        return bool(self.members())

    def get(self, name: str) -> Any:
        """A method of the dict."""
        return NamespaceMethod(self.it, name)

    def item(self, index: Any) -> Any:
        """An attribute."""
        name = self.ev.concrete(index)
        if not self.contains(name):
            raise self.ev.raised(KeyError(name))
        return of_instance(self.ev, self.it.owner, name)

    def set_item(self, index: Any, value: Any) -> None:
        """Sets an attribute."""
        put_plainly(self.ev, self.it.owner, self.ev.concrete(index), value)

    def delete_item(self, index: Any) -> None:
        """Deletes an attribute."""
        self.item(index)
        self.set_item(index, MISSING)

    def contains(self, member: Any) -> Any:
        """Whether the object itself has an attribute."""
        ev, owner, name = self.ev, self.it.owner, self.ev.concrete(member)
        key = slot_of(owner, name)
        if key in ev.heap.shadow:
            return ev.heap.shadow[key] is not MISSING
        found, held = name in owner.__dict__, ev.heap.path_to(owner)
        if held is not None:
            ev.script.assume(f"({name!r} in {held}.__dict__) is {found}", ev.noted(Presence, f".{name}"))
        return found

    def members(self) -> list[Any]:
        """The names, in order."""
        owner, heap = self.it.owner, self.ev.heap
        held, now = heap.path_to(owner), tuple(owner.__dict__)
        if held is None:
            return list(now)
        same = self.ev.noted(SameKeys, f"of a {type(owner).__name__}")
        self.ev.script.assume(f"tuple({held}.__dict__) == {now!r}", same)
        slots = {key[2]: v for key, v in heap.shadow.items() if key[:2] == ("attribute", id(owner))}
        gone = {name for name in slots if slot_of(owner, name) in heap.deleted}
        kept = [name for name in now if name not in gone]
        return [*kept, *(name for name, value in slots.items() if name not in kept and value is not MISSING)]

    def length(self) -> int:
        """How many attributes there are."""
        return len(self.members())

    def operate(self, function: Any, operands: Sequence[Any]) -> Any:
        """As of a dict with what it holds."""
        return self.ev.operate(function, [self.ev.opened(operand) for operand in operands])

    def opened(self) -> Any:
        """A new dict with what it holds."""
        return {name: of_instance(self.ev, self.it.owner, name) for name in self.members()}

    def lift(self) -> Any:
        """The same, lifted."""
        return self.ev.lift(self.opened())
