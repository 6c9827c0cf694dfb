"""The ways in which the benchmark of co-execution takes the steps of a program."""

from __future__ import annotations

import contextlib
import functools
import io
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.auto import Automatic
from recgraph.benchmarks.programs import Contender
from recgraph.coexec import Coexecuted, Execution
from recgraph.coexec.replay import Replayed
from recgraph.models.zoo import COEXECUTED
from recgraph.models.zoo.program import Step

LABELS = {
    "eager": "eager",
    "coexecuted": "co-executed",
    "auto": "auto",
    "serialised": "serialised",
    "ceiling": "free graph",
    "tf_function": "tf.function",
}
# Those that are co-executed: as users have it, with the graph only when Python waits, and without the graph.
EXECUTIONS = {
    "coexecuted": Execution(),
    "serialised": Execution(is_lazy=True),
    "ceiling": Execution(),
}
# Seconds that a measurement takes at least, in whole epochs, and at most: short, as the machine's speed changes within
# seconds, and a round should see one speed.
SHORTEST, LONGEST = 0.15, 2.5
# Steps that the default mode gets, after those before the clock, to decide how it takes them.
MAX_UNDECIDED = 300
# The part of the steps of a measurement that may have had their graph where they should have had none.
MAX_MISSED = 0.05


def step_of(kind: str, made: Any) -> Callable[..., Any]:
    """The step of a program, made for a contender, one of `LABELS`."""
    if kind in EXECUTIONS:
        return Coexecuted(made.train_step, execution=EXECUTIONS[kind])
    if kind == "auto":
        return Automatic(made.train_step)
    if kind == "tf_function":
        return tf.function(made.train_step)
    return made.train_step


class Taking(Contender):
    """A program made anew that takes its steps in one of the ways.

    Attributes:
      coexecuted: of a co-executed program, whether each step was.
      processor: of each measurement, the processor time of a step in seconds, of all threads.
      is_late: whether it was stopped before the clock, because it makes one graph after the other.
    """

    def __init__(self, kind: str, name: str, epoch: list[Step], small: bool):
        """Args: one of `LABELS`, the program's name, the arguments of an epoch's steps, and the size."""
        super().__init__(COEXECUTED[name], functools.partial(step_of, kind), epoch, small)
        self.kind = kind
        self.coexecuted: list[bool] = []
        self.processor: list[float] = []
        self.is_late = False

    @contextlib.contextmanager
    def context(self) -> Iterator[None]:
        """What the steps run in; what they print goes nowhere."""
        with contextlib.redirect_stdout(io.StringIO()):
            yield

    def run(self, arguments: Step) -> Any:
        """One step, whose result is not looked at."""
        if self.kind not in EXECUTIONS:
            return self.step(*arguments)
        before = self.step.phases.counts["coexecuted"]
        result = self.step(*arguments)
        self.coexecuted.append(self.step.phases.counts["coexecuted"] > before)
        return result

    def take(self, arguments: Any) -> None:
        """See `Contender`."""
        start = time.perf_counter()
        result = [np.asarray(loss) for loss in tf.nest.flatten(self.run(arguments))]
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(np.array(result))

    def warm_up(self, steps: int, limit: float | None = None) -> str:
        """See `Contender`."""
        with self.context():
            raised = super().warm_up(steps, limit)
            if self.kind == "auto" and not raised:
                self._let_decide()
        self.is_late = raised.startswith("it has taken") and len(self.losses) > 0
        return raised

    def _let_decide(self) -> None:
        for number in range(MAX_UNDECIDED):
            if self.step.way is not None:
                break
            self.of_epoch(number % len(self.epoch))

    def of_epoch(self, number: int) -> Any:
        """The step of that number in the epoch, for the clock."""
        return self.run(self.epoch[number])

    def __call__(self) -> float:
        """Steps a second, of whole epochs but for what would take more than `LONGEST`."""
        taken, results = 0, []
        with self.context():
            start, used = time.perf_counter(), time.process_time()
            while (passed := time.perf_counter() - start) < LONGEST:
                if passed > SHORTEST and taken % len(self.epoch) == 0:
                    break
                results = tf.nest.flatten(self.of_epoch(taken % len(self.epoch)))
                taken += 1
            for result in results:
                np.asarray(result)
            self.processor.append((time.process_time() - used) / taken)
            return taken / (time.perf_counter() - start)


class Ceiling(Taking):
    """A co-executed program whose graph costs nothing while the clock runs: what it gave in an epoch before is there.

    What is left is Python, TensorFlow's Python, and our share of each operation.
    """

    def __init__(self, kind: str, name: str, epoch: list[Step], small: bool):
        super().__init__(kind, name, epoch, small)
        self.replayed, self.has_measured = Replayed(self.step), False

    def of_epoch(self, number: int) -> Any:
        """See `Taking`."""
        return self.replayed.replay(number, *self.epoch[number])

    def __call__(self) -> float:
        """See `Taking`. The first measurement does not count; in it may come the last of the program's ways."""
        if not self.replayed.is_recorded:
            with self.context():
                for number, arguments in enumerate(self.epoch):
                    self.replayed.record(number, *arguments)
        speed = super().__call__()
        if not self.has_measured:
            self.has_measured, self.replayed.replayed, self.replayed.missed = True, 0, 0
        return speed

    def fault(self) -> str:
        """Why what was measured is not what it should be; "" if it is."""
        missed, every = self.replayed.missed, self.replayed.missed + self.replayed.replayed
        return f"{missed} of {every} steps went ways that were not recorded" if missed > MAX_MISSED * every else ""
