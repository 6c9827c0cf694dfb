"""How a program's loss falls with the time of training, eagerly, converted and by hand (the paper's figure 3.6)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recgraph.benchmarks import programs, report
from recgraph.models.zoo import ZOO

KINDS = ("eager", "speculated", "by_hand")
# A loss is reached that is at most so many times the one that eager execution ends with.
CLOSE = 1.02


def trained(name: str, batch_size: int, small: bool, data: Path | None, steps: int) -> dict[str, Any]:
    """Trains a program anew in each of the ways, one step of each in turn.

    Returns:
      For each way the loss, the first where there are several, and the seconds of each step; see `summary`.
    """
    epoch = programs.epoch_of(name, batch_size, small, data)
    contenders = {kind: programs.Contender(name, programs.KINDS[kind], epoch, small) for kind in KINDS}
    for arguments in itertools.islice(itertools.cycle(epoch), steps):
        for contender in contenders.values():
            contender.take(arguments)
    losses = {kind: [float(np.ravel(loss)[0]) for loss in one.losses] for kind, one in contenders.items()}
    seconds = {kind: one.seconds for kind, one in contenders.items()}
    return {
        "program": name,
        "batch_size": batch_size,
        "losses": losses,
        "seconds": seconds,
        "summary": {kind: summary(losses[kind], seconds[kind], losses["eager"], len(epoch)) for kind in KINDS},
    }


def summary(losses: Sequence[float], seconds: Sequence[float], eager: Sequence[float], window: int) -> dict[str, Any]:
    """Where a training ends, and when it gets there.

    Args:
      losses, seconds: of each step.
      eager: the losses of eager execution.
      window: steps of an epoch, over which losses are averaged.

    Returns:
      The first and the last mean loss, the seconds to the loss that eager execution ends with, which is None where that
      is not reached, and those of all steps.
    """
    means, goal = _means(losses, window), _means(eager, window)[-1]
    close = goal + (CLOSE - 1.0) * abs(goal)
    clock = np.cumsum(seconds)[len(losses) - len(means) :]
    reached = np.flatnonzero(means <= close)
    return {
        "first": float(means[0]),
        "last": float(means[-1]),
        "seconds_to_last": float(clock[reached[0]]) if len(reached) else None,
        "seconds": float(clock[-1]),
    }


def _means(losses: Sequence[float], window: int) -> np.ndarray:
    width = min(window, len(losses))
    return np.convolve(losses, np.full(width, 1.0 / width), "valid")


def table(results: Sequence[dict[str, Any]]) -> str:
    """A row for each program: the loss before, the loss after in each of the ways, and the seconds to it."""
    rows = []
    for result in results:
        ends = result["summary"]
        times = ["not" if (t := ends[kind]["seconds_to_last"]) is None else f"{t:.1f}" for kind in KINDS]
        title = f"{ZOO[result['program']].name}, {result['batch_size']}, {len(result['losses']['eager'])} steps"
        rows.append([title, f"{ends['eager']['first']:.4g}", *(f"{ends[k]['last']:.4g}" for k in KINDS), *times])
    labels = [programs.LABELS[kind] for kind in KINDS]
    header = ["program, batch", "first loss", *(f"last, {label}" for label in labels)]
    return report.markdown([*header, *(f"s to it, {label}" for label in labels)], rows)
