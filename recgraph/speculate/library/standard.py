"""Calls of what the standard library has for data: `collections`, `copy`, `operator`, methods of types, caches."""

from __future__ import annotations

import ast
import builtins
import collections
import contextlib
import copy
import dataclasses
import functools
import logging
import operator
import time
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final

import absl.logging
import tensorflow as tf

from recgraph.cpython import facts
from recgraph.speculate.evaluate.exceptions import HELPER, Nothing, OfGenerator, Suppressing
from recgraph.speculate.library import SPECIAL, Arguments, Special, frameworks, special
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import known
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.assumptions import SameDecision, SameObject
from recgraph.speculate.script.symbolic import MISSING, DynamicValue, LateCall, is_symbolic
from recgraph.speculate.values import containers, objects, texts
from recgraph.speculate.values.functions import Super

_IMMUTABLE = (int, float, complex, str, bytes, bool, tuple, frozenset, range)


def call(ev: Evaluator, function: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    """The call of an object that the library makes; `NotImplemented` for any other."""
    for kind, how in _CALLED.items():
        if isinstance(function, kind):
            return how(ev, function, arguments, named)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type) and getattr(function, "__name__", "") == "_make" and hasattr(owner, "_fields"):
        return ev.call(owner, ev.members(arguments[0]), {})
    if getattr(function, "__code__", None) is facts.DISPATCHING:
        kind = ev.type_of(arguments[0])
        chosen = function.dispatch(kind)
        names = [ev.script.constant(thing) for thing in (function, kind, chosen)]
        chooses = ev.noted(SameObject, f"what {function.__name__} does for a {kind.__name__}")
        ev.script.assume("{}.dispatch({}) is {}".format(*names), chooses)
        return ev.call(chosen, arguments, named)
    inner = getattr(function, "__func__", function)
    is_manager = isinstance(inner, types.FunctionType) and inner.__code__ is HELPER
    if is_manager and known.is_users(inner.__wrapped__):
        bound = [] if inner is function else [function.__self__]
        made = ev.call(inner.__wrapped__, [*bound, *arguments], named)
        return OfGenerator(made)
    return NotImplemented


def _of_items(ev: Evaluator, function: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    found = [ev.item(arguments[0], item) for item in function.__reduce__()[1]]
    return found[0] if len(found) == 1 else tuple(found)


def _of_attributes(ev: Evaluator, function: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    found = []
    for path in function.__reduce__()[1]:
        names = path.split(".")
        found.append(functools.reduce(lambda owner, name: ev.get(owner, name), names, arguments[0]))
    return found[0] if len(found) == 1 else tuple(found)


def _of_method(ev: Evaluator, function: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    kind, given = function.__reduce__()
    keywords = kind.keywords if isinstance(kind, functools.partial) else {}
    name, *others = kind.args + given if isinstance(kind, functools.partial) else given
    return ev.call(ev.get(arguments[0], name), others, keywords)


def _of_descriptor(ev: Evaluator, function: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    """`str.upper(text)` is `text.upper()`."""
    owner, *others = arguments
    if not issubclass(function.__objclass__, (*_IMMUTABLE, list, dict, set)):
        raise ev.refuse(Feature.FOREIGN_FUNCTION, f"{function.__qualname__} is not known")
    if isinstance(ev.of_class(type(owner), function.__name__), types.FunctionType):  # which `get` would find instead
        raise ev.refuse(Feature.FOREIGN_FUNCTION, f"{function.__qualname__} of a class that overrides it")
    return ev.call(ev.get(owner, function.__name__), others, named)


def _cached(ev: Evaluator, function: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    """A function with a cache: called as it is, before the graph, where it only computes on plain data."""
    if not isinstance(function.__wrapped__, types.FunctionType) or not frameworks.only_computes(function.__wrapped__):
        raise ev.refuse(Feature.CACHE, f"{function.__name__} has a cache and may do more than compute")
    plain = (*_IMMUTABLE, type(None))
    if not all(isinstance(symbolic.example_of(a), plain) for a in [*arguments, *named.values()]):
        raise ev.refuse(Feature.CACHE, f"{function.__name__} has a cache and is given objects")
    result = ev.python(function, arguments, named)
    if not isinstance(symbolic.example_of(result), plain):
        raise ev.refuse(Feature.CACHE, f"{function.__name__} keeps objects")
    return result


_CALLED: dict[Any, Callable[..., Any]] = {
    operator.itemgetter: _of_items,
    operator.attrgetter: _of_attributes,
    operator.methodcaller: _of_method,
    types.MethodDescriptorType: _of_descriptor,
    facts.CACHED: _cached,
}


def _made_of_known(kind: type) -> Special:
    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        return kind(*(ev.concrete(a) for a in arguments), **named)

    return convert


SPECIAL.update({kind: _made_of_known(kind) for kind in (operator.itemgetter, operator.attrgetter)})
SPECIAL[operator.methodcaller] = lambda ev, arguments, named: operator.methodcaller(*arguments, **named)


def _applied(function: Any) -> Special:
    """A function of `operator` that is what an expression is."""
    return lambda ev, arguments, named: ev.operate(function, arguments)


_OPERATORS = """
add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift neg pos invert lt le gt ge eq ne abs iadd isub
imul
"""
SPECIAL.update({f: _applied(f) for f in (getattr(operator, name) for name in _OPERATORS.split())})


def _with(function: Callable[..., Any]) -> Special:
    """What an expression or statement is, as a function."""
    return lambda ev, arguments, named: function(ev, *arguments)


SPECIAL[operator.getitem] = _with(Evaluator.item)
SPECIAL[operator.setitem] = _with(Evaluator.set_item)
SPECIAL[operator.delitem] = _with(Evaluator.delete_item)
SPECIAL[operator.contains] = _with(Evaluator.contains)
SPECIAL[operator.is_] = _with(objects.identity)
SPECIAL[len] = _with(Evaluator.length)
SPECIAL[abs] = _applied(operator.abs)
SPECIAL[isinstance] = lambda ev, arguments, named: objects.is_instance(ev, arguments[0], ev.lift(arguments[1]))
SPECIAL[setattr] = lambda ev, arguments, named: ev.put(arguments[0], ev.concrete(arguments[1]), arguments[2])
SPECIAL[delattr] = lambda ev, arguments, named: ev.put(arguments[0], ev.concrete(arguments[1]), MISSING)
SPECIAL[operator.truth] = lambda ev, arguments, named: SPECIAL[bool](ev, arguments, named)


@special(operator.not_)
def _not(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    truth = ev.truth(arguments[0])
    if isinstance(truth, tf.Tensor):
        return DynamicValue("", tensor=tf.logical_not(truth), late=True)
    return ev.operate(operator.not_, [truth])


SPECIAL[operator.is_not] = lambda ev, arguments, named: _not(ev, [_with(objects.identity)(ev, arguments, {})], {})


SPECIAL[super] = lambda ev, arguments, named: Super(arguments[1], arguments[0])
SPECIAL[typing.cast] = lambda ev, arguments, named: arguments[1]
SPECIAL[callable] = lambda ev, arguments, named: callable(symbolic.example_of(arguments[0]))
SPECIAL[contextlib.suppress] = lambda ev, arguments, named: Suppressing(tuple(arguments))
SPECIAL[contextlib.nullcontext] = lambda ev, arguments, named: Nothing(named.get("enter_result", [*arguments, None][0]))
SPECIAL[copy.deepcopy] = lambda ev, arguments, named: deep_copy(ev, arguments[0], {})


@special(collections.deque)
def _deque(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    most = ev.concrete(named.get("maxlen", [*arguments, None, None][1]))
    return collections.deque(ev.members(arguments[0]) if arguments else [], most)


@special(collections.defaultdict)
def _defaultdict(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    factory, *others = arguments or [None]
    return collections.defaultdict(factory, _items(ev, others, named))


@special(builtins.dict)
def _items(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> dict[Any, Any]:
    """What `dict` makes of its arguments."""
    made: dict[Any, Any] = {}
    for given in arguments:
        whole = containers.mapping(ev, given) if containers.is_mapping(ev, given) else ev.opened(given)
        if isinstance(whole, dict):
            made.update(whole)
            continue
        for pair in ev.members(whole):
            key, value = ev.members(pair)
            made[objects.check_key(ev, ev.concrete(key))] = value
    return {**made, **named}


SPECIAL[collections.OrderedDict] = lambda ev, arguments, named: collections.OrderedDict(_items(ev, arguments, named))


@special(collections.Counter)
def _counter(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    whole = ev.opened(arguments[0]) if arguments else {}
    if isinstance(whole, dict):
        return collections.Counter({**whole, **named})
    members = [ev.concrete(member) for member in ev.members(whole)]
    if any(map(is_symbolic, members)):
        raise ev.refuse(Feature.KEY, "collections.Counter counts tensors")
    return collections.Counter([objects.check_key(ev, member) for member in members], **named)


@special(dict.fromkeys)
def _from_keys(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> dict[Any, Any]:
    keys = [ev.concrete(key) for key in ev.members(arguments[0])]
    return dict.fromkeys([objects.check_key(ev, key) for key in keys], *arguments[1:])


def _class_method(function: Any) -> Special:
    return lambda ev, arguments, named: ev.python(function, [ev.lift(a) for a in arguments], named)


SPECIAL.update({f: _class_method(f) for f in (
    str.maketrans, bytes.fromhex, int.from_bytes, float.fromhex, bytes.maketrans,
)})  # fmt: skip


@special(copy.copy)
def _copy(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    value = ev.opened(arguments[0])
    if isinstance(value, list | dict | set | collections.deque):
        return value.copy()
    return _object_copy(ev, value, lambda member: member, "__copy__")


def deep_copy(ev: Evaluator, value: Any, memo: dict[int, Any]) -> Any:
    """What `copy.deepcopy` gives. Objects that are reached twice are copied once."""
    if id(value) in memo:
        return memo[id(value)][0]
    whole = ev.opened(value)
    made: Any
    if type(whole) in (list, collections.deque, dict, collections.OrderedDict):
        made = whole.copy()
        made.clear()
        memo[id(value)] = made, value
        if isinstance(whole, dict):
            made.update({deep_copy(ev, key, memo): deep_copy(ev, v, memo) for key, v in whole.items()})
        else:
            made.extend(deep_copy(ev, member, memo) for member in whole)
        return made
    if isinstance(whole, tuple):
        members = [deep_copy(ev, member, memo) for member in whole]
        made = whole._make(members) if hasattr(whole, "_make") else tuple(members)
    elif isinstance(whole, set | frozenset):
        made = whole.copy()
    else:
        made = _object_copy(ev, whole, lambda member: deep_copy(ev, member, memo), "__deepcopy__")
    memo[id(value)] = made, value
    return made


def _object_copy(ev: Evaluator, value: Any, member: Callable[[Any], Any], own: str) -> Any:
    """Numbers, strings and tensors are their own copies; an object of the user's gets copies of its attributes."""
    frozen = isinstance(value, (*_IMMUTABLE, type(None), type, types.FunctionType, types.BuiltinFunctionType))
    if isinstance(value, DynamicValue) and isinstance(value.example, _IMMUTABLE):
        return value
    if not objects.is_object(value) and (frozen or isinstance(value, tf.Tensor)):
        return value
    kind = type(value)
    is_plain = all(objects.is_inherited(ev, kind, name) for name in ("__reduce__", "__reduce_ex__"))
    if not is_plain or hasattr(kind, own) or not hasattr(value, "__dict__") or known.is_frameworks_object(value):
        raise ev.refuse(Feature.COPY, f"a copy of a {kind.__name__}")
    if hasattr(kind, "__getstate__") and isinstance(kind.__getstate__, types.FunctionType) or objects.slots_of(kind):
        raise ev.refuse(Feature.COPY, f"a copy of a {kind.__name__}")
    made = objects.blank(ev, kind)
    for name, found in ev.opened(ev.get(value, "__dict__")).items():
        made.__dict__[name] = member(found)
    return made


class _Ordered:
    """An object of the user's, or data, that `sorted` compares."""

    def __init__(self, ev: Evaluator, value: Any, node: ast.AST) -> None:
        self.ev, self.value, self.node = ev, value, node

    def __lt__(self, other: _Ordered) -> bool:
        return self.ev.decided(self.ev.operate(operator.lt, [self.value, other.value]), at=self.node)

    def __gt__(self, other: _Ordered) -> bool:
        return self.ev.decided(self.ev.operate(operator.gt, [self.value, other.value]), at=self.node)


def ordered(ev: Evaluator, members: Arguments) -> list[Any] | None:
    """Members for `sorted`, `min` and `max` where a class of the user's decides about them; None if none does."""
    if not any(map(objects.is_object, members)):
        return None
    return [_Ordered(ev, member, ev.here) for member in members]


def unordered(found: Any) -> Any:
    """What `sorted`, `min` or `max` gave, as members again."""
    return [one.value for one in found] if isinstance(found, list) else found.value


@special(dataclasses.replace)
def _replace(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    owner = arguments[0]
    fields = [f.name for f in dataclasses.fields(owner) if f.init]
    given = {name: named[name] if name in named else ev.get(owner, name) for name in fields}
    return ev.call(type(owner), [], {**given, **named})


@special(dataclasses.fields)
def _fields(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    return dataclasses.fields(arguments[0])


@special(dataclasses.is_dataclass)
def _is_dataclass(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> bool:
    return (objects.is_object(arguments[0]) or isinstance(arguments[0], type)) and dataclasses.is_dataclass(
        arguments[0]
    )


def _as(make: Callable[[list[tuple[str, Any]]], Any]) -> Special:
    """All that a data class holds, data classes in it included; `make` makes something of names and values."""

    def whole(ev: Evaluator, value: Any) -> Any:
        if objects.is_object(value) and dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            return make([(name, whole(ev, ev.get(value, name))) for name in names])
        inside = ev.opened(value)
        if type(inside) in (list, tuple):
            return type(inside)(whole(ev, member) for member in inside)
        if type(inside) is dict:
            return {key: whole(ev, member) for key, member in inside.items()}
        return deep_copy(ev, value, {})

    return lambda ev, arguments, named: whole(ev, arguments[0])


SPECIAL[dataclasses.asdict] = _as(dict)
SPECIAL[dataclasses.astuple] = _as(lambda pairs: tuple(value for _, value in pairs))

_LEVELS: Final = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error", "critical")}


def is_plain(logger: logging.Logger) -> bool:
    """Whether nothing of the user's sees what is logged, which might look at what the program does afterwards."""
    parts = [part for one in _handling(logger) for part in (one, *one.filters)]
    return bool(parts) and not any(known.is_users_type(type(part)) for part in [*parts, *logger.filters, logger])


def _handling(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


def _log(
    logger: logging.Logger, level: int, place: tuple[str, int, str], message: Any, arguments: tuple[Any, ...]
) -> None:
    if logger.isEnabledFor(level):
        file, line, function = place
        logger.handle(logger.makeRecord(logger.name, level, file, line, message, arguments, None, function))


def _kept(ev: Evaluator, logger: logging.Logger, level: Any, arguments: Arguments, named: dict[str, Any]) -> None:
    """Keeps one message."""
    if named or not arguments:
        raise ev.refuse(Feature.LOGGING, "a message with exc_info, stack_info, stacklevel or extra")
    if not is_plain(logger):
        raise ev.refuse(Feature.LOGGING, f"who handles what {logger.name} logs may be the program")
    ev.need_sequence("logging")
    ev.heap.given(logger, ev.where())
    name = ev.script.constant(logger)
    ev.script.assume(f"{ev.script.constant(is_plain)}({name})", SameDecision("handlers", ev.where()))
    held = [texts.shown(ev, a) for a in arguments]
    syntax = ev.frame.syntax
    place = (syntax.filename, getattr(ev.here, "lineno", 0), syntax.name)
    given = [logger, ev.concrete(level), place, held[0], tuple(held[1:])]
    effect = LateCall(ev.script.name(), ev.script.constant(_log), given, {})
    ev.effects.append(effect)


def _of_level(level: int) -> Special:
    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> None:
        _kept(ev, arguments[0], level, arguments[1:], named)

    return convert


def _of_root(level: int) -> Special:
    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> None:
        _kept(ev, logging.getLogger(), level, arguments, named)

    return convert


def _of_absl(level: int) -> Special:
    """A function of Abseil's, whose logger is TensorFlow's: it sets up a handler for all loggers if there is none."""

    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> None:
        if not logging.root.handlers:
            raise ev.refuse(Feature.LOGGING, "nothing handles what is logged yet")
        ev.script.assume(f"{ev.script.constant(logging.root)}.handlers", SameDecision("handlers", ev.where()))
        _kept(ev, absl.logging.get_absl_logger(), level, arguments, named)

    return convert


def _of_any_level(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> None:
    _kept(ev, arguments[0], arguments[1], arguments[2:], named)


SPECIAL.update({getattr(logging.Logger, name): _of_level(level) for name, level in _LEVELS.items()})
SPECIAL.update({getattr(logging, name): _of_root(level) for name, level in _LEVELS.items()})
SPECIAL.update({getattr(absl.logging, name): _of_absl(_LEVELS[name]) for name in ("debug", "info", "warning", "error")})
SPECIAL[logging.Logger.log] = _of_any_level


def _clock(function: Callable[[], Any]) -> Special:
    """A clock is read where the program does: before all that the call computes, or after it."""

    def read(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> DynamicValue:
        ev.need_sequence("a clock")
        if not ev.contexts.forks and not _computes():
            return ev.in_script(function, [])
        name = ev.script.name()
        ev.effects.append(LateCall(name, ev.script.constant(function), [], {}, is_pure=True))
        return DynamicValue(name, late=True, samples=(function(),))

    return read


def _computes() -> bool:
    """Whether the graph has more than inputs."""
    return any(one.type not in _INPUTS for one in tf.compat.v1.get_default_graph().get_operations())


_INPUTS = ("Placeholder", "Const", "ReadVariableOp")
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
SPECIAL.update({f: _clock(f) for f in (getattr(time, name + unit) for name in _CLOCKS for unit in ("", "_ns"))})
