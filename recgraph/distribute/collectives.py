"""Sums and gathers over all workers, in eager code and in graphs, loops included.

These are TensorFlow's collective operations themselves. `tf.distribute` draws a new key for each from Python when a
graph is called, and each key takes 1 KB of memory for ever. Here a key is a constant of the graph: TensorFlow tells
apart the iterations of a loop, and the calls of a graph, by itself. It ties a key to one shape, so the shape is a part
of the key.
"""

from __future__ import annotations

import contextlib
import weakref
import zlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from recgraph.distribute.collective_timeouts import bounded
from recgraph.tf_private import is_in_loop, outermost_graph

GROUP = 0x7267  # TensorFlow numbers its own groups from 1

ROWS_A_BUCKET = 64
_BUCKETS = 1 << 16


class Collectives:
    """The operations of one group of workers.

    Attributes:
      size: how many workers there are.
      index: which of them this is.
      timeout: after so many seconds one that waits gives up.
    """

    def __init__(self, size: int, index: int, timeout: float):
        """See the attributes."""
        self.size, self.index = size, index
        self.timeout = timeout
        self._counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._users: dict[int, str] = {}

    def sum(self, value: tf.Tensor, timeout: float | None = None) -> tf.Tensor:
        """The sum of every worker's tensor; all have the same shape, which must be known.

        Adds in the order of a ring, which depends on the number of workers.
        """
        if self.size == 1:
            return tf.identity(value)
        key = self._key("sum", value)
        with self._bounded(timeout) as seconds:
            return tf.raw_ops.CollectiveReduceV2(
                input=value,
                group_size=self.size,
                group_key=GROUP,
                instance_key=key,
                ordering_token=[],
                merge_op="Add",
                final_op="Id",
                timeout_seconds=seconds,
            )

    def gather(self, value: tf.Tensor, timeout: float | None = None) -> tf.Tensor:
        """Every worker's tensor of a known shape `[...]`, `[workers, ...]`, in the order of their indices."""
        if self.size == 1:
            return value[tf.newaxis]
        return self._gather(value[tf.newaxis], self._key("gather", value), timeout)

    def gather_rows(self, value: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Every worker's rows.

        Args:
          value: `[n, ...]`; n may differ from worker to worker.
          rows: int32 scalar, the same on all workers, at least the largest n.

        Returns:
          `[workers, m, ...]`, each filled up with zeros; m is `rows` rounded up to a multiple of 64, so that there are
          not as many keys as there are numbers of rows.
        """
        bucket = tf.maximum(-(-rows // ROWS_A_BUCKET), 1)
        missing = bucket * ROWS_A_BUCKET - tf.shape(value)[0]
        padded = tf.pad(value, [[0, missing], *[[0, 0]] * (value.shape.rank - 1)])
        if self.size == 1:
            return padded[tf.newaxis]
        return self._gather(padded[tf.newaxis], self._key("rows", value[:0]) + bucket % _BUCKETS, None)

    def _gather(self, value: tf.Tensor, key: Any, timeout: float | None) -> tf.Tensor:
        with self._bounded(timeout) as seconds:
            gathered = tf.raw_ops.CollectiveGatherV2(
                input=value,
                group_size=self.size,
                group_key=GROUP,
                instance_key=key,
                ordering_token=[],
                timeout_seconds=seconds,
            )
        return tf.ensure_shape(gathered, [self.size, *value.shape[1:]])

    @contextlib.contextmanager
    def _bounded(self, timeout: float | None) -> Iterator[float]:
        """Gives the timeout that an operation has itself: a thread each, so none where others are bounded together.

        Eager ones are here; loops are by who calls their graph, see `Cluster.watched`.
        """
        seconds = self.timeout if timeout is None else timeout
        if tf.executing_eagerly():
            with bounded(seconds):
                yield 0.0
        else:
            yield 0.0 if is_in_loop(None) else seconds

    def _key(self, kind: str, value: tf.Tensor) -> int:
        """Returns a key for an operation of a graph, the same on all workers, since all trace the same graphs."""
        text = f"{kind} {self._number()} {value.dtype.name} {value.shape}"
        key = zlib.crc32(text.encode()) & 0x7FFF0000
        while self._users.setdefault(key, text) != text:
            key = (key + _BUCKETS) & 0x7FFF0000
        return key

    def _number(self) -> int:
        if tf.executing_eagerly():
            return 0
        graph = outermost_graph()
        number = self._counts[graph] = self._counts.get(graph, 0) + 1
        return number
