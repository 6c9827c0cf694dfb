"""Values as text: what `str`, `format`, `print`, `%` and their like are given, as it is at that moment of the call.

Containers are copied, with all that they hold, since the program may change them before the text is made or after it.
Variables get the values that they have in their place. What has a text of which the rules know nothing is refused: an
object whose class writes it, in a container; one that is shown by its address; what the conversion itself has made.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import known
from recgraph.speculate.observe.known import DATA_TYPES
from recgraph.speculate.observe.profile import is_plain
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.assumptions import Presence, SameConstant, SameKeys
from recgraph.speculate.script.symbolic import (
    CONTAINERS,
    DynamicValue,
    PartialShape,
    SymbolicValue,
    VariableSnapshot,
    has_run,
    is_symbolic,
    mapped,
)
from recgraph.speculate.values import arrays, objects
from recgraph.speculate.values.attributes import ObjectDict
from recgraph.speculate.values.objects import FROZEN

# Methods that a class writes to say what its objects look like.
_WRITING: Final = ("__str__", "__repr__", "__format__")
_VIEWS: Final = {type(view): name for name in ("keys", "values", "items") for view in (
    getattr({}, name)(), getattr(collections.OrderedDict(), name)(),
)}  # fmt: skip
# What a container may hold for which it is copied in the script, however many members it has by then.
_FLAT: Final = frozenset({int, float, complex, bool, str, bytes, type(None), tf_private.EagerTensor})
_FACTORIES: Final = (None, int, float, str, list, dict, set, tuple)
TO_TEXT: Final = (str, repr, format, ascii, print)
# What text may be that is known only after the graph.
TEXTS: Final = ("", "a", "tf.Tensor([1.5 2. ], shape=(2,), dtype=float32)")
VARIABLES: Final = (tf.Variable, keras.Variable)


def makes_text(function: Any, arguments: Sequence[Any]) -> bool:
    """Whether a function of Python's makes text of what it is given."""
    if function in TO_TEXT or function is json.dumps or isinstance(getattr(function, "__self__", None), str | bytes):
        return True
    takes_text = function in (operator.mod, operator.imod) or function is symbolic.call_method
    return takes_text and bool(arguments) and is_text(arguments[0])


def is_text(value: Any) -> bool:
    """Whether a value is a string, or may be one that is known only after the graph."""
    if isinstance(value, DynamicValue):
        return value.tensor is None and (value.late or isinstance(value.example, str | bytes))
    return isinstance(value, str | bytes)


def escaped(text: str) -> str:
    """What `ascii` makes of what `repr` gives."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


def gives_text(function: Any, arguments: Sequence[Any]) -> bool:
    """Whether what a function gives is a string."""
    if function in (operator.mod, operator.imod) or function is symbolic.call_method:
        is_format = function is not symbolic.call_method or arguments[1] in ("format", "format_map", "join")
        return is_format and isinstance(symbolic.example_of(arguments[0]), str)
    return function in (*TO_TEXT, json.dumps, escaped)


def shown(ev: Evaluator, value: Any, around: tuple[int, ...] = ()) -> Any:
    """A value as it would be shown now; `around` are the containers that it is in.

    Raises:
        Inconvertible: it has a text that cannot be made where Python makes it.
    """
    if isinstance(value, VARIABLES):
        return VariableSnapshot(value)
    if isinstance(value, PartialShape):
        return ev.kind(value).operand()
    if isinstance(value, ObjectDict):
        value = ev.opened(value)
    kind = type(value)
    if kind in _VIEWS:
        members = shown(ev, value.mapping.copy(), around)
        return ev.python(_viewed, [_VIEWS[kind], members])
    if kind in CONTAINERS or (isinstance(value, tuple) and hasattr(kind, "_make")):
        return _container(ev, value, around)
    if arrays.is_array(value):
        return dataclasses.replace(value)  # what becomes of the array itself does not matter to it
    if isinstance(value, DynamicValue | VariableSnapshot) or is_plain(value) or kind is tf_private.EagerTensor:
        return value
    if is_symbolic(value):
        return value
    if kind is np.ndarray and value.dtype.kind != "O":
        return value.copy()
    if kind is slice:
        return mapped(lambda part: shown(ev, part, around), value)
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType):
        return _named(ev, value)
    if not _is_fixed(value):
        raise ev.refuse(Feature.TEXT, f"the text of a {kind.__name__}, which is made eagerly")
    return value


def _is_fixed(value: Any) -> bool:
    """Whether a value is a library's, cannot change, and so has one text for ever."""
    kind = type(value)
    if isinstance(value, enum.Enum):
        return not writes_text(kind) and is_plain(value.value)
    if known.is_users_type(kind) or isinstance(value, SymbolicValue):
        return False
    return isinstance(value, (*FROZEN, *DATA_TYPES, tf.TypeSpec)) and not isinstance(value, CONTAINERS)


def writes_text(kind: type) -> bool:
    """Whether a class, or one that it is derived from, is the user's and says what its objects look like."""
    written = [vars(base).get(name) for base in kind.__mro__ if known.is_users_type(base) for name in _WRITING]
    return any(isinstance(one, types.FunctionType) and not _is_python_s(one) for one in written)


def _is_python_s(function: types.FunctionType) -> bool:
    """Whether a library has put a function into the user's class: named tuples and enumerations have such."""
    return known.is_generated(function) or known.top_package(function) in ("enum", "collections")


def _named(ev: Evaluator, value: Any) -> Any:
    """A class, function or module: its text says its name, which may be changed."""
    if isinstance(value, type) and objects.is_object(value):
        raise ev.refuse(Feature.TEXT, f"the text of {value.__name__}, which is made eagerly")
    same = ev.noted(SameConstant, "the name of a class or function")
    ev.script.assume(f"repr({ev.script.constant(value)}) == {repr(value)!r}", same)
    return value


def _container(ev: Evaluator, value: Any, around: tuple[int, ...]) -> Any:
    """A container with what it holds at this moment."""
    kind = type(value)
    if id(value) in around:
        raise ev.refuse(Feature.TEXT, f"the text of a {kind.__name__} that holds itself")
    if kind not in CONTAINERS and writes_text(kind):
        raise ev.refuse(Feature.TEXT, f"the text of a {kind.__name__}, which is made eagerly")
    if ev.heap.name_of(value) is not None:
        ev.heap.unsealed(value, ev.where())
        if _may_be_copied(ev, value):
            return _copied(ev, value)
        if isinstance(value, set | frozenset):
            _assume_order(ev, value)
    whole = ev.opened(value)
    if kind is collections.defaultdict:
        shown(ev, value.default_factory)
    if isinstance(whole, dict):
        for key in whole:
            shown(ev, key)
    if isinstance(whole, set | frozenset) and not _keeps_order(whole):
        raise ev.refuse(Feature.TEXT, f"the text of a {kind.__name__} with an order that a copy does not have")
    within = (*around, id(value))
    return mapped(lambda member: shown(ev, member, within), whole)


def _assume_order(ev: Evaluator, value: Any) -> None:
    """A set is shown in an order that depends on how it has come about: it must be as it was."""
    whole, now = ev.opened(value), tuple(value)
    if len(now) > 1 and tuple(whole) != now or len(whole) > 1 and len(now) < 2:
        raise ev.refuse(Feature.TEXT, f"the text of a {type(value).__name__} that the call has changed")
    order = ev.noted(SameKeys, f"the order of a {type(value).__name__}")
    ev.script.assume(f"tuple({ev.heap.name_of(value)}) == {ev.script.constant(now)}", order)


def _keeps_order(members: Any) -> bool:
    """Whether a set has the order that its copies have, however made: its members do not displace each other."""
    copies = (members.copy(), type(members)(members), type(members)(list(members)))
    return all(tuple(copy) == tuple(members) for copy in copies)


def _may_be_copied(ev: Evaluator, value: Any) -> bool:
    """Whether a container that was there before holds data only, and the call has at most added to its end."""
    heap, kind = ev.heap, type(value)
    if kind in (tuple, set, frozenset) or kind not in CONTAINERS or id(value) in heap.opened:
        return False
    slots = [v for key, v in heap.shadow.items() if key[:2] == ("item", id(value))]
    if slots or has_run(heap.appended.get(id(value))):
        return False
    try:
        flat(value)
    except TypeError:
        return False
    return True


def _copied(ev: Evaluator, value: Any) -> Any:
    """Such a container as the script copies it before the graph, and what was added to it since."""
    ev.script.scope["flat"] = flat
    name = ev.script.read(f"flat({ev.heap.name_of(value)})", ev.noted(Presence, "a container of data"))
    copy = DynamicValue(name, flat(value))
    added = ev.heap.appended.get(id(value), [])
    if not added:
        return copy
    return ev.in_script(_longer, [copy, [shown(ev, one, (id(value),)) for one in added]])


def flat(container: Any) -> Any:
    """A copy of a container of numbers, strings and tensors.

    Raises:
        TypeError: it is, or holds, something else.
    """
    kind = type(container)
    if kind not in CONTAINERS or getattr(container, "default_factory", None) not in _FACTORIES:
        raise TypeError(kind)
    held = [*container.keys(), *container.values()] if isinstance(container, dict) else container
    if not all(type(one) in _FLAT or isinstance(one, np.generic) for one in held):
        raise TypeError("something else")
    return container.copy()


def _longer(container: Any, added: list[Any]) -> Any:
    return type(container)([*container, *added], *([container.maxlen] if hasattr(container, "maxlen") else []))


def _viewed(name: str, members: Any) -> Any:
    return getattr(members, name)()


def by_class(function: Callable[..., Any], value: Any) -> bool:
    """Whether the user's class says itself what is made of a value, as no builtin does that is asked for all others."""
    if function is ascii and objects.is_object(value):
        return True
    return function in TO_TEXT and isinstance(value, enum.Enum) and writes_text(type(value))
