"""A function of one row, traced, and the same for many rows, operation by operation, by the batched rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.batch import vectorize
from recgraph.batch.vectorize import Rows


@dataclasses.dataclass
class Outcome:
    """What many rows give.

    Attributes:
        values: with rows, all of them.
        row_by_row: operations without a batched form, with the reason.
    """

    values: list[np.ndarray]
    row_by_row: dict[str, str]


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


def all_rows(traced: Any, arguments: Sequence[np.ndarray], has_rows: Sequence[bool], count: int) -> Outcome:
    """The results by batched forms; operations that have none run row by row and are noted."""
    graph, row_by_row = traced.graph, dict[str, str]()
    specs = []
    for placeholder, array, rows in zip(graph.inputs, arguments, has_rows, strict=True):
        shape = tf.TensorShape([None]).concatenate(placeholder.shape) if rows else placeholder.shape
        specs.append(tf.TensorSpec(shape, array.dtype))

    @tf.function(input_signature=specs, autograph=False)
    def batched(*tensors: tf.Tensor) -> list[tf.Tensor]:
        values = {
            id(placeholder): Rows(tensor, rows)
            for placeholder, tensor, rows in zip(graph.inputs, tensors, has_rows, strict=True)
        }
        for op in graph.get_operations():
            if op.type == "Placeholder":
                continue
            made = _run(op, [values[id(source)] for source in op.inputs], count, row_by_row)
            values.update((id(output), rows) for output, rows in zip(op.outputs, made, strict=True))
        return [vectorize.with_rows(values[id(output)], tf.constant([count])) for output in graph.outputs]

    return Outcome([value.numpy() for value in batched(*map(tf.constant, arguments))], row_by_row)


def _run(op: tf.Operation, inputs: list[Rows], count: int, row_by_row: dict[str, str]) -> list[Rows]:
    try:
        return vectorize.vectorize(op.node_def, inputs)
    except vectorize.IsJoin:
        values = [vectorize.with_rows(value, tf.constant([count])) for value in inputs[:-1]]
        return [Rows(tf.concat(values, 1), True)]
    except vectorize.NoRule as reason:
        row_by_row[op.type] = str(reason)
        rows = []
        for row in range(count):
            own = [value.tensor[row] if value.has_rows else value.tensor for value in inputs]
            rows.append(vectorize.copy_operation(op.node_def, own, {}))
        return [Rows(tf.stack(values), True) for values in zip(*rows, strict=True)]
