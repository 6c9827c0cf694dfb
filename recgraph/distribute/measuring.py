"""Which form of a sparse gradient is cheaper on this cluster: measured, once, before training."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from recgraph.distribute.cluster import Cluster
from recgraph.distribute.reduction import TableRows
from recgraph.logs import logger

log = logger("distribute")


def stays_sparse(cluster: Cluster, shape: tuple[int, ...], rows: int) -> bool:
    """Measures whether the rows of a table are cheaper to add up as rows or as the whole table.

    Both are run in turns on this cluster; the chief's figures decide for all. The choice and the number of rows at
    which it would turn are in the chief's log (`RECGRAPH_LOG=distribute`).

    Args:
      cluster: the workers.
      shape: of the table.
      rows: how many different ones this worker has in a step, about.
    """
    if cluster.size == 1:
        return True
    collectives = cluster.collectives
    rows = max(int(text) for text in cluster.exchange(str(rows)))

    def whole(slices: tf.IndexedSlices) -> tf.Tensor:
        return collectives.sum(tf.ensure_shape(tf.convert_to_tensor(slices), shape))

    def by_rows(slices: tf.IndexedSlices) -> tf.Tensor:
        lengths = tf.cast(collectives.sum(tf.fill([1], float(rows))), tf.int32) // cluster.size
        return TableRows.of(slices).gathered(collectives, tf.repeat(lengths, cluster.size)).values

    slices = tf.IndexedSlices(tf.ones([rows, *shape[1:]]), tf.range(rows), tf.constant(shape))
    seconds = _fastest(cluster, [tf.function(way, autograph=False) for way in (whole, by_rows)], slices)
    turn = rows * seconds[0] / max(seconds[1], 1e-9)
    is_sparse = cluster.exchange("rows" if seconds[1] < seconds[0] else "whole")[0] == "rows"
    if cluster.is_chief:
        log.info(
            "gradient of a table %s, %d rows a worker: %.1f ms as a whole, %.1f ms as rows, equal at about %d: %s",
            list(shape),
            rows,
            1e3 * seconds[0],
            1e3 * seconds[1],
            turn,
            "goes as rows" if is_sparse else "goes as a whole",
        )
    return is_sparse


def _fastest(
    cluster: Cluster, ways: Sequence[Callable[[Any], tf.Tensor]], argument: Any, rounds: int = 3
) -> list[float]:
    """The seconds of the fastest of some rounds of each way; the first, which traces, does not count."""
    best = [float("inf")] * len(ways)
    with cluster.watched():
        for round_number in range(rounds + 1):
            for number, way in enumerate(ways):
                start = time.perf_counter()
                way(argument).numpy()
                if round_number:
                    best[number] = min(best[number], time.perf_counter() - start)
    return best
