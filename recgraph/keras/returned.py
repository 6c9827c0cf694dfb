"""Checks that the recursion of a layer returns what its `output_size` says, and says what to change."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from recgraph.core import signature
from recgraph.errors import SignatureError
from recgraph.keras.seeds import Nest


def check(layer: Any, expected: Nest, results: Nest, written: Callable[..., Any]) -> None:
    """Checks what one invocation returns.

    Args:
        layer: a `SubGraphLayer`.
        expected: a nest of specs, as `output_size` says.
        results: what was returned.
        written: the user's method or function.

    Raises:
        SignatureError: the results are of another structure, shape or dtype.
    """
    if _fit(expected, results):
        return
    function = layer.function or written
    function = function.call if isinstance(function, keras.layers.Layer) else function
    plain = inspect.unwrap(getattr(function, "__func__", function))
    name, code = getattr(plain, "__name__", repr(plain)), getattr(plain, "__code__", None)
    raise SignatureError(
        f"layer '{layer.name}': {name} does not return what output_size says",
        where=code and f"{code.co_filename}:{code.co_firstlineno}",
        found=_described(results),
        expected=f"{signature.describe(expected)}, since output_size is {layer.output_size!r}",
        next_step=_advice(layer, results, expected),
    )


def _fit(expected: Nest, results: Nest) -> bool:
    try:
        tf.nest.assert_same_structure(expected, results, check_types=False)
    except (ValueError, TypeError):
        return False
    pairs = zip(tf.nest.flatten(expected), tf.nest.flatten(results), strict=True)
    return all(_fits(spec, result) for spec, result in pairs)


def _fits(spec: tf.TensorSpec, result: Any) -> bool:
    try:
        tensor = result if tf.is_tensor(result) else tf.convert_to_tensor(result, spec.dtype)
    except (ValueError, TypeError):
        return False
    return signature.fits(spec, tensor)


def _described(results: Nest) -> str:
    return str(
        tf.nest.map_structure(
            lambda result: _Text(signature.describe(result) if tf.is_tensor(result) else repr(result)), results
        )
    )


class _Text:
    """Prints itself as it is, in a nest."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _advice(layer: Any, results: Nest, expected: Nest) -> str:
    """What would make them fit: another `output_size`, or other results."""
    leaves = tf.nest.flatten(results)
    dtypes = [spec.dtype.name for spec in tf.nest.flatten(expected)]
    if not all(tf.is_tensor(leaf) and leaf.shape.rank for leaf in leaves):
        return "return tensors with a leading dimension of 1"
    if any(leaf.shape[0] not in (1, None) for leaf in leaves):
        return "keep the leading dimension of 1: an invocation computes a batch of one"
    if all(leaf.shape.rank == 2 and leaf.dtype == layer.compute_dtype for leaf in leaves):
        sizes = tf.nest.map_structure(lambda leaf: _Text(str(leaf.shape[1])), results)
        return f"set output_size = {sizes}, or return what it says"
    if dtypes == [leaf.dtype.name for leaf in leaves]:
        specs = tf.nest.map_structure(
            lambda leaf: _Text(f"tf.TensorSpec({leaf.shape[1:]}, tf.{leaf.dtype.name})"), results
        )
        return f"set output_size = {specs}, or return what it says"
    return f"tf.cast the result to {dtypes[0]}, or set output_size to a tf.TensorSpec with another dtype"
