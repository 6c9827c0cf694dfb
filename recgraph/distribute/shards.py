"""Sums that do not depend on the number of workers, to the last bit.

Floating-point addition depends on its order, and a ring adds in an order that depends on the number of workers. Here a
batch is divided into a fixed number of shards, whoever computes them; the sums of the shards are the leaves of a binary
tree, and each inner node is the sum of its two children. A worker has the shards of some subtrees, all of one size. It
adds up each of these, and the workers' sums, gathered, are the upper levels, which every worker adds up for itself.
Where the workers divide the shards evenly each has one subtree; else each shard may be one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from recgraph.distribute.collectives import Collectives
from recgraph.distribute.errors import ClusterError
from recgraph.distribute.reduction import Gradient, Layout, TableRows

SHARDS = 8


def shards_of(collectives: Collectives) -> tuple[int, int]:
    """The first shard of this worker, and how many it has.

    Raises:
      ClusterError: there are more workers than shards.
    """
    share = _shares(collectives.size)[collectives.index]
    return share.start, len(share)


def _shares(size: int) -> list[range]:
    """The shards of each of so many workers."""
    if size > SHARDS:
        raise ClusterError(
            f"{size} workers are more than the {SHARDS} shards of a batch",
            found=f"--deterministic with {size} workers",
            expected=f"1 to {SHARDS} workers",
            next_step="take fewer workers, or leave out --deterministic",
        )
    return [range(SHARDS * index // size, SHARDS * (index + 1) // size) for index in range(size)]


class ShardedReduction:
    """As `Reduction`, for a worker that has several shards of a batch."""

    def __init__(self, collectives: Collectives, variables: Sequence[tf.Variable], sparse: Sequence[int], figures: int):
        """See `Reduction`."""
        self._collectives = collectives
        shares = _shares(collectives.size)
        self._count = len(shares[collectives.index])
        # The size of the subtrees, how many each worker has, and how many at most.
        self._subtree = math.gcd(SHARDS, *(share.start for share in shares))
        self._subtrees = [len(share) // self._subtree for share in shares]
        self._most = max(self._subtrees)
        self._sparse = tuple(sparse)
        self._layout = Layout.of(variables, sparse, figures)

    def __call__(
        self, shard: Callable[[tf.Tensor], tuple[Sequence[Gradient], tf.Tensor]]
    ) -> tuple[list[Gradient], tf.Tensor]:
        """The sums over all shards of all workers.

        Args:
          shard: computes the next shard of this worker, given its number among them: gradients of the sum of its
            losses, and figures, `[figures]`.
        """
        flats, rows = self._own(shard)
        lengths = [tf.cast(_lengths(one, flats.shape[0]), self._layout.dtype)[:, tf.newaxis] for one in rows]
        sums = self._gathered(tf.concat([flats, *lengths], 1))
        width = flats.shape[1]
        dense, figures = self._layout.unpack(tree_sum(sums[:, :width]))
        gradients: dict[int, Gradient] = dict(dense)
        for place, (number, own) in enumerate(zip(self._sparse, rows, strict=True)):
            counts = tf.cast(sums[:, width + place], tf.int32)
            together = _joined(self._rows_of_all(own, counts), sums.shape[0])
            gradients[number] = together.slices(self._layout.shapes[number])
        return [gradients[number] for number in range(len(self._layout.shapes))], figures

    def _gathered(self, own: tf.Tensor) -> tf.Tensor:
        """What all workers have of each subtree, `[subtrees, n]`, in the order of these."""
        padded = tf.pad(own, [[0, self._most - own.shape[0]], [0, 0]])
        gathered = self._collectives.gather(padded)
        return tf.concat([gathered[worker, :count] for worker, count in enumerate(self._subtrees)], 0)

    def _rows_of_all(self, own: TableRows, counts: tf.Tensor) -> TableRows:
        """The rows of all subtrees, with the subtree as group; `counts` of each."""
        lengths = tf.stack([tf.reduce_sum(part) for part in tf.split(counts, self._subtrees)])
        rows = own.gathered(self._collectives, lengths)
        return TableRows(rows.indices, tf.repeat(tf.range(counts.shape[0]), counts), rows.values)

    def _own(self, shard: Callable[[tf.Tensor], Any]) -> tuple[tf.Tensor, list[TableRows]]:
        """The sums of this worker's subtrees, `[subtrees, D]`, and their rows, shards computed one after the other."""
        shapes, dtype = self._layout.shapes, self._layout.dtype

        def next_shard(number: tf.Tensor, flats: tf.TensorArray, *kept: tf.TensorArray) -> Any:
            gradients, figures = shard(number)
            new = [TableRows.of(self._layout.rows(gradients, n), number) for n in self._sparse]
            parts = [part for one in new for part in (one.indices, one.groups, one.values)]
            written = [array.write(number, part) for array, part in zip(kept, parts, strict=True)]
            return number + 1, flats.write(number, self._layout.pack(gradients, figures)), *written

        kept = [
            tf.TensorArray(kind, self._count, infer_shape=False, element_shape=[None, *inner])
            for n in self._sparse
            for kind, inner in ((tf.int32, ()), (tf.int32, ()), (dtype, shapes[n][1:]))
        ]
        start = (0, tf.TensorArray(dtype, self._count), *kept)
        _, flats, *arrays = tf.while_loop(
            lambda number, *_: number < self._count, next_shard, start, parallel_iterations=1
        )
        columns = [array.concat() for array in arrays]
        rows = [TableRows(*columns[place : place + 3]) for place in range(0, len(columns), 3)]
        sums = tf.ensure_shape(flats.stack(), [self._count, None])
        return tree_sum(sums, self._subtree), [_joined(one, self._subtree) for one in rows]


def tree_sum(leaves: tf.Tensor, size: int | None = None) -> tf.Tensor:
    """The sum of rows, `[n, ...]`, as a binary tree over them, n a power of two; or those of subtrees of some size."""
    for _ in range(((size or leaves.shape[0]) - 1).bit_length()):
        leaves = leaves[0::2] + leaves[1::2]
    return leaves if size else leaves[0]


def _joined(rows: TableRows, size: int) -> TableRows:
    """Returns the same for groups of rows: each that many become one."""
    for _ in range((size - 1).bit_length()):
        rows = rows.halved()
    return rows


def _lengths(rows: TableRows, groups: int) -> tf.Tensor:
    """How many rows each group has, int32 `[groups]`."""
    return tf.math.unsorted_segment_sum(tf.ones_like(rows.groups), rows.groups, groups)
