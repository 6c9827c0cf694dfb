"""Calls of a layer outside of graphs: its body is traced when something is new to it, and not in each call."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import keras
import tensorflow as tf

from recgraph import tf_private
from recgraph.core.subgraph import SubGraph
from recgraph.keras.seeds import Nest
from recgraph.keras.state import held, is_alike, state_of, without_building
from recgraph.keras.tracing import Trial

# `compute(inputs)`: the results for a batch, and the sum of its losses or None.
Compute: TypeAlias = Callable[[Nest], tuple[Nest, tf.Tensor | None]]
# Functions that a layer keeps; who has more of them changes something in every call.
_KEPT = 8


class _Tried(NamedTuple):
    """A trial.

    Attributes:
        key: whether the layer was training, and the specs of the inputs.
        found: Keras's settings, and the layer's state before it.
        left: the layer's state after it; that the layer itself is built is left out.
        trial: what it has shown.
    """

    key: list[Any]
    found: list[Any]
    left: list[Any]
    trial: Trial


class Tracing:
    """What a layer computes as functions of TensorFlow's.

    A function holds for the dtypes and ranks of the inputs, for whether the layer is training, and for the state of the
    layer as it was when the function was traced.

    Args:
        open_dimensions: how many leading dimensions of the inputs differ from batch to batch.

    Attributes:
        latest: the SubGraph that the body became when it was traced last; None before.
        is_looked_at: whether somebody wants to see it.
    """

    def __init__(self, open_dimensions: int) -> None:
        self._open_dimensions = open_dimensions
        self._made: list[tuple[Any, Any]] = []
        self._tried: list[_Tried] = []
        self._is_first = True
        self.latest: SubGraph | None = None
        self.is_looked_at = False

    @contextlib.contextmanager
    def looked_at(self) -> Iterator[None]:
        """Meanwhile a body becomes a SubGraph also where only shapes and dtypes of results are asked for."""
        self.is_looked_at = True
        try:
            yield
        finally:
            self.is_looked_at = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracing:
        """Returns a new record: that of a copied layer begins anew."""
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
        structure = held(tf.nest.pack_sequence_as(inputs, specs))
        key = [tf_private.is_training(layer), structure, *tf_private.keras_settings()]
        given = [leaf for leaf in leaves if leaf is not None]
        state = state_of(layer)
        made = self._made  # replaced and never changed: another thread may go through it
        for one in made:
            (known_key, known_state), function = one
            if is_alike(known_key, key) and is_alike(known_state, state):
                self._made = [one, *(other for other in made if other is not one)]
                return function(*given)
        signature = [spec for spec in specs if spec is not None]
        function = _telling(functools.partial(_spread, compute, inputs, specs), signature)
        self._made = [((key, state), function), *self._made][:_KEPT]
        return function(*given)

    def trial(
        self, layer: keras.layers.Layer, inputs: Nest, make: Callable[[], Trial], for_specs: bool = False
    ) -> Trial:
        """What the body does for such inputs when it is tried out, as long as the layer is what it was.

        Args:
            layer: whose body it is.
            inputs: of the layer.
            make: tries the body out.
            for_specs: whether nothing will run: then a trial that has built the layers in the body need not be repeated
                because they are built now.
        """
        leaves = [None if leaf is None else tf.type_spec_from_value(leaf) for leaf in tf.nest.flatten(inputs)]
        key = [tf_private.is_training(layer), held(tf.nest.pack_sequence_as(inputs, leaves))]
        settings, state = tf_private.keras_settings(), state_of(layer)
        for known in self._tried:
            is_so = is_alike(known.found, [*settings, state]) or (
                for_specs and is_alike(known.left, without_building(state))
            )
            if is_so and is_alike(known.key, key):
                return known.trial
        found = [*settings, state]
        made = make()
        self._tried = [_Tried(key, found, without_building(state_of(layer)), made), *self._tried][:_KEPT]
        return made

    def _open(self, spec: tf.TypeSpec) -> tf.TypeSpec:
        """Returns the same without the sizes of what differs."""
        shape = [None if i < self._open_dimensions else size for i, size in enumerate(spec.shape)]
        if isinstance(spec, tf.RaggedTensorSpec):
            return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
        return tf.TensorSpec(shape, spec.dtype)


def _spread(compute: Compute, inputs: Nest, specs: list[tf.TypeSpec | None], *given: Any) -> Any:
    """What `compute` gives for a nest like `inputs`, whose leaves that are not None are given."""
    parts = iter(given)
    return compute(tf.nest.pack_sequence_as(inputs, [None if spec is None else next(parts) for spec in specs]))


def _telling(compute: Callable[..., Any], signature: list[tf.TypeSpec]) -> Callable[..., Any]:
    """A function of TensorFlow's that tells whoever watches reads of variables in each call. TensorFlow tells tapes
    only, and `tf.recompute_grad` lets none record.
    """
    graphs: list[Any] = []

    def traced(*given: Any) -> Any:
        graphs[:] = [tf_private.current_graph()]
        return compute(*given)

    function = tf.function(traced, input_signature=signature, autograph=False)

    def call(*given: Any) -> Any:
        results = function(*given)
        for graph in graphs:
            tf_private.watch_variables(graph)
        return results

    return call
