"""Calls of what is not the user's: builtins, TensorFlow, Keras, NumPy. A table says which are special and how."""

from __future__ import annotations

import builtins
import collections
import functools
import math
import operator
import sys
import types
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from recgraph.speculate.evaluate import loops
from recgraph.speculate.library import SPECIAL, Arguments, Special, draws, frameworks, special, standard
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import known
from recgraph.speculate.observe.known import DATA_TYPES, PURE
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.assumptions import SameObject
from recgraph.speculate.script.symbolic import (
    COLLECTIONS,
    DynamicValue,
    LateCall,
    PartialShape,
    is_of_graph,
    is_symbolic,
    is_tensor_like,
    is_unknown,
    is_variable,
)
from recgraph.speculate.values import (
    arithmetic,
    attributes,
    containers,
    iterators,
    library_calls,
    objects,
    tables,
    texts,
)
from recgraph.speculate.values.containers import HeapMethod
from recgraph.speculate.values.texts import shown


def library(ev: Evaluator, function: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    """A call of a function that is not the user's."""
    arguments, named = [tables.settled(a) for a in arguments], {k: tables.settled(a) for k, a in named.items()}
    if draws.generator_of(function) is not None:
        return draws.call(ev, function, arguments, named)
    how = SPECIAL.get(function) if known.is_hashable(function) else None
    if how is not None:
        return how(ev, arguments, named)
    how = SPECIAL.get(function.__func__) if isinstance(function, types.MethodType) else None
    if how is not None:
        return how(ev, [function.__self__, *arguments], named)
    if isinstance(function, functools.partial):
        return _of_partial(ev, function, arguments, named)
    found = standard.call(ev, function, arguments, named)
    if found is not NotImplemented:
        return found
    owner = getattr(function, "__self__", None)
    if isinstance(function, types.MethodWrapperType) and function.__name__ == "__init__" and ev.heap.is_made(owner):
        if isinstance(owner, BaseException):
            owner.args = tuple(arguments)
        return None  # what `object` does
    if known.is_speculated(function):
        return ev.call(function.function, arguments, named)
    if isinstance(function, types.MethodType) and known.is_speculated(function.__func__):
        return ev.call(function.__func__, [function.__self__, *arguments], named)
    if known.is_hashable(function) and function in PURE:
        if function in _OF_FLOATS:
            arguments = [_as_float(ev, a) for a in arguments]
        lifted = [ev.lift(a) for a in arguments]
        return ev.python(function, lifted, {k: ev.lift(v) for k, v in named.items()})
    if isinstance(owner, COLLECTIONS) and ev.heap.name_of(owner) is not None:
        return HeapMethod(owner, function.__name__).call(ev, arguments, named)
    if isinstance(owner, (*DATA_TYPES, collections.deque)) and owner is not None and not isinstance(owner, type):
        return _method_of_data(ev, function, owner, arguments, named)
    if known.is_numpy(function):
        return _numpy(ev, function, arguments, named)
    if known.is_frameworks(function) or known.is_frameworks_object(owner) or known.is_frameworks_object(function):
        return frameworks.framework(ev, function, arguments, named)
    name = getattr(function, "__qualname__", None) or repr(function)
    raise ev.refuse(Feature.FOREIGN_FUNCTION, f"{known.top_package(function)}: {name} is not known")


# Functions that make floats of what they are given.
_OF_FLOATS = frozenset({
    math.isnan, math.isinf, math.isfinite, math.isclose, math.sqrt, math.exp, math.expm1, math.log, math.log2,
    math.log10, math.log1p, math.sin, math.cos, math.tan, math.sinh, math.cosh, math.tanh, math.pow, math.fabs,
    math.copysign, math.hypot,
})  # fmt: skip


def _as_float(ev: Evaluator, value: Any) -> Any:
    is_tensor = isinstance(value, tf.Tensor) or is_variable(value)
    return arithmetic.number_of(ev, float, value) if is_tensor else value


def _of_partial(ev: Evaluator, function: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    """A call of what `functools.partial` gives, with what it holds now."""
    inner, fixed, keywords = (attributes.of_instance(ev, function, n) for n in ("func", "args", "keywords"))
    given = {**ev.opened(keywords), **named}
    return ev.call(inner, [*ev.members(fixed), *arguments], given)


def _method_of_data(ev: Evaluator, function: Any, owner: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    """A method of a list, string, number...: made during the call, or constant."""
    if hasattr(owner, "_fields") and function.__name__ in ("_replace", "_asdict"):
        return library_calls.native_as_is(ev, getattr(ev.opened(owner), function.__name__), named)
    if isinstance(owner, list) and function.__name__ == "sort" and named.get("key") is not None:
        owner[:] = _by_key(ev, sorted, list(owner), named)
        return None
    if isinstance(owner, list | dict | set | collections.deque):
        return containers.applied(ev, owner, function.__name__, arguments, named)
    if isinstance(owner, str | bytes) and function.__name__ == "join":
        arguments = [ev.members(a) for a in arguments]
    as_given = texts.shown if isinstance(owner, str | bytes) else Evaluator.lift
    lifted = [as_given(ev, a) for a in arguments]
    named = {name: as_given(ev, a) for name, a in named.items()}
    if any(is_unknown(a) for a in symbolic.leaves([*lifted, *named.values()])):
        return ev.python(symbolic.call_method, [owner, function.__name__, *lifted], named)
    return ev.python(function, lifted, named)


def _numpy(ev: Evaluator, function: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    """NumPy runs in the script: before the graph or, on what comes out of it, after it."""
    if "random" in str(getattr(function, "__module__", "")):
        raise ev.refuse(Feature.RANDOM, f"{function.__name__} of NumPy's random numbers")
    lifted = [ev.lift(a) for a in arguments]
    keywords = {k: ev.lift(v) for k, v in named.items()}
    if isinstance(getattr(function, "__self__", None), np.ndarray):
        raise ev.refuse(Feature.ARRAY, "a method of a constant array is called")
    return ev.python(function, lifted, keywords)


def _asking_for(name: str, function: Any) -> Special:
    """NumPy asks what it is given for that attribute, if it has it."""

    def ask(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        if len(arguments) == 1 and not named and is_tensor_like(arguments[0]):
            return ev.get(arguments[0], name)
        return _numpy(ev, function, arguments, named)

    return ask


SPECIAL.update({np.shape: _asking_for("shape", np.shape), np.ndim: _asking_for("ndim", np.ndim)})


def _is_shown_late(value: Any) -> bool:
    """Returns whether the text of a value is found before it is printed: a user's class or a dynamic value gives it."""
    return objects.is_object(value) or isinstance(value, PartialShape) or texts.by_class(str, value)


@special(builtins.print)
def _print(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> None:
    ev.need_sequence("print")
    texts = [ev.python(str, [a]) if _is_shown_late(a) else a for a in arguments]
    held = [shown(ev, a) for a in texts]
    keywords = {name: shown(ev, a) for name, a in named.items() if name != "file"}
    if named.get("file") is not None:
        keywords["file"] = _stream(ev, named["file"])
    ev.effects.append(LateCall(ev.script.name(), ev.script.constant(print), held, keywords))


def _stream(ev: Evaluator, stream: Any) -> Any:
    """Where something is printed to: one of the process's streams, as long as it is that."""
    if isinstance(stream, DynamicValue):
        return stream
    name = next((name for name in ("stdout", "stderr") if getattr(sys, name) is stream), None)
    if name is None:
        raise ev.refuse(Feature.PRINT, "print() writes to a file of the program's")
    condition = f"{ev.script.constant(sys)}.{name} is {ev.script.constant(stream)}"
    ev.script.assume(condition, ev.noted(SameObject, f"sys.{name}"))
    return stream


def _number_of(kind: type) -> Special:
    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        if len(arguments) == 1 and isinstance(arguments[0], keras.Variable):
            ev.heap.given(arguments[0], ev.where())
        if len(arguments) == 1 and is_of_graph(arguments[0]):
            return arithmetic.number_of(ev, kind, arguments[0].tensor)
        if len(arguments) == 1 and is_tensor_like(arguments[0]):
            return arithmetic.number_of(ev, kind, arguments[0])
        if kind is bool and arguments:
            truth = ev.truth(arguments[0])
            return truth if isinstance(truth, bool) else ev.python(bool, [truth])
        return ev.python(kind, arguments, named)

    return convert


SPECIAL.update({kind: _number_of(kind) for kind in (float, int, bool)})


@special(builtins.issubclass)
def _issubclass(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> bool:
    kinds = ev.lift(arguments[1])
    if not isinstance(arguments[0], type):
        return bool(library_calls.build(ev, issubclass, [arguments[0], kinds], named))
    return objects.is_subclass(ev, arguments[0], kinds)


@special(builtins.type)
def _type(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    if len(arguments) != 1:
        raise ev.refuse(Feature.CLASS, "type() with three arguments makes a class")
    return ev.type_of(arguments[0])


@special(builtins.getattr)
def _getattr(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    owner, name, default = arguments[0], ev.concrete(arguments[1]), arguments[2:]
    if not default:
        return ev.get(owner, name)
    if attributes.runs_something(ev, owner, name):
        return objects.read_or(ev, owner, name, default[0])
    return ev.get(owner, name) if ev.kind(owner).has(name) else default[0]


SPECIAL[hasattr] = lambda ev, arguments, named: ev.kind(arguments[0]).has(ev.concrete(arguments[1]))


@special(builtins.sum)
def _sum(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    total = arguments[1] if len(arguments) > 1 else named.get("start", 0)
    rows = ev.rows(arguments[0])
    if rows is not None and not rows.begins:
        return loops.total(ev, rows, total)
    for member in ev.members(arguments[0]):
        total = ev.operate(operator.add, [total, member])
    return total


def _better(ev: Evaluator, function: Any, one: Any, other: Any) -> Any:
    """Of two tensors, the first unless the other is better."""
    if not all(isinstance(m, tf.Tensor) and m.shape.rank == 0 for m in (one, other)) or one.dtype != other.dtype:
        raise ev.refuse(Feature.MIN_MAX, f"{function.__name__}() of tensors that are not scalars of one dtype")
    return tf.where(other > one if function is max else other < one, other, one)


def _by_key(ev: Evaluator, function: Any, members: Arguments, named: dict[str, Any]) -> Any:
    """`min`, `max` or `sorted` with a function of the user's that gives the keys."""
    keys = [ev.call(named["key"], [m], {}) for m in members]
    more = {k: v for k, v in named.items() if k not in ("key", "default")}
    if not members and "default" in named:
        return named["default"]
    return _ranked(ev, function, members, keys, more)


def _ranked(ev: Evaluator, function: Any, members: Arguments, keys: Arguments, more: dict[str, Any]) -> Any:
    """`min`, `max` or `sorted` by keys: their order is assumed, not what they are."""
    if any(map(is_symbolic, symbolic.leaves(keys))):
        raise ev.refuse(Feature.KEY_FUNCTION, "tensors are used as keys")
    if (ordered := standard.ordered(ev, keys)) is not None:
        found = function(range(len(keys)), key=ordered.__getitem__, **more)
    else:
        lifted = [ev.lift(key) for key in keys]
        found = ev.concrete(ev.python(_ranking, [function.__name__, lifted], more))
    return [members[i] for i in found] if function is sorted else members[found]


def _ranking(name: str, keys: Arguments, **more: Any) -> Any:
    found = getattr(builtins, name)(range(len(keys)), key=keys.__getitem__, **more)
    return tuple(found) if name == "sorted" else found


@special(builtins.sorted)
def _sorted(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    members = ev.members(arguments[0])
    if named.get("key") is not None:
        return _by_key(ev, sorted, members, named)
    return _ranked(ev, sorted, members, members, {k: v for k, v in named.items() if k != "key"})


@special(builtins.range)
def _range(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    if not any(is_symbolic(a) or is_of_graph(a) for a in arguments):
        return ev.python(range, arguments)
    parts = [ev.tensor(a) for a in arguments]
    if not all(part.dtype.is_integer for part in parts):
        raise ev.refuse(Feature.RAISES, "range() needs integer tensors")
    parts = [tf.cast(part, tf.int64) for part in parts]
    start = parts[0] if len(parts) > 1 else tf.constant(0, tf.int64)
    step = parts[2] if len(parts) > 2 else tf.constant(1, tf.int64)
    return iterators.range_rows([start, parts[min(1, len(parts) - 1)], step])


@special(builtins.vars)
def _vars(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    if len(arguments) != 1:
        raise ev.refuse(Feature.NAMESPACE, "vars() or locals() without an argument")
    return ev.get(arguments[0], "__dict__")


@special(builtins.globals)
def _globals(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    names = ev.frame.function.__globals__
    ev.heap.names.setdefault(id(names), ev.script.constant(names))
    return names


@special(functools.partial)
def _partial(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    function, *fixed = arguments
    if not callable(function):
        raise ev.refuse(Feature.RAISES, "the first argument of functools.partial() must be callable")
    return ev.heap.make(functools.partial(function, *fixed, **named))


def _extreme_of(function: Any) -> Special:
    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        members = ev.members(arguments[0]) if len(arguments) == 1 else arguments
        if "key" in named:
            return _by_key(ev, function, members, named)
        if any(is_symbolic(m) for m in members):
            return functools.reduce(lambda a, b: _better(ev, function, a, b), members)
        is_in_graph = any(isinstance(m, DynamicValue) and (m.late or m.tensor is not None) for m in members)
        if is_in_graph and (best := arithmetic.extreme(ev, function, members)) is not None:
            return best
        if (ordered := standard.ordered(ev, members)) is not None:
            return standard.unordered(function(ordered))
        return ev.python(function, [members], named)

    return convert


SPECIAL.update({function: _extreme_of(function) for function in (min, max)})


SPECIAL[list] = lambda ev, arguments, named: list(ev.pieces(arguments[0])) if arguments else []
SPECIAL[tuple] = lambda ev, arguments, named: tuple(ev.pieces(arguments[0])) if arguments else ()
