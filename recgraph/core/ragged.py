"""Calls of rows of different lengths: a SubGraph that halves the rows, and joins the results of the halves.

Rows of different lengths cannot be stacked. Their values can be joined end to end, and a recursion does that as it does
any other work: the rows run at the same time, results keep their gradients, and every engine can run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from recgraph.core import origin, signature
from recgraph.core.definition import Definition
from recgraph.errors import SignatureError

# Rows: their values end to end and their lengths `[rows]`, or a tensor `[rows, ...]`, for each input or output.
Part: TypeAlias = tuple[tf.Tensor, tf.Tensor] | tuple[tf.Tensor]


def is_ragged(arguments: Any) -> bool:
    """Whether an argument has rows of different lengths."""
    return any(isinstance(each, tf.RaggedTensor) for each in tf.nest.flatten(arguments))


class RaggedCalls:
    """Calls of a SubGraph for rows, where rows of arguments or results differ in their lengths.

    Args:
        make: makes a SubGraph.
        subgraph: what is called for each row.
        inputs: which of its flat inputs are given as ragged tensors.
        outputs: whether results with an unknown leading dimension are ragged tensors.
        is_batch_of_one: whether the tensors of a row have a leading dimension of 1, before the one that differs.
    """

    def __init__(
        self, make: Any, subgraph: Definition, inputs: tuple[bool, ...], outputs: bool, is_batch_of_one: bool = False
    ) -> None:
        self._subgraph, self._inputs, self._one = subgraph, inputs, is_batch_of_one
        specs = [spec.shape for spec in tf.nest.flatten(subgraph.outputs)]
        self._outputs = [outputs and self._is_open(shape) for shape in specs]
        given = [self._specs(spec, ragged) for spec, ragged in zip(self._flat_inputs(), inputs, strict=True)]
        found = zip(tf.nest.flatten(subgraph.outputs), self._outputs, strict=True)
        with tf.init_scope():
            self.joined = make(
                f"{subgraph.name}_rows",
                tuple(given),
                tuple(self._specs(spec, ragged) for spec, ragged in found),
                subgraph.engine,
                subgraph.gradient,
                subgraph.max_depth + 64,  # halves of halves
            )
            with self.joined:
                parts = self.joined.declared_arguments()
                count = tf.shape(parts[0][-1])[0]
                self.joined.output(
                    tf.cond(count > 1, lambda: self._halves(parts, count), lambda: self._at_most_one(parts, count))
                )

    def __call__(self, arguments: Sequence[Any], label: str | None) -> list[Any]:
        """The results, flat: tensors `[rows, ...]`, and ragged tensors."""
        given = zip(arguments, self._flat_inputs(), self._inputs, strict=True)
        parts = [self._part(*each) for each in given]
        results = self.joined(*parts, name=label or self._subgraph.name)
        return [
            tf.RaggedTensor.from_row_lengths(*part, validate=False) if ragged else part[0]
            for part, ragged in zip(results, self._outputs, strict=True)
        ]

    def _flat_inputs(self) -> list[tf.TensorSpec]:
        specs: list[tf.TensorSpec] = tf.nest.flatten(self._subgraph.inputs)
        return specs

    def _is_open(self, shape: tf.TensorShape) -> bool:
        place = 1 if self._one else 0
        return shape.rank is not None and shape.rank > place and shape[place] is None

    def _specs(self, spec: tf.TensorSpec, ragged: bool) -> tuple[tf.TensorSpec, ...]:
        """Of a part."""
        if not ragged:
            return (tf.TensorSpec(tf.TensorShape([None]).concatenate(spec.shape), spec.dtype),)
        inner = spec.shape[2:] if self._one else spec.shape[1:]
        return tf.TensorSpec(tf.TensorShape([None]).concatenate(inner), spec.dtype), tf.TensorSpec([None], tf.int32)

    def _part(self, argument: Any, spec: tf.TensorSpec, ragged: bool) -> Part:
        if not ragged:
            return (argument,)
        if argument.ragged_rank != 1 or argument.dtype != spec.dtype or not self._is_open(spec.shape):
            raise SignatureError(
                f"{self._subgraph.name}: an argument is a ragged tensor that does not fit its input",
                where=origin.here(),
                found=f"ragged rank {argument.ragged_rank}, {argument.dtype.name} {argument.shape}",
                expected=f"ragged rank 1, rows like {signature.describe(spec)}, whose first dimension is None",
                next_step="declare the first dimension as None; give rows of rows as tensors that are filled up",
            )
        return argument.flat_values, tf.cast(argument.row_lengths(), tf.int32)

    def _halves(self, parts: Any, count: tf.Tensor) -> Any:
        half = count // 2
        first: list[Part] = []
        second: list[Part] = []
        for part in parts:
            if len(part) == 1:
                first.append((part[0][:half],))
                second.append((part[0][half:],))
            else:
                values, lengths = part
                end = tf.reduce_sum(lengths[:half])
                first.append((values[:end], lengths[:half]))
                second.append((values[end:], lengths[half:]))
        return tf.nest.map_structure(
            lambda one, other: tf.concat([one, other], 0),
            self.joined(*first, name="first"),
            self.joined(*second, name="second"),
        )

    def _at_most_one(self, parts: Any, count: tf.Tensor) -> Any:
        return tf.cond(count > 0, lambda: self._one_row(parts), self._no_row)

    def _one_row(self, parts: Any) -> Any:
        arguments = [(part[0][None] if self._one else part[0]) if len(part) == 2 else part[0][0] for part in parts]
        arguments = [
            tf.ensure_shape(each, spec.shape) for each, spec in zip(arguments, self._flat_inputs(), strict=True)
        ]
        inputs = self._subgraph.inputs
        nest = tf.nest.pack_sequence_as(inputs, arguments)
        is_one = isinstance(inputs, tf.TensorSpec | dict) or hasattr(inputs, "_fields")
        results = tf.nest.flatten(self._subgraph(nest) if is_one else self._subgraph(*nest))  # type: ignore[operator]
        found: list[Part] = []
        for result, ragged in zip(results, self._outputs, strict=True):
            value = result[0] if ragged and self._one else result
            found.append((value, tf.shape(value)[:1]) if ragged else (value[None],))
        return tuple(found)

    def _no_row(self) -> Any:
        def none(spec: tf.TensorSpec) -> tf.Tensor:
            return tf.zeros([0 if size is None else size for size in spec.shape], spec.dtype)

        specs = zip(tf.nest.flatten(self._subgraph.outputs), self._outputs, strict=True)
        return tuple(tuple(none(each) for each in self._specs(spec, ragged)) for spec, ragged in specs)
