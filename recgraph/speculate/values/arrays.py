"""What `.numpy()` gives of a tensor of the graph, done in the graph where it is the same there, so that it can decide.

Comparisons, arithmetic and looks at it are. Python gets NumPy's value after the graph.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import known
from recgraph.speculate.observe.known import IN_PLACE
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.symbolic import DynamicValue, LateCall, fixed, is_of_graph

FLOATS: Final = (tf.float16, tf.float32, tf.float64)
INTEGERS: Final = (tf.int8, tf.int16, tf.int32, tf.int64)
_COMPARISONS: Final = frozenset({operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne})
_OF_FLOATS: Final = frozenset({operator.add, operator.sub, operator.mul, operator.neg, operator.abs, abs})


def of(tensor: tf.Tensor) -> DynamicValue:
    """What `.numpy()` of a tensor gives."""
    return DynamicValue("", tensor=tensor, late=True, is_array=True)


def is_array(value: Any) -> bool:
    """Whether a value is NumPy's and known in the graph."""
    return is_of_graph(value) and value.is_array


def apply(ev: Evaluator, function: Any, arguments: Sequence[Any]) -> DynamicValue | None:
    """An operator or a function of NumPy's in the graph; None where it is not done there."""
    if not any(map(is_array, arguments)):
        return None
    if function in _COMPARISONS or function in _OF_FLOATS:
        return _operator(ev, function, arguments)
    return look(function, arguments)


def _operator(ev: Evaluator, function: Any, arguments: Sequence[Any]) -> DynamicValue | None:
    dtypes = {a.tensor.dtype for a in arguments if is_array(a)}
    dtype = dtypes.pop()
    if dtype == tf.string:
        return _bytes(function, arguments)
    kinds = (*FLOATS, *INTEGERS) if function in _COMPARISONS else FLOATS
    if dtypes or dtype not in kinds:
        return None
    operands = [a.tensor if is_array(a) else _beside(ev, a, dtype) for a in arguments]
    if any(operand is None for operand in operands):
        return None
    return of(function(*operands))


def _bytes(function: Any, arguments: Sequence[Any]) -> DynamicValue | None:
    """One string, which NumPy gives as bytes, is compared with another."""
    tensors = [a.tensor if is_array(a) else tf.constant(a) if type(a) is bytes else None for a in arguments]
    if function not in (operator.eq, operator.ne) or any(t is None or t.shape.rank != 0 for t in tensors):
        return None
    equal = tf.equal(*tensors)
    return DynamicValue("", tensor=equal if function is operator.eq else tf.logical_not(equal), late=True)


def _beside(ev: Evaluator, value: Any, dtype: tf.DType) -> tf.Tensor | None:
    """A number of Python's beside an array: it takes the array's dtype."""
    if isinstance(value, DynamicValue):
        is_number = value.tensor is not None and not value.is_array
        if is_number and dtype in FLOATS and value.tensor.dtype == tf.float64:
            return tf.cast(value.tensor, dtype)
        return None
    if type(value) is float and dtype in FLOATS:
        return tf.constant(value, dtype)
    if type(value) is int and (dtype in FLOATS and abs(value) < 1 << 10 or _fits(value, dtype)):
        return tf.constant(value, dtype)
    return None


def _fits(value: int, dtype: tf.DType) -> bool:
    return dtype in INTEGERS and bool(dtype.min <= value <= dtype.max)


def item(array: DynamicValue, index: Any) -> DynamicValue | None:
    """One number of an array; parts of it are views, which stay NumPy's."""
    parts = index if isinstance(index, tuple) else (index,)
    shape = array.tensor.shape if array.tensor is not None else tf.TensorShape(None)
    if len(parts) != shape.rank or not shape.is_fully_defined() or not all(type(part) is int for part in parts):
        return None
    if not all(-size <= part < size for part, size in zip(parts, shape, strict=True)):
        return None
    return of(array.tensor[tuple(int(part) % int(size) for part, size in zip(parts, shape, strict=True))])


def _extreme(largest: bool) -> Callable[[tf.Tensor], tf.Tensor]:
    def find(tensor: tf.Tensor) -> tf.Tensor:
        found = (tf.reduce_max if largest else tf.reduce_min)(tensor)
        if not tensor.dtype.is_floating:
            return found
        return tf.where(tf.reduce_any(tf.math.is_nan(tensor)), tf.constant(float("nan"), tensor.dtype), found)

    return find


def _place(largest: bool) -> Callable[[tf.Tensor], tf.Tensor]:
    """The first place of the largest, or smallest; that of the first that is no number, if there is one."""

    def find(tensor: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(tensor, [-1])
        there = tf.equal(flat, _extreme(largest)(flat))
        if tensor.dtype.is_floating:
            none = tf.math.is_nan(flat)
            there = tf.where(tf.reduce_any(none), none, there)
        count = tf.size(flat, tf.int64)
        return tf.reduce_min(tf.where(there, tf.range(count), count))

    return find


# Functions and methods of NumPy's that change an argument, by name.
CHANGING: Final = frozenset(
    {
        "copyto", "put", "place", "putmask", "fill_diagonal", "shuffle", "put_along_axis", "sort", "fill", "resize",
        "partition", "setflags", "setfield", "byteswap", "itemset", "at",
    }
)  # fmt: skip
METHODS_ON_COPIES: Final = frozenset({"sort", "fill", "put", "partition"})
_ANY, _ALL = (lambda t: tf.reduce_any(tf.cast(t, tf.bool))), (lambda t: tf.reduce_all(tf.cast(t, tf.bool)))
METHODS: Final[dict[str, Any]] = {
    "any": _ANY, "all": _ALL, "max": _extreme(True), "min": _extreme(False), "argmax": _place(True),
    "argmin": _place(False),
}  # fmt: skip
_FUNCTIONS: Final[dict[Any, Any]] = {
    **{getattr(np, name): how for name, how in METHODS.items()},
    np.isnan: tf.math.is_nan, np.isinf: tf.math.is_inf, np.isfinite: tf.math.is_finite, np.abs: tf.abs,
}  # fmt: skip


def look(function: Any, arguments: Sequence[Any]) -> DynamicValue | None:
    """A function of NumPy's on one array or tensor; None where it is not done in the graph."""
    if len(arguments) != 1 or not known.is_hashable(function) or function not in _FUNCTIONS:
        return None
    value = arguments[0]
    tensor = value.tensor if is_array(value) else value
    if not isinstance(tensor, tf.Tensor) or not tensor.shape.is_fully_defined() or not tensor.shape.num_elements():
        return None
    wanted = (*FLOATS, tf.bool) if function in (np.any, np.all) else FLOATS
    if tensor.dtype not in wanted and not (tensor.dtype in INTEGERS and function not in (np.isnan, np.isinf, np.abs)):
        return None
    return of(_FUNCTIONS[function](tensor))


def is_changed_by(function: Any, arguments: Sequence[Any]) -> bool:
    """Whether an in-place operator changes an array, and gives it."""
    if not isinstance(function, types.BuiltinFunctionType) or function not in IN_PLACE:
        return False
    array = arguments[0]
    if not isinstance(array, DynamicValue) or not array.is_array:
        return False
    return array.tensor is None or array.tensor.shape.rank != 0


def may_change(function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> bool:
    """Whether a call may change an array that it is given."""
    if isinstance(function, types.BuiltinFunctionType) and function in (*IN_PLACE, operator.setitem):
        return True
    if isinstance(function, operator.methodcaller) or function is symbolic.call_method:
        name = arguments[1] if function is symbolic.call_method else function.__reduce__()[1][0]
        return "out" in named or name in CHANGING
    if isinstance(function, np.ufunc) and len(arguments) > function.nin:
        return True
    return "out" in named or named.get("copy") is False or getattr(function, "__name__", "") in CHANGING


def converts(of: np.dtype, to: tf.DType) -> bool:
    """Whether TensorFlow makes a tensor of a dtype of an array that has another, beside a tensor of that dtype."""
    return bool(to in FLOATS and of.kind in "fiub" or to in INTEGERS and of.kind == "b")


def is_early(value: Any) -> bool:
    """Whether a value is an array that the script has before the graph runs."""
    return isinstance(value, DynamicValue) and value.tensor is None and isinstance(value.example, np.ndarray)


def note_views(found: Any, arguments: Sequence[Any]) -> Any:
    """The example of a result: where it shares memory with an argument, neither is changed from now on."""
    if isinstance(found, np.ndarray):
        for array in symbolic.leaves(arguments):
            if isinstance(array, DynamicValue):
                array = array.example
            if isinstance(array, np.ndarray) and np.may_share_memory(found, array):
                array.flags.writeable = False
                return fixed(found)
    return found


def made(ev: Evaluator, found: Any, arguments: Sequence[Any], place: Any = None) -> Any:
    """What NumPy has given: an array, or several, is the call's, unless it is a part of one that is not.

    Args:
        ev: the conversion.
        found: the result.
        arguments: of the function.
        place: what `Evaluator.paths` has where the script has to make it.
    """
    others = [a for a in arguments if isinstance(a, np.ndarray) and not ev.heap.is_made(a)]
    for array in found if isinstance(found, list | tuple) else [found]:
        if not isinstance(array, np.ndarray) or any(np.may_share_memory(array, other) for other in others):
            continue
        if array.dtype.hasobject:
            raise ev.refuse(Feature.ARRAY, "the call makes an array of objects")
        ev.heap.make(array, place)
    return found


class Contents:
    """What is in the arrays that the call has made, at one moment."""

    def __init__(self, ev: Evaluator) -> None:
        self._copies = [(array, array.copy("K")) for array in ev.heap.arrays()]

    def are_changed(self) -> bool:
        """Whether something else is in one now."""
        return any(array.tobytes() != copy.tobytes() for array, copy in self._copies)

    def put_back(self) -> None:
        """Makes the arrays as they were."""
        for array, copy in self._copies:
            array[...] = copy


def type_of(array: DynamicValue) -> type:
    """The type of an array, or of one number of NumPy's."""
    shape = tf.TensorShape(None) if array.tensor is None else array.tensor.shape
    return np.ndarray if shape.rank != 0 else np.dtype(array.tensor.dtype.as_numpy_dtype).type


def members(array: DynamicValue) -> list[DynamicValue] | None:
    """The numbers of an array with one dimension; None for others."""
    if array.tensor is None or array.tensor.shape.rank != 1 or array.tensor.shape[0] is None:
        return None
    return [of(part) for part in tf.unstack(array.tensor)] if array.tensor.shape[0] else []


def keep(ev: Evaluator, array: DynamicValue) -> None:
    """Before a function that may change an array is called after the graph: it is NumPy's from then on."""
    array.name = ev.script.name()
    ev.effects.append(LateCall(array.name, ev.script.constant(_NUMPY), [array.tensor], {}, is_pure=True))
    array.samples = arrays_like(array.tensor)
    array.tensor = None


_NUMPY: Final = operator.methodcaller("numpy")

# How large an array may be that a function is tried on.
_LARGEST: Final = 1 << 20


def arrays_like(tensor: tf.Tensor) -> tuple[np.ndarray, ...]:
    """Awkward arrays of the dtype and shape of a tensor; where a dimension is not known it is 3."""
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool) or tensor.shape.rank is None:
        return ()
    shape = [3 if size is None else size for size in tensor.shape]
    if math.prod(shape) > _LARGEST:
        return ()
    numbers = (1.5, -2.0, 0.0, float("nan")) if tensor.dtype.is_floating else (1, 0)
    return tuple(np.full(shape, number, tensor.dtype.as_numpy_dtype) for number in numbers)
