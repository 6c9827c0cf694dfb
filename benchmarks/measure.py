"""Interleaved measuring: every contender runs once a round, so that a busy minute of the machine hits all of them."""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Series:
    """What one contender did in each round, in units of work a second."""

    speeds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.speeds)

    @property
    def spread(self) -> float:
        """(Fastest - slowest) / median."""
        return (max(self.speeds) - min(self.speeds)) / self.median

    def over(self, other: Series) -> float:
        """The median of the ratios round by round."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.speeds, other.speeds, strict=True))

    def as_json(self) -> dict[str, Any]:
        """For the result file."""
        return {"median": self.median, "spread": self.spread, "rounds": list(self.speeds)}


def interleave(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Series]:
    """Runs each contender once a round, after a round that does not count.

    Args:
      contenders: by name, functions that run a piece of work and return its speed in units a second.
      rounds: how many rounds count.
    """
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            speed = run()
            if number > 0:
                speeds[name].append(speed)
    return {name: Series(tuple(values)) for name, values in speeds.items()}


def speed(work: float, run: Callable[[], object]) -> float:
    """Units of work a second of one call."""
    start = time.perf_counter()
    run()
    return work / (time.perf_counter() - start)


def in_child(module: str, options: Sequence[str]) -> Any:
    """Runs a benchmark module in a process of its own and returns the JSON on the last line that it prints.

    Raises:
      RuntimeError: it failed; with what it wrote to standard error, which is of no interest otherwise.
    """
    command = [sys.executable, "-m", module, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
