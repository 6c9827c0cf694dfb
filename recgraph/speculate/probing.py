"""Whether a function of Python's may raise on what comes out of the graph: it is tried on awkward values of the types.

After the graph nothing may fail, so what may is called before anything else is done to Python, and the graph's writes
to variables are undone where it raises.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph.speculate import arrays, residuals, showing
from recgraph.speculate.values import Residual, is_symbolic

_FLOATS: Final = (1.5, -2.0, 0.0, -0.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"))
_INTEGERS: Final = (1, -2, 0, 7, 300)  # no large ones: a power of them would not end
_IMMUTABLE: Final = (int, float, complex, str, bytes, tuple, frozenset, range, type(None), np.generic)
# How large an array may be that a function is tried on.
_LARGEST: Final = 1 << 20


def is_pure(function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> bool:
    """Whether a call changes nothing, so that it does not matter when it is made."""
    if function is operator.setitem or arrays.is_changed_by(function, arguments):
        return False
    if isinstance(function, operator.methodcaller) or function is residuals._call_method:
        owner = arguments[0]
        if not isinstance(owner, Residual) or owner.tensor is not None:
            return True
        name = arguments[1] if function is residuals._call_method else function.__reduce__()[1][0]
        if owner.is_array:
            return name not in arrays.CHANGING
        return bool(owner.samples) and isinstance(owner.samples[0], _IMMUTABLE)
    return "out" not in named and getattr(function, "__name__", "") not in arrays.CHANGING


def results(function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...] | None:
    """What the function gives for awkward values; `None` if it raises for one, or that cannot be tried.

    An empty tuple says that it does not raise, though what it gives is not known.
    """
    if any(is_symbolic(a) or isinstance(a, showing.Showing) for a in residuals.leaves([*arguments, *named.values()])):
        if function in showing.TO_TEXT:  # an array refuses most specifications
            return showing.TEXTS if len(arguments) < 2 or arguments[1] == "" else None
        return () if isinstance(function, operator.methodcaller) else None
    found = []
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for values, keywords in _tries([list(arguments), dict(named)]):
                found.append(function(*copy.deepcopy(values), **copy.deepcopy(keywords)))
    except Exception:
        return None
    return tuple(found)


def arrays_like(tensor: tf.Tensor) -> tuple[np.ndarray, ...]:
    """Awkward arrays of the dtype and shape of a tensor; where a dimension is not known it is 3."""
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool) or tensor.shape.rank is None:
        return ()
    shape = [3 if size is None else size for size in tensor.shape]
    if math.prod(shape) > _LARGEST:
        return ()
    numbers = (1.5, -2.0, 0.0, float("nan")) if tensor.dtype.is_floating else (1, 0)
    return tuple(np.full(shape, number, tensor.dtype.as_numpy_dtype) for number in numbers)


def _tries(given: list[Any]) -> Iterator[Any]:
    """The arguments with each late value as each of its samples, one after the other and all together."""
    late = list({id(a): a for a in residuals.leaves(given) if isinstance(a, Residual)}.values())
    samples = {id(one): _samples(one) for one in late}
    first = {key: values[0] for key, values in samples.items()}
    for key, values in samples.items():
        yield from (_filled(given, {**first, key: value}) for value in values)
    for row in itertools.islice(zip(*map(itertools.cycle, samples.values()), strict=False), len(_FLOATS)):
        yield _filled(given, dict(zip(samples, row, strict=True)))


def _samples(value: Residual) -> tuple[Any, ...]:
    """Awkward values of the type that a late value has.

    Raises:
        ValueError: the type is not known, or it is known before the graph and may be anything.
    """
    if value.tensor is None and value.samples:
        return value.samples
    if value.tensor is None or value.tensor.shape.rank != 0:
        raise ValueError
    dtype = value.tensor.dtype
    if dtype == tf.bool:
        plain: tuple[Any, ...] = (True, False)
    elif dtype.is_integer:
        plain = tuple(n for n in _INTEGERS if dtype.min <= n <= dtype.max)
    elif dtype.is_floating:
        plain = _FLOATS
    else:
        raise ValueError
    return tuple(map(dtype.as_numpy_dtype, plain)) if value.is_array else plain


def _filled(value: Any, values: dict[int, Any]) -> Any:
    """A nest with values in place of those that are late."""
    if isinstance(value, Residual):
        return values[id(value)]
    inner = functools.partial(_filled, values=values)
    if isinstance(value, slice):
        return slice(*map(inner, (value.start, value.stop, value.step)))
    if isinstance(value, dict):
        return {key: inner(v) for key, v in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(inner, value))
    return value
