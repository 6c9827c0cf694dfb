"""A function of one row, traced, and the same for many rows, operation by operation, by the batched rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.batch import vectorize
from recgraph.batch.vectorize import VectorizedRows


def with_gradients(function: Callable[..., Any]) -> Callable[..., list[tf.Tensor]]:
    """The flat results of a function, and the gradients of some function of them for all float arguments."""

    def both(*arguments: tf.Tensor) -> list[tf.Tensor]:
        watched = [argument for argument in arguments if argument.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            results = tf.nest.flatten(function(*arguments))
        continuous = [result for result in results if result.dtype.is_floating]
        seeds = [tf.sin(result) + 1.3 for result in continuous]
        gradients = tape.gradient(continuous, watched, seeds) if continuous and watched else []
        return [*results, *(tf.convert_to_tensor(g) for g in gradients if g is not None)]

    return both


def trace(function: Callable[..., Any], arguments: Sequence[np.ndarray], known: bool) -> Any:
    """The concrete function for arguments of these shapes, or of any with their ranks."""
    specs = [tf.TensorSpec(a.shape if known else [None] * a.ndim, a.dtype) for a in arguments]
    return tf.function(function, autograph=False).get_concrete_function(*specs)


def row_after_row(
    traced: Any, arguments: Sequence[np.ndarray], has_rows: Sequence[bool], count: int
) -> list[np.ndarray]:
    """The results of the traced function for each row, stacked: what every batched form has to give."""
    results = []
    for row in range(count):
        own = [tf.constant(a[row] if rows else a) for a, rows in zip(arguments, has_rows, strict=True)]
        results.append([value.numpy() for value in traced(*own)])
    return [np.stack(values) for values in zip(*results, strict=True)]


class Batched:
    """A traced function for many rows, by batched forms; operations that have none run row by row.

    Attributes:
        row_by_row: those operations, with the reasons.
    """

    def __init__(self, traced: Any, arguments: Sequence[np.ndarray], has_rows: Sequence[bool], count: int) -> None:
        """Args: the function, arguments like those to come, which of them have rows, and how many rows there are."""
        self._graph, self._has_rows, self._count = traced.graph, has_rows, count
        self.row_by_row: dict[str, str] = {}
        specs = []
        for placeholder, array, rows in zip(self._graph.inputs, arguments, has_rows, strict=True):
            shape = tf.TensorShape([None]).concatenate(placeholder.shape) if rows else placeholder.shape
            specs.append(tf.TensorSpec(shape, array.dtype))
        self._run = tf.function(self._vectorized, input_signature=specs, autograph=False)

    def __call__(self, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results of all rows."""
        results, sums = self._run(*map(tf.constant, arguments))
        for total, rows in sums:  # what is added up without its rows
            np.testing.assert_allclose(total, rows, rtol=1e-4, atol=1e-5)
        return [result.numpy() for result in results]

    def _vectorized(self, *tensors: tf.Tensor) -> tuple[list[tf.Tensor], list[tuple[tf.Tensor, tf.Tensor]]]:
        values = {
            id(placeholder): VectorizedRows(tensor, rows)
            for placeholder, tensor, rows in zip(self._graph.inputs, tensors, self._has_rows, strict=True)
        }
        sums = []
        for op in self._graph.get_operations():
            if op.type == "Placeholder":
                continue
            made = self._run_operation(op, [values[id(source)] for source in op.inputs])
            values.update((id(output), rows) for output, rows in zip(op.outputs, made, strict=True))
            sums += [(rows.total, tf.reduce_sum(rows.tensor, 0)) for rows in made if rows.total is not None]
        rows = tf.constant([self._count])
        return [vectorize.with_rows(values[id(output)], rows) for output in self._graph.outputs], sums

    def _run_operation(self, op: tf.Operation, inputs: list[VectorizedRows]) -> list[VectorizedRows]:
        try:
            return vectorize.vectorize(op.node_def, inputs)
        except vectorize.IsJoin:
            values = [vectorize.with_rows(value, tf.constant([self._count])) for value in inputs[:-1]]
            return [VectorizedRows(tf.concat(values, 1), True)]
        except vectorize.NoRule as reason:
            self.row_by_row[op.type] = str(reason)
            rows = []
            for row in range(self._count):
                own = [value.tensor[row] if value.has_rows else value.tensor for value in inputs]
                rows.append(vectorize.copy_operation(op.node_def, own, {}))
            return [VectorizedRows(tf.stack(values), True) for values in zip(*rows, strict=True)]
