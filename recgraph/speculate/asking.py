"""What may be asked of an object of the user's without running any of its code.

`isinstance` trusts `__class__`, which an object may answer as it likes, and `hasattr` calls `__getattr__`; a class that
has a metaclass may answer for itself, too. The type that the interpreter knows is asked in their place.
"""

from __future__ import annotations

import types
from typing import Any, Final

from recgraph.speculate import known

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
            if type(inner) is types.FunctionType and known.is_users(inner):
                return True
    return False
