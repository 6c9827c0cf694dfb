"""What the Python of a layer decides by: a trace of its body holds as long as this is the same."""

from __future__ import annotations

import argparse
import functools
import hashlib
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from recgraph.cpython import facts
from recgraph.cpython.installed import is_installed

# What Keras changes in calls.
_PASSING = frozenset({
    "_losses", "_loss_ids", "_lock", "_called", "_tracked", "_self_tracked_trackables", "_inputs", "_inbound_nodes",
    "_outbound_nodes",
})  # fmt: skip
# What Keras notes of a layer that has been built.
_OF_BUILDING = frozenset({"_tracker", "_path", "built", "_build_shapes_dict"})
# Whose objects stay what they are.
_LIBRARIES = frozenset({"builtins", "tensorflow", "recgraph"})
# Methods that do not run in calls.
_ELSEWHERE = frozenset({"__init__", "build", "get_config", "get_build_config", "from_config", "build_from_config"})
# Libraries' classes whose objects are the user's data.
_NAMESPACES = (argparse.Namespace, types.SimpleNamespace)
# Levels of things in things that are looked at.
_DEEPEST = 64
# Bytes of an array above which its digest stands for it.
_LARGE = 1 << 16


def state_of(layer: keras.layers.Layer) -> list[Any]:
    """Attributes of a layer, of the layers in it, of the user's classes of both, and what the methods of these read.

    That are attributes of objects, globals, names of enclosing functions and defaults, also those that functions of the
    user's read which they call; data by value.
    """
    reader = _Reader()
    state: list[Any] = [layer.output_size, layer.engine, layer.gradient, layer.max_depth]
    for each in layer._flatten_layers():
        reader.seen.add(id(each))
        attributes = ((name, value) for name, value in vars(each).items() if name not in _PASSING | _ELSEWHERE)
        state += ((name, reader.held(value)) for name, value in attributes)
        state += reader.class_of(each)
    return state


def without_building(state: list[Any]) -> list[Any]:
    """A layer's state without what is another one as soon as Keras has built it."""
    return [each for each in state if not (isinstance(each, tuple) and each[0] in _OF_BUILDING)]


def held(value: Any) -> Any:
    """A value as it is now: lists, dicts, arrays and the attributes of objects are copied, for they may be changed."""
    return _Reader().held(value)


class _Reader:
    """Copies what may be changed in place; each thing once."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self._depth = 0

    def held(self, value: Any) -> Any:
        """The value, or a copy of what is in it."""
        if isinstance(value, int | float | str | bytes | None):
            return value
        if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
            numbers = value.tobytes()
            is_large = len(numbers) > _LARGE
            return [str(value.dtype), *value.shape, hashlib.blake2b(numbers).digest() if is_large else numbers]
        if id(value) in self.seen or self._depth == _DEEPEST:
            return value
        self.seen.add(id(value))
        self._depth += 1
        try:
            if isinstance(value, dict):
                return [(key, self.held(part)) for key, part in value.items()]
            if isinstance(value, np.ndarray):
                return [value.shape, *map(self.held, value.ravel().tolist())]  # a row would be an object made anew
            if isinstance(value, list | tuple | set):
                return [self.held(part) for part in value]
            return self._of_object(value)
        finally:
            self._depth -= 1

    def class_of(self, thing: Any) -> list[Any]:
        """The attributes of the user's classes of an object."""
        found: list[Any] = []
        for kind in type(thing).__mro__:
            if id(kind) not in self.seen and _is_users(kind):
                self.seen.add(id(kind))
                for name, value in vars(kind).items():
                    found.append((name, value if name in _ELSEWHERE else self.held(value)))
        return found

    def _of_object(self, value: Any) -> Any:
        parts = _parts(value)
        if parts is not None:
            return [value, *map(self.held, parts)]
        if isinstance(value, types.FunctionType):
            return self._of_function(value)
        kind: Any = type(value)
        if kind in _NAMESPACES or _is_users(kind) and not isinstance(value, type | keras.layers.Layer):
            slots = [slot for each in kind.__mro__ for slot in _slots(each) if hasattr(value, slot)]
            attributes = {**getattr(value, "__dict__", {}), **{slot: getattr(value, slot) for slot in slots}}
            return [value, *((name, self.held(part)) for name, part in attributes.items()), *self.class_of(value)]
        is_whole = isinstance(value, keras.layers.Layer | keras.Variable | tf.Module | type | types.ModuleType)
        if is_whole or _library_of(kind) in _LIBRARIES or not hasattr(value, "__dict__"):
            return value
        # What else a library's object has may lead anywhere.
        return [value, *((name, self._data(part)) for name, part in vars(value).items())]

    def _data(self, value: Any, around: frozenset[int] = frozenset()) -> Any:
        """A copy of lists, dicts and arrays in one another; the objects in them are left alone."""
        if id(value) in around:
            return value
        if isinstance(value, dict):
            return [(key, self._data(part, around | {id(value)})) for key, part in value.items()]
        if isinstance(value, list | tuple | set):
            return [self._data(part, around | {id(value)}) for part in value]
        return self.held(value) if isinstance(value, np.ndarray | np.generic) else value

    def _of_function(self, function: types.FunctionType) -> list[Any]:
        code = function.__code__
        if is_installed(code.co_filename) or _library_of(function) in {*_LIBRARIES, "keras"}:
            return [function, self.held(vars(function).get("__wrapped__"))]
        names, known = _names_in(code), function.__globals__
        read = [(name, self._named(known[name], names)) for name in names if name in known]
        around = [self.held(content) for content in _contents(function.__closure__ or ())]
        return [function, code, *map(self.held, (function.__defaults__, function.__kwdefaults__)), around, read]

    def _named(self, value: Any, names: tuple[str, ...]) -> Any:
        """What a function in which these names stand may read of a global."""
        is_open = _is_users_module(value) if isinstance(value, types.ModuleType) else _is_users_class(value)
        if not is_open:
            return self.held(value)
        return [value, *((name, self.held(vars(value)[name])) for name in names if name in vars(value))]


def _parts(value: Any) -> tuple[Any, ...] | None:
    """What a callable that wraps others consists of; None for anything else."""
    match value:
        case types.MethodType():
            return value.__func__, value.__self__
        case staticmethod() | classmethod():
            return (value.__func__,)
        case property():
            return (value.fget,)
        case functools.partial():
            return value.func, value.args, value.keywords
    return None


def _library_of(thing: Any) -> str:
    return str(getattr(thing, "__module__", None) or "").partition(".")[0]


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


# Not for longer than the classes and the code themselves: those of a cell are made again with each of its runs.
_users: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
_names: weakref.WeakKeyDictionary[types.CodeType, tuple[str, ...]] = weakref.WeakKeyDictionary()


def _is_users(kind: type) -> bool:
    """Whether a class is written in Python by the user."""
    if kind not in _users:
        _users[kind] = facts.is_written_in_python(kind) and _is_users_module(sys.modules.get(kind.__module__))
    return _users[kind]


def _is_users_class(value: Any) -> bool:
    return isinstance(value, type) and _is_users(value) and not issubclass(value, keras.layers.Layer)


def _is_users_module(module: types.ModuleType | None) -> bool:
    """Whether a module is the user's; what is typed or executed has no file."""
    name = module.__name__.partition(".")[0] if module is not None else ""
    if name in _LIBRARIES | {"keras"} or name in sys.stdlib_module_names - {"__main__"}:
        return False
    return not is_installed(getattr(module, "__file__", None) or "")


def _names_in(code: types.CodeType) -> tuple[str, ...]:
    """The names of globals and attributes in a function and in those inside of it."""
    if code not in _names:
        inner = (name for const in code.co_consts if isinstance(const, types.CodeType) for name in _names_in(const))
        _names[code] = tuple(dict.fromkeys([*code.co_names, *inner]))
    return _names[code]


def _contents(cells: tuple[types.CellType, ...]) -> Iterator[Any]:
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:  # it has none yet
            yield None


def is_alike(one: Any, other: Any) -> bool:
    """Whether two values are the same, or plain data that is equal."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_alike, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other)  # which tells zeros apart, and not one NaN from another
    return isinstance(one, int | str | bytes | tf.TypeSpec | tf.DType) and bool(one == other)
