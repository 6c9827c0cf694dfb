"""Calls of a layer outside of graphs: its body is traced when something is new to it, and not in each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.keras.seeds import Nest

# `compute(inputs)`: the results for a batch, and the sum of its losses or None.
Compute: TypeAlias = Callable[[Nest], tuple[Nest, tf.Tensor | None]]
# What Keras changes in calls.
_PASSING = frozenset({
    "_losses", "_loss_ids", "_lock", "_called", "_tracked", "_self_tracked_trackables", "_inputs", "_inbound_nodes",
    "_outbound_nodes",
})  # fmt: skip
# Whose classes and objects stay what they are; Keras's classes do, too.
_LIBRARIES = frozenset({"builtins", "tensorflow", "recgraph"})
# Functions that a layer keeps; who has more of them changes something in every call.
_KEPT = 8


class Tracing:
    """What a layer computes as functions of TensorFlow's.

    A function holds for the dtypes and ranks of the inputs, for whether the layer is training, and for the attributes
    of the layer, of the layers in it, of the user's classes of both, and of objects that are attributes, as they were
    when it was traced.

    Args:
        open_dimensions: how many leading dimensions of the inputs differ from batch to batch.
    """

    def __init__(self, open_dimensions: int) -> None:
        self._open_dimensions = open_dimensions
        self._made: list[tuple[Any, Any]] = []
        self._is_first = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracing:
        """That of a copied layer begins anew."""
        return Tracing(self._open_dimensions)

    def __reduce__(self) -> Any:
        """So does that of a pickled layer."""
        return Tracing, (self._open_dimensions,)

    def __call__(self, layer: keras.layers.Layer, compute: Compute, inputs: Nest) -> tuple[Nest, tf.Tensor | None]:
        """What `compute` gives for these inputs, some of which may be None."""
        if not tf_private.executing_eagerly() or tf_private.in_stateless_scope():
            return compute(inputs)
        if self._is_first:  # it builds layers
            self._is_first = False
            return compute(inputs)
        leaves = tf.nest.flatten(inputs)
        specs = [None if leaf is None else self._open(tf.type_spec_from_value(leaf)) for leaf in leaves]
        structure = _held(tf.nest.pack_sequence_as(inputs, specs))
        key = [tf_private.is_training(layer), structure, *tf_private.keras_settings()]
        given = [leaf for leaf in leaves if leaf is not None]
        state = list(_state(layer))
        made = self._made  # replaced and never changed: another thread may go through it
        for one in made:
            (known_key, known_state), function = one
            if _is_alike(known_key, key) and _is_alike(known_state, state):
                self._made = [one, *(other for other in made if other is not one)]
                return function(*given)

        def traced(*given: Any) -> tuple[Nest, tf.Tensor | None]:
            parts = iter(given)
            return compute(tf.nest.pack_sequence_as(inputs, [None if s is None else next(parts) for s in specs]))

        signature = [spec for spec in specs if spec is not None]
        function = tf.function(traced, input_signature=signature, autograph=False)
        self._made = [((key, state), function), *self._made][:_KEPT]
        return function(*given)

    def _open(self, spec: tf.TypeSpec) -> tf.TypeSpec:
        """The same without the sizes of what differs."""
        shape = [None if i < self._open_dimensions else size for i, size in enumerate(spec.shape)]
        if isinstance(spec, tf.RaggedTensorSpec):
            return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
        return tf.TensorSpec(shape, spec.dtype)


def _state(layer: keras.layers.Layer) -> Iterator[Any]:
    """What Python has decided by so far: attributes, by value where they are data."""
    yield from (layer.output_size, layer.engine, layer.gradient, layer.max_depth)
    for each in layer._flatten_layers():
        yield from ((name, _held(value)) for name, value in vars(each).items() if name not in _PASSING)
        for kind in type(each).__mro__:
            if _library_of(kind) not in _LIBRARIES | {"keras"}:
                yield from ((name, _held(value)) for name, value in vars(kind).items())


def _library_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _held(value: Any, with_attributes: bool = True) -> Any:
    """Lists, dicts, arrays, and the attributes of an object are copied: they may be changed in place."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [str(value.dtype), *value.shape, value.tobytes()]
    if isinstance(value, dict):
        return [(key, _held(part, with_attributes)) for key, part in value.items()]
    if isinstance(value, list | tuple | set):
        return [_held(part, with_attributes) for part in value]
    is_whole = _library_of(type(value)) in _LIBRARIES or isinstance(
        value, keras.layers.Layer | keras.Variable | tf.Module
    )
    if is_whole or not with_attributes or not hasattr(value, "__dict__"):
        return value
    return [value, _held(vars(value), with_attributes=False)]


def _is_alike(one: Any, other: Any) -> bool:
    """Whether two values are the same, or plain data that is equal."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_alike, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other)  # which tells zeros apart, and not one NaN from another
    return isinstance(one, int | str | bytes | tf.TypeSpec | tf.DType) and bool(one == other)
