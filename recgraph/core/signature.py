"""What goes into a SubGraph and comes out of it: nests of `tf.TensorSpec`, and the checks of values against them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.core import origin
from recgraph.errors import SignatureError


def flat_specs(nest: Any, what: str) -> list[tf.TensorSpec]:
    """The leaves of a nest of TensorSpecs.

    Raises:
        SignatureError: a leaf is something else.
    """
    leaves = tf.nest.flatten(nest)
    for leaf in leaves:
        if not isinstance(leaf, tf.TensorSpec):
            raise SignatureError(
                f"{what} must be a nest of tf.TensorSpec",
                where=origin.here(),
                found=repr(leaf),
                expected="tf.TensorSpec(shape, dtype)",
            )
    return leaves


def spec_of(tensor: tf.Tensor) -> tf.TensorSpec:
    """The static shape and dtype of a tensor."""
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def to_tensors(name: str, values: Any, specs: Any, rows: bool = False) -> list[tf.Tensor]:
    """Converts a nest of arguments to the tensors that `specs` (a nest alike) asks for, flat.

    Args:
        name: the SubGraph's, for messages.
        values: a nest of anything that converts to tensors.
        specs: the nest of TensorSpecs to fit.
        rows: every value has one more leading dimension; ragged tensors stay what they are.

    Raises:
        SignatureError: structure, dtype or static shape differ, or a number is out of the dtype's range; names the
            argument and the user's line.
    """
    try:
        parts = tf_private.flatten_up_to(specs, values)
    except (ValueError, TypeError):
        raise SignatureError(
            f"{name}: the arguments do not have the structure of the inputs",
            where=origin.here(),
            found=_outline(values),
            expected=_outline(specs),
        ) from None
    flat = tf.nest.flatten(specs)
    return [
        value if rows and isinstance(value, tf.RaggedTensor) else _to_tensor(name, i, value, spec, rows)
        for i, (value, spec) in enumerate(zip(parts, flat, strict=True))
    ]


# A spec as eager tensors are compared with it: dtype, and shape, where None fits all.
Form = tuple[tf.DType, tuple[int | None, ...] | None]


def forms(nest: Any, rows: bool) -> list[Form] | None:
    """The specs of `nest`, each with one more leading dimension if `rows`; None if it is more than a list of them."""
    leaves = [nest] if isinstance(nest, tf.TensorSpec) else nest
    if not isinstance(leaves, tuple | list) or not all(isinstance(leaf, tf.TensorSpec) for leaf in leaves):
        return None
    lead = [None] if rows else []
    return [(s.dtype, None if s.shape.rank is None else (*lead, *s.shape.as_list())) for s in leaves]


def fitting(values: tuple[Any, ...], wanted: list[Form]) -> list[tf.Tensor] | None:
    """The values, if each is an eager tensor of the form that is wanted; None if somebody has to look closer."""
    if len(values) != len(wanted):
        return None
    for value, (dtype, shape) in zip(values, wanted, strict=True):
        if not isinstance(value, tf_private.EagerTensor) or value.dtype != dtype or shape is None:
            return None
        found = tf_private.shape_of(value)
        if found != shape and (
            len(found) != len(shape) or any(w is not None and w != f for w, f in zip(shape, found, strict=True))
        ):
            return None
    return list(values)


def in_order(
    name: str, inputs: Sequence[Any], names: Sequence[str | None], args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Arguments given by position and by name, in the order of the inputs.

    Args:
        name: the SubGraph's, for messages.
        inputs: the inputs' specs, or nests of them.
        names: the inputs' names; None for one without a name.
        args: the arguments given by position.
        named: the others.

    Raises:
        SignatureError: one is missing, given twice, unknown, or too many.
    """
    expected = ", ".join(
        f"{describe(spec)} {label}" if label else describe(spec) for spec, label in zip(inputs, names, strict=True)
    )

    def refuse(what: str) -> SignatureError:
        return SignatureError(f"{name}: {what}", where=origin.here(), expected=f"{name}({expected})")

    if len(args) > len(names):
        raise refuse(f"{len(args)} arguments given for {len(names)} inputs")
    values = dict(enumerate(args))
    for label, value in named.items():
        if label not in names:
            raise refuse(f"no input is named '{label}'")
        index = names.index(label)
        if index in values:
            raise refuse(f"input {index + 1} ('{label}') is given more than once")
        values[index] = value
    for index, input_name in enumerate(names):
        if index not in values:
            raise refuse(f"input {index + 1}{f' ({input_name!r})' if input_name else ''} is missing")
    return tuple(values[index] for index in range(len(names)))


def _check_integers(subject: str, value: Any, dtype: tf.DType, wanted: str) -> None:
    """Refuses numbers of Python or NumPy that an integer dtype cannot hold: TensorFlow would cut them off.

    Raises:
        SignatureError: a number is out of range or has a fraction.
    """
    for leaf in tf.nest.flatten(value):
        if not isinstance(leaf, int | np.generic | np.ndarray) or isinstance(leaf, bool):
            continue
        numbers = np.asarray(leaf)
        if numbers.size == 0 or numbers.dtype.kind not in "iufcO":
            continue
        if numbers.dtype.kind in "fc":
            found, next_step = f"{numbers.dtype.name} numbers", f"convert them: tf.cast(value, tf.{dtype.name})"
        else:
            least, most = _range_of(dtype)
            outside = [number for number in (numbers.min(), numbers.max()) if not least <= number <= most]
            if not outside:
                continue
            found, next_step = str(outside[0]), "declare the input as tf.int64, or change the argument"
        raise SignatureError(
            f"{subject} is not representable as {dtype.name}",
            where=origin.here(),
            found=found,
            expected=wanted,
            next_step=next_step,
        )


@functools.cache
def _range_of(dtype: tf.DType) -> tuple[int, int]:
    """The least and the largest integer; TensorFlow finds them anew each time."""
    return dtype.min, dtype.max


def _to_tensor(name: str, index: int, value: Any, spec: tf.TensorSpec, rows: bool) -> tf.Tensor:
    shape = _rows_of(spec.shape) if rows else spec.shape
    wanted = f"{spec.dtype.name} of shape {shape}"
    argument = f"argument {index + 1}" + (f" ('{spec.name}')" if spec.name else "")
    is_tensor = tf.is_tensor(value)
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor):
        raise _not_dense(f"{name}: {argument}", value, wanted)
    if spec.dtype.is_integer and not is_tensor:
        _check_integers(f"{name}: {argument}", value, spec.dtype, wanted)
    try:
        tensor = tf.convert_to_tensor(value) if is_tensor else tf.convert_to_tensor(value, dtype=spec.dtype)
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"{name}: {argument} cannot be converted to a tensor",
            where=origin.here(),
            found=str(error),
            expected=wanted,
        ) from None
    if tensor.dtype != spec.dtype or not shape.is_compatible_with(tensor.shape):
        raise SignatureError(
            f"{name}: {argument} has the wrong dtype or shape",
            where=origin.here(),
            found=f"{tensor.dtype.name} of shape {tensor.shape}",
            expected=wanted,
            next_step="convert the argument, or change the input's dtype or shape",
        )
    return ensured(tensor, shape, "argument_as_declared")


def _not_dense(subject: str, value: tf.RaggedTensor | tf.SparseTensor, wanted: str) -> SignatureError:
    is_ragged = isinstance(value, tf.RaggedTensor)
    return SignatureError(
        f"{subject} is a {'ragged' if is_ragged else 'sparse'} tensor, and a SubGraph takes dense ones",
        where=origin.here(),
        found=f"tf.{type(value).__name__}, {value.dtype.name} of shape {value.shape}",
        expected=wanted,
        next_step="fill its rows up: value.to_tensor(); rg.keras.TreeLayer takes ragged batches of trees as they are"
        if is_ragged
        else "convert it: tf.sparse.to_dense(value)",
    )


def ensured(tensor: tf.Tensor, shape: tf.TensorShape, name: str) -> tf.Tensor:
    """The tensor, checked at run time where its static shape does not say that it has a shape.

    What follows is made for that shape: sizes of others would be silently wrong.
    """
    known = tensor.shape
    if shape.rank is None or (
        known.rank is not None and all(s is None or k is not None for s, k in zip(shape, known, strict=True))
    ):
        return tensor
    return tf.ensure_shape(tensor, shape, name)


def _rows_of(shape: tf.TensorShape) -> tf.TensorShape:
    return tf.TensorShape([None]).concatenate(shape)


def _outline(nest: Any) -> str:
    return str(tf.nest.map_structure(lambda leaf: "*", nest))


def describe(nest: Any) -> str:
    """A nest of specs or tensors as readable text: `{'h': float32[1, 150], 'loss': float32[]}`."""
    return str(tf.nest.map_structure(_Leaf, nest))


def describe_inputs(nest: Any) -> str:
    """Returns the same between parentheses, as the inputs of a function are written."""
    if isinstance(nest, tuple) and not hasattr(nest, "_fields"):
        return f"({', '.join(describe(part) for part in nest)})"
    return f"({describe(nest)})"


class _Leaf:
    def __init__(self, spec: Any) -> None:
        self._text = f"{spec.dtype.name}{spec.shape if spec.shape.rank is None else list(spec.shape)}"

    def __repr__(self) -> str:
        return self._text


def relax(a: tf.TensorSpec, b: tf.TensorSpec) -> tf.TensorSpec:
    """The least general spec that both fit; of equal dtype."""
    return tf.TensorSpec(a.shape.most_specific_compatible_shape(b.shape), a.dtype)


def fits(declared: tf.TensorSpec, actual: tf.TensorSpec) -> bool:
    """Whether a tensor of `actual` may stand where `declared` is promised, as far as static shapes tell."""
    return bool(declared.dtype == actual.dtype and declared.shape.is_compatible_with(actual.shape))
