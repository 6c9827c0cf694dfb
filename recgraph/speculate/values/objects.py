"""What classes of the user's define for operators and builtins: `__add__` and `__radd__`, `__eq__`, `__repr__`.

Python's rules: the left operand's method, then the reflected one of the right, each of which may decline. What
`dataclasses` writes has no source; its meaning is here.
"""

from __future__ import annotations

import abc
import builtins
import dataclasses
import datetime
import decimal
import enum
import fractions
import inspect
import math
import operator
import pathlib
import re
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import known
from recgraph.speculate.observe.known import DATA_TYPES, IN_PLACE
from recgraph.speculate.observe.profile import is_plain
from recgraph.speculate.observe.reasons import Feature, ProgramException, matches
from recgraph.speculate.script.assumptions import NoException, SameObject
from recgraph.speculate.script.contexts import Catching
from recgraph.speculate.script.symbolic import DynamicValue, SymbolicValue, is_of_graph, is_symbolic

_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_IN_PLACE = frozenset(function.__name__ for function in IN_PLACE)
# Builtins that ask a class for a method, which they give their other arguments.
METHODS: dict[Any, str] = {
    str: "__str__", repr: "__repr__", format: "__format__", int: "__int__", float: "__float__", complex: "__complex__",
    bytes: "__bytes__", round: "__round__", divmod: "__divmod__", hash: "__hash__", abs: "__abs__", operator.index:
    "__index__", math.floor: "__floor__", math.ceil: "__ceil__", math.trunc: "__trunc__", pow: "__pow__",
}  # fmt: skip
# Data that cannot change, though it is no number or string.
FROZEN = (
    type, enum.Enum, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.GenericAlias, range, slice,
    datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, fractions.Fraction, pathlib.PurePath, re.Pattern,
    np.dtype, np.generic, tf.DType, tf.TensorShape, type(NotImplemented), type(...), types.UnionType,
)  # fmt: skip


def is_object(value: Any) -> bool:
    """Whether a value is an object of a class of the user's, whose methods decide what operators do."""
    if isinstance(value, type):
        return known.is_users_type(type(value))
    is_record = isinstance(value, tuple) and hasattr(value, "_fields")
    if isinstance(value, BaseException):
        return True
    return known.is_users_type(type(value)) and not isinstance(value, enum.Enum) and not is_record


def slots_of(kind: type) -> list[str]:
    """The attributes that objects of a class have a fixed place for."""
    return [name for base in kind.__mro__ for name, found in vars(base).items() if _is_slot(found)]


def _is_slot(found: Any) -> bool:
    return isinstance(found, types.MemberDescriptorType) and found.__name__ not in ("__dict__", "__weakref__")


def method(ev: Evaluator, kind: type, name: str) -> Any:
    """A method that a class of the user's defines; None for what it has from builtin ones."""
    found = ev.of_class(kind, name)
    return found if known.is_users_function(found) else None


def is_inherited(ev: Evaluator, kind: type, name: str) -> bool:
    """Whether a class has a method as every object has it."""
    return ev.of_class(kind, name) is object.__dict__[name]


def blank(ev: Evaluator, kind: type) -> Any:
    """A new object of a class of the user's, without attributes."""
    if hasattr(kind, "__del__"):  # when it is run depends on who holds the object, the converter too
        raise ev.refuse(Feature.NEW_OBJECT, f"the call makes a {kind.__name__}, whose class defines __del__")
    return ev.heap.make(object.__new__(kind))


def check(ev: Evaluator, function: Any, leaves: Sequence[Any]) -> None:
    """Checks that a function of Python's is given nothing whose state or methods it would look at unnoticed."""
    for leaf in leaves:
        if isinstance(leaf, DynamicValue) or is_symbolic(leaf) or _is_frozen(leaf):
            continue
        if is_object(leaf) or ev.heap.name_of(leaf) is not None:
            name = getattr(function, "__name__", function)
            raise ev.refuse(Feature.OBJECT, f"{name} looks into an object of {type(leaf).__name__}")


def _is_frozen(value: Any) -> bool:
    if isinstance(value, type):
        return not is_object(value)
    return type(value) in DATA_TYPES or isinstance(value, FROZEN)


def operate(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """An operator of which an operand is an object of the user's."""
    name = function.__name__.rstrip("_")
    if name == "not":
        truth = ev.truth(operands[0])
        return ev.operate(operator.not_, [truth]) if not isinstance(truth, bool) else not truth
    if len(operands) == 1:
        return _unary(ev, name, operands[0])
    plain = name[1:] if name in _IN_PLACE else name
    if _goes_through(ev, *operands):
        raise ev.refuse(Feature.OPERATOR, f"{name} of an array and {type(operands[1]).__name__}")
    for found, owner, other in _candidates(ev, name, plain, operands):
        result = _called(ev, found, plain, owner, other)
        if result is not NotImplemented:
            return result
    left, right = operands
    if plain == "ne":
        return ev.operate(operator.not_, [operate(ev, operator.eq, operands)])
    if plain == "eq" and _leaves_equality(ev, left, right) and _leaves_equality(ev, right, left):
        return not isinstance(left, DynamicValue) and not isinstance(right, DynamicValue) and ev.identical(left, right)
    raise ev.refuse(Feature.OPERATOR, f"{name} of {type(left).__name__} and {type(right).__name__}")


def _goes_through(ev: Evaluator, left: Any, right: Any) -> bool:
    """Whether the left operand is an array, which asks an object on the right for each of its members."""
    array = isinstance(left, DynamicValue) and (left.is_array or isinstance(left.example, np.ndarray | np.generic))
    if not array and not isinstance(left, np.ndarray | np.generic):
        return False
    ev.of_class(type(right), "__array_ufunc__")
    return getattr(type(right), "__array_ufunc__", ...) is not None  # which says that the object is asked first


def define(ev: Evaluator, function: Any, operands: Sequence[Any]) -> bool:
    """Whether classes of the program's have written methods for an operator on these operands."""
    name = function.__name__.rstrip("_")
    if len(operands) == 1:
        return method(ev, type(operands[0]), f"__{name}__") is not None
    return bool(_candidates(ev, name, name[1:] if name in _IN_PLACE else name, operands))


def _unary(ev: Evaluator, name: str, owner: Any) -> Any:
    found = method(ev, type(owner), f"__{name}__")
    if found is None:
        raise ev.refuse(Feature.OPERATOR, f"{name} of {type(owner).__name__}")
    return ev.call(found, [owner], {})


def _candidates(ev: Evaluator, name: str, plain: str, operands: Sequence[Any]) -> list[tuple[Any, Any, Any]]:
    """The methods that Python would ask, in its order, each with its operands."""
    left, right = operands
    mirrored = f"__{_MIRRORED[plain]}__" if plain in _MIRRORED else f"__r{plain}__"
    tries = [(left, right, f"__{plain}__"), (right, left, mirrored)]
    if type(right) is not type(left) and is_object(left) and issubclass(type(right), type(left)):
        # Of arithmetic, only a method that the derived class has for itself goes first.
        if plain in _MIRRORED or ev.of_class(type(right), mirrored) is not ev.of_class(type(left), mirrored):
            tries.reverse()
    elif type(right) is type(left) and plain not in _MIRRORED:
        tries.pop()
    if name != plain:
        tries.insert(0, (left, right, f"__{name}__"))
    made = []
    for owner, other, special in tries:
        found = ev.of_class(type(owner), special) if known.is_users_type(type(owner)) else None
        if isinstance(found, types.FunctionType):
            made.append((found, owner, other))
    return made


def _called(ev: Evaluator, found: Any, plain: str, owner: Any, other: Any) -> Any:
    if not known.is_generated(found):
        if found.__module__ == "functools":  # what `total_ordering` adds
            return ev.inline(found, [owner, other], {})
        if not known.is_users(found):
            raise ev.refuse(Feature.OPERATOR, f"{found.__qualname__} runs eagerly")
        return ev.call(found, [owner, other], {})
    if type(owner) is not type(other):
        return NotImplemented
    if found.__name__ == "__eq__":
        return _equal(ev, owner, other)
    rows = [_fields(ev, one, "compare") for one in (owner, other)]
    return ev.operate(getattr(operator, found.__name__), rows)


def _fields(ev: Evaluator, owner: Any, flag: str) -> tuple[Any, ...]:
    fields = [field for field in dataclasses.fields(owner) if getattr(field, flag)]
    return tuple(ev.get(owner, field.name) for field in fields)


def _equal(ev: Evaluator, one: Any, other: Any) -> bool:
    for field in dataclasses.fields(one):
        if field.compare:
            members = [ev.get(operand, field.name) for operand in (one, other)]
            if members[0] is members[1] and not isinstance(members[0], float):
                continue
            if not ev.decided(ev.operate(operator.eq, members)):
                return False
    return True


def _leaves_equality(ev: Evaluator, value: Any, other: Any) -> bool:
    """Whether an operand says nothing more of whether it equals the other one, so that identity counts: its method is
    that of every object or was asked, or it is data of another kind. Arrays compare their members with whatever it is.
    """
    if is_object(value):
        found = ev.of_class(type(value), "__eq__")
        return isinstance(found, types.FunctionType) or found is object.__eq__
    kind = ev.type_of(value)
    if kind in DATA_TYPES:
        return not issubclass(ev.type_of(other), DATA_TYPES) or kind is type(None)
    return getattr(kind, "__eq__", None) is object.__eq__ or issubclass(kind, _OF_THEIR_KIND)


# What is equal to nothing of another class.
_OF_THEIR_KIND = (types.BuiltinFunctionType, datetime.date, datetime.time, datetime.timedelta, pathlib.PurePath)


def builtin(ev: Evaluator, function: Any, arguments: Sequence[Any]) -> Any:
    """A builtin of `METHODS` on an object of the user's."""
    owner, *others = arguments
    kind = type(owner)
    if isinstance(owner, BaseException) and not ev.heap.is_made(owner):
        raise ev.refuse(Feature.EXCEPTION, "the call inspects an exception that it did not make")
    found = method(ev, kind, METHODS[function])
    if isinstance(owner, enum.Enum) and found is None:
        return _of_enumeration(ev, function, owner, others)
    if found is not None and not known.is_generated(found):
        made = of_special(ev, METHODS[function], owner, *others)
        return ev.python(_as_hash, [made]) if function is hash else made
    if function is format and is_inherited(ev, kind, "__format__") and others in ([], [""]):
        return builtin(ev, str, [owner])
    if isinstance(owner, BaseException) and function in (str, repr):
        return text(ev, owner, function)
    if function is str and is_inherited(ev, kind, "__str__"):
        return builtin(ev, repr, [owner])
    if function is repr and known.is_generated(getattr(kind.__repr__, "__wrapped__", None)):
        return _described(ev, owner)
    if function is float and (found := method(ev, kind, "__index__")) is not None:
        return ev.python(float, [ev.call(found, [owner], {})])
    if function is hash and known.is_generated(kind.__hash__):
        fields = [f for f in dataclasses.fields(owner) if (f.compare if f.hash is None else f.hash)]
        members = tuple(ev.get(owner, field.name) for field in fields)
        return ev.python(hash, [members])
    name = getattr(builtins, function.__name__, function).__name__
    raise ev.refuse(Feature.OPERATOR, f"{name} of {kind.__name__}")


# What Python requires special methods to give.
_GIVEN: dict[str, type] = {
    "__str__": str, "__repr__": str, "__format__": str, "__int__": int, "__float__": float, "__complex__": complex,
    "__bytes__": bytes, "__index__": int, "__hash__": int, "__bool__": bool, "__len__": int, "__init__": type(None),
}  # fmt: skip


def of_special(ev: Evaluator, name: str, owner: Any, *others: Any) -> Any:
    """What a special method of the user's gives, where Python calls it."""
    made = ev.call(ev.of_class(type(owner), name), [owner, *others], {})
    check_given(ev, name, made)
    return made


def check_given(ev: Evaluator, name: str, made: Any) -> None:
    """Checks that a special method gives what Python requires of it, which raises otherwise."""
    kind = _GIVEN.get(name, object)
    is_unknown = isinstance(made, DynamicValue) and made.late and made.tensor is None
    found = type(made.samples[0]) if is_unknown and made.samples else kind if is_unknown else ev.type_of(made)
    if not issubclass(found, kind):
        raise ev.refuse(Feature.RAISES, f"{name} returned a {found.__name__}, not a {kind.__name__}")
    if name != "__len__":
        return
    what = ev.noted(NoException, "a length is not negative")
    if is_of_graph(made):
        ev.assert_in_graph(made.tensor >= 0, what)
    elif isinstance(made, DynamicValue) and not is_unknown:
        ev.script.assume(f"0 <= {made.name} <= {sys.maxsize}", what)
    elif is_unknown or not 0 <= made <= sys.maxsize:
        raise ev.refuse(Feature.RAISES, "__len__ returned what is no length")


def index(ev: Evaluator, value: Any) -> Any:
    """An index; that which an object of the user's says it is."""
    return ev.python(operator.index, [value]) if is_object(value) else value


def _as_hash(number: int) -> int:
    """What Python makes of the result of `__hash__`: an integer of the machine, and not -1, which says an error."""
    number = number if -sys.maxsize - 1 <= number <= sys.maxsize else hash(number)
    return -2 if number == -1 else number


def _of_enumeration(ev: Evaluator, function: Any, owner: enum.Enum, others: Sequence[Any]) -> Any:
    """Text that Python makes of a member of an enumeration of which the user's class makes other text."""
    kind = type(owner)
    if getattr(kind, "_member_type_", None) is not object or not is_plain(owner.value):
        raise ev.refuse(Feature.OPERATOR, f"{function.__name__} of {kind.__name__}")
    if function is format:
        return ev.python(format, [ev.python(str, [owner]), *others])
    return function(owner)


def _described(ev: Evaluator, owner: Any) -> Any:
    """`repr` of a dataclass."""
    fields = [field for field in dataclasses.fields(owner) if field.repr]
    texts = [ev.python(repr, [ev.get(owner, f.name)]) for f in fields]
    names = [field.name for field in fields]
    return ev.python(_written, [type(owner).__qualname__, names, texts])


def _written(kind: str, names: list[str], texts: list[str]) -> str:
    return f"{kind}({', '.join(f'{name}={text}' for name, text in zip(names, texts, strict=True))})"


def check_key(ev: Evaluator, key: Any) -> Any:
    """A key of a dict or member of a set, which Python may ask for its hash, and compare, unnoticed."""
    if isinstance(key, tuple):
        for part in key:
            check_key(ev, part)
    elif is_object(key) and not is_inherited(ev, type(key), "__hash__"):
        plain = known.is_generated(type(key).__hash__) and ev.heap.name_of(key) is None
        if not plain or not all(_is_frozen(getattr(key, field.name)) for field in dataclasses.fields(key)):
            raise ev.refuse(Feature.KEY, f"the class {type(key).__name__} has a hash of its own")
    return key


def made(ev: Evaluator, kind: type, arguments: list[Any], named: dict[str, Any]) -> Any:
    """A new exception. Its arguments may be values of any kind."""
    if isinstance(kind.__new__, types.FunctionType):
        raise ev.refuse(Feature.EXCEPTION, f"{kind.__name__} makes its objects itself")
    arguments = [ev.kind(a).operand() for a in arguments]
    error = ev.heap.make(kind.__new__(kind, *arguments))
    initialize = inspect.getattr_static(kind, "__init__")
    if isinstance(initialize, types.FunctionType):
        if not known.is_users(initialize):
            raise ev.refuse(Feature.EXCEPTION, f"{kind.__name__} runs eagerly")
        check_given(ev, "__init__", ev.call(initialize, [error, *arguments], named))
    else:
        initialize(error, *arguments, **named)
    return error


def text(ev: Evaluator, error: BaseException, function: Any) -> Any:
    """`str` or `repr` of an exception that the call has made."""
    arguments = list(error.args)
    if function is str:
        plain = type(error).__str__ in (BaseException.__str__, KeyError.__str__)
        if not plain and not (isinstance(error, OSError | NameError | AttributeError) and len(arguments) == 1):
            raise ev.refuse(Feature.EXCEPTION, f"str of a {type(error).__name__}")
        if not arguments:
            return ""
        if len(arguments) == 1:
            inner = repr if isinstance(error, KeyError) else str
            return ev.python(inner, arguments)
        return ev.python(str, [tuple(arguments)])
    if type(error).__repr__ is not BaseException.__repr__:
        raise ev.refuse(Feature.EXCEPTION, f"repr of a {type(error).__name__}")
    texts = [ev.python(repr, [a]) for a in arguments]
    return ev.python(_exception_text, [type(error).__name__, texts])


def _exception_text(kind: str, texts: list[str]) -> str:
    return f"{kind}({', '.join(texts)})"


def is_or_equals(ev: Evaluator, one: Any, other: Any) -> bool:
    """How containers compare what they hold."""
    for value in (one, other):
        ev.twins.check(value)
    return one is other or ev.decided(ev.operate(operator.eq, [one, other]))


def is_instance(ev: Evaluator, value: Any, kinds: Any) -> bool:
    """What `isinstance(value, kinds)` is: by a metaclass of the program's, if there is one."""
    if (found := _asked(ev, kinds, "__instancecheck__")) is not None:
        return ev.type_of(value) is kinds or ev.decided(ev.call(found, [kinds, value], {}))
    held = ev.heap.name_of(value)
    if held is not None and any(getattr(one, "_is_protocol", False) for one in _several(kinds)):
        is_one = isinstance(value, kinds)  # by the attributes that it has now
        if any(key[:2] == ("attribute", id(value)) for key in ev.heap.shadow):
            raise ev.refuse(Feature.ATTRIBUTE, "a protocol is asked about an object of which attributes were set")
        what = ev.noted(SameObject, f"whether a {type(value).__name__} is a {_named(kinds)}")
        ev.script.assume(f"isinstance({held}, {ev.script.constant(kinds)}) is {is_one}", what)
        return is_one
    is_one = is_subclass(ev, ev.type_of(value), kinds)
    return is_one if isinstance(value, SymbolicValue | tf.Tensor) else isinstance(value, kinds)


def is_subclass(ev: Evaluator, kind: type, kinds: Any) -> bool:
    """What `issubclass(kind, kinds)` is; that of an abstract class changes when others are registered with it."""
    if (found := _asked(ev, kinds, "__subclasscheck__")) is not None:
        return ev.decided(ev.call(found, [kinds, kind], {}))
    is_one = issubclass(kind, kinds)
    if any(isinstance(one, abc.ABCMeta) for one in _several(kinds)):
        one, others = ev.script.constant(kind), ev.script.constant(kinds)
        registered = ev.noted(SameObject, f"whether a {kind.__name__} is a {_named(kinds)}")
        ev.script.assume(f"issubclass({one}, {others}) is {is_one}", registered)
    return is_one


def _several(kinds: Any) -> list[Any]:
    """The classes that `isinstance` is given."""
    flat: list[Any] = tf.nest.flatten(getattr(kinds, "__args__", kinds))
    return flat


def _asked(ev: Evaluator, kinds: Any, name: str) -> Any:
    """The method of the program's metaclass that `isinstance` or `issubclass` asks; None where there is none."""
    found = [own for one in _several(kinds) if (own := method(ev, type(one), name)) is not None]
    if found and not isinstance(kinds, type):
        raise ev.refuse(Feature.CLASS, "a metaclass decides what is an object of one of several classes")
    return found[0] if found else None


def _named(kinds: Any) -> str:
    return str(getattr(kinds, "__name__", kinds))


def read_or(ev: Evaluator, owner: Any, name: str, default: Any) -> Any:
    """The attribute, or what `getattr` gives where reading it raises."""
    try:
        with ev.within(Catching()):
            return ev.get(owner, name)
    except ProgramException as raised:
        if not matches(raised.error, AttributeError):
            raise
        return default


def identity(ev: Evaluator, left: Any, right: Any) -> Any:
    """What `left is right` is as a value."""
    found = ev.identical(left, right)
    return DynamicValue("", tensor=found, late=True) if isinstance(found, tf.Tensor) else found
