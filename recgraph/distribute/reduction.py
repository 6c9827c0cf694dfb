"""Sums of gradients over all workers: whole tensors in one piece, rows of embeddings as rows.

Whoever divides a batch divides a mean, too, and unequal parts have unequal shares in it. So what is added up here are
sums and counts, and they are divided once, when both are known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recgraph.distribute.collectives import Collectives

_GROUPS = 1 << 20  # more workers than any cluster has

Gradient = Any  # tf.Tensor, tf.IndexedSlices or None


@dataclasses.dataclass(frozen=True)
class Layout:
    """How gradients lie in one vector, followed by figures.

    Attributes:
      shapes: of the variables.
      dtype: in which all is added up: float64 if a variable is, else float32.
      sparse: the numbers of those whose gradients are rows, and stay rows.
      figures: how many other numbers are added up with them.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtype: tf.DType
    sparse: tuple[int, ...]
    figures: int

    @staticmethod
    def of(variables: Sequence[tf.Variable], sparse: Sequence[int], figures: int) -> Layout:
        """For the gradients of these variables."""
        shapes = tuple(tuple(variable.shape) for variable in variables)
        is_wide = any(variable.dtype == tf.float64 for variable in variables)
        return Layout(shapes, tf.float64 if is_wide else tf.float32, tuple(sparse), figures)

    @property
    def dense(self) -> list[int]:
        """The numbers of those that are whole tensors."""
        return [number for number in range(len(self.shapes)) if number not in self.sparse]

    def pack(self, gradients: Sequence[Gradient], figures: tf.Tensor) -> tf.Tensor:
        """One vector, `[D]`; zeros where there is no gradient."""
        parts = [
            tf.zeros(self.shapes[n], self.dtype)
            if gradients[n] is None
            else tf.cast(tf.convert_to_tensor(gradients[n]), self.dtype)
            for n in self.dense
        ]
        flat = tf.concat([*(tf.reshape(part, [-1]) for part in parts), tf.cast(figures, self.dtype)], 0)
        return tf.ensure_shape(flat, [self._size])

    def rows(self, gradients: Sequence[Gradient], number: int) -> tf.IndexedSlices:
        """The gradient of a variable as rows; none where there is no gradient, all where it is a whole tensor."""
        gradient, shape = gradients[number], self.shapes[number]
        if gradient is None:
            values, indices = tf.zeros([0, *shape[1:]], self.dtype), tf.zeros([0], tf.int32)
        elif isinstance(gradient, tf.IndexedSlices):
            values, indices = gradient.values, gradient.indices
        else:
            values, indices = gradient, tf.range(shape[0])
        return tf.IndexedSlices(tf.cast(values, self.dtype), indices, tf.constant(shape))

    @property
    def _size(self) -> int:
        return sum(self._sizes)

    @property
    def _sizes(self) -> list[int]:
        return [*(tf.TensorShape(self.shapes[n]).num_elements() for n in self.dense), self.figures]

    def unpack(self, flat: tf.Tensor) -> tuple[dict[int, tf.Tensor], tf.Tensor]:
        """Gradients by number, and the figures, `[figures]`."""
        *parts, figures = tf.split(flat, self._sizes)
        shaped = (tf.reshape(part, self.shapes[n]) for n, part in zip(self.dense, parts, strict=True))
        return dict(zip(self.dense, shaped, strict=True)), figures


@dataclasses.dataclass(frozen=True)
class TableRows:
    """Some rows of a table; each index occurs once in each group.

    Attributes:
      indices: int32 `[n]`.
      groups: int32 `[n]`; what a row is a part of, a worker or a shard.
      values: float32 or float64 `[n, ...]`.
    """

    indices: tf.Tensor
    groups: tf.Tensor
    values: tf.Tensor

    @staticmethod
    def of(gradient: tf.IndexedSlices, group: Any = 0) -> TableRows:
        """The rows of a gradient, those of one index added up in the order in which they are."""
        indices = tf.cast(gradient.indices, tf.int32)
        return TableRows(indices, tf.fill(tf.shape(indices), group), gradient.values).merged()

    def slices(self, shape: tuple[int, ...]) -> tf.IndexedSlices:
        """As a gradient of a variable of this shape."""
        return tf.IndexedSlices(self.values, self.indices, tf.constant(shape))

    def merged(self) -> TableRows:
        """With rows that have both index and group in common added up."""
        wide = tf.cast(self.indices, tf.int64) * _GROUPS + tf.cast(self.groups, tf.int64)
        keys, places = tf.unique(wide)
        values = tf.math.unsorted_segment_sum(self.values, places, tf.size(keys))
        return TableRows(tf.cast(keys // _GROUPS, tf.int32), tf.cast(keys % _GROUPS, tf.int32), values)

    def halved(self) -> TableRows:
        """With each two groups as one: at most two rows are added, so their order does not matter."""
        return TableRows(self.indices, self.groups // 2, self.values).merged()

    def gathered(self, collectives: Collectives, lengths: tf.Tensor) -> TableRows:
        """The rows of all workers, with the worker as group.

        There is no branch in it: all are filled up to the most that one of them has.

        Args:
          collectives: of the workers.
          lengths: int32 `[workers]`; how many rows each has.
        """
        width = self.values.shape[1:].num_elements()
        # The index goes with its row as one more number, so that there is one operation in place of two.
        values, dtype = tf.reshape(self.values, [-1, width]), self.values.dtype
        bits = tf.int64 if dtype == tf.float64 else tf.int32
        packed = tf.concat([tf.bitcast(tf.cast(self.indices, bits), dtype)[:, tf.newaxis], values], 1)
        rows = collectives.gather_rows(packed, tf.reduce_max(lengths))
        is_there = tf.sequence_mask(lengths, tf.shape(rows)[1])
        flat = tf.boolean_mask(rows, is_there)
        groups = tf.cast(tf.where(is_there)[:, 0], tf.int32)
        shape = [-1, *self.values.shape[1:]]
        indices = tf.cast(tf.bitcast(flat[:, 0], bits), tf.int32)
        return TableRows(indices, groups, tf.reshape(flat[:, 1:], shape))


class Reduction:
    """Adds up the gradients of a list of variables, and figures, over all workers.

    Whole tensors are one all-reduce. The number of rows that each worker has travels with them, and the rows follow in
    one gather.
    """

    def __init__(self, collectives: Collectives, variables: Sequence[tf.Variable], sparse: Sequence[int], figures: int):
        """Describes what is to be added up.

        Args:
          collectives: of the workers.
          variables: whose gradients they are, of a floating dtype.
          sparse: the numbers of the variables whose gradients stay rows; those of others are made whole.
          figures: how many numbers are added up beside them.
        """
        self._collectives, self._variables = collectives, variables
        self._sparse = tuple(sparse)
        self._layout = Layout.of(variables, sparse, figures + len(self._sparse) * self._collectives.size)
        self._figures = figures

    def with_figures(self, more: int) -> Reduction:
        """Returns the same for so many figures more."""
        return Reduction(self._collectives, self._variables, self._sparse, self._figures + more)

    def __call__(self, gradients: Sequence[Gradient], figures: tf.Tensor) -> tuple[list[Gradient], tf.Tensor]:
        """The sums over all workers.

        Args:
          gradients: of the sum of this worker's losses, for each variable.
          figures: `[figures]`.

        Returns:
          Gradients of the sum of all losses, float32, or float64 if a variable is; the sums of the figures.
        """
        rows = {number: TableRows.of(self._layout.rows(gradients, number)) for number in self._sparse}
        numbers = [tf.cast(figures, self._layout.dtype), *map(self._length, rows.values())]
        flat = self._layout.pack(gradients, tf.concat(numbers, 0))
        dense, others = self._layout.unpack(self._collectives.sum(flat))
        total, lengths = others[: self._figures], tf.reshape(others[self._figures :], [-1, self._collectives.size])
        sums: dict[int, Gradient] = dict(dense)
        for place, (number, own) in enumerate(rows.items()):
            together = own.gathered(self._collectives, tf.cast(lengths[place], tf.int32))
            sums[number] = together.slices(self._layout.shapes[number])
        return [sums[number] for number in range(len(gradients))], tf.cast(total, figures.dtype)

    def _length(self, rows: TableRows) -> tf.Tensor:
        """How many rows this worker has, at its place among zeros."""
        return tf.one_hot(
            self._collectives.index, self._collectives.size, tf.cast(tf.size(rows.indices), self._layout.dtype)
        )


def divisor(count: tf.Tensor) -> tf.Tensor:
    """A number of examples, or a sum of weights, to divide a sum by; one where there are none."""
    return tf.where(tf.equal(count, 0.0), tf.ones_like(count), count)


def divided(gradients: Sequence[Gradient], count: tf.Tensor, variables: Sequence[tf.Variable]) -> list[Gradient]:
    """Sums as means, in the dtype of the variables that they are for: each divided by `divisor(count)`."""
    by = divisor(count)

    def mean(total: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        return tf.cast(total / tf.cast(by, total.dtype), dtype)

    return [
        tf.IndexedSlices(mean(one.values, variable.dtype), one.indices, one.dense_shape)
        if isinstance(one, tf.IndexedSlices)
        else mean(one, variable.dtype)
        for one, variable in zip(gradients, variables, strict=True)
    ]
