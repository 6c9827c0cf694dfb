"""Steps without their graph, which gives what it gave before: what is left is Python's side, the ceiling of it all."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from recgraph.coexec import device
from recgraph.coexec.function import Coexecuted

_OFF, _RECORD, _REPLAY = range(3)  # as `Replays::Mode` in cc/python/replays.h


class Replayed:
    """Takes the steps of a co-executed function with and without their graph.

    A step without its graph computes nothing and changes no variable. Whoever asks for a value gets the one that the
    graph gave in a recorded step, at once. Only for measurements: what the program does with old values is of no use.

    Args:
        step: a function whose steps are co-executed.

    Attributes:
        replayed: how many steps were taken without a graph.
        missed: how many were not, because they went a way that no recorded step went.
    """

    def __init__(self, step: Coexecuted) -> None:
        self.step, self.replayed, self.missed = step, 0, 0
        self._keys: dict[Hashable, int] = {}
        self._plan: Any = None

    @property
    def is_recorded(self) -> bool:
        """Whether there are recordings of the graph that steps have now."""
        return self._plan is not None and self._plan is self.step.phases.plan()

    def record(self, key: Hashable, *arguments: Any, **named: Any) -> Any:
        """Takes a step as usual, and keeps what its graph gives.

        Args:
            key: stands for steps with these arguments.
        """
        if not self.is_recorded:
            self._plan = self.step.phases.plan()
        return self._take(_RECORD, key, arguments, named)

    def replay(self, key: Hashable, *arguments: Any, **named: Any) -> Any:
        """Takes a step without its graph, or as usual if it has another one by now."""
        before = self.step.phases.counts["coexecuted"]
        has_graph = not self.is_recorded
        result = self._take(_REPLAY, key, arguments, named)
        was_replayed = not has_graph and self.step.phases.counts["coexecuted"] > before
        self.replayed += was_replayed
        self.missed += not was_replayed
        return result

    def _take(self, mode: int, key: Hashable, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        plan = self._plan
        if plan is None or not self.is_recorded:
            return self.step(*arguments, **named)
        number = self._keys.setdefault(key, len(self._keys))
        device.module().replay(plan, mode, number)
        try:
            return self.step(*arguments, **named)
        finally:
            device.module().replay(plan, _OFF, number)
