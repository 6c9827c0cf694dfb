"""What a program of the zoo is: how it is made, the arguments of its training steps, and how its work is counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

Step = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """A program of the paper's table 3.3.

    Attributes:
      name: as the paper writes it.
      make: `make(small)` makes the object that has `train_step`, with the same weights each time.
      steps: `steps(batch_size, small)` gives the arguments of the steps of one epoch, the last of which may be smaller.
      batch_size: the paper's.
      small_batch: one for tests.
      unit: what its speed is counted in.
      work: how many units are in the arguments of one step.
      dataset: the paper's, in whose place data of the same form is generated.
      real: where there is real data, `real(folder, batch_size)` gives the steps of an epoch of it.
    """

    name: str
    make: Callable[[bool], Any]
    steps: Callable[[int, bool], list[Step]]
    batch_size: int
    small_batch: int
    unit: str
    work: Callable[[Step], int]
    dataset: str
    real: Callable[[Path, int], list[Step]] | None = None
