"""What two real workers do for `test_workers.py`: each writes what it has seen to a file in the folder given."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.distribute import Cluster
from recgraph.distribute.measuring import stays_sparse

TABLE = (9, 2)


def message(action: Callable[[], Any]) -> str:
    """What the error says."""
    try:
        return f"no error, but {action()!r}"
    except (rg.errors.RecgraphError, tf.errors.InvalidArgumentError, IndexError) as error:
        return f"{type(error).__name__}: {error}"


def rows_in_a_loop(cluster: Cluster) -> list[float]:
    """Sums and gathers of other sizes in each iteration; the index is i * 10 + worker."""

    @tf.function(autograph=False)
    def loop(steps: tf.Tensor) -> tf.Tensor:
        def step(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            count = i * 40 + cluster.index
            lengths = cluster.collectives.sum(tf.one_hot(cluster.index, cluster.size, count))
            rows = cluster.collectives.gather_rows(tf.ones([count, 3]), tf.reduce_max(lengths))
            return i + 1, total + tf.reduce_sum(rows, [1, 2])

        return tf.while_loop(lambda i, _: i < steps, step, (0, tf.zeros([cluster.size])), parallel_iterations=1)[1]

    return (loop(tf.constant(4)) + loop(tf.constant(2))).numpy().tolist()


def mean(cluster: Cluster, parts: list[list[int]]) -> dict[str, Any]:
    """A step with rows and a matrix; a worker's examples are indices into a table, and may be none."""
    table = tf.Variable(tf.reshape(tf.range(18.0), TABLE))
    weight = tf.Variable(tf.ones([2, 1]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)], autograph=False)
    def step(examples: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.gather(table, examples) @ weight) ** 2)
        gradients = tape.gradient(loss, [table, weight])
        return cluster.mean(gradients, [table, weight], loss, tf.size(examples))

    (rows, whole), loss = step(tf.constant(parts[cluster.index], tf.int32))
    everything = [example for part in parts for example in part]
    with tf.GradientTape() as tape:
        expected = tf.reduce_mean((tf.gather(table, everything) @ weight) ** 2)
    gradients = tape.gradient(expected, [table, weight])
    pairs = [(loss, expected), (whole, gradients[1]), (tf.convert_to_tensor(rows), tf.convert_to_tensor(gradients[0]))]
    return {
        "is_sparse": isinstance(rows, tf.IndexedSlices),
        "largest_difference": max(float(tf.reduce_max(tf.abs(a - b) / (1 + tf.abs(b)))) for a, b in pairs),
    }


def replica_function(cluster: Cluster, engine: str) -> list[float]:
    """A SubGraph in a step of TensorFlow's strategy itself, trained for some steps; what the weight is then."""
    with cluster.strategy.scope():
        weight = tf.Variable([[0.5]])

    def replica(depth: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            with rg.SubGraph("power", tf.TensorSpec([], tf.int32), tf.TensorSpec([1, 1]), engine=engine) as power:
                n = power.input(tf.int32, name="n")
                power.output(tf.cond(n == 0, lambda: tf.ones([1, 1]), lambda: power(n - 1) @ weight))
            loss = tf.reduce_sum(power.map(tf.range(depth)))
        gradient = tape.gradient(loss, weight)
        total = tf.distribute.get_replica_context().all_reduce("sum", gradient)
        weight.assign_sub(0.01 * total)

    @tf.function(autograph=False)
    def step() -> None:
        cluster.strategy.run(replica, args=(tf.constant(3 + cluster.index),))

    for _ in range(3):
        step()
    return weight.numpy().tolist()


def scope(cluster: Cluster) -> dict[str, Any]:
    """A step under the decorator, one call of which one worker has to run eagerly; and what a scope refuses."""
    weight = tf.Variable([1.0, 2.0])
    optimizer = keras.optimizers.SGD(0.1)

    @rg.function
    def step(x: tf.Tensor, factor: float) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(factor * x * weight)
        optimizer.apply([tape.gradient(loss, weight)], [weight])
        return loss

    x = tf.constant([1.0, 3.0]) * (1 + cluster.index)
    with cluster.scope():
        for call in range(8):
            step(x, tf.constant(2.0) if call == 6 and cluster.index == 1 else 2.0)
        seen = {
            "weight": weight.numpy().tolist(),
            "calls": step.calls,
            "nested": message(lambda: cluster.scope().__enter__()),
            "coexec": message(lambda: rg.function(step.function, mode="coexec")(x, 2.0)),
            "steps": message(lambda: list(rg.steps([1]))),
            "speculation": message(lambda: rg.speculation().__enter__()),
        }
    apart = tf.Variable(float(cluster.index))
    with cluster.scope():
        seen["apart"] = message(lambda: optimizer_of(apart).apply([tf.ones([])], [apart]))
    written = tf.Variable(0.0)

    def write() -> None:
        with cluster.scope():
            optimizer_of(written).apply([tf.ones([])], [written])
            written.assign_add(float(cluster.index))

    seen["written"] = message(write)
    return seen


class Quick:
    """An optimizer of the program's own."""

    def apply(self, gradients: Any, variables: Any) -> None:
        """Updates variables."""
        variables[0].assign_sub(gradients[0])


def reopened(cluster: Cluster) -> dict[str, Any]:
    """Ten scopes for a step, which share the second of its optimizers in two of them; then each worker is alone."""
    weight, other = tf.Variable([1.0, 2.0]), tf.Variable(0.0)
    optimizer, quick = keras.optimizers.SGD(0.1), Quick()

    @rg.function
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * weight)
        optimizer.apply([tape.gradient(loss, weight)], [weight])
        quick.apply([x[0]], [other])
        return loss

    def steps(count: int) -> list[Any]:
        other.assign(0.0)
        for _ in range(count):
            step(tf.constant([1.0, 3.0]) * (1 + cluster.index))
        return [*weight.numpy().tolist(), float(other), dict(step.calls)]

    def apart() -> None:
        with cluster.scope():
            steps(1)

    told = []
    for number in range(10):
        if number == 4:
            weight.assign([5.0, 6.0])
        with cluster.scope(*([Quick] if number in (6, 8) else [])):
            told.append(steps(4))
    return {"scopes": told, "alone": steps(8), "apart": message(apart), "explained": str(step.explain())}


def diverging(cluster: Cluster) -> list[dict[str, Any]]:
    """One worker has a gradient that is no number: in the first call, in a graph, in a few rows, by their sum alone."""

    def case(bad_call: int, bad: list[float], indices: list[int] | None, **options: Any) -> dict[str, Any]:
        weight = tf.Variable([1.0, 2.0])
        optimizer = keras.optimizers.SGD(0.1)

        @rg.function
        def step(x: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x * (weight if indices is None else tf.gather(weight, indices)))
            optimizer.apply([tape.gradient(loss, weight)], [weight])

        def run() -> None:
            with cluster.scope(**options):
                for call in range(8):
                    step(
                        tf.constant(bad[cluster.index] if call == bad_call else 1.0) * tf.ones([1 + (indices is None)])
                    )

        return {"said": message(run), "weight": str(weight.numpy().tolist()), "graph": step.calls["graph"]}

    nan, huge = float("nan"), 3e38
    return [
        case(0, [1.0, nan], None),
        case(6, [1.0, nan], None),
        case(6, [nan, nan], [1]),
        case(6, [huge, huge], None),
        case(6, [1.0, nan], None, may_diverge=True),
    ]


def diverging_mean(cluster: Cluster) -> dict[str, Any]:
    """The same by `cluster.mean`, in the graph of a `tf.function`, for a matrix and rows of a table."""
    weight, table = tf.Variable([1.0, 2.0]), tf.Variable(tf.ones(TABLE))

    @tf.function(autograph=False)
    def step(x: tf.Tensor, **options: Any) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight) + tf.reduce_sum(x * tf.gather(table, [3]))
        gradients = tape.gradient(loss, [weight, table])
        (dense, rows), loss = cluster.mean(gradients, [weight, table], loss, tf.constant(1), **options)
        weight.assign_sub(dense)
        table.scatter_sub(rows)
        return loss

    bad = tf.constant(float("inf") if cluster.index == 1 else 1.0)
    said = message(lambda: step(bad))
    weights = [*weight.numpy().tolist(), float(tf.reduce_sum(table))]
    return {"said": said, "weights": weights, "given": float(step(bad, may_diverge=True))}


def loss_scaling(cluster: Cluster) -> dict[str, Any]:
    """A weight of float64, whose gradient is infinite on one worker in one call: no worker may update then."""
    weight = tf.Variable(np.array([1.0, 2.0]))
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=4.0)

    @rg.function
    def step(x: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_sum(x * weight))
        optimizer.apply([tape.gradient(loss, weight)], [weight])

    x = tf.constant([1.0, 3.0], tf.float64) * (1 + cluster.index)
    with cluster.scope():
        for call in range(8):
            step(x / tf.cast(call != 5 or cluster.index == 0, tf.float64))
    return {"weight": weight.numpy().tolist(), "scale": float(optimizer.dynamic_scale), "calls": step.calls}


def optimizer_of(variable: tf.Variable) -> Any:
    """A new one, built."""
    made = keras.optimizers.SGD(1.0)
    made.build([variable])
    return made


def more_threads(cluster: Cluster) -> int:
    """How many threads there are more after a hundred sums."""

    def count() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    cluster.barrier()
    before = count()
    for _ in range(50):
        cluster.collectives.sum(tf.zeros([3]))
    rows_in_a_loop(cluster)
    return count() - before


def all_reduce_in_a_step() -> str:
    """Why a step with TensorFlow's own all-reduce is not converted."""

    @rg.function(mode="speculate")
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_replica_context().all_reduce("sum", x)

    for _ in range(5):
        step(tf.ones([2]))
    return str(step.explain())


def main(folder: Path) -> None:
    """Everything, in the same order on all workers."""
    cluster = rg.distribute(timeout=60, start_timeout=120)
    own = tf.Variable([-0.0, float("nan"), 1e-42] if cluster.is_chief else [1.0, 2.0, 3.0])
    number = tf.Variable(7 + cluster.index, dtype=tf.float64)
    small = [tf.Variable(values) for values in (np.float16([1.5, 2.0, 3.0]), [True, False], np.complex64([1 + 2j]))]
    normal = keras.layers.BatchNormalization()
    normal.build([None, 2])
    if not cluster.is_chief:
        for one in [*small, *normal.variables]:
            one.assign(tf.zeros_like(one))
    cluster.broadcast([own, number, *small, *normal.variables])
    seen = {
        "repr": repr(cluster),
        "again": rg.distribute() is cluster,
        "exchange": cluster.exchange("é" * (1 + 3 * cluster.index)),
        "arrays": [rows.tolist() for rows in cluster.exchange_rows(np.full([cluster.index, 2], 1.5))],
        "empty": [rows.shape for rows in cluster.exchange_rows(np.zeros([2 - cluster.index, 0], np.int32))],
        "bits": own.numpy().tobytes().hex(),
        "number": float(number),
        "small": [one.numpy().tobytes().hex() for one in small],
        "keras": [one.numpy().tolist() for one in normal.variables],
        "strings": message(lambda: cluster.broadcast([tf.Variable("a")])),
        "rows": rows_in_a_loop(cluster),
        "mean": mean(cluster, [[1, 2, 2, 5], [2]]),
        "mean_without_examples": mean(cluster, [[1, 1, 8], []]),
        "replica": [replica_function(cluster, engine) for engine in ("parallel", "batched")],
        "sparse": stays_sparse(cluster, (400_000, 16), 3),
        "small_table": stays_sparse(cluster, (5, 4), 5),
        "scope": scope(cluster),
        "reopened": reopened(cluster),
        "diverging": diverging(cluster),
        "diverging_mean": diverging_mean(cluster),
        "loss_scaling": loss_scaling(cluster),
        "threads": more_threads(cluster),
        "all_reduce": all_reduce_in_a_step(),
        "on_chief": cluster.on_chief(lambda: 5),
        "chief_fails": message(lambda: cluster.on_chief(lambda: [][1])),
        "agree": message(lambda: cluster.agree({"data": "abc"})),
    }
    seen["disagree"] = message(lambda: cluster.agree({"data": "abc", "version of recgraph": f"0.{cluster.index}"}))
    (folder / f"worker-{cluster.index}.json").write_text(json.dumps(seen), encoding="utf-8")
    cluster.leave()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
