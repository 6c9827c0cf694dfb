"""The process in which PyTorch runs: reads a task, then numbers of steps from standard input, and times them.

Started by `contenders.PyTorch` as a plain file, so the interpreter needs torch and numpy and not TensorFlow.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytorch_models
import torch


def batches(trees: dict[str, np.ndarray], size: int) -> list[pytorch_models.Trees]:
    """Minibatches, ready-made: PyTorch's input pipeline is not in its time."""
    result = []
    for start in range(0, len(trees["roots"]) - size + 1, size):
        first, end = trees["offsets"][start], trees["offsets"][start + size]
        part: dict[str, Any] = {name: trees[name][first:end] for name in ("words", "labels")}
        for name in ("left", "right"):
            part[name] = np.where(trees[name][first:end] < 0, -1, trees[name][first:end] - first)
        part["roots"] = trees["roots"][start : start + size] - first
        result.append(pytorch_models.from_batch(SimpleNamespace(**part)))
    return result


def group(arrays: Any, prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose name begins with a prefix, without it."""
    return {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}


def main(path: str) -> None:
    """Answers `{"loss": ...}` once, then `{"speed": ...}` to every number, until 0."""
    arrays = np.load(path)
    options = json.loads(str(arrays["options"]))
    if not options["folded"]:
        torch.set_num_threads(1)  # one row at a time gives a second thread nothing to do
    model = pytorch_models.build(options["model"], group(arrays, "weight/"), options["folded"])
    work = batches(group(arrays, "trees/"), options["batch_size"])
    with torch.inference_mode():
        print(json.dumps({"loss": float(model.loss(work[0]))}), flush=True)
    step = pytorch_models.trainer(model, *options["rates"]) if options["training"] else classifier(model)
    endless = itertools.cycle(work)
    for line in sys.stdin:
        steps = int(line)
        if steps == 0:
            return
        start = time.perf_counter()
        for trees in itertools.islice(endless, steps):
            step(trees)
        seconds = time.perf_counter() - start
        print(json.dumps({"speed": steps * options["batch_size"] / seconds}), flush=True)


def classifier(model: pytorch_models.Model) -> Any:
    """The class of every node, without recording anything for a gradient."""

    def step(trees: pytorch_models.Trees) -> torch.Tensor:
        with torch.inference_mode():
            return model.logits(trees).argmax(1)

    return step


if __name__ == "__main__":
    main(sys.argv[1])
