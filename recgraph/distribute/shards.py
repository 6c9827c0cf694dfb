"""Sums that do not depend on the number of workers, to the last bit.

Floating-point addition depends on its order, and a ring adds in an order that depends on the number of workers. Here a
batch is divided into a fixed number of shards, whoever computes them; the sums of the shards are the leaves of a binary
tree, and each inner node is the sum of its two children. A worker has a subtree, so it adds up what it has, and the
workers' sums, gathered, are the upper levels, which every worker adds up for itself.
"""

from __future__ import annotations

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
      ClusterError: the workers do not divide the shards evenly.
    """
    if SHARDS % collectives.size:
        raise ClusterError(
            f"{collectives.size} workers do not divide {SHARDS} shards evenly",
            found=f"--deterministic with {collectives.size} workers",
            expected=f"{', '.join(str(n) for n in range(1, SHARDS + 1) if SHARDS % n == 0)} workers",
            next_step="take another number of workers, or leave out --deterministic",
        )
    count = SHARDS // collectives.size
    return collectives.index * count, count


class ShardedReduction:
    """As `Reduction`, for a worker that has several shards of a batch."""

    def __init__(self, collectives: Collectives, variables: Sequence[tf.Variable], sparse: Sequence[int], figures: int):
        """See `Reduction`."""
        self._collectives = collectives
        self._count = shards_of(collectives)[1]
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
        lengths = [tf.cast(tf.size(one.indices), self._layout.dtype)[tf.newaxis] for one in rows]
        gathered = self._collectives.gather(
            tf.ensure_shape(tf.concat([flats, *lengths], 0), [flats.shape[0] + len(rows)])
        )
        dense, figures = self._layout.unpack(tree_sum(gathered[:, : flats.shape[0]]))
        sums: dict[int, Gradient] = dict(dense)
        for place, (number, own) in enumerate(zip(self._sparse, rows, strict=True)):
            counts = tf.cast(gathered[:, flats.shape[0] + place], tf.int32)
            together = _joined(own.gathered(self._collectives, counts), self._collectives.size)
            sums[number] = together.slices(self._layout.shapes[number])
        return [sums[number] for number in range(len(self._layout.shapes))], figures

    def _own(self, shard: Callable[[tf.Tensor], Any]) -> tuple[tf.Tensor, list[TableRows]]:
        """The sum of this worker's shards, computed one after the other."""
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
        return tree_sum(tf.ensure_shape(flats.stack(), [self._count, None])), [
            _joined(one, self._count) for one in rows
        ]


def tree_sum(leaves: tf.Tensor) -> tf.Tensor:
    """The sum of rows, `[n, ...]`, n a power of two, as a binary tree over them."""
    while leaves.shape[0] > 1:
        leaves = leaves[0::2] + leaves[1::2]
    return leaves[0]


def _joined(rows: TableRows, groups: int) -> TableRows:
    """The same tree over the groups of rows."""
    while groups > 1:
        rows, groups = rows.halved(), groups // 2
    return rows
