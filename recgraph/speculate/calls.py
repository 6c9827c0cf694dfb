"""Calls: of the user's functions, which are converted where they are called, of classes, of what libraries define."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.speculate import (
    arrays,
    builtin_calls,
    container_methods,
    containers,
    generators,
    grown,
    known,
    namespaces,
    on_exceptions,
    protocols,
    recursion,
    residuals,
    shapes,
)
from recgraph.speculate.asking import answer_themselves
from recgraph.speculate.evaluator import Evaluator, MethodCall, rule
from recgraph.speculate.frames import watched
from recgraph.speculate.profile import Seen, is_plain
from recgraph.speculate.reasons import Again, Inconvertible
from recgraph.speculate.scopes import Frame, names_of
from recgraph.speculate.syntax import Syntax, syntax_of
from recgraph.speculate.values import Iteration, Residual, Run, StandIn, is_symbolic

# Calls inside of calls, after which the program is taken to be recursive.
DEPTH = 60


@dataclasses.dataclass
class LateCall:
    """A call that the script makes after the graph.

    Attributes:
        name: of the result.
        function: its name.
        arguments: values of the conversion.
        named: those given by name.
        is_pure: whether it changes nothing, so that it may be made before everything that does.
        may_raise: whether it may.
    """

    name: str
    function: str
    arguments: list[Any]
    named: dict[str, Any]
    is_pure: bool = False
    may_raise: bool = False


@rule(ast.Call)
def _call(ev: Evaluator, node: ast.Call) -> Any:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        return Super.of(ev)
    function = ev.value(node.func)
    arguments = containers.elements(ev, node.args)
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        value = ev.value(keyword.value)
        if keyword.arg is None:
            named.update(containers.opened(ev, value))
        else:
            named[keyword.arg] = value
    return call(ev, function, arguments, named)


def call(ev: Evaluator, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
    """The value of a call."""
    if isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType):
        if known.is_users(function.__func__):
            return call(ev, function.__func__, [function.__self__, *arguments], named)
        return builtin_calls.library(ev, function, arguments, named)
    if isinstance(
        function,
        residuals.Method
        | container_methods.HeapMethod
        | namespaces.Method
        | shapes.AsList
        | Closure
        | arrays.Method
        | arrays.Numpy,
    ):
        return function.call(ev, arguments, named)
    if isinstance(function, types.FunctionType) and known.is_users(function):
        return inline(ev, function, arguments, named)
    if isinstance(function, type) and (known.is_users_type(function) or issubclass(function, BaseException)):
        return instantiate(ev, function, arguments, named)
    if is_symbolic(function):
        raise ev.refuse("raises", "a tensor is called")
    function = ev.concrete(function)
    own = ev.of_class(type(function), "__call__")
    if isinstance(own, types.FunctionType) and known.is_users(own):
        return call(ev, own, [function, *arguments], named)
    return builtin_calls.library(ev, function, arguments, named)


@rule(MethodCall)
def _method_call(ev: Evaluator, node: MethodCall) -> Any:
    with ev.at(node.node):
        return call(ev, node.method, [node.owner], {})


def inline(ev: Evaluator, function: types.FunctionType, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Converts a function of the user's as a part of its caller."""
    code = function.__code__
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise ev.refuse("coroutine", f"{function.__name__} is a coroutine")
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None and known.is_frameworks(type(function)):
        raise ev.refuse("callee", "a wrapped callee")
    if len(ev.frames) > DEPTH:
        raise ev.refuse("recursion", f"{function.__name__} calls itself")
    bound = _bound(ev, function, arguments, named)
    assume_code(ev, function)
    syntax = syntax_of(function)
    if code.co_flags & inspect.CO_GENERATOR:
        return _generator(ev, Frame(syntax, names_of(syntax.node), function, dict(bound.arguments)))

    def run(values: list[Any]) -> Any:
        named_values = dict(zip(bound.arguments, values, strict=True))
        return enter(ev, Frame(syntax, names_of(syntax.node), function, named_values))

    if syntax.key in ev.profile.varying:
        result = recursion.call(ev, function, list(bound.arguments.values()), run)
        if result is not None:
            return result
    return run(list(bound.arguments.values()))


def assume_code(ev: Evaluator, function: types.FunctionType) -> None:
    """That a function has the body that is converted: whoever reloads a module may give it another."""
    condition = f"{ev.script.constant(function)}.__code__ is {ev.script.constant(function.__code__)}"
    ev.script.assume(condition, ev.noted("identity", f"the body of {function.__name__}"))


def _generator(ev: Evaluator, frame: Frame) -> generators.Generator:
    return generators.Generator(lambda: enter(ev, frame), frame)


def _bound(
    ev: Evaluator, function: Any, arguments: list[Any], named: dict[str, Any], defaults: bool = True
) -> inspect.BoundArguments:
    try:
        bound = inspect.signature(function, follow_wrapped=False).bind(*arguments, **named)
    except TypeError as error:
        raise ev.refuse("raises", str(error)) from error
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
            same = ev.noted("identity", f"the defaults of {function.__name__}")
            defaults = ev.script.constant(function.__defaults__)
            ev.script.assume(f"{ev.script.constant(function)}.__defaults__ is {defaults}", same)
            return value
        place = f".__defaults__[{code.co_varnames.index(name) - code.co_argcount}]"
    key, expression = ("default", id(function), name), f"{ev.script.constant(function)}{place}"
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


class Closure(StandIn):
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
        self.ev.callbacks += 1
        try:
            with watched(None):
                return containers.lift(self.ev, self.call(self.ev, list(arguments), named))
        finally:
            self.ev.callbacks -= 1

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
            raise ev.refuse("raises", str(error)) from error
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


class Callback(StandIn):
    """A function of the user's that a library may call: it is converted where that happens.

    Args:
        ev: the conversion.
        function: the user's.
        sequential: whether it is called just once, where the library is called, so that it may have effects.
    """

    autograph_info__ = None

    def __init__(self, ev: Evaluator, function: Any, sequential: bool = False) -> None:
        self.ev, self.function, self.sequential = ev, function, sequential
        self.__name__ = getattr(function, "__name__", "callback")
        self.__signature__ = inspect.signature(function)

    @tf.autograph.experimental.do_not_convert
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        count = 0 if self.sequential else 1
        self.ev.callbacks += count
        try:
            with watched(None):
                result = call(self.ev, self.function, list(arguments), named)
                return argument(self.ev, result, list(arguments))
        finally:
            self.ev.callbacks -= count


class Super(StandIn):
    """`super()`: attributes of the classes after the one that the method belongs to."""

    def __init__(self, owner: Any, after: type) -> None:
        self.owner, self.after = owner, after

    @classmethod
    def of(cls, ev: Evaluator) -> Super:
        """For the method that is being converted."""
        frame = ev.frame
        while frame.outer is not None:
            frame = frame.outer
        code = frame.function.__code__
        if "__class__" not in code.co_freevars:
            raise ev.refuse("super", "super() outside of a method")
        kind = frame.function.__closure__[code.co_freevars.index("__class__")].cell_contents
        return cls(frame.locals[code.co_varnames[0]], kind)

    @property
    def _kind(self) -> type:
        """The class whose bases are asked: of a class method the class itself, in a metaclass its own class."""
        is_of_class = isinstance(self.owner, type) and self.after in self.owner.__mro__
        return self.owner if is_of_class else type(self.owner)

    def find(self, ev: Evaluator, name: str) -> Any:
        """What the first of the classes holds that has the name, unbound; None if none has."""
        order = self._kind.__mro__
        same = ev.noted("identity", f"the classes around {self._kind.__name__}")
        ev.script.assume(f"{ev.script.constant(self._kind)}.__mro__ is {ev.script.constant(order)}", same)
        after = order[order.index(self.after) + 1 :]
        return next((found for base in after if (found := ev.own(base, name)) is not None), None)

    def attribute(self, ev: Evaluator, name: str) -> Any:
        """A method of a base class, bound."""
        found = self.find(ev, name)
        if found is None:
            raise ev.refuse("raises", f"super() has no {name}")
        if isinstance(found, types.FunctionType):
            return types.MethodType(found, self.owner)
        if isinstance(found, classmethod):
            return types.MethodType(found.__func__, self._kind)
        if isinstance(found, property) and found.fget is not None:
            return call(ev, found.fget, [self.owner], {})
        return getattr(super(self.after, self.owner), name)


def instantiate(ev: Evaluator, kind: type, arguments: list[Any], named: dict[str, Any]) -> Any:
    """An object of a class of the user's, made during the call."""
    if answer_themselves(kind):
        raise ev.refuse("custom access", "a new object that says itself what it is when it is asked")
    if known.is_frameworks_object_type(kind) or issubclass(kind, type):
        raise ev.refuse("new object", f"a new {kind.__name__}, which a library keeps track of")
    if issubclass(kind, BaseException):
        return on_exceptions.made(ev, kind, arguments, named)
    if _is_written(kind.__new__) or _is_written(type(kind).__call__):
        raise ev.refuse("new object", f"a new {kind.__name__}, whose class makes its objects itself")
    if issubclass(kind, tuple) and hasattr(kind, "_make") and not isinstance(kind.__init__, types.FunctionType):
        return kind._make(_bound(ev, kind, arguments, named).arguments.values())
    if not protocols.is_inherited(ev, kind, "__new__"):
        return native(ev, kind, arguments, named)
    made = protocols.blank(ev, kind)
    initialize = ev.of_class(kind, "__init__")
    if isinstance(initialize, types.FunctionType):
        if hasattr(kind, "__dataclass_fields__") and initialize.__code__.co_filename == "<string>":
            _dataclass(ev, made, arguments, named)
        else:
            inline(ev, initialize, [made, *arguments], named)
    return made


def _is_written(method: Any) -> bool:
    """Whether the user has written a method, which the one of a named tuple is not."""
    return isinstance(method, types.FunctionType) and known.is_users(method) and not known.is_generated(method)


def _dataclass(ev: Evaluator, made: Any, arguments: list[Any], named: dict[str, Any]) -> None:
    """What the `__init__` that `dataclasses` writes does."""
    given = _bound(ev, type(made), arguments, named, False).arguments
    for field in dataclasses.fields(made):
        if field.name in given:
            object.__setattr__(made, field.name, given[field.name])
        elif field.default_factory is not dataclasses.MISSING:
            object.__setattr__(made, field.name, call(ev, field.default_factory, [], {}))
        elif field.default is not dataclasses.MISSING:
            object.__setattr__(made, field.name, field.default)
    post = ev.of_class(type(made), "__post_init__")
    if post is not None:
        call(ev, post, [made], {})


def native(ev: Evaluator, function: Callable[..., Any], arguments: list[Any], named: dict[str, Any]) -> Any:
    """A function that builds operations, or looks at known values only."""
    owner = getattr(function, "__self__", None)
    others = [owner, *arguments] if isinstance(owner, tf.Variable) else arguments
    if isinstance(owner, tf.Variable) and function.__name__ in _ASSIGNING:
        arguments = [_for_variable(ev, owner, a) for a in arguments]
        named = {name: _for_variable(ev, owner, a) if name in _VALUES else a for name, a in named.items()}
    if isinstance(named.get("step"), Residual) and _is_summary(function):
        named = {**named, "step": residuals.as_tensor(ev, named["step"], tf.int64)}
    values = [argument(ev, a, others) for a in arguments]
    keywords = {name: argument(ev, a, others) for name, a in named.items()}
    try:
        return function(*values, **keywords)
    except (Inconvertible, Again):
        raise
    except Exception as error:
        raise _reason(ev, function, error) from error


_ASSIGNING = ("assign", "assign_add", "assign_sub")
_VALUES = ("value", "delta")


def _for_variable(ev: Evaluator, variable: tf.Variable, value: Any) -> Any:
    """What a variable is given: a number takes its dtype."""
    if not isinstance(value, Residual) or value.is_array or residuals.type_of(ev, value) not in (int, float):
        return value
    dtype = variable.dtype
    if residuals.type_of(ev, value) is int and dtype.is_integer:
        return _integer(ev, value, dtype)
    if not dtype.is_floating:
        raise ev.refuse("raises", f"a float that differs from call to call, for a variable of {dtype.name}")
    return tf.identity(residuals.as_tensor(ev, value, dtype))


def _is_summary(function: Any) -> bool:
    """Whether a function writes summaries, whose step is an int64."""
    return getattr(tf.summary, str(getattr(function, "__name__", "")), None) is function


def _reason(ev: Evaluator, function: Any, error: Exception) -> Exception:
    """Why a call of a library's function failed; what our own code has raised in it, if it did."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Inconvertible | Again):
            return cause
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, tf.errors.OperatorNotAllowedInGraphError | NotImplementedError):
        return ev.refuse("in graph", f"{getattr(function, '__name__', function)}: {error}"[:300])
    if isinstance(error, _RAISED):
        return ev.refuse("raises", f"{type(error).__name__}: {error}"[:300])
    return error


_RAISED = (TypeError, ValueError, AttributeError, LookupError, RuntimeError, tf.errors.OpError)


def native_as_is(ev: Evaluator, function: Callable[..., Any], named: dict[str, Any]) -> Any:
    """A function that only moves the values that it is given."""
    try:
        return function(**named)
    except (TypeError, ValueError) as error:
        raise ev.refuse("raises", f"{type(error).__name__}: {error}") from error


def argument(ev: Evaluator, value: Any, others: list[Any]) -> Any:
    """An argument as a library's function takes it."""
    if isinstance(value, shapes.PartialShape):
        value = list(value.dims)
    if isinstance(value, Iteration):
        return iter([argument(ev, member, others) for member in containers.iterate(ev, value)])
    lifted = containers.lift(ev, value)
    if any(isinstance(leaf, Run) for leaf in residuals.leaves([lifted])):
        raise grown.refuse(ev, "a library is given a list of which only the graph knows the length")
    return _tensors_for_numbers(ev, lifted, others)


def _tensors_for_numbers(ev: Evaluator, value: Any, others: list[Any]) -> Any:
    if isinstance(value, Residual):
        return _number(ev, value, others)
    if isinstance(value, types.FunctionType) and known.is_users(value):
        return Callback(ev, value)
    if isinstance(value, types.MethodType) and known.is_users_method(value):
        return Callback(ev, value)
    if isinstance(value, list | tuple) and any(isinstance(v, Residual | list | tuple) for v in value):
        members = [_tensors_for_numbers(ev, v, others) for v in value]
        return type(value)._make(members) if hasattr(value, "_make") else type(value)(members)
    return value


def _number(ev: Evaluator, value: Residual, others: list[Any]) -> tf.Tensor:
    """A number for TensorFlow: beside tensors of floats it has their dtype, else what TensorFlow makes of it."""
    tensor = residuals.as_tensor(ev, value)
    if value.is_array or isinstance(value.example, np.ndarray | np.generic) or tensor.dtype in (tf.bool, tf.string):
        return tensor
    dtypes = [o.dtype for o in others if isinstance(o, tf.Tensor | tf.Variable)]
    if tensor.dtype.is_floating:
        return tf.cast(tensor, next((d for d in dtypes if d.is_floating), tf.float32))
    return _integer(ev, value, next((d for d in dtypes if d.is_integer), None))


def _integer(ev: Evaluator, value: Residual, dtype: tf.DType | None) -> tf.Tensor:
    """An integer of a dtype that holds it: without another beside it int32 or, as in eager execution, int64."""
    wanted = dtype or tf.int32
    what = ev.noted("decision", f"an integer within {wanted.name}")
    if value.tensor is None:
        fits = wanted.min <= value.example <= wanted.max
        ev.script.assume(f"({wanted.min} <= {value.name} <= {wanted.max}) is {fits}", what)
        if not fits and dtype is not None:
            raise ev.refuse("value", f"an integer that is not within {wanted.name}")
        wanted = wanted if fits else tf.int64
    else:
        is_sure = wanted == tf.int64 or (value.limit is not None and value.limit <= _SURELY)
        if not is_sure and not ev.callbacks and not ev.recursive_bodies:
            ev.assert_in_graph((value.tensor >= wanted.min) & (value.tensor <= wanted.max), what)
    return tf.identity(residuals.as_tensor(ev, value, wanted))  # the other stands for the number itself


# Integers of the graph that are known not to exceed this are dimensions, or have been int32: they fit.
_SURELY = 1 << 40
