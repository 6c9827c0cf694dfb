"""Values that refer to others: what makes one anew of these, and whether it leads to what one call alone has made."""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import operator
import types
from collections.abc import Iterator, Sequence
from typing import Any, Final

import tensorflow as tf

from recgraph import tf_private
from recgraph.cpython import facts
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.known import is_a
from recgraph.speculate.script.heap import is_namespace
from recgraph.speculate.script.symbolic import COLLECTIONS, SymbolicValue

# The method that gives a view of a dict, by the class of the view.
_VIEWS: Final = {
    type(getattr(kind(), name)()): name
    for kind in (dict, collections.OrderedDict)
    for name in ("keys", "values", "items")
}
_GETTERS: Final = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
_BUILT_IN: Final = (types.BuiltinMethodType, types.MethodWrapperType)
# What can be gone through or entered once. The next call would find it used up.
_ONCE: Final = (Iterator, contextlib.AbstractContextManager)
# What nothing of one call is found behind.
_ENDS: Final = (
    types.ModuleType, type, types.CodeType, types.FrameType, tf.Graph, tf_private.EagerTensor, tf.DType,
    str, bytes, int, float, type(None),
)  # fmt: skip


def owner_of(value: Any) -> tuple[Any, str] | None:
    """The container that a view or a built-in method belongs to, and what gives that of it; None for other values."""
    if type(value) in _VIEWS:
        return facts.dict_of(value), f".{_VIEWS[type(value)]}()"
    if isinstance(value, _BUILT_IN) and is_a(value.__self__, COLLECTIONS):
        return value.__self__, f".{value.__name__}"
    return None


def made_of(value: Any) -> tuple[Any, Sequence[Any], dict[str, Any]] | None:
    """A class and arguments of which it makes a value that refers to them; None for other values."""
    if type(value) is functools.partial and not vars(value):
        return functools.partial, [value.func, *value.args], value.keywords
    if type(value) in _GETTERS:
        made, given = value.__reduce__()  # with names, a partial function of the class
        given = [*getattr(made, "args", ()), *given]
        return type(value), given, getattr(made, "keywords", {})
    if type(value) is types.MethodType and not is_a(value.__self__, tf.Tensor):  # the class of an eager one has its own
        return types.MethodType, [value.__func__, value.__self__], {}
    return None


def why_not_kept(ev: Evaluator, value: Any) -> str:
    """Why a value may not leave every call as it left the one that is converted; "" if it may."""
    if is_a(value, _ONCE):
        return "serves once"
    return "holds what the call has made" if _is_of_call(ev, value) else ""


def _is_of_call(ev: Evaluator, value: Any) -> bool:
    """Whether a value leads to what the call has made, or to a tensor of its graph."""
    copies = set(map(id, ev.heap.opened.values()))
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or is_a(one, _ENDS) or ev.heap.name_of(one) is not None or is_namespace(one):
            continue
        if is_a(one, SymbolicValue) or id(one) in copies or ev.heap.is_made(one) or _is_in(one, ev.graph):
            return True
        seen.add(id(one))
        waiting += gc.get_referents(one)
    return False


def _is_in(value: Any, graph: Any) -> bool:
    """Whether a value is a tensor of a graph, or of one in it."""
    place = value.graph if is_a(value, tf.Tensor) else None
    while place is not None and place is not graph:
        place = getattr(place, "outer_graph", None)
    return place is not None
