"""`tf.constant` and `tf.convert_to_tensor` of numbers that differ from call to call."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph.speculate import calls, containers, grown, residuals
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.builtin_calls import Arguments, framework, special
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.values import Residual, is_symbolic

# What a list of numbers becomes, by the types that are in it.
_DTYPES: Final[dict[frozenset[type], tf.DType]] = {
    frozenset({int}): tf.int32,
    frozenset({float}): tf.float32,
    frozenset({int, float}): tf.float32,
    frozenset({bool}): tf.bool,
    frozenset({str}): tf.string,
    frozenset({bytes}): tf.string,
}


@special(tf.constant)
def _constant(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    given = dict(zip(("value", "dtype", "shape", "name"), arguments, strict=False)) | named
    if (members := grown.inside(ev, given.get("value"))) is not None:
        return _of_grown(ev, members, given)
    value = containers.lift(ev, given.pop("value", None))
    if not _has_numbers(value):
        return framework(ev, tf.constant, arguments, named)
    tensor = _converted(ev, value, _dtype(ev, given))
    shape = given.get("shape")
    if shape is None:
        return tensor
    if tensor.shape.rank != 0:
        raise ev.refuse("value", "tf.constant of several numbers that differ from call to call, in a shape")
    return calls.native(ev, tf.fill, [shape, tensor], {})


@special(tf.convert_to_tensor)
def _tensor(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    given = dict(zip(("value", "dtype", "dtype_hint", "name"), arguments, strict=False)) | named
    if (members := grown.inside(ev, given.get("value"))) is not None:
        return _of_grown(ev, members, given)
    value = containers.lift(ev, given.pop("value", None))
    if not _has_numbers(value) or given.get("dtype_hint") is not None:
        return framework(ev, tf.convert_to_tensor, arguments, named)
    return _converted(ev, value, _dtype(ev, given))


def _of_grown(ev: Evaluator, members: Any, given: dict[str, Any]) -> tf.Tensor:
    """Of a list of which only the graph knows the length."""
    if any(given.get(name) is not None for name in ("shape", "dtype_hint")):
        raise grown.refuse(ev, "a tensor is made of a list in a special way")
    wanted = _dtype(ev, given)
    rows = grown.packed(ev, members, wanted)
    if wanted not in (None, rows.dtype):
        raise grown.refuse(ev, f"a list of {rows.dtype.name} as {wanted.name}")
    return rows


def _dtype(ev: Evaluator, given: dict[str, Any]) -> tf.DType | None:
    dtype = given.get("dtype")
    return None if dtype is None else tf.dtypes.as_dtype(ev.concrete(dtype))


def _has_numbers(value: Any) -> bool:
    """Whether there are numbers that differ, and no tensors beside them."""
    found = list(residuals.leaves([value]))
    return any(isinstance(one, Residual) for one in found) and not any(map(is_symbolic, found))


def _converted(ev: Evaluator, value: Any, dtype: tf.DType | None) -> tf.Tensor:
    """Numbers, in lists perhaps, as a tensor of the dtype that eager execution would choose."""
    kinds = frozenset(_kind(ev, one) for one in residuals.leaves([value]))
    if any(issubclass(kind, np.ndarray | np.generic) for kind in kinds):
        return _of_array(ev, value, dtype)
    natural = _DTYPES.get(kinds)
    if natural is None:
        raise ev.refuse("value", f"a tensor of {', '.join(sorted(kind.__name__ for kind in kinds))}")
    dtype = dtype or natural
    if not _may_become(natural, dtype):
        raise ev.refuse("raises", f"a {natural.name} as {dtype.name}")
    return _packed(ev, value, dtype)


def _kind(ev: Evaluator, one: Any) -> type:
    is_known = isinstance(one, Residual) and (one.late or one.tensor is not None)
    return residuals.type_of(ev, one) if is_known else type(residuals.example_of(one))


def _of_array(ev: Evaluator, value: Any, dtype: tf.DType | None) -> tf.Tensor:
    if not isinstance(value, Residual):
        raise ev.refuse("array", "a list of arrays that differ from call to call")
    tensor = residuals.as_tensor(ev, value)
    if dtype is None or dtype == tensor.dtype:
        return tf.identity(tensor)
    if not (dtype.is_floating and tensor.dtype.is_floating):
        raise ev.refuse("array", f"an array of {tensor.dtype.name} as {dtype.name}")
    return tf.cast(tensor, dtype)


def _may_become(natural: tf.DType, dtype: tf.DType) -> bool:
    if natural == tf.int32:
        return bool(dtype.is_integer or dtype.is_floating or dtype.is_complex)
    return natural == dtype or bool(natural.is_floating and (dtype.is_floating or dtype.is_complex))


def _packed(ev: Evaluator, value: Any, dtype: tf.DType) -> tf.Tensor:
    if isinstance(value, list | tuple):
        members = [_packed(ev, member, dtype) for member in value]
        return calls.native(ev, tf.stack, [members], {}) if members else tf.constant([], dtype)
    if not isinstance(value, Residual):
        return tf.constant(value, dtype)
    if dtype.is_integer and value.tensor is None and not value.late:
        limits = f"{dtype.min} <= {value.name} <= {dtype.max}"
        if not dtype.min <= value.example <= dtype.max:
            raise ev.refuse("value", f"an integer beyond {dtype.name}")
        ev.script.assume(limits, assumption("decision", f"an integer within {dtype.name}", ev.where()))
    elif dtype.is_integer and value.tensor is not None and dtype != tf.int64:
        fits = tf.logical_and(value.tensor >= dtype.min, value.tensor <= dtype.max)
        ev.assert_in_graph(fits, ev.noted("raises", f"an integer within {dtype.name}"))
    return tf.identity(residuals.as_tensor(ev, value, dtype))  # the other stands for the number itself
