"""The process in which another library runs: reads a task, then an order a line from standard input, and answers.

`python worker.py TASK`, where TASK is what `contenders.Worker` wrote. A module of a peer has `Peer(options, weights)`
with these methods:

- `prepare(batch)`: a minibatch in the form that the library likes best. It is not timed.
- `first(batch)`: the summed loss of a minibatch, `loss`, and its gradient by every weight, under the weight's name.
- `train(batch)`: one training step; returns the summed loss.
- `classify(batch)`: the class of every node.
- `use_threads(count)`, if the library can run on more than one.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np


def minibatches(trees: dict[str, np.ndarray], size: int) -> Iterator[SimpleNamespace]:
    """Full minibatches of a `recgraph.data.TreeBatch` of all trees, each with node numbers of its own."""
    for start in range(0, len(trees["roots"]) - size + 1, size):
        first, end = trees["offsets"][start], trees["offsets"][start + size]
        part: dict[str, Any] = {name: trees[name][first:end] for name in ("words", "labels")}
        for name in ("left", "right"):
            part[name] = np.where(trees[name][first:end] < 0, -1, trees[name][first:end] - first)
        part["roots"] = trees["roots"][start : start + size] - first
        yield SimpleNamespace(**part)


class Work:
    """A peer and its minibatches."""

    def __init__(self, path: str):
        """Args: the file of the task."""
        arrays = np.load(path)
        self._options = json.loads(str(arrays["options"]))
        self._trees = _group(arrays, "trees/")
        module = importlib.import_module(self._options["module"])
        self._peer = module.Peer(self._options, _group(arrays, "weight/"))

        self._threads: dict[tuple[str, int], int] = {}

    def first(self, size: int, path: str) -> dict[str, Any]:
        """Writes what the peer computes of the first minibatch, before any training."""
        np.savez(path, **self._peer.first(self._prepared(size)[0]))
        return {}

    def tune(self, phase: str, size: int, seconds: float) -> dict[str, Any]:
        """Tries one thread and all, for so many seconds each: `run` will use what was faster."""
        if hasattr(self._peer, "use_threads"):
            speeds = {count: self._try(phase, size, count, seconds) for count in {1, os.cpu_count() or 1}}
            self._threads[phase, size] = max(speeds, key=speeds.__getitem__)
        return {}

    def run(self, phase: str, size: int, steps: int) -> dict[str, Any]:
        """So many steps, "train" or "infer": seconds, and the sum of the losses."""
        step = self._step(phase)
        if (phase, size) in self._threads:
            self._peer.use_threads(self._threads[phase, size])
        batches = list(itertools.islice(self._endless(phase, size), steps))
        start = time.perf_counter()
        results = [step(batch) for batch in batches]
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "loss": float(sum(results)) if phase == "train" else None}

    def _try(self, phase: str, size: int, threads: int, seconds: float) -> float:
        """Steps a second, of the first minibatches."""
        self._peer.use_threads(threads)
        step, steps = self._step(phase), 0
        step(self._prepared(size)[0])
        start = time.perf_counter()
        for batch in itertools.cycle(self._prepared(size)):
            step(batch)
            steps += 1
            if time.perf_counter() - start > seconds:
                break
        return steps / (time.perf_counter() - start)

    def _step(self, phase: str) -> Callable[[Any], Any]:
        return {"train": self._peer.train, "infer": self._peer.classify}[phase]

    @functools.cache  # noqa: B019 - there is one object, as long as the process
    def _prepared(self, size: int) -> list[Any]:
        return [self._peer.prepare(batch) for batch in minibatches(self._trees, size)]

    @functools.cache  # noqa: B019
    def _endless(self, phase: str, size: int) -> Iterator[Any]:
        return itertools.cycle(self._prepared(size))


def _group(arrays: Any, prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}


def main(path: str) -> None:
    """Answers one JSON object a line: `{}` when ready, then one to every order, until the input ends."""
    # Libraries print to standard output, too.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    work = Work(path)
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(getattr(work, order.pop("do"))(**order)), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
