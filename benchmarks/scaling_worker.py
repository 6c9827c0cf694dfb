"""A worker of `recgraph bench scaling`: measures steps alone, apart and shared, in turns. A process of its own.

Alone, the chief takes a step while the others wait. Apart, all do, with no communication. Shared, all do, and add up
their gradients. What apart costs beyond alone is what workers cost each other on one machine; what shared costs beyond
apart is communication.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Before TensorFlow counts the processors.
ORDER = json.loads(sys.argv[1]) if __name__ == "__main__" else {}
if "core" in ORDER:
    os.sched_setaffinity(0, {ORDER["core"]})

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import recgraph as rg  # noqa: E402
from recgraph import files  # noqa: E402
from recgraph.benchmarks import contenders, trees  # noqa: E402
from recgraph.benchmarks.hand_written import GRAPHS, images  # noqa: E402
from recgraph.data import tree_dataset  # noqa: E402
from recgraph.distribute import Cluster  # noqa: E402
from recgraph.models.imperative.weights import Adagrad, Momentum  # noqa: E402
from recgraph.models.zoo import PROGRAMS  # noqa: E402
from recgraph.train.steps import TrainingSteps, Ways, chosen_ways  # noqa: E402

# Steps of a program of the zoo before the clock starts: observed, converted, and run as a graph.
WARM_UP = 6
# How often a sum is timed, and sums in a call of a graph.
REPEATS, SUMS = 9, 8

Figures = dict[str, Any]
Run = Callable[[], None]


class Clock:
    """Measures ways in turns, each begun by all workers at once."""

    def __init__(self, cluster: Cluster):
        """Args: whose workers take part."""
        self._cluster = cluster
        self.seconds: dict[str, list[float]] = {}
        self.processor: dict[str, list[float]] = {}

    def measure(self, name: str, run: Run, alone: bool = False) -> None:
        """Notes the seconds of the slowest worker; `alone`: of the chief, for which the others wait.

        The most processor time of a worker, too: it says what a core has to do, however long others have kept it.
        """
        self._cluster.barrier()
        start = np.array([time.perf_counter(), time.process_time()])
        if self._cluster.is_chief or not alone:
            run()
        own = np.array([time.perf_counter(), time.process_time()]) - start
        seconds, processor = np.max(self._cluster.exchange_rows(own[np.newaxis]), axis=(0, 1))
        self.seconds.setdefault(name, []).append(float(seconds))
        self.processor.setdefault(name, []).append(float(processor))


def of_trees(cluster: Cluster, model: str, batch: int, count: int, rounds: int) -> Figures:
    """A model on trees: an epoch of `count` trees, which one worker takes in batches of `batch`, n in n times that."""
    found, vocabulary = trees.read(Path(ORDER["trees"]), count)
    task = contenders.Task(model, found, vocabulary)

    def data(size: int, share: Any) -> Any:
        made = tree_dataset(found, vocabulary, size, share=share).cache()
        for _ in made:
            pass
        return iter(made.repeat())

    whole = batch * cluster.size
    ways = chosen_ways(
        cluster, False, task.network(), lambda share: tree_dataset(found, vocabulary, whole, share=share)
    )
    apart = Ways(Cluster.alone(), sparse=ways._is_sparse)
    apart.share = ways.share
    runs = {
        "alone": (TrainingSteps(task.network()), data(batch, None), count // batch),
        "apart": (TrainingSteps(task.network(), ways=apart), data(whole, ways.share), count // whole),
        "shared": (TrainingSteps(task.network(), ways=ways), data(whole, ways.share), count // whole),
    }
    clock = Clock(cluster)
    for round_number in range(-1, rounds):
        for name, (steps, batches, number) in runs.items():
            steps.prepare(batches)
            clock.measure(name, lambda s=steps, b=batches, n=number: s.train(b, n), name == "alone")  # type: ignore[misc]
        if round_number < 0:
            clock.seconds.clear()
            clock.processor.clear()
    network = task.network()
    dense = sum(int(np.prod(weight.shape)) for weight in network.weights)
    words = [len({w for tree in part for w in tree.tokens}) for part in task.minibatches(batch)]
    width = int(np.prod(network.embedding.shape[1:]))
    sparse = ways._is_sparse
    return {
        "seconds": clock.seconds,
        "processor": clock.processor,
        "units": {"alone": count, "shared": count},
        "steps": {name: number for name, (_, _, number) in runs.items()},
        "dense_bytes": 4 * (dense if sparse else dense + int(np.prod(network.embedding.shape))),
        "row_bytes": 4 * (width + 1) * statistics.mean(words) if sparse else 0,
    }


def of_zoo(cluster: Cluster, name: str, batch: int, steps: int, rounds: int) -> Figures:
    """A program of the zoo, converted and by hand: outside of a scope, then in one."""
    program = PROGRAMS[name]
    epoch = list(itertools.islice(itertools.cycle(program.steps(batch, False)), steps))
    epoch = [step for step in epoch if program.work(step) == program.work(epoch[0])]

    def converted() -> Callable[..., Any]:
        return rg.function(program.make(False).train_step, mode="speculate", strict=True)

    def by_hand() -> Callable[..., Any]:
        return GRAPHS[name](program.make(False))

    def once(step: Callable[..., Any]) -> None:
        for arguments in epoch:
            loss = step(*arguments)
        loss.numpy()

    clock = Clock(cluster)
    ways = {"converted": converted, "by hand": by_hand}

    def take(kinds: Sequence[str]) -> None:
        made = {way: make() for way, make in ways.items()}
        for step in made.values():
            for arguments in itertools.islice(itertools.cycle(epoch), WARM_UP):
                step(*arguments)
        for _, kind in itertools.product(range(rounds), kinds):
            for way, step in made.items():
                clock.measure(f"{way}, {kind}", lambda step=step: once(step), kind == "alone")  # type: ignore[misc]

    take(["alone", "apart"])
    with cluster.scope(Momentum, Adagrad), _momentum_by_hand():
        take(["shared"])
    weights = program.make(False).weights.all
    return {
        "seconds": clock.seconds,
        "processor": clock.processor,
        "units": {"alone": (work := sum(map(program.work, epoch))), "shared": cluster.size * work},
        "steps": dict.fromkeys(("alone", "apart", "shared"), len(epoch)),
        "dense_bytes": 4 * sum(int(np.prod(weight.shape)) for weight in weights),
        "row_bytes": 0,
    }


def _momentum_by_hand() -> Any:
    """The hand-written graphs have a function for what is a method of `Momentum`: in a scope, the method."""
    from unittest import mock

    return mock.patch.object(images, "momentum", lambda optimizer, *given: optimizer.apply(*given))


def of_sums(cluster: Cluster, sizes: Sequence[int]) -> dict[int, float]:
    """Seconds of a sum of so many floats: median of several, each of several in a graph, one after the other."""
    found = {}
    for size in sizes:

        @tf.function(autograph=False)
        def sums(value: tf.Tensor) -> tf.Tensor:
            return tf.while_loop(
                lambda i, _: i < SUMS,
                lambda i, v: (i + 1, cluster.collectives.sum(v)),
                (0, value),
                parallel_iterations=1,
            )[1]

        value = tf.zeros([size])
        sums(value)
        clock = Clock(cluster)
        for _ in range(REPEATS):
            clock.measure("sum", lambda sums=sums, value=value: sums(value).numpy())  # type: ignore[misc]
        found[size] = statistics.median(clock.seconds["sum"]) / SUMS
    return found


def main() -> None:
    """What the order asks for; the chief writes the figures."""
    cluster = rg.distribute(timeout=120, start_timeout=200)
    figures: Figures = {"sums": of_sums(cluster, ORDER["sizes"])}
    for model in ORDER["models"]:
        figures[model] = of_trees(cluster, model, ORDER["batch"], ORDER["count"], ORDER["rounds"])
    for name in ORDER["programs"]:
        figures[name] = of_zoo(cluster, name, ORDER["zoo_batch"], ORDER["steps"], ORDER["rounds"])
    if cluster.is_chief:
        files.write_text(ORDER["out"], json.dumps(figures))
    cluster.leave()
    os._exit(0)


if __name__ == "__main__":
    main()
