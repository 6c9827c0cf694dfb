"""A loop each of whose iterations is a step that is co-executed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any, Generic, TypeVar

from recgraph import explaining, sharing, tf_private
from recgraph.coexec import device
from recgraph.coexec.explaining import explanation
from recgraph.coexec.phases import Execution, Phases
from recgraph.coexec.profile import StepProfile

# How many graphs may still be running while Python is at a later step.
WINDOW = 2


T = TypeVar("T")


class Steps(Generic[T]):
    """Iterates over items; what the loop body does with each item is a co-executed step.

    Args:
        items: a dataset, or any other iterable.
        phases: records what is known of the loop; created by default.
        window: how many graphs may still be running while Python is at a later step.

    Attributes:
        phases: what is known of the loop.
    """

    def __init__(self, items: Iterable[T], phases: Phases | None = None, window: int = WINDOW) -> None:
        self.items, self.window = items, window
        self.phases = Phases("steps") if phases is None else phases
        self._last_plan: Any = None

    def __iter__(self) -> Iterator[T]:
        sharing.refuse("rg.steps", "write the step as a function, under @rg.function")
        # Where the loop stands is part of where an operation does, so the step begins above it.
        frame = sys._getframe(1)
        base = frame.f_back.f_code if frame.f_back is not None else Steps.__iter__.__code__
        return self._iterate(base)

    def _iterate(self, base: CodeType) -> Iterator[Any]:
        items = iter(self.items)
        yield from self._coexecuted(items, base)
        for item in items:
            self.phases.counts["eager"] += 1
            yield item

    def _coexecuted(self, items: Iterator[Any], base: CodeType) -> Iterator[Any]:
        """Until it is given up. What is done between two steps is seen as well: the graphs may still be running."""
        if self.phases.are_given_up():
            return
        with device.scope():
            try:
                for item in items:
                    yield from self._step(item, base)
                    if self.phases.given_up:
                        break
            finally:
                status = device.wait()
            _raise(status)

    def _step(self, item: Any, base: CodeType) -> Iterator[Any]:
        phases, plan = self.phases, self.phases.plan()
        if plan is not self._last_plan:
            _raise(device.wait())
        self._last_plan = plan
        if not tf_private.is_plainly_eager() or not device.begin(base, plan):
            phases.counts["eager"] += 1
            yield item
            return
        was_left = True  # by an exception, or by leaving the loop
        try:
            yield item
            was_left = False
        finally:
            outcome = device.end(phases, was_left, may_run_ahead=True)
            phases.learn(outcome, was_left)
        _raise((outcome.code, outcome.message))
        _raise(device.wait(self.window))

    def explain(self, html: bool = False) -> Any:
        """Explains what happened to the steps so far, where Python and the graph exchange values, and what to change.

        Args:
            html: whether to return a part of an HTML page, with the program's lines, instead of text.

        Returns:
            A `str`. The text also has a method `html()`, and renders itself in a notebook.
        """
        made = explanation(self.phases.name, self.phases)
        return made.html() if html else made

    def timing(self) -> StepProfile:
        """Measures how long Python and its graph are busy in a step, and what they wait for."""
        return self.phases.profile()


def _raise(status: tuple[int, str]) -> None:
    code, message = status
    if code:
        tf_private.raise_status(code, message)


def steps(items: Iterable[T], window: int = WINDOW, xla: bool = False) -> Steps[T]:
    """Makes every iteration of a loop a co-executed step.

    The Python program runs unchanged, while a graph beside it computes its tensor operations. The graph is built from
    what the first iterations did (Kim et al., "Terra: Imperative-Symbolic Co-Execution of Imperative Deep Learning
    Programs", NeurIPS 2021).

    Args:
        items: a dataset, or any other iterable.
        window: how many graphs may still be running while Python is at a later step. With 0, Python waits for each.
        xla: whether XLA compiles parts of the graphs; it rounds differently.

    Returns:
        An iterable over the same items; its `explain()` says what happened.

    Examples:
        >>> import tensorflow as tf, recgraph as rg
        >>> total = tf.Variable(0.0)
        >>> for x in rg.steps([1.0, 2.0, 3.0, 4.0]):
        ...     _ = total.assign_add(tf.square(x))
        >>> float(total)
        30.0
    """
    made = Steps(items, Phases("steps", Execution(xla)), window)
    explaining.note(made)
    return made
