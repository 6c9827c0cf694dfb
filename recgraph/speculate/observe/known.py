"""What is known of functions that are not the user's: how a call of each is converted.

A function of the user's is converted itself. One of TensorFlow's or Keras's builds its operations in the graph. A pure
one, given values that are known now, is called now; given values that are known only later, it is called then.
"""

from __future__ import annotations

import bisect
import builtins
import functools
import json
import math
import operator
import os
import re
import statistics
import sys
import types
from typing import Any, Final

import numpy as np

from recgraph.cpython import facts
from recgraph.cpython.installed import is_installed

# Packages whose functions build operations.
_FRAMEWORKS: Final = frozenset({"tensorflow", "keras", "tf_keras", "tensorflow_probability", "recgraph"})
# Python's own modules. What is written in Python and seems to be of `builtins` is text that is executed without a name.
_OF_PYTHON: Final = sys.stdlib_module_names - {"builtins"}
# Programs as users write them, though they come with a framework.
_PROGRAMS: Final = ("recgraph.models.imperative", "recgraph.models.zoo", "recgraph.speculate.run.keras_calls")
_PURE_BUILTINS: Final = """
abs all any ascii bin bool bytes callable chr complex dict divmod enumerate float format frozenset hash hex int
isinstance issubclass len list max min oct ord pow range repr reversed round set slice sorted str sum tuple type zip
"""
# Operators that may change their first operand.
IN_PLACE: Final = frozenset(
    {
        *(operator.iadd, operator.isub, operator.imul, operator.imatmul, operator.itruediv, operator.ifloordiv),
        *(operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift),
        operator.iconcat,
    }
)
_CHANGING_OPERATORS: Final = IN_PLACE | {operator.setitem, operator.delitem}
PURE: Final = frozenset(
    [getattr(builtins, name) for name in _PURE_BUILTINS.split()]
    + [f for f in vars(math).values() if callable(f)]
    + [f for f in vars(operator).values() if isinstance(f, types.BuiltinFunctionType) and f not in _CHANGING_OPERATORS]
    + [functools.partial, bisect.bisect, bisect.bisect_left, bisect.bisect_right, json.dumps, json.loads]
    + [os.path.basename, os.path.dirname, os.path.join, os.path.splitext]
    + [re.escape, re.findall, re.fullmatch, re.match, re.search, re.split, re.sub]
    + [
        getattr(statistics, name)
        for name in ("fmean", "mean", "median", "mode", "pstdev", "pvariance", "stdev", "variance")
    ]
)
# Methods of these types change nothing but, perhaps, their own object.
DATA_TYPES: Final = (
    *(int, float, complex, str, bytes, bool, tuple, list, dict, set, frozenset, range, slice, type(None)),
    *(re.Match, re.Pattern),
)


def top_package(thing: Any) -> str:
    """The first part of the name of the module that something was defined in."""
    return top_of(str(getattr(thing, "__module__", None) or getattr(type(thing), "__module__", "")))


def top_of(module: str) -> str:
    """The first part of a module's name."""
    return module if module.startswith(_PROGRAMS) else module.split(".")[0]


def is_frameworks(thing: Any) -> bool:
    """Whether a function, class or object is TensorFlow's, Keras's or ours."""
    return top_package(thing) in _FRAMEWORKS


def is_tensorflows(thing: Any) -> bool:
    """Whether a value is a function of TensorFlow's, no method, that is written in Python."""
    return isinstance(thing, types.FunctionType) and top_package(thing) == "tensorflow"


def is_users(function: types.FunctionType) -> bool:
    """Whether a function is part of the user's program: neither a framework's nor of an installed library."""
    return is_users_code(function.__code__, top_package(function))


def is_users_code(code: types.CodeType, package: str) -> bool:
    """Whether code that was defined in a module of this package is part of the user's program."""
    if package in _FRAMEWORKS:
        return False
    if package.startswith(_PROGRAMS):  # a wrapper of a framework's bears the name of the module, too
        return code.co_filename == getattr(sys.modules.get(package), "__file__", None)
    return not is_installed(code.co_filename) and package not in _OF_PYTHON


def is_speculated(thing: Any) -> bool:
    """Whether something is a function that is speculated on: it is a part of its caller."""
    kind = type(thing)
    if kind is types.FunctionType:
        return False
    try:
        return type.__getattribute__(kind, "is_a_part_of_its_caller") is True  # no metaclass is asked
    except AttributeError:
        return False


def is_users_type(kind: type) -> bool:
    """Whether a class is part of the user's program."""
    package = top_package(kind)
    if package in _FRAMEWORKS or package in _OF_PYTHON:
        return False
    module = sys.modules.get(kind.__module__)
    filename = getattr(module, "__file__", None) or ""
    return facts.is_written_in_python(kind) and (package.startswith(_PROGRAMS) or not is_installed(filename))


def is_users_function(value: Any) -> bool:
    """Whether a value is a function that the user has written."""
    return isinstance(value, types.FunctionType) and is_users(value)


def is_users_method(method: types.MethodType) -> bool:
    """Whether a bound method is a function of the user's."""
    return isinstance(method.__func__, types.FunctionType) and is_users(method.__func__)


def is_library(module: str) -> bool:
    """Whether a module is a framework's or of an installed library: its contents are taken to stay as they are."""
    package = module.split(".")[0]
    if module.startswith(_PROGRAMS):
        return False
    if package in _FRAMEWORKS or package in sys.stdlib_module_names:
        return True
    return is_installed(getattr(sys.modules.get(module), "__file__", None) or "")


def is_frameworks_object_type(kind: type) -> bool:
    """Whether a class is a framework's or derived from one."""
    return any(top_package(base) in _FRAMEWORKS for base in kind.__mro__)


def is_frameworks_object(thing: Any) -> bool:
    """Whether an object's class is a framework's or derived from one."""
    return thing is not None and is_frameworks_object_type(type(thing))


def is_numpy(function: Any) -> bool:
    """Whether a function is NumPy's."""
    owner = getattr(function, "__self__", None)
    return top_package(function) == "numpy" or isinstance(function, np.ufunc) or isinstance(owner, np.ndarray)


def may_change_type(kind: type) -> bool:
    """Whether a value computed from others may be of another type next time, as `2 ** n` may."""
    return kind in (int, float, bool, str)


def is_generated(function: Any) -> bool:
    """Whether a method is what `dataclasses` writes, or named tuples."""
    return isinstance(function, types.FunctionType) and function.__code__.co_filename == "<string>"


_OF_OBJECTS: Final = ("__getattribute__", "__class__")
_OF_CLASSES: Final = ("__getattribute__", "__getattr__", "__eq__", "__hash__", "__class__")
_MRO: Final = vars(type)["__mro__"].__get__
_DICT: Final = vars(type)["__dict__"].__get__


def is_a(value: Any, kinds: Any) -> bool:
    """What `isinstance` says of an object that does not lie about its class."""
    return issubclass(type(value), kinds)


def has_attributes(value: Any) -> bool:
    """Whether an object has a `__dict__`."""
    return type.__getattribute__(type(value), "__dictoffset__") != 0


def answers_itself(value: Any) -> bool:
    """Whether a question about an object runs code of its class's, or one about its class code of the metaclass's."""
    return answer_themselves(type(value))


def answer_themselves(kind: type) -> bool:
    """Whether that is so for the objects of a class."""
    meta = type(kind)
    return _is_written(kind, _OF_OBJECTS) or (meta is not type and _is_written(meta, _OF_CLASSES))


def _is_written(kind: type, names: tuple[str, ...]) -> bool:
    for base in _MRO(kind):
        held = _DICT(base)
        for name in names:
            found = held.get(name)
            inner = found.fget if type(found) is property else found
            if type(inner) is types.FunctionType and is_users(inner):
                return True
    return False


def is_hashable(thing: Any) -> bool:
    """Whether a thing can be looked up in a table."""
    try:
        hash(thing)
    except TypeError:
        return False
    return True
