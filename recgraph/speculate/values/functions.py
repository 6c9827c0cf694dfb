"""Calls: of the user's functions, which are converted where they are called, of classes, of what libraries define."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import types
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from recgraph.defects import described
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.machine.protocol import Kind
from recgraph.speculate.observe import known
from recgraph.speculate.observe.frames import watched
from recgraph.speculate.observe.known import answer_themselves
from recgraph.speculate.observe.profile import Seen, is_plain
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.observe.syntax import Frame, Syntax, names_of, syntax_of
from recgraph.speculate.script.assumptions import SameObject
from recgraph.speculate.script.heap import slot_of
from recgraph.speculate.script.symbolic import Generator, MadeFunction, SymbolicValue
from recgraph.speculate.values import library_calls, objects, tables
from recgraph.speculate.values.containers import ConcreteValue, Object

# Calls inside of calls, after which the program is taken to be recursive.
DEPTH = 60


def inline(ev: Evaluator, function: types.FunctionType, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Converts a function of the user's as a part of its caller."""
    code = function.__code__
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise ev.refuse(Feature.COROUTINE, f"{function.__name__} is a coroutine")
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None and known.is_frameworks(type(function)):
        raise ev.refuse(Feature.CALLEE, "the call reaches a function through a wrapper of a framework")
    if len(ev.frames) > DEPTH:
        raise ev.refuse(Feature.RECURSION, f"{function.__name__} calls itself, or calls nest too deeply")
    bound = _bound(ev, function, arguments, named)
    assume_code(ev, function)
    syntax = syntax_of(function)
    if code.co_flags & inspect.CO_GENERATOR:
        return _generator(ev, Frame(syntax, names_of(syntax.node), function, dict(bound.arguments)))

    def run(values: list[Any]) -> Any:
        named_values = dict(zip(bound.arguments, values, strict=True))
        return enter(ev, Frame(syntax, names_of(syntax.node), function, named_values))

    if syntax.key in ev.profile.varying:
        result = tables.call(ev, function, list(bound.arguments.values()), run)
        if result is not None:
            return result
    return run(list(bound.arguments.values()))


def assume_code(ev: Evaluator, function: types.FunctionType) -> None:
    """Checks that a function has the body that is converted: whoever reloads a module may give it another."""
    condition = f"{ev.script.found(function)}.__code__ is {ev.script.constant(function.__code__)}"
    ev.script.assume(condition, ev.noted(SameObject, f"the body of {function.__name__}"))


def _generator(ev: Evaluator, frame: Frame) -> Generator:
    return Generator(lambda: enter(ev, frame), frame)


def _bound(
    ev: Evaluator, function: Any, arguments: list[Any], named: dict[str, Any], defaults: bool = True
) -> inspect.BoundArguments:
    try:
        bound = inspect.signature(function, follow_wrapped=False).bind(*arguments, **named)
    except TypeError as error:
        raise ev.refuse(Feature.RAISES, described(error)) from error
    if defaults:
        given = set(bound.arguments)
        bound.apply_defaults()
        for name in set(bound.arguments) - given:
            bound.arguments[name] = _default(ev, function, name, bound.arguments[name])
    return bound


def _default(ev: Evaluator, function: Any, name: str, value: Any) -> Any:
    """A default; one that can change is an object of the heap."""
    kind = inspect.signature(function, follow_wrapped=False).parameters[name].kind
    empty = kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if empty or not isinstance(function, types.FunctionType):
        return value
    place = f".__kwdefaults__[{name!r}]"
    if kind is not inspect.Parameter.KEYWORD_ONLY:
        code = function.__code__
        if is_plain(value):
            same = ev.noted(SameObject, f"the defaults of {function.__name__}")
            defaults = ev.script.constant(function.__defaults__)
            ev.script.assume(f"{ev.script.found(function)}.__defaults__ is {defaults}", same)
            return value
        place = f".__defaults__[{code.co_varnames.index(name) - code.co_argcount}]"
    key, expression = ("default", id(function), name), f"{ev.script.found(function)}{place}"
    return ev.heap.read(key, expression, value, name, Seen(), None, ev.where())


def enter(ev: Evaluator, frame: Frame) -> Any:
    """Runs a function's body in a frame of its own."""
    here = ev.here
    ev.frames.append(frame)
    try:
        signal = ev.run(frame.syntax.body)
    finally:
        ev.frames.pop()
        ev.here = here
    return signal[1] if signal is not None else None


class Closure(MadeFunction):
    """A function made during the call. TensorFlow may call it, too."""

    autograph_info__ = None  # AutoGraph leaves alone what has this, without a warning

    def __init__(self, ev: Evaluator, node: ast.FunctionDef | ast.Lambda) -> None:
        self.ev, self.node, self.frame = ev, node, ev.frame
        arguments = node.args
        self.defaults = [ev.value(default) for default in arguments.defaults]
        self.named_defaults = [None if d is None else (ev.value(d),) for d in arguments.kw_defaults]
        self.__name__ = getattr(node, "name", "<lambda>")

    @tf.autograph.experimental.do_not_convert
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        with library_calls.called_back(self.ev), watched(None):
            return self.ev.lift(self.call(self.ev, list(arguments), named))

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Converts it where it is called."""
        syntax = Syntax.within(self.frame.syntax, self.node)
        names = names_of(self.node)
        frame = Frame(syntax, names, self.frame.function, self._bound(ev, arguments, named), self.frame)
        return _generator(ev, frame) if yields(self.node) else enter(ev, frame)

    def _bound(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, with Python's rules."""
        parts = self.node.args
        kinds = inspect.Parameter
        free = [kinds.empty] * (len(parts.posonlyargs) + len(parts.args) - len(self.defaults))
        made = []
        for i, (argument, default) in enumerate(
            zip([*parts.posonlyargs, *parts.args], [*free, *self.defaults], strict=True)
        ):
            kind = kinds.POSITIONAL_ONLY if i < len(parts.posonlyargs) else kinds.POSITIONAL_OR_KEYWORD
            made.append(kinds(argument.arg, kind, default=default))
        if parts.vararg:
            made.append(kinds(parts.vararg.arg, kinds.VAR_POSITIONAL))
        for argument, held in zip(parts.kwonlyargs, self.named_defaults, strict=True):
            made.append(kinds(argument.arg, kinds.KEYWORD_ONLY, default=kinds.empty if held is None else held[0]))
        if parts.kwarg:
            made.append(kinds(parts.kwarg.arg, kinds.VAR_KEYWORD))
        try:
            bound = inspect.Signature(made).bind(*arguments, **named)
        except TypeError as error:
            raise ev.refuse(Feature.RAISES, described(error)) from error
        bound.apply_defaults()
        return dict(bound.arguments)


def yields(node: ast.AST) -> bool:
    """Whether a function is a generator function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(child, ast.FunctionDef | ast.Lambda) and yields(child):
            return True
    return False


class Super(SymbolicValue):
    """`super()`: attributes of the classes after the one that the method belongs to."""

    def __init__(self, owner: Any, after: type) -> None:
        self.owner, self.after = owner, after

    @classmethod
    def of(cls, ev: Evaluator) -> Super:
        """For the method that is being converted."""
        frame = ev.frame
        if frame.outer is not None:  # it would be asked of what the inner function is given first
            raise ev.refuse(Feature.SUPER, "super() in a function inside of a method")
        code = frame.function.__code__
        if "__class__" not in code.co_freevars:
            raise ev.refuse(Feature.SUPER, "super() outside of a method")
        kind = frame.function.__closure__[code.co_freevars.index("__class__")].cell_contents
        return cls(frame.locals[code.co_varnames[0]], kind)


def instantiate(ev: Evaluator, kind: type, arguments: list[Any], named: dict[str, Any]) -> Any:
    """An object of a class of the user's, made during the call."""
    if answer_themselves(kind):
        raise ev.refuse(Feature.CUSTOM_ACCESS, "a new object's class overrides attribute access")
    if known.is_frameworks_object_type(kind) or issubclass(kind, type):
        raise ev.refuse(Feature.NEW_OBJECT, f"the call makes a {kind.__name__}, which a library keeps track of")
    if issubclass(kind, BaseException):
        return objects.made(ev, kind, arguments, named)
    if _is_written(kind.__new__) or _is_written(type(kind).__call__):
        raise ev.refuse(Feature.NEW_OBJECT, f"the call makes a {kind.__name__}, whose class overrides object creation")
    if issubclass(kind, tuple) and hasattr(kind, "_make") and not isinstance(kind.__init__, types.FunctionType):
        _, *members = _bound(ev, kind.__new__, [kind, *arguments], named).arguments.values()
        return kind._make(members)
    if not objects.is_inherited(ev, kind, "__new__"):
        found = library_calls.build(ev, kind, arguments, named)
        return found if isinstance(found, enum.Enum) else ev.heap.make(found)
    made = objects.blank(ev, kind)
    initialize = ev.of_class(kind, "__init__")
    if isinstance(initialize, types.FunctionType):
        if hasattr(kind, "__dataclass_fields__") and initialize.__code__.co_filename == "<string>":
            _dataclass(ev, made, arguments, named)
        else:
            objects.check_given(ev, "__init__", inline(ev, initialize, [made, *arguments], named))
    return made


def _is_written(method: Any) -> bool:
    """Whether the user has written a method, which the one of a named tuple is not."""
    return known.is_users_function(method) and not known.is_generated(method)


def _dataclass(ev: Evaluator, made: Any, arguments: list[Any], named: dict[str, Any]) -> None:
    """What the `__init__` that `dataclasses` writes does."""
    kind = type(made)
    if known.is_users_function(setter := ev.of_class(kind, "__setattr__")) and not known.is_generated(setter):
        raise ev.refuse(Feature.CUSTOM_ACCESS, f"{kind.__name__} has accessors of its own")
    given = _bound(ev, kind, arguments, named, False).arguments
    passed: list[Any] = []  # what `__post_init__` gets
    for name, field in _fields_of(kind):
        is_passed = field._field_type is dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]
        if name in given:
            value = given[name]
        elif field.default_factory is not dataclasses.MISSING:
            value = ev.call(field.default_factory, [], {})
        elif field.default is not dataclasses.MISSING and field.init:
            value = _default(ev, kind.__init__, name, field.default)
        elif field.default is not dataclasses.MISSING and name in objects.slots_of(kind):
            place = f"{ev.script.constant(field)}.default"  # else it is the class's
            value = ev.heap.read(("default", id(field)), place, field.default, name, Seen(), None, ev.where())
        else:
            continue
        passed += [value] if is_passed else []
        if not is_passed:
            object.__setattr__(made, name, value)
    post = ev.of_class(kind, "__post_init__")
    if post is not None:
        ev.call(post, [made, *passed], {})


def _fields_of(kind: type) -> list[tuple[str, Any]]:
    """The fields of a dataclass, with those that only its `__post_init__` gets."""
    fields: dict[str, Any] = getattr(kind, "__dataclass_fields__")  # noqa: B009
    return [(n, field) for n, field in fields.items() if field._field_type is not dataclasses._FIELD_CLASSVAR]  # type: ignore[attr-defined]


class Made(Kind):
    """A function that the call has made, or a method that it has found."""

    name = "a function that the call has made"
    of = MadeFunction

    def truth(self) -> bool:
        """As of every function."""
        return True

    def type(self) -> type:
        """Of those that the program has defined; what methods are Python alone knows."""
        if not isinstance(self.it, Closure):
            raise self._cannot("the type")
        return types.FunctionType

    def call(self, arguments: list[Any], named: dict[str, Any]) -> Any:
        """As it says."""
        return self.it.call(self.ev, arguments, named)

    def has(self, name: str) -> bool:
        """As functions have."""
        return hasattr(self.it, name)

    def get(self, name: str) -> Any:
        """Its name."""
        if name != "__name__" or not isinstance(self.it, Closure):
            raise self._cannot(f"the attribute {name}")
        return self.it.__name__


class SuperKind(Kind):
    """`super()`."""

    name = "super()"
    of = Super

    def truth(self) -> bool:
        """As every object without a length."""
        return True

    @property
    def _kind(self) -> type:
        """The class whose bases are asked: of a class method the class itself, in a metaclass its own class."""
        is_of_class = isinstance(self.it.owner, type) and self.it.after in self.it.owner.__mro__
        return self.it.owner if is_of_class else type(self.it.owner)

    @property
    def _after(self) -> Sequence[type]:
        """The classes after the one that the method belongs to."""
        order = self._kind.__mro__
        return order[order.index(self.it.after) + 1 :]

    def find(self, name: str) -> Any:
        """What the first of the classes holds that has the name, unbound; None if none has."""
        ev, order = self.ev, self._kind.__mro__
        same = ev.noted(SameObject, f"the classes around {self._kind.__name__}")
        ev.script.assume(f"{ev.script.constant(self._kind)}.__mro__ is {ev.script.constant(order)}", same)
        return next((found for base in self._after if (found := ev.own(base, name)) is not None), None)

    def has(self, name: str) -> bool:
        """Whether one of the classes does."""
        return self.find(name) is not None

    def get(self, name: str) -> Any:
        """A method of a base class, bound."""
        ev, found = self.ev, self.find(name)
        if found is None:
            raise ev.refuse(Feature.RAISES, f"super() has no {name}")
        if isinstance(found, types.FunctionType):
            return types.MethodType(found, self.it.owner)
        if isinstance(found, classmethod):
            return types.MethodType(found.__func__, self._kind)
        if isinstance(found, property) and found.fget is not None:
            return ev.call(found.fget, [self.it.owner], {})
        if objects.method(ev, type(found), "__get__") is not None:
            raise ev.refuse(Feature.DESCRIPTOR, f"super() finds the descriptor {name}")
        if hasattr(type(found), "__get__"):
            return getattr(super(self.it.after, self.it.owner), name)
        seen, site = ev.seen()
        base = next(base for base in self._after if base.__dict__.get(name) is found)
        place = f"{ev.script.constant(base)}.__dict__[{name!r}]"
        return ev.heap.read(slot_of(base, name), place, found, name, seen, site, ev.where())


class FunctionKind(ConcreteValue):
    """A function or bound method."""

    name = "a function"

    @classmethod
    def takes(cls, value: Any) -> bool:
        """Functions that are written in Python."""
        is_bound = isinstance(value, types.MethodType) and isinstance(value.__func__, types.FunctionType)
        return is_bound or isinstance(value, types.FunctionType)

    def call(self, arguments: list[Any], named: dict[str, Any]) -> Any:
        """One of the user's is converted as a part of its caller."""
        is_bound = isinstance(self.it, types.MethodType)
        function: Any = self.it.__func__ if is_bound else self.it
        if known.is_users(function):
            return inline(self.ev, function, [self.it.__self__, *arguments] if is_bound else arguments, named)
        return self.ev.library(self.it, arguments, named) if is_bound else super().call(arguments, named)


class Class(Object):
    """A class."""

    name = "a class"

    @classmethod
    def takes(cls, value: Any) -> bool:
        """All classes."""
        return isinstance(value, type)

    @property
    def precedence(self) -> int:  # type: ignore[override]
        """Its metaclass decides, if that is the user's."""
        return Object.precedence if objects.is_object(self.it) else ConcreteValue.precedence

    def call(self, arguments: list[Any], named: dict[str, Any]) -> Any:
        """A new object: of a class of the user's by its methods."""
        if known.is_users_type(self.it) or issubclass(self.it, BaseException):
            return instantiate(self.ev, self.it, arguments, named)
        return super().call(arguments, named)

    def item(self, index: Any) -> Any:
        """By `__class_getitem__`, if that is the program's."""
        own = self.ev.of_class(self.it, "__class_getitem__")
        is_own = isinstance(own, classmethod) and known.is_users_function(own.__func__)
        if is_own and self._method("__getitem__") is None:
            return self.ev.call(own.__func__, [self.it, index], {})
        return super().item(index)

    def contains(self, member: Any) -> Any:
        """By its metaclass."""
        return (Object if objects.is_object(self.it) else ConcreteValue).contains(self, member)

    def begin(self) -> Any:
        """By its metaclass."""
        return super().begin() if objects.is_object(self.it) else self.it

    def members(self) -> list[Any]:
        """Of an enumeration its members."""
        if objects.is_object(self.it):
            return super().members()
        return list(self.it) if isinstance(self.it, enum.EnumType) else ConcreteValue.members(self)

    def iterator(self) -> Iterator[Any]:
        """By its metaclass."""
        return super().iterator() if objects.is_object(self.it) else iter(self.members())

    def operate(self, function: Any, operands: Sequence[Any]) -> Any:
        """By its metaclass."""
        return (Object if objects.is_object(self.it) else ConcreteValue).operate(self, function, operands)
