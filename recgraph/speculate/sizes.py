"""How large a result of Python's is going to be, found without computing it.

What the script computes before the graph does not wait for what the graph checks. So where the program has decided
something by a tensor before, or does it on one way of two only, a result of Python's is computed if it is of moderate
size; else the call runs eagerly, in which it may never come to it.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from recgraph.speculate import known

# Members, digits or bytes that are computed without being sure that the program does so.
MODERATE: Final = 1 << 20
_FACTORIAL: Final = 1 << 12
_SEQUENCES: Final = (str, bytes, bytearray, list, tuple)
_PADDING: Final = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs", "to_bytes"})
# Of a range they take no longer than of a short one.
_OF_ENDS: Final = frozenset(
    {len, bool, range, slice, isinstance, type, hash, repr, str, iter, reversed, enumerate, zip, operator.getitem}
    | {operator.eq, operator.ne, operator.truth, operator.not_, operator.is_, operator.is_not, operator.contains}
)


def is_large(function: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    """Whether a function of Python's or NumPy's may give more than a moderate result, or take long for it.

    Args:
        function: what is called.
        arguments, named: what it is given.
    """
    rule = _RULES.get(function) if _is_hashable(function) else None
    if rule is not None and len(arguments) >= 2 and not named:
        return rule(*arguments[:2])
    values = [*arguments, *named.values()]
    if any(type(value) is range and len(value) > MODERATE for value in values):
        return not (_is_hashable(function) and function in _OF_ENDS)
    if function in (bytes, bytearray) and arguments:
        return type(arguments[0]) is int and arguments[0] > MODERATE
    if function in (math.factorial, math.comb, math.perm):
        return any(type(value) is int and value > _FACTORIAL for value in values)
    if known.is_numpy(function):
        return _product(values) > MODERATE
    return _is_padded(arguments)


def may_grow(function: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    """Whether other arguments of these types may make a larger result, as far as `is_large` knows."""
    rule = _RULES.get(function) if _is_hashable(function) else None
    if rule is _repeated:
        return any(isinstance(value, _SEQUENCES) for value in arguments)
    if rule in (_power, _shifted):
        return all(type(value) is int for value in arguments)
    if rule is not None:
        return any(isinstance(value, str | bytes) for value in arguments)
    if any(type(value) is range for value in (*arguments, *named.values())):
        return not (_is_hashable(function) and function in _OF_ENDS)
    if function in (bytes, bytearray, math.factorial, math.comb, math.perm) or known.is_numpy(function):
        return True
    return any(isinstance(value, str) and value in _PADDING for value in arguments[1:2])


def _is_hashable(thing: Any) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True


def _repeated(one: Any, other: Any) -> bool:
    for members, count in ((one, other), (other, one)):
        if isinstance(members, _SEQUENCES) and isinstance(count, int | np.integer):
            return len(members) * max(int(count), 0) > MODERATE
    return isinstance(one, int) and isinstance(other, int) and one.bit_length() + other.bit_length() > 8 * MODERATE


def _power(base: Any, exponent: Any) -> bool:
    if type(base) is not int or type(exponent) is not int or exponent < 0:
        return False
    return base.bit_length() * exponent > MODERATE


def _shifted(value: Any, by: Any) -> bool:
    return type(value) is int and type(by) is int and by > MODERATE


def _formatted(value: Any, spec: Any) -> bool:
    return isinstance(spec, str) and any(int(width) > MODERATE for width in re.findall(r"\d+", spec))


def _percent(text: Any, values: Any) -> bool:
    """`%` with a width that is given."""
    if not isinstance(text, str | bytes):
        return False
    return _product(values if isinstance(values, tuple) else (values,)) > MODERATE if "*" in str(text) else False


_RULES: Final[dict[Any, Callable[[Any, Any], bool]]] = {
    operator.mul: _repeated,
    operator.imul: _repeated,
    operator.pow: _power,
    operator.ipow: _power,
    pow: _power,
    operator.lshift: _shifted,
    operator.ilshift: _shifted,
    operator.mod: _percent,
    format: _formatted,
}


def _product(values: Any) -> int:
    """What sizes that are given multiply to."""
    total = 1
    for value in values:
        if isinstance(value, tuple | list):
            total *= max(_product(value), 1) if len(value) < MODERATE else MODERATE + 1
        elif isinstance(value, int | np.integer) and not isinstance(value, bool):
            total *= max(abs(int(value)), 1)
    return total


def _is_padded(arguments: tuple[Any, ...]) -> bool:
    """A method by its name, as the script calls it: with a width."""
    names = [value for value in arguments[1:2] if isinstance(value, str)]
    return bool(names) and names[0] in _PADDING and any(type(v) is int and v > MODERATE for v in arguments[2:])
