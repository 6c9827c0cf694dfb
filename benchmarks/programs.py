"""A program of the zoo taking its steps in one of the ways: eagerly, by `tf.function`, by hand, by `rg.function`."""

from __future__ import annotations

import contextlib
import itertools
import signal
import statistics
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.benchmarks.hand_written import GRAPHS
from recgraph.models.zoo import PROGRAMS
from recgraph.models.zoo.program import Program, Step

# By name, what makes the step of a program, given the program's name and object.
KINDS: dict[str, Callable[[str, Any], Any]] = {
    "speculated": lambda name, made: rg.function(made.train_step, mode="speculate"),
    "eager": lambda name, made: made.train_step,
    "tf_function": lambda name, made: tf.function(made.train_step),
    "by_hand": lambda name, made: GRAPHS[name](made),
}
LABELS = {"speculated": "rg.function", "eager": "eager", "tf_function": "tf.function", "by_hand": "by hand"}
# Losses that differ by more than this from eager ones, which is more than rounding makes of them, are wrong.
TOLERANCE = 2e-3
# So much, up and down at random, the numbers of an epoch are changed to see what rounding makes of losses, so many
# times; a contender's may be so often as far off.
NUDGE = 1e-6
NUDGES = 4
REACH = 10.0
# A step is fast that takes at most so many times the median of those at the end.
FAST = 1.5
# Seconds that a contender may take for the steps before the clock starts: `tf.function` of a recursion over objects
# makes a graph for every batch.
MAX_WARM_UP = 60.0
# Seconds for which a measurement goes on, epoch after epoch, and after which it ends even if the epoch does not.
MIN_ROUND = 1.0
MAX_ROUND = 6.0


class TookTooLong(Exception):
    """A contender was not ready in time."""


class Contender:
    """A program made anew that takes its steps in one of the ways.

    Attributes:
      losses: of the steps taken, float32.
      seconds: how long each took.
    """

    def __init__(self, program: Program, step: Callable[[Any], Any], epoch: list[Step], small: bool):
        """Args: the program, what makes the step of its object, the arguments of an epoch's steps, and the size."""
        self.program, self.epoch = program, epoch
        self.made = program.make(small)
        self.step = step(self.made)
        self.losses: list[np.ndarray] = []
        self.seconds: list[float] = []

    def take(self, arguments: Any) -> None:
        """One step, whose result is looked at."""
        start = time.perf_counter()
        result = [np.asarray(loss) for loss in tf.nest.flatten(self.step(*arguments))]
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(np.array(result))

    def warm_up(self, steps: int, limit: float | None = None) -> str:
        """So many steps, within a time in seconds if one is given; what was raised if something was."""
        try:
            with time_limit(limit):
                for arguments in itertools.islice(itertools.cycle(self.epoch), steps):
                    self.take(arguments)
        except TookTooLong:
            return f"it has taken {len(self.losses)} of {steps} steps after {limit} s (MAX_WARM_UP)"
        except Exception as error:  # whatever a conversion may do to a program
            return f"{type(error).__name__}: {str(error).strip().splitlines()[-1].strip()}"
        return ""

    def __call__(self) -> float:
        """Units of work a second in whole epochs, or in the beginning of one that takes more than `MAX_ROUND`."""
        count, start, work = len(self.seconds), time.perf_counter(), 0
        while time.perf_counter() < start + MIN_ROUND:
            for arguments in self.epoch:
                self.take(arguments)
                work += self.program.work(arguments)
                if time.perf_counter() > start + MAX_ROUND:
                    break
        return work / sum(self.seconds[count:])

    def seconds_to_fast(self) -> float:
        """From the first call to the end of the first fast step; call it after the measurement."""
        usual = statistics.median(self.seconds[-len(self.epoch) :])
        first = next(i for i, seconds in enumerate(self.seconds) if seconds <= FAST * usual)
        return sum(self.seconds[: first + 1])


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raises `TookTooLong` in the block after a time; in the main thread, between two instructions of Python."""
    if seconds is None:
        yield
        return

    def stop(*_: Any) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def epoch_of(name: str, batch_size: int, small: bool, data: Path | None) -> list[Step]:
    """The steps of an epoch: of real data where the program has some and a folder is given, else generated."""
    program = PROGRAMS[name]
    if data is not None and program.real is not None and not small:
        return program.real(data, batch_size)
    return program.steps(batch_size, small)


def nudged(epoch: list[Step], seed: int) -> list[Step]:
    """An epoch whose real numbers are a little different, as rounding might have made them."""
    rng = np.random.default_rng(seed)

    def near(value: Any) -> Any:
        is_real = isinstance(value, tf.Tensor | np.ndarray) and np.issubdtype(np.asarray(value).dtype, np.floating)
        if not is_real:
            return value
        factors = 1.0 + NUDGE * rng.standard_normal(value.shape).astype(np.asarray(value).dtype)
        return value * factors

    return [tf.nest.map_structure(near, arguments) for arguments in epoch]


def drift(nearby: Sequence[Contender], expected: Contender) -> list[float]:
    """How far the losses of contenders with nudged epochs have been from those expected, up to each step.

    Some programs choose by what they compute, and some are trained so fast that each difference grows. What another
    order of summation makes of their losses is no fault.
    """
    apart = [
        max(float(np.max(np.abs(mine - right) / (1.0 + np.abs(right)))) for mine in near)
        for right, *near in zip(expected.losses, *(one.losses for one in nearby), strict=True)
    ]
    return list(itertools.accumulate(apart, max))


def fault(
    found: Contender, expected: Contender, raised: str, state: bool = True, rounding: Sequence[float] | None = None
) -> str:
    """Why a contender does not compute what eager execution does; empty where it does.

    Args:
      found, expected: the contender, and eager execution, after the same steps.
      raised: what it raised, or why it was stopped.
      state: whether what the program keeps in Python is compared, too.
      rounding: what `drift` says of the program, if that was measured.
    """
    if raised:
        return raised
    for i, (mine, right) in enumerate(zip(found.losses, expected.losses, strict=True)):
        allowed = max(TOLERANCE, REACH * rounding[i]) if rounding else TOLERANCE
        if not np.allclose(mine, right, allowed, allowed):
            return f"the loss of step {i + 1} is {np.ravel(mine)[0]:.4g} in place of {np.ravel(right)[0]:.4g}"
    if not state:
        return ""
    kept, wanted = kept_in_python(found.made), kept_in_python(expected.made)
    return "; ".join(
        f"{name} is {kept[name]} in place of {wanted[name]}" for name in wanted if kept[name] != wanted[name]
    )


def kept_in_python(made: Any) -> dict[str, str]:
    """What a program keeps in plain attributes: its numbers, how many there are of what it lists, and of which kind."""
    return {name: _told(value) for name, value in vars(made).items() if not isinstance(value, dict)}


def _told(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{len(value)} of ({', '.join(sorted(set(map(_told, value))))})"
    if tf.is_tensor(value):
        return "a tensor with a value" if hasattr(value, "numpy") else "a tensor without a value"
    return str(value) if isinstance(value, int | float | str | types.NoneType) else type(value).__name__
